"""Page views on the simulated site, and the files of the built-in log.

A page view shows ten of the fifteen titles of a query. The lower a title, the less often the reader looks at it; the
better its grade, the more often the reader clicks. The seed determines everything. Page views are generated in blocks,
each with its own random generator, so that memory does not grow with the log and a short log is the start of a longer
one.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.lab.simulate.phrasing import BUY, NAVIGATE
from clickvec.lab.simulate.site import DEV, LIST_LENGTH, MISSPELLINGS, TEST, Flags, Ints, Site
from clickvec.storage.files import replacing

Floats = NDArray[np.float64]

MISSPELLED_SHARE = 0.2
PAGE_LENGTH = 10  # titles shown per page view
EXAMINED = 1 / np.arange(1, PAGE_LENGTH + 1) ** 0.6  # probability that a reader looks at a position
CLICK_BY_GRADE = np.array([0.02, 0.13, 0.45, 0.75])  # probability of a click on a title that the reader looks at
BLOCK_VIEWS, BLOCK_SECONDS = 10_000, 20_000
START = 1_451_606_400  # 2016-01-01 00:00 UTC
CLIENTS = 50_000

_NAMES = ("impressions", "clicks", "train_judged", "dev", "test", "titles", "topics")
TRUTH = "truth.json"  # what is planted in a messy log
_FILES = (*(f"{name}.tsv.gz" for name in _NAMES), TRUTH)
MARKER = "topics.tsv.gz"  # only simulated logs have this file


# --- the traffic -------------------------------------------------------------------------------------------------


class Impressions(NamedTuple):
    """A block of impressions as columns. Query and title are ids of the site's tables."""

    time: Ints  # seconds since 1970
    client: Ints
    query: Ints
    title: Ints
    slot: Ints  # position of the title in the list of the query
    position: Ints  # from 1
    clicked: Flags


def impressions(site: Site, count: int, seed: int = 0) -> Iterator[Impressions]:
    """Yield `count` impressions of training queries, block by block."""
    size = BLOCK_VIEWS * PAGE_LENGTH
    rising = np.cumsum(site.share)
    for block, start in enumerate(range(0, count, size)):
        rng = np.random.default_rng((seed, 1, block))
        time = START + block * BLOCK_SECONDS + np.sort(rng.integers(0, BLOCK_SECONDS, BLOCK_VIEWS))
        meant = np.searchsorted(rising, rng.random(BLOCK_VIEWS) * rising[-1], "right")
        # Generate the whole block, then cut it: the random numbers must not depend on the length of the log.
        drawn = views(site, time, meant, rng)
        yield Impressions._make(column[: count - start] for column in drawn)


def views(site: Site, time: Ints, meant: Ints, rng: np.random.Generator, examined: Floats = EXAMINED) -> Impressions:
    """Simulate page views: the typed queries, the shown titles and the clicks."""
    count = len(meant)
    client = (CLIENTS * rng.random(count) ** 2).astype(np.int64)  # some clients search far more often than others
    typed = site.misspellings[meant, rng.integers(0, MISSPELLINGS, count)]
    query = np.where(rng.random(count) < MISSPELLED_SHARE, typed, meant)
    # Scores vary a little between views, so that a title appears at more than one position.
    scores = site.engine[meant] + rng.random((count, LIST_LENGTH), dtype=np.float32)
    slot = np.argsort(-scores, axis=1)[:, :PAGE_LENGTH]
    chance = examined * CLICK_BY_GRADE[np.take_along_axis(site.grades[meant], slot, axis=1)]
    return Impressions(
        time=np.repeat(time, PAGE_LENGTH),
        client=np.repeat(client, PAGE_LENGTH),
        query=np.repeat(query, PAGE_LENGTH),
        title=np.take_along_axis(site.lists[meant], slot, axis=1).ravel(),
        slot=slot.ravel(),
        position=np.tile(np.arange(1, PAGE_LENGTH + 1), count),
        clicked=(rng.random(chance.shape) < chance).ravel(),
    )


# --- the files ---------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """Counts of the written log. Shares are of impressions; `no_common_word` is a share of distinct clicked pairs."""

    impressions: int
    clicks: int
    pairs: int  # distinct clicked pairs
    queries: int  # distinct queries in the log
    titles: int  # of the catalogue
    dev_queries: int
    test_queries: int
    misspelled: float
    navigational: float
    transactional: float
    no_common_word: float


class _Counts(NamedTuple):
    """How often each listed title was shown and clicked: (queries, LIST_LENGTH)."""

    shown: Ints
    clicked: Ints


