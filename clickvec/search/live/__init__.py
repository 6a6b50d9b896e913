"""A live index: views that follow every change, the one writer, and compaction."""
