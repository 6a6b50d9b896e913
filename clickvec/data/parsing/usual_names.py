"""The usual names of columns. Capitals and signs do not count: searchTerm and search-term are search_term."""

import re
from collections.abc import Collection, Mapping, Sequence

from clickvec.errors import ClickvecError

Groups = tuple[tuple[str, ...], ...]  # a name of an earlier group is preferred; two of the same group are ambiguous

_LETTERS = str.maketrans("", "", " _-.@$")

URLS = ("url", "clickurl", "clickedurl", "documenturl", "docurl", "pageurl", "producturl", "link")

SESSIONS = ("session", "sessionid", "sessionkey", "gasessionid", "visit", "visitid")  # not users: one person has many

USUAL: Mapping[str, Groups] = {
    "query": (
        ("q", "searchterm", "searchterms", "searchquery", "searchtext", "searchstring", "searchphrase", "searchkeyword",
         "searchkeywords", "userquery", "querytext", "querystring", "rawquery", "keyword", "keywords"),
        ("search", "term", "terms"),
    ),
    "title": (
        ("name", "producttitle", "productname", "documenttitle", "documentname", "doctitle", "itemtitle", "itemname",
         "pagetitle", "articletitle", "resulttitle"),
    ),
    "clicks": (
        ("click", "isclicked", "isclick", "wasclicked", "clickcount", "clickscount", "numclicks", "nclicks",
         "totalclicks"),
        ("count", "counts", "cnt", "n", "freq", "frequency"),
    ),
    "client": (
        ("clientid",),
        ("visitor", "visitorid", "cookie", "cookieid", "anonid", "anonymousid", "deviceid", "userpseudoid"),
        ("user", "userid", "uid", "customer", "customerid", "member", "memberid"),
        ("ip", "ipaddress", "clientip", "userip", "remoteaddr"),
        SESSIONS,
    ),
    "time": (
        ("timestamp", "ts", "datetime", "eventtime", "eventtimestamp", "querytime", "searchtime", "clicktime",
         "createdat", "occurredat"),
        ("date", "day", "eventdate", "querydate"),
    ),
    "position": (
        ("pos", "rank", "itemrank", "itemposition", "resultrank", "resultposition", "clickrank", "clickposition",
         "clickedposition", "ordinal"),
    ),
    "doc_id": (
        ("docid", "did", "documentid", "doc", "itemid", "productid", "sku", "asin", "articleid", "pageid", "objectid",
         "clickedid", "corpusid"),
        URLS,
    ),
    "query_id": (("qid", "queryid", "topicid"),),
}  # fmt: skip

_CODES: Groups = (
    ("articleno", "articlenr", "articlenumber", "artikelnr", "artikelnummer", "artnr", "bestellnr", "bestellnummer",
     "productno", "productnumber", "productcode", "produktnr", "produktnummer", "itemno", "itemnumber", "itemcode",
     "partno", "partnumber", "idproduct", "pid", "docno"),
    ("ean", "ean13", "gtin", "gtin13", "gtin14", "upc", "isbn", "isbn10", "isbn13"),
    ("handle", "slug"),
)  # fmt: skip
CATALOGUE_IDS: Groups = (("id", *USUAL["doc_id"][0]), *_CODES, URLS)  # in a log, a column id may be that of the line
CODES = {name for group in CATALOGUE_IDS[:-1] for name in group}

# What the name of an id ends in that is not a usual one: vendor_no, itemCode, own reference.
_ID_ENDING = re.compile(
    r"((^|[^a-z]|(?-i:[a-z](?=[A-Z])))(id|no|nr|num|number|key|ref|reference)|[a-z]{4}(id|number|nr|nummer)|uuid|guid|code"
    r"|sku|isbn|gtin|ean|upc|mpn)[\d.:#]*$",
    re.IGNORECASE,
)
# What the name of a column with single words has in it that is something else.
_NO_ID = re.compile(
    r"title|titel|name|text|desc|query|url|uri|link|href|image|img|bild|picture|photo|thumb|video|file|path|price|preis"
    r"|prix|cost|amount|date|datum|time|created|updated|modified|year|rating|score|rank|popular|sales|views|clicks|count"
    r"|quantity|qty|stock|weight|width|height|length|depth|size|^lat|^lon|^lng|mail|phone",
    re.IGNORECASE,
)
_NO_ID_VALUE = re.compile(r"[+-]?\d+[.,]\d+|\d{4}-\d\d-\d\d.*|\d+[./]\d+[./]\d+|.*(://|@).*|.{100,}", re.DOTALL)
_MANY = 20  # so many different words are no chance


# All names by which a header is recognised.
KNOWN = {name for groups in USUAL.values() for group in groups for name in group} | {
    "query", "title", "clicks", "clicked", "client", "time", "position", "queryid", "docid", "id", "grade", "text",
    "kind", "topic", "actionname",
}  # fmt: skip


def letters(name: str) -> str:
    """Return a column name as it is compared with the usual names."""
    return name.strip().lower().translate(_LETTERS)


def find_usual(groups: Groups, names: Sequence[str], taken: Collection[int]) -> list[int]:
    """Return the indexes of the columns with a usual name of the first group that has one; more than one is ambiguous.

    `taken` are the indexes of columns that have another meaning.
    """
    plain = [letters(name) for name in names]
    for group in groups:
        found = [index for index, name in enumerate(plain) if name in group and index not in taken]
        if found:
            return found
    return []


def likely_ids(names: Sequence[str], columns: Sequence[Sequence[object]]) -> list[str]:
    """Return the columns that may hold ids, without a usual name: nearly all values are single words and differ.

    Those that are called like ids come first. In others the words must be many, and must not be plainly something else.
    """
    named = [name for name, cells in zip(names, columns, strict=True) if _is_called_id(name) and _differ(cells, 10)]
    return named + [
        name
        for name, cells in zip(names, columns, strict=True)
        if name not in named
        and len(cells) >= _MANY
        and not _NO_ID.search(name)
        and _differ(cells, 100)
        and not any(_NO_ID_VALUE.fullmatch(str(cell)) for cell in cells)
    ]


def _is_called_id(name: str) -> bool:
    return _ID_ENDING.search(name.strip()) is not None


def _differ(cells: Sequence[object], one_in: int) -> bool:
    """Return whether the cells are different single words, but for one in so many."""
    words = {
        str(cell)
        for cell in cells
        if isinstance(cell, str | int) and not isinstance(cell, bool) and len(str(cell).split()) == 1
    }
    return bool(words) and len(words) >= len(cells) - len(cells) // one_in


def names_sessions(names: Sequence[str], chosen: Mapping[str, str]) -> bool:
    """Tell whether the clients of a file are sessions. `chosen` are the user's names of columns: they are believed."""
    if "client" in chosen or "client" in map(letters, names):
        return False
    taken = {letters(name) for name in chosen.values()}
    rest = [name for name in names if letters(name) not in taken]
    return any(letters(rest[index]) in SESSIONS for index in find_usual(USUAL["client"], rest, ()))


def ambiguous(
    position: str, column: str, candidates: Sequence[str], optional: bool, of_table: bool = False
) -> ClickvecError:
    """Return the error for a file with several columns that may be the one that is needed."""
    listed = f"{', '.join(candidates[:-1])} or {candidates[-1]}"
    if of_table:
        return ClickvecError(
            f"{position}: the {column} may be {listed}; rename one of them to {column}, or drop others"
        )
    ignore = f", or ignore them with --columns {column}=-" if optional else ""
    return ClickvecError(
        f"{position}: the {column} may be {listed}; choose with --columns {column}={candidates[0]}{ignore}"
    )