def write(
    out: Path,
    impressions: int = 200_000,
    seed: int = 0,
    dev_queries: int = 300,
    test_queries: int = 600,
    log: bool = True,
) -> Summary:
    """Write the log, its clicks, the judged sets, the catalogue and the labels to the folder `out`, as gzip TSV.

    With 0 impressions, the log and its clicks have only a header; the other files are complete. An earlier log in `out`
    is replaced atomically. Raise ClickvecError if the folder contains anything else.
    """
    check_numbers(impressions, seed, dev_queries, test_queries)
    check_only_ours(out)
    with replacing(out, MARKER) as folder:
        site = Site.build(seed)
        judged = judged_queries(site, dev_queries, test_queries, seed)
        counts = _write_log(folder if log else None, site, impressions, seed)
        _write_counts(folder, site, counts)
        write_site(folder, site, judged, np.flatnonzero(counts.shown.any(axis=1)))
    return _summary(site, counts, dev_queries, test_queries)


def check_numbers(impressions: int, seed: int, dev_queries: int, test_queries: int) -> None:
    """Raise ClickvecError if a number is negative."""
    if min(impressions, seed, dev_queries, test_queries) < 0:
        raise ClickvecError("the seed and the numbers of impressions, dev and test queries cannot be negative")


def judged_queries(site: Site, dev_queries: int, test_queries: int, seed: int) -> dict[str, Ints]:
    """Return the queries of the judged sets."""
    return {"dev": _judged(site, DEV, dev_queries, seed), "test": _judged(site, TEST, test_queries, seed)}


def write_site(folder: Path, site: Site, judged: dict[str, Ints], typed: Ints) -> None:
    """Write what does not depend on clicks: the judged sets, the catalogue, and the labels of the typed queries."""
    for name, queries in judged.items():
        meant = site.clean[queries]
        _write_judged(folder, name, site, np.repeat(queries, LIST_LENGTH), site.lists[meant], site.grades[meant])
    titles = (f"{_doc_id(i)}\t{text}\n" for i, text in enumerate(site.titles.text))
    _write_lines(folder / "titles.tsv.gz", "doc_id title", titles)
    asked = np.unique(np.concatenate([typed, *judged.values()]))
    _write_lines(folder / MARKER, "text kind topic intent", _labels(site, asked))


def check_only_ours(out: Path) -> None:
    """Refuse a folder with other files in it, because the folder is replaced as a whole."""
    others = sorted(path.name for path in out.iterdir() if path.name not in _FILES) if out.is_dir() else []
    if others:
        raise ClickvecError(f"{out} contains {others[0]}, which is not part of a simulated log; choose an empty folder")


def _judged(site: Site, split: int, count: int, seed: int) -> Ints:
    """Return `count` queries of a split, the paper's first; a fifth of the others are misspelled."""
    available = np.flatnonzero(site.split[: len(site.lists)] == split)
    if count > len(available):
        name = "dev" if split == DEV else "test"
        raise ClickvecError(f"the simulated site has only {len(available)} {name} queries, not {count}; ask for fewer")
    chosen = available[:count]
    misspelled = np.random.default_rng((seed, 2, split)).random(count) < MISSPELLED_SHARE
    return np.where(misspelled & (chosen >= site.paper), site.misspellings[chosen, 0], chosen)


def _write_log(folder: Path | None, site: Site, count: int, seed: int) -> _Counts:
    """Count all impressions and, given a folder, write them."""
    size = len(site.queries) * LIST_LENGTH
    shown, clicked = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)

    def counted() -> Iterator[Impressions]:
        for block in impressions(site, count, seed):
            cell = block.query * LIST_LENGTH + block.slot
            np.add(shown, np.bincount(cell, minlength=size), out=shown)
            np.add(clicked, np.bincount(cell[block.clicked], minlength=size), out=clicked)
            yield block

    if folder is None:
        for _ in counted():
            pass
    else:
        header = "time client query title position clicked"
        write_bytes(folder / "impressions.tsv.gz", header, encoded_lines(site, counted()))
    return _Counts(shown.reshape(-1, LIST_LENGTH), clicked.reshape(-1, LIST_LENGTH))


