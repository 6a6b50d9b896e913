"""Metrics, significance, BM25, and the evaluation of any system on a judged set."""
