"""Pages to read in a browser: self-contained, without a script. Everything on them was computed elsewhere."""

from clickvec.render.html.explanation_page import explanation_page
from clickvec.render.html.report_page import report_page

__all__ = ["explanation_page", "report_page"]
