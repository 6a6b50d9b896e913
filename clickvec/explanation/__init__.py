"""Look inside: gates, keywords, topics, and why this hit. Plain data from an `Encoder`; NumPy only.

`reading.py` is the file to open first: the vector of a text is a sum of its changes from word to word, and most of what
is here follows from that.
"""

from clickvec.explanation.attenuation import Attenuation, attenuation
from clickvec.explanation.attribution import METHODS, contributions
from clickvec.explanation.flat import TitleMap, flatten, map_titles
from clickvec.explanation.hit import Cell, Explanation, Link, Word, explain
from clickvec.explanation.keywords import Keywords, Rule, keywords
from clickvec.explanation.learned import Learned, Nearest, NearTitle, NearWord
from clickvec.explanation.reading import Reading, Way, read
from clickvec.explanation.topics import QueryTable, Topics, query_table, topics
from clickvec.explanation.versus import Versus, versus
from clickvec.explanation.why_not import WhyNot, why_not

__all__ = [
    "METHODS", "Attenuation", "Cell", "Explanation", "Keywords", "Learned", "Link", "NearTitle", "NearWord", "Nearest",
    "QueryTable", "Reading", "Rule", "TitleMap", "Topics", "Versus", "Way", "WhyNot", "Word",
    "attenuation", "contributions", "explain", "flatten", "keywords", "map_titles", "query_table", "read", "topics",
    "versus", "why_not",
]  # fmt: skip
