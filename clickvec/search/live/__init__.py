"""A live index: views that follow every change, new segments, and compaction."""
