"""All C, its build and its loader. Each function has a twin in Python."""
