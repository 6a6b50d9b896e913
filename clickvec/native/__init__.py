"""All C code, its build and its loader. Each C function has a Python version that gives the same results."""
