"""A click log that is larger than memory: DuckDB groups, sorts and cleans its lines on disk."""
