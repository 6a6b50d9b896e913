"""Segments: what is derived from the documents, in immutable memory-mapped files."""
