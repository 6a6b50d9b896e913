"""The built-in click log: a small simulated search site with known topics and grades.

topics.py is its vocabulary, site.py its titles, queries and grades, traffic.py its page views, clicks and files.
"""

from clickvec.lab.simulate.site import Site, grade
from clickvec.lab.simulate.traffic import Impressions, Summary, impressions, write

__all__ = ["Impressions", "Site", "Summary", "grade", "impressions", "write"]
