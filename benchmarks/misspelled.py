"""Search by words with misspelled queries: with and without the words that an unknown word stands for.

    python benchmarks/misspelled.py --judged msrd/dev.tsv.gz --titles msrd/titles.tsv.gz

Plants one typo in a word of each query (two neighbours swapped, a letter missing, doubled or replaced), or two in a
word of at least seven letters, and prints Recall@100 and MRR@10 over the catalogue. Judged titles count as titles of
the catalogue. `--clicks` adds the titles of a click log.
"""

import argparse
import random
import string
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from clickvec.data.clicks import read_clicks
from clickvec.data.judged import JudgedQuery, read_judged
from clickvec.data.titles import read_titles
from clickvec.search.lexical.word_search import Words
from clickvec.search.lexical.word_segment import WordSegment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judged", type=Path, required=True)
    parser.add_argument("--titles", type=Path, help="catalogue")
    parser.add_argument("--clicks", type=Path, help="click log whose titles are searched too")
    options = parser.parse_args()
    judged = [query for query in read_judged(options.judged).rows if any(grade > 0 for grade in query.grades)]
    titles = dict.fromkeys(title for query in judged for title in query.titles)
    if options.titles:
        titles.update(dict.fromkeys(title.title for title in read_titles(options.titles).rows))
    if options.clicks:
        titles.update(dict.fromkeys(read_clicks(options.clicks).titles))
    catalogue = list(titles)
    words = Words([WordSegment.build(catalogue)])
    print(f"{len(catalogue):,} titles, {len(judged):,} queries;  Recall@100, MRR@10: corrected, not corrected")
    rng = random.Random(0)
    for name, typos, letters in (
        ("as typed", 0, 1),
        ("a typo in each query", 1, 4),
        ("two typos in a long word", 2, 7),
    ):
        pairs = [(query, misspelled(query.query, typos, letters, rng)) for query in judged]
        asked = [(query, text) for query, text in pairs if text is not None]
        corrected = measure(words, catalogue, asked)
        with patch.object(words, "_nearest", return_value={}):
            plain = measure(words, catalogue, asked)
        print(f"{name:26} {len(asked):5,} queries  {corrected}  {plain}")


def misspelled(query: str, typos: int, letters: int, rng: random.Random) -> str | None:
    """Return a query with typos in a word of at least so many letters; None if it has none."""
    words = query.split()
    rows = [row for row, word in enumerate(words) if len(word) >= letters and word.isalpha()]
    if not typos:
        return query
    if not rows:
        return None
    row = rng.choice(rows)
    for _ in range(typos):
        words[row] = typo(words[row], rng)
    return " ".join(words)


def typo(word: str, rng: random.Random) -> str:
    """Return a word with one typo."""
    at = rng.randrange(len(word) - 1)
    letter = rng.choice(string.ascii_lowercase)
    changed = {"swap": word[at + 1] + word[at], "drop": word[at + 1], "double": 2 * word[at] + word[at + 1]}
    return word[:at] + changed.get(rng.choice((*changed, "replace")), letter + word[at + 1]) + word[at + 2 :]


def measure(words: Words, catalogue: Sequence[str], asked: Sequence[tuple[JudgedQuery, str]]) -> str:
    """Return the mean Recall@100 and MRR@10."""
    recall, reciprocal = [], []
    for judged, query in asked:
        relevant = {title for title, grade in zip(judged.titles, judged.grades, strict=True) if grade > 0}
        positions, _ = words.best(words.terms(query), 100)
        found = [catalogue[position] in relevant for position in positions.tolist()]
        recall.append(sum(found) / len(relevant))
        reciprocal.append(next((1 / rank for rank, hit in enumerate(found[:10], 1) if hit), 0.0))
    return f"{100 * np.mean(recall):5.1f} {100 * np.mean(reciprocal):5.1f}"


if __name__ == "__main__":
    main()
