"""Everything that `clickvec report` says of a model, as plain data; `page/report.py` draws it."""

from clickvec.report.contents import Report, gather
from clickvec.report.query_words import QueryWords, ReadQuery, WordUse
from clickvec.report.ranking import Missed, Ranked, Ranking
from clickvec.report.trust import Trust

__all__ = ["Missed", "QueryWords", "Ranked", "Ranking", "ReadQuery", "Report", "Trust", "WordUse", "gather"]
