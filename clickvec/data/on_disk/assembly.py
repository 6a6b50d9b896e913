"""Make the arrays of a data folder from the lines of a store, without holding them in memory.

`dataset.prepare` makes the same arrays in memory; a test compares the two.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Texts
from clickvec.data.on_disk.log_store import CLICKED, LISTED, SHOWN, Store, read_batches
from clickvec.data.on_disk.numbering import Numbered, Numbering, insert
from clickvec.data.on_disk.sql_looks import looks_of_store
from clickvec.data.pairs import pair_keys
from clickvec.storage.disk_arrays import DiskArray, DiskLines, zeros
from clickvec.text.ragged import Ragged
from clickvec.text.trigrams import Vocabulary

_TEXTS_AT_ONCE = 2**15
_EXACT = 2.0**53  # sums of whole numbers below this do not depend on their order

_PASSED = """CREATE TABLE passed AS SELECT query, title, min(line) AS first FROM lines WHERE clicks <= 0
    GROUP BY query, title HAVING min(clicks) = 0"""
_CLICKED_QUERIES = "SELECT query FROM lines WHERE clicks > 0 GROUP BY query ORDER BY min(line)"
_CLICKED_TITLES = f"""SELECT title FROM (SELECT title, line FROM lines WHERE clicks > 0
    UNION ALL SELECT title, line FROM seeds WHERE kind = {CLICKED}) GROUP BY title ORDER BY min(line)"""
_SHOWN_TITLES = f"""SELECT title FROM (SELECT title, first FROM passed SEMI JOIN clicked_queries USING (query)
    UNION ALL SELECT title, line FROM seeds WHERE kind = {SHOWN}) ANTI JOIN clicked_titles USING (title)
    GROUP BY title ORDER BY min(first)"""
_LISTED_TITLES = f"SELECT title FROM seeds WHERE kind = {LISTED} GROUP BY title ORDER BY min(line)"
_SUMS = "SELECT query, title, sum(clicks) FROM lines WHERE clicks > 0 GROUP BY query, title"
_CLICKS = "SELECT query, title, clicks FROM lines WHERE clicks > 0 ORDER BY query, title, line"
_TIMES = "SELECT query, min(time) FROM lines WHERE clicks > 0 GROUP BY query"


class Assembled(NamedTuple):
    """What a data folder holds, most of it on disk."""

    arrays: dict[str, DiskArray]  # by their names in data.safetensors
    trigrams: tuple[str, ...]
    clicked_titles: int
    catalogue_titles: int
    texts: Texts


class _Renumbered:
    """Texts in their final order: that of first appearance among the lines that are left."""

    def __init__(self, texts: Numbered, path: Path) -> None:
        self.texts, self.order = texts, DiskArray(path, np.int32)
        self.number = zeros(path.with_name(f"{path.name}.number"), len(texts.lines), np.int32)
        self.number[:] = -1

    def add(self, batches: Iterator[list[NDArray[Any]]]) -> None:
        """Number those texts that have no number yet."""
        for (batch,) in batches:
            numbers = batch[self.number[batch] < 0]
            self.number[numbers] = np.arange(len(self.order), len(self.order) + len(numbers))
            self.order.append(numbers)

    def lines(self, path: Path) -> DiskLines:
        lines = DiskLines(path)
        for block in self.order.blocks(_TEXTS_AT_ONCE):
            lines.append(self.texts.lines.take(block))
        return lines


def assemble(store: Store, max_words: int, max_trigrams: int, whole_words: bool = False) -> Assembled:
    """Return the contents of the data folder for the lines that a store holds."""
    return _Assembly(store).run(max_words, max_trigrams, whole_words)


class _Assembly:
    def __init__(self, store: Store) -> None:
        self._store, self._database, self._folder = store, store.database, store.folder
        self._arrays: dict[str, DiskArray] = {}

    def run(self, max_words: int, max_trigrams: int, whole_words: bool) -> Assembled:
        self._number_texts()
        sums = self._write_pairs()
        times = self._query_times()
        self._write_looks()
        self._write_shown()
        for table in ("lines", "pairs", "shown", "passed"):
            self._database.execute(f"DROP TABLE {table}")
        self._database.execute(f"SET memory_limit = '{self._store.memory // 4}B'")  # the tokens need some of it now
        query_lines = self._queries.lines(self._folder / "queries.txt")
        title_lines = self._titles.lines(self._folder / "titles.txt")
        trigrams = self._write_tokens(query_lines, title_lines, max_words, max_trigrams, whole_words)
        texts = Texts(query_lines, title_lines, times, sums, max_trigrams)
        return Assembled(self._arrays, trigrams, self._clicked_titles, self._catalogue_titles, texts)

    def _ragged(self, name: str) -> "_RaggedFile":
        return _RaggedFile(self._array(f"{name}.values", np.int32), self._array(f"{name}.offsets", np.int64))

    def _array(self, name: str, dtype: type, version: str = "array") -> DiskArray:
        self._arrays[name] = DiskArray(self._folder / f"{version}.{name}", dtype)
        return self._arrays[name]

    def _rows(self, sql: str) -> Iterator[list[NDArray[Any]]]:
        return read_batches(self._database, sql)

    # --- numbers -------------------------------------------------------------------------------------------------

    def _number_texts(self) -> None:
        """Number the texts of the lines that are left: clicked titles, those only shown, the rest of the catalogue."""
        self._queries = _Renumbered(self._store.queries, self._folder / "queries.order")
        self._titles = _Renumbered(self._store.titles, self._folder / "titles.order")
        self._queries.add(self._rows(_CLICKED_QUERIES))
        self._titles.add(self._rows(_CLICKED_TITLES))
        self._clicked_titles = len(self._titles.order)
        self._database.execute(_PASSED)
        for side in ("query", "title"):
            table = "clicked_queries" if side == "query" else "clicked_titles"
            self._database.execute(f"CREATE TABLE {table} AS SELECT DISTINCT {side} FROM lines WHERE clicks > 0")
        self._titles.add(self._rows(_SHOWN_TITLES))
        others = len(self._titles.order)
        self._titles.add(self._rows(_LISTED_TITLES))
        self._catalogue_titles = len(self._titles.order) - others

    def _query_times(self) -> NDArray[np.int64] | None:
        if not self._store.has_times:
            return None
        times = np.zeros(len(self._queries.order), np.int64)
        for query, time in self._rows(_TIMES):
            times[self._queries.number[query]] = time
        return times

    # --- pairs ---------------------------------------------------------------------------------------------------

    def _write_pairs(self) -> DiskArray | None:
        """Write the distinct pairs, sorted by query and then by title. Return their clicks if float32 is not exact."""
        import pyarrow

        self._database.execute("CREATE TABLE pairs (key BIGINT, clicks DOUBLE)")
        for query, title, clicks in self._summed():
            key = self._keys(query, title)
            insert(self._database, "pairs", pyarrow.table({"key": key, "clicks": clicks}))
        pair_query, pair_title = self._array("pair_query", np.int32), self._array("pair_title", np.int32)
        pair_clicks = self._array("pair_clicks", np.float32)
        sums, exact = DiskArray(self._folder / "sums", np.float64), True
        self._pairs_of_query = zeros(self._folder / "pairs_of_query", len(self._queries.order), np.int64)
        self._pairs_of_title = zeros(self._folder / "pairs_of_title", len(self._titles.order), np.int64)
        self._pairs_of_title[len(self._titles.order) - self._catalogue_titles :] = 1  # counts once, for the trigrams
        for key, clicks in self._rows("SELECT key, clicks FROM pairs ORDER BY key"):
            query, title = (key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32)
            np.add.at(self._pairs_of_query, query, 1)
            np.add.at(self._pairs_of_title, title, 1)
            single = clicks.astype(np.float32)
            exact = exact and bool((single == clicks).all())
            for array, values in ((pair_query, query), (pair_title, title), (pair_clicks, single), (sums, clicks)):
                array.append(values)
        self._arrays["clicked.values"] = pair_title
        self._write_offsets("clicked", self._pairs_of_query)
        return None if exact else sums

    def _write_looks(self) -> None:
        """Write how often readers looked at each pair, if the log tells."""
        before = self._store.before
        keys = pair_keys(before[0].pair_query, before[0].pair_title) if before else np.zeros(0, np.int64)
        looks = looks_of_store(self._store, self._keys, keys, before[0].pair_looks if before else None)
        if looks is not None:
            self._array("pair_looks", np.float32).append(looks)

    def _keys(self, query: NDArray[np.int32], title: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return pairs as numbers in their final order."""
        return pair_keys(self._queries.number[query], self._titles.number[title])

    def _summed(self) -> Iterator[list[NDArray[Any]]]:
        """Yield distinct pairs with their clicks, added up in the order of the lines wherever the order matters."""
        whole, total = self._database.execute(
            "SELECT bool_and(clicks = floor(clicks)), sum(clicks) FROM lines WHERE clicks > 0"
        ).fetchall()[0]
        if whole is None or (whole and total < _EXACT):
            return self._rows(_SUMS)
        return _running_sums(self._rows(_CLICKS))

    def _write_offsets(self, name: str, lengths: NDArray[np.int64]) -> None:
        offsets, total = self._array(f"{name}.offsets", np.int64), 0
        offsets.append(np.zeros(1, np.int64))
        for first in range(0, len(lengths), _TEXTS_AT_ONCE):
            ends = total + np.cumsum(lengths[first : first + _TEXTS_AT_ONCE])
            offsets.append(ends)
            total = int(ends[-1])

    def _write_shown(self) -> None:
        """Write the titles that each query was shown and nobody clicked."""
        import pyarrow

        self._database.execute("CREATE TABLE shown (key BIGINT)")
        for query, title in self._rows("SELECT query, title FROM passed SEMI JOIN clicked_queries USING (query)"):
            insert(self._database, "shown", pyarrow.table({"key": self._keys(query, title)}))
        values = self._array("shown.values", np.int32)
        lengths = zeros(self._folder / "shown_of_query", len(self._queries.order), np.int64)
        for (key,) in self._rows("SELECT key FROM shown ANTI JOIN pairs USING (key) ORDER BY key"):
            np.add.at(lengths, key >> 32, 1)
            values.append(key & 0xFFFFFFFF)
        self._write_offsets("shown", lengths)

    # --- tokens --------------------------------------------------------------------------------------------------

    def _write_tokens(
        self, queries: DiskLines, titles: DiskLines, max_words: int, max_trigrams: int, whole_words: bool
    ) -> tuple[str, ...]:
        """Write the tokens of each text and the trigrams of each token. Return the trigrams."""
        numbering = Numbering(self._folder / "tokens", max_words, self._store.memory // 4)
        for name, lines in (("queries", queries), ("titles", titles)):
            rows = self._ragged(name)
            for block in lines.blocks(_TEXTS_AT_ONCE):
                rows.append(numbering.read(block))
        tokens = numbering.finish(self._database)
        times = zeros(self._folder / "times", len(tokens.lines), np.float64)
        self._count_tokens("queries", tokens, self._pairs_of_query, times)
        self._count_tokens("titles", tokens, self._pairs_of_title, times)
        vocabulary = Vocabulary.of_tokens(tokens.lines, times, max_trigrams, whole_words=whole_words)
        rows = self._ragged("steps")
        for block in tokens.lines.blocks(_TEXTS_AT_ONCE):
            rows.append(vocabulary.rows(block))
        return vocabulary.trigrams

    def _count_tokens(self, name: str, tokens: Numbered, pairs: NDArray[np.int64], times: NDArray[np.float64]) -> None:
        """Add how often each token occurs in the texts of all pairs, and replace provisional numbers."""
        provisional, offsets = self._arrays[f"{name}.values"], self._arrays[f"{name}.offsets"]
        values = provisional if tokens.numbers is None else self._array(f"{name}.values", np.int32, "final")
        for first in range(0, len(pairs), _TEXTS_AT_ONCE):
            ends = offsets.read(first, first + _TEXTS_AT_ONCE + 1)
            block = tokens.of(provisional.read(ends[0], ends[-1]))
            np.add.at(times, block, np.repeat(pairs[first : first + len(ends) - 1], np.diff(ends)))
            if values is not provisional:
                values.append(block)


class _RaggedFile:
    """Rows of different lengths on disk."""

    def __init__(self, values: DiskArray, offsets: DiskArray) -> None:
        self._values, self._offsets = values, offsets
        offsets.append(np.zeros(1, np.int64))

    def append(self, rows: Ragged) -> None:
        self._offsets.append(len(self._values) + rows.offsets[1:])
        self._values.append(rows.values)


def _running_sums(batches: Iterator[list[NDArray[Any]]]) -> Iterator[list[NDArray[Any]]]:
    """Yield the sums of rows that are sorted by pair, added up one after the other, as np.bincount does in memory."""
    last: list[NDArray[Any]] = [np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0)]
    for batch in batches:
        query, title, clicks = (np.concatenate(both) for both in zip(last, batch, strict=True))
        changes = (np.diff(query) != 0) | (np.diff(title) != 0)
        starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
        sums = np.bincount(np.concatenate(([0], np.cumsum(changes))), clicks)
        last = [query[starts[-1:]], title[starts[-1:]], sums[-1:]]  # its rows may continue in the next batch
        yield [query[starts[:-1]], title[starts[:-1]], sums[:-1]]
    yield last
