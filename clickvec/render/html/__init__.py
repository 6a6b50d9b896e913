"""Pages for a browser: one file each, without scripts. All numbers on them were computed elsewhere."""

from clickvec.render.html.explanation_page import explanation_page
from clickvec.render.html.report_page import report_page

__all__ = ["explanation_page", "report_page"]
