"""The documents of an index: the source of truth, in SQLite."""
