"""Pages to read in a browser: self-contained, without a script. Everything on them was computed elsewhere."""

from clickvec.page.explanation import explanation_page
from clickvec.page.report import report_page

__all__ = ["explanation_page", "report_page"]
