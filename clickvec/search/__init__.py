"""The index: titles, their vectors, search."""
