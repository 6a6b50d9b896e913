"""The built-in click log: a small simulated search site with known topics and grades.

vocabulary.py is plain data; phrasing.py makes titles and queries from it, site.py lists and grades them, and traffic.py
simulates page views and clicks and writes the files. messy.py writes a log with planted trouble: bots, secrets (from
planted.py), misspellings, and a search engine whose first results are clicked too often.
"""

from clickvec.lab.simulate.messy import MessySummary, write_messy
from clickvec.lab.simulate.site import Site, grade
from clickvec.lab.simulate.traffic import Impressions, Summary, impressions, write

__all__ = ["Impressions", "MessySummary", "Site", "Summary", "grade", "impressions", "write", "write_messy"]