def encoded_lines(site: Site, blocks: Iterable[Impressions], queries: Sequence[bytes] | None = None) -> Iterator[bytes]:
    """Yield the lines of each block as TSV. All possible ends of lines are prepared once, which is fast.

    `queries` are the texts of the queries, if they are not only those of the site. A block may add to them.
    """
    ends = [
        f"{title}\t{position}\t{clicked}\n".encode()
        for title in site.titles.text
        for position in range(1, PAGE_LENGTH + 1)
        for clicked in (0, 1)
    ]
    queries = [text.encode() for text in site.queries.text] if queries is None else queries
    for block in blocks:
        places = ((block.title * PAGE_LENGTH + block.position - 1) * 2 + block.clicked).tolist()
        by_view = [column[::PAGE_LENGTH].tolist() for column in (block.time, block.client, block.query)]
        pages = []
        for view, (time, client, query) in enumerate(zip(*by_view, strict=True)):
            beginning = b"%d\tc%05d\t%b\t" % (time, client, queries[query])
            page = places[view * PAGE_LENGTH : (view + 1) * PAGE_LENGTH]
            pages.append(beginning.join([b"", *[ends[place] for place in page]]))
        yield b"".join(pages)


def _write_counts(folder: Path, site: Site, counts: _Counts) -> None:
    """Write the clicked pairs and all shown pairs, by query id, then title id."""
    query, title, clicks = _pairs(site, counts.clicked)
    q, t = site.queries.text, site.titles.text
    rows = zip(query.tolist(), title.tolist(), clicks.tolist(), strict=True)
    lines = (f"{q[i]}\t{t[j]}\t{clicked}\n" for i, j, clicked in rows)
    _write_lines(folder / "clicks.tsv.gz", "query title clicks", lines)
    query, title, _ = _pairs(site, counts.shown)
    _write_judged(folder, "train_judged", site, query, title, np.minimum(counts.clicked[counts.shown > 0], 1))


def _pairs(site: Site, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Return (query, title, count) of the counts that are not 0."""
    query, slot = np.nonzero(counts)
    return query, site.lists[site.clean[query], slot], counts[query, slot]


def _write_judged(folder: Path, name: str, site: Site, query: Ints, title: Ints, grades: Ints) -> None:
    q, t = site.queries.text, site.titles.text
    rows = zip(query.tolist(), title.ravel().tolist(), grades.ravel().tolist(), strict=True)
    lines = (f"q{i:06d}\t{q[i]}\t{_doc_id(j)}\t{t[j]}\t{graded}\n" for i, j, graded in rows)
    _write_lines(folder / f"{name}.tsv.gz", "query_id query doc_id title grade", lines)


def _doc_id(title: int) -> str:
    return f"t{title:05d}"


def _labels(site: Site, asked: Ints) -> Iterator[str]:
    """Yield the topic and intent of these queries and of all titles."""
    for kind, texts, ids in (("query", site.queries, asked), ("title", site.titles, np.arange(len(site.titles)))):
        for i in ids.tolist():
            yield f"{texts.text[i]}\t{kind}\t{site.names.topics[texts.topic[i]]}\t{site.intent(texts, i)}\n"


def _write_lines(path: Path, header: str, lines: Iterable[str]) -> None:
    remaining = iter(lines)
    write_bytes(path, header, ("".join(chunk).encode() for chunk in iter(lambda: list(islice(remaining, 10_000)), [])))


def write_bytes(path: Path, header: str, chunks: Iterable[bytes]) -> None:
    """Write a gzip file without name and time, so that the same lines give the same bytes."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:
        packed.write(header.replace(" ", "\t").encode() + b"\n")
        for chunk in chunks:
            packed.write(chunk)


def _summary(site: Site, counts: _Counts, dev_queries: int, test_queries: int) -> Summary:
    by_query = counts.shown.sum(axis=1)
    total = int(by_query.sum())
    query, title, _ = _pairs(site, counts.clicked)
    title_words = [frozenset(text.split()) for text in site.titles.text]
    pairs = zip(query.tolist(), title.tolist(), strict=True)
    apart = sum(title_words[j].isdisjoint(site.queries.text[i].split()) for i, j in pairs)

    def share(which: Flags) -> float:
        return float(by_query[which].sum() / max(total, 1))

    return Summary(
        impressions=total,
        clicks=int(counts.clicked.sum()),
        pairs=len(query),
        queries=int(np.count_nonzero(by_query)),
        titles=len(site.titles),
        dev_queries=dev_queries,
        test_queries=test_queries,
        misspelled=share(site.clean != np.arange(len(site.clean))),
        navigational=share(site.queries.kind == NAVIGATE),
        transactional=share(site.queries.kind == BUY),
        no_common_word=apart / max(len(query), 1),
    )
