"""A log with planted trouble, and the truth about it: position bias, bots, secrets and misspellings.

The site's search engine ranks by shared words and by chance, and not by relevance as in the clean log. Readers look at
position k with probability 1/k. So clicks overrate the titles that share words with the query. Some people paste
secrets, or harmless numbers that look like them. Bots search at inhuman rates: one kind never clicks, one clicks every
first title, and one clicks one irrelevant title again and again. Some people search a lot, but not faster than a person
can.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickvec.lab.simulate import traffic
from clickvec.lab.simulate.phrasing import FUNCTION_WORDS
from clickvec.lab.simulate.planted import Planted, plant_decoy, plant_secret
from clickvec.lab.simulate.site import BAD, Ints, Site
from clickvec.lab.simulate.traffic import BLOCK_SECONDS, BLOCK_VIEWS, CLIENTS, PAGE_LENGTH, START, Floats, Impressions
from clickvec.storage.files import replacing

EXAMINED = 1 / np.arange(1, PAGE_LENGTH + 1)  # probability that a reader looks at a position
SECRET_SHARE, DECOY_SHARE = 0.005, 0.01  # of the page views of people
BOTS = ("scraper", "clicker", "promoter")  # in each block, one of each
BOT_VIEWS, BOT_GAP = (250, 600), (0, 4)  # page views of a bot; seconds between them, less than the second number
BUSY_CLIENTS, BUSY_VIEWS, BUSY_GAP = 2, (40, 120), (10, 60)  # in each block: people who search a lot

Truth = dict[str, Any]


class MessySummary(NamedTuple):
    """Counts of the written log."""

    impressions: int
    clicks: int
    bots: int
    bot_impressions: int
    secrets: int
    decoys: int
    misspelled_queries: int


def write_messy(
    out: Path, impressions: int = 1_000_000, seed: int = 0, dev_queries: int = 300, test_queries: int = 600
) -> MessySummary:
    """Write the impressions, truth.json, the judged sets, the catalogue and the labels to the folder `out`.

    The judged sets and the catalogue are those of the clean log with the same seed. An earlier log in `out` is replaced
    atomically. Raise ClickvecError if the folder contains anything else.
    """
    traffic.check_numbers(impressions, seed, dev_queries, test_queries)
    traffic.check_only_ours(out)
    with replacing(out, traffic.MARKER) as folder:
        site = Site.build(seed)
        judged = traffic.judged_queries(site, dev_queries, test_queries, seed)
        log = _Log(dataclasses.replace(site, engine=_engine(site, seed)), seed)
        lines = traffic.encoded_lines(site, log.blocks(impressions), log.queries)
        traffic.write_bytes(folder / "impressions.tsv.gz", "time client query title position clicked", lines)
        truth = json.dumps(log.truth(), ensure_ascii=False, indent=1)
        (folder / traffic.TRUTH).write_text(truth + "\n", encoding="utf-8")
        typed = np.array([query for query in sorted(log.typed) if query < len(site.queries)], np.int64)
        traffic.write_site(folder, site, judged, typed)
    return log.summary()


def _engine(site: Site, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return scores of the listed titles that depend on the words that a title shares with the query."""

    def content(texts: tuple[str, ...]) -> list[frozenset[str]]:
        return [frozenset(text.split()) - FUNCTION_WORDS for text in texts]

    titles, queries = content(site.titles.text), content(site.queries.text[: len(site.lists)])
    shared = [
        [len(words & titles[title]) for title in row] for words, row in zip(queries, site.lists.tolist(), strict=True)
    ]
    noise = np.random.default_rng((seed, 3)).gumbel(size=site.grades.shape)
    return (np.array(shared) + noise).astype(np.float32)


