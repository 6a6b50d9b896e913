"""Examine a click log before training: what is in it, what is wrong with it, what training on it will cost and bring.

`line_counts.py` counts every line, exactly and in bounded memory; the other modules look at a random sample. The
findings are plain data; `render` prints them.
"""
