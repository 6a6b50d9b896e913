"""Metrics, judged sets, BM25."""
