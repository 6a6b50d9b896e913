"""Readers of what users have: click logs, judged sets, titles, result lists. Import them from here.

Texts are given as they stand in the file; text.py makes words of them. A bad line is skipped, counted and named in
`.bad`; ClickvecError comes only when nothing is left or more than `max_bad` of the lines are bad. How bytes become
lines is in lines.py, how lines become fields in records.py. `Columns` says how the columns of a file are named.
"""

from clickvec.data.clicks import ClickLog, read_clicks
from clickvec.data.columns import Columns
from clickvec.data.judged import Judged, JudgedQuery, read_judged, read_qrels
from clickvec.data.lines import BadLines
from clickvec.data.texts import Labels, Texts, read_labels, read_texts
from clickvec.data.titles import (
    ResultList,
    Title,
    Titles,
    read_result_lists,
    read_titles,
    stream_title_blocks,
    stream_titles,
)

__all__ = [
    "BadLines",
    "ClickLog",
    "Columns",
    "Judged",
    "JudgedQuery",
    "Labels",
    "ResultList",
    "Texts",
    "Title",
    "Titles",
    "read_clicks",
    "read_judged",
    "read_labels",
    "read_qrels",
    "read_result_lists",
    "read_texts",
    "read_titles",
    "stream_title_blocks",
    "stream_titles",
]