class _Log:
    """The blocks of a messy log. It counts what they hold, for the truth."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.seed = site, seed
        self.queries = [text.encode() for text in site.queries.text]  # planted ones are appended
        self.planted: dict[int, Planted] = {}  # by query
        self.kinds: dict[int, str] = {}  # of the bots, by client
        self.busy: set[int] = set()
        self.typed: set[int] = set()  # queries
        self.seen: set[int] = set()  # clients
        self.counts = dict.fromkeys(("impressions", "clicks", "bot_impressions"), 0)

    def blocks(self, count: int) -> Iterator[Impressions]:
        """Yield `count` impressions, block by block."""
        rising = np.cumsum(self.site.share)
        number = 0
        while count > 0:
            rng = np.random.default_rng((self.seed, 4, number))
            start = START + number * BLOCK_SECONDS
            block = _by_time([self._people(rising, start, rng), *self._sessions(rising, start, number, rng)])
            block = Impressions._make(column[:count] for column in block)
            self._count(block)
            count -= len(block.query)
            number += 1
            yield block

    def _people(self, rising: Floats, start: int, rng: np.random.Generator) -> Impressions:
        time = start + np.sort(rng.integers(0, BLOCK_SECONDS, BLOCK_VIEWS))
        views = self._views(rising, time, rng)
        query = views.query[::PAGE_LENGTH].copy()
        chance, texts = rng.random(BLOCK_VIEWS), random.Random(int(rng.integers(2**62)))
        for view in np.flatnonzero(chance < SECRET_SHARE + DECOY_SHARE).tolist():
            plant = plant_secret if chance[view] < SECRET_SHARE else plant_decoy
            planted = plant(self.site.queries.text[query[view]], texts)
            query[view] = len(self.queries)
            self.planted[len(self.queries)] = planted
            self.queries.append(planted.query.encode())
        return views._replace(query=np.repeat(query, PAGE_LENGTH))

    def _sessions(self, rising: Floats, start: int, number: int, rng: np.random.Generator) -> Iterator[Impressions]:
        """Yield the page views of people who search a lot, and of bots."""
        for _ in range(BUSY_CLIENTS):
            client = int(rng.integers(CLIENTS))
            self.busy.add(client)
            yield self._session(rising, start, client, BUSY_VIEWS, BUSY_GAP, rng)
        for i, kind in enumerate(BOTS):
            client = CLIENTS + number * len(BOTS) + i
            self.kinds[client] = kind
            views = self._session(rising, start, client, BOT_VIEWS, BOT_GAP, rng)
            if kind == "promoter":
                views = self._promote(views, rng)
            clicked = (kind == "clicker") & (views.position == 1) | (kind == "promoter") & views.clicked
            yield views._replace(clicked=clicked)

    def _session(
        self,
        rising: Floats,
        start: int,
        client: int,
        views: tuple[int, int],
        gap: tuple[int, int],
        rng: np.random.Generator,
    ) -> Impressions:
        times = np.cumsum(rng.integers(*gap, int(rng.integers(*views))))
        begin = rng.integers(0, BLOCK_SECONDS - times[-1])
        drawn = self._views(rising, start + begin + times, rng)
        return drawn._replace(client=np.full(len(drawn.client), client))

    def _views(self, rising: Floats, time: Ints, rng: np.random.Generator) -> Impressions:
        meant = np.searchsorted(rising, rng.random(len(time)) * rising[-1], "right")
        return traffic.views(self.site, time, meant, rng, EXAMINED)

    def _promote(self, views: Impressions, rng: np.random.Generator) -> Impressions:
        """Let a bot ask one query and click one irrelevant title of it, wherever that is shown."""
        bad = np.flatnonzero((self.site.grades == BAD).any(axis=1) & (self.site.share > 0))
        query = bad[int(len(bad) * rng.random() ** 3)]  # the popular ones come first
        meant = np.full(len(views.time) // PAGE_LENGTH, query)
        pages = traffic.views(self.site, views.time[::PAGE_LENGTH], meant, rng, EXAMINED)
        target = np.flatnonzero(self.site.grades[query] == BAD)[0]
        return pages._replace(client=views.client, query=np.full_like(pages.query, query), clicked=pages.slot == target)

    def _count(self, block: Impressions) -> None:
        self.typed.update(np.unique(block.query).tolist())
        self.counts["impressions"] += len(block.query)
        self.counts["clicks"] += int(np.count_nonzero(block.clicked))
        self.counts["bot_impressions"] += int(np.count_nonzero(block.client >= CLIENTS))
        self.seen.update(np.unique(block.client).tolist())

    def truth(self) -> Truth:
        """Return what is planted in the impressions so far."""
        typed, texts, clean = sorted(self.typed), self.site.queries.text, self.site.clean
        planted = [self.planted[query] for query in typed if query in self.planted]
        return {
            "propensities": EXAMINED.tolist(),
            "bots": {_name(client): self.kinds[client] for client in sorted(self.seen) if client in self.kinds},
            "busy_clients": [_name(client) for client in sorted(self.seen & self.busy)],
            "secrets": [row._asdict() for row in planted if row.kind != "decoy"],
            "decoys": [row._asdict() for row in planted if row.kind == "decoy"],
            "misspelled": {
                texts[query]: texts[clean[query]] for query in typed if query < len(texts) and clean[query] != query
            },
        }

    def summary(self) -> MessySummary:
        """Return the counts so far."""
        truth = self.truth()
        planted = [len(truth[name]) for name in ("secrets", "decoys", "misspelled")]
        return MessySummary(
            self.counts["impressions"],
            self.counts["clicks"],
            len(truth["bots"]),
            self.counts["bot_impressions"],
            *planted,
        )


def _name(client: int) -> str:
    return f"c{client:05d}"


def _by_time(parts: list[Impressions]) -> Impressions:
    """Merge page views, in the order of their times."""
    joined = Impressions._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    views = np.argsort(joined.time[::PAGE_LENGTH], kind="stable")
    rows = (views[:, None] * PAGE_LENGTH + np.arange(PAGE_LENGTH)).ravel()
    return Impressions._make(column[rows] for column in joined)
