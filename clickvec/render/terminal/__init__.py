"""Text for a terminal. Everything shown here was computed elsewhere.

| file             | shows                                                                       |
|------------------|-----------------------------------------------------------------------------|
| `explanation.py` | `clickvec explain`: a query, or a query and a title, from inside a model    |
| `comparison.py`  | more of it: a title beside the first one, models beside each other          |
| `topics.py`      | `clickvec topics`: what the cells answer to                                 |
| `nearest.py`     | `clickvec nearest`: words and titles near to a word                         |
| `screen.py`      | what they share: tables, bars, widths, names of cells, nothing that steers  |
"""
