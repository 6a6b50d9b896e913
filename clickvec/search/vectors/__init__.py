"""Search by vectors: exact in NumPy and C, approximate by faiss. Also, files of vectors."""
