"""Fixtures of real servers, for the tests of engines."""

from real_servers import engines, milvus, own_postgres, postgres

__all__ = ["engines", "milvus", "own_postgres", "postgres"]
