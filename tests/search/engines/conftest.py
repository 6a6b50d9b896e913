"""Fixtures of real servers, for the tests of engines."""

from real_servers import engines, milvus, postgres

__all__ = ["engines", "milvus", "postgres"]
