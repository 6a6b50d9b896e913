"""Read click logs, judged sets and catalogues. Import the readers from here.

Bytes become lines in lines.py, lines become fields in records.py, and fields get their meaning in layouts/ (click logs,
which logs.py reads), judged.py, titles.py and texts.py. Texts are returned as they are in the file; the package `text`
splits them. A bad line is skipped, counted and listed in `.bad`; ClickvecError is raised only if nothing is left or
more than `max_bad` of the lines are bad. `Columns` says how the columns of a file are named. dataset.py turns a click
log into arrays.
"""

from clickvec.data.clicks import ClickLog, read_clicks
from clickvec.data.events import Events
from clickvec.data.judged import Judged, JudgedQuery, read_judged, read_qrels
from clickvec.data.logs import read_events
from clickvec.data.parsing.columns import Columns
from clickvec.data.parsing.lines import BadLines, Rows
from clickvec.data.texts import read_texts
from clickvec.data.titles import (
    Title,
    read_titles,
    stream_title_blocks,
    stream_titles,
    titles_of,
)

__all__ = [
    "BadLines",
    "ClickLog",
    "Columns",
    "Events",
    "Judged",
    "JudgedQuery",
    "Rows",
    "Title",
    "read_clicks",
    "read_events",
    "read_judged",
    "read_qrels",
    "read_texts",
    "read_titles",
    "stream_title_blocks",
    "stream_titles",
    "titles_of",
]
