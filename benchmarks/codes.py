"""Search for codes: article numbers, models, sizes and EANs, written otherwise than in the title, or unknown.

    python benchmarks/codes.py            # the half of the codes on which the weights were chosen
    python benchmarks/codes.py --test     # the other half

Puts codes of several shapes into half of the titles of the built-in log, and numbers with a unit into others, so that
the parts of a code also occur elsewhere. A model is trained on this log, whose queries have no codes. Prints how often
a title with the code of the query comes first, in per cent: by words, by hybrid search with the default fusion and with
other weights of codes, with the fusion that is fitted on judged queries without codes (fitted), and with what is fitted
on these and on queries for codes whose clicks are all on titles without the code (misled), for several least weights.
NDCG@10 over the catalogue is that of other judged queries, without codes. A code that no title has should be told.
"""

import argparse
import gzip
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import clickvec
from clickvec.data import read_judged
from clickvec.evaluation.fitting import gather, measure_scores
from clickvec.evaluation.index_measures import index_test_set
from clickvec.evaluation.logistic_fit import LEAST, Floats, fact_rows, fit_clicks
from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.result import text_table
from clickvec.lab.simulate import write
from clickvec.search.fusion import Fusion
from clickvec.search.parts.word_part import NUMBERS

LETTERS, DIGITS = "abcdefghklmnprstuvwx", "0123456789"
SHAPES = {  # the parts: a letter stands for a letter, 0 for a digit; and what the title has between them
    "AB260": ("aa 000", ""),
    "AB-260": ("aa 000", "-"),
    "AB 260": ("aa 000", " "),
    "ABCD-12": ("aaaa 00", "-"),
    "260AB": ("000 aa", ""),
    "ABC123D4": ("aaa 000 a0", ""),
    "ABC-123-D4": ("aaa 000 a0", "-"),
    "ABC 123 D4": ("aaa 000 a0", " "),
    "A1/234.5": ("a0 000 0", "/"),
    "471123": ("000000", ""),
    "4711-0815-22": ("0000 0000 00", "-"),
    "4006381333931": ("0 000000 000000", ""),
    "4 006381 333931": ("0 000000 000000", " "),
}
UNITS = ("in.", "mm", "g", "pieces", "pack", "W")
WEIGHTS = (0.0, 0.1, 0.15, 0.25, 0.35)  # of codes in a mixture
FLOORS = (0.0, 2.0, 3.5, 5.0, 7.0)


class Coded(NamedTuple):
    """A title with a code."""

    title: str
    words: list[str]  # of the title, without the code
    shape: str
    parts: list[str]

    @property
    def code(self) -> str:
        """The code without anything between its parts."""
        return "".join(self.parts)


Style = Callable[[Coded], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--codes", type=int, default=300, help="of each half, at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        write(site, 200_000, 0, 300, 600, log=False)
        titles = [row[1] for row in read(site / "titles.tsv.gz")]
        coded, unknown, changed = put_codes(titles, random.Random(0))
        for name in ("clicks", "dev", "test"):
            rewrite(site / f"{name}.tsv.gz", changed)
        encoder = clickvec.train(clickvec.read_clicks(site / "clicks.tsv.gz"), Path(folder, "model"), device="cpu")
        index = clickvec.Index.build(encoder, [changed[title] for title in titles])
        fitted = gather(index, index_test_set(index, read_judged(site / "dev.tsv.gz")))
        judged = gather(index, index_test_set(index, read_judged(site / "test.tsv.gz")))
        half, other = slice(options.test, None, 2), slice(not options.test, None, 2)
        asked, unknown = coded[half][: options.codes], unknown[half][: options.codes]
        rows, clicked = [query.facts for query in fitted], [query.clicked for query in fitted]
        misled = [elsewhere(index, one) for one in coded[other][: options.codes]]
        more = [*rows, *(row for row, _ in misled)], [*clicked, *(row for _, row in misled)]
        fusions = {"default": Fusion.default()}
        fusions |= {f"mixture, codes {weight}": mixture(weight) for weight in WEIGHTS}
        fusions["fitted"] = fit_clicks(rows, clicked)
        fusions |= {
            f"misled, codes {floor} or more": fit_clicks(*more, least={**LEAST, "codes": floor}) for floor in FLOORS
        }
        table = [["by", *STYLES, "all", MEASURES[-1]]]
        for name, fusion in {"words": Fusion.default(), **fusions}.items():
            index.use_fusion(fusion)
            shares = [
                share_first(index, asked, style, "words" if name == "words" else "hybrid") for style in STYLES.values()
            ]
            ndcg = "" if name == "words" else f"{measure_scores(judged, fusion.scores)[-1].mean():.2f}"
            table.append([name, *(f"{share:.0f}" for share in (*shares, sum(shares) / len(shares))), ndcg])
        print(f"{len(titles):,} titles, {len(asked)} codes")
        print(text_table(table))
        index.use_fusion(Fusion.default())
        shapes = [[shape, *row] for shape, row in by_shape(index, asked).items()]
        print(f"\nby shape, default fusion\n{text_table([['title has', *STYLES], *shapes])}\n")
        report_unknown(index, unknown)


def put_codes(titles: Sequence[str], rng: random.Random) -> tuple[list[Coded], list[Coded], dict[str, str]]:
    """Return the titles with codes, others with codes that no title has, and what each title becomes."""
    prefixes = ["".join(rng.choices(LETTERS, k=4)) for _ in range(60)]
    numbers = ["".join(rng.choices(DIGITS, k=6)) for _ in range(200)]
    names = list(SHAPES)
    coded, unknown, used, changed = list[Coded](), list[Coded](), set[str](), dict[str, str]()
    for number, title in enumerate(titles):
        words, changed[title] = title.split(), title
        if number % 4 == 3:
            changed[title] = f"{title} {rng.choice(numbers)[: rng.choice((2, 3))]} {rng.choice(UNITS)}"
        if number % 2:
            continue
        shape = rng.choice(names)
        pattern, between = SHAPES[shape]
        prefix = rng.choice(prefixes)
        parts = [fill(part, prefix, rng.choice(numbers), rng) for part in pattern.split()]
        if "".join(parts) in used:
            continue
        used.add("".join(parts))
        if number % 10 == 0:
            unknown.append(Coded(title, words, shape, parts))
            continue
        at = rng.choice((0, len(words), rng.randint(0, len(words))))
        changed[title] = " ".join([*words[:at], between.join(parts).upper(), *words[at:]])
        coded.append(Coded(changed[title], words, shape, parts))
    return coded, unknown, changed


def fill(part: str, prefix: str, number: str, rng: random.Random) -> str:
    """Return letters and digits in place of those of a pattern. Families of codes share their letters and numbers."""
    if part.isalpha():
        return prefix[: len(part)]
    if part.isdecimal() and len(part) in (2, 3):
        return number[: len(part)]
    return "".join(rng.choice(LETTERS if char.isalpha() else DIGITS) for char in part)


def in_words(coded: Coded) -> str:
    """Return the code between words of the title."""
    rng = random.Random(coded.title)
    words = rng.sample(coded.words, min(2, len(coded.words)))
    return " ".join([*words[:1], rng.choice(("", "-", " ")).join(coded.parts), *words[1:]])


STYLES: dict[str, Style] = {
    "together": lambda coded: coded.code,
    "upper": lambda coded: coded.code.upper(),
    "hyphen": lambda coded: "-".join(coded.parts),
    "blank": lambda coded: " ".join(coded.parts),
    "dot": lambda coded: ".".join(coded.parts),
    "in words": in_words,
    "prefix": lambda coded: coded.code[:-1],
}


def share_first(index: clickvec.Index, asked: Sequence[Coded], style: Style, mode: str) -> float:
    """Return how often a title with the code, or one that begins so, comes first, in per cent."""
    codes = {coded.title: coded.code for coded in asked}
    right = 0
    for coded in asked:
        hits = index.search(style(coded), 1, mode=mode)
        wanted = coded.code[:-1] if style is STYLES["prefix"] else coded.code
        right += bool(hits) and codes.get(hits[0].title, "").startswith(wanted)
    return 100 * right / max(1, len(asked))


def by_shape(index: clickvec.Index, asked: Sequence[Coded]) -> dict[str, list[str]]:
    """Return the shares of each shape of codes and each style, with the present fusion."""
    of_shapes = {shape: [one for one in asked if one.shape == shape] for shape in SHAPES}
    return {
        shape: [f"{share_first(index, of, style, 'hybrid'):.0f}" for style in STYLES.values()]
        for shape, of in of_shapes.items()
    }


def elsewhere(index: clickvec.Index, coded: Coded) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the facts of the candidates of a query for a code, and a click on the nearest title without it."""
    candidates = index.candidates(in_words(coded)).candidates
    has_code = np.asarray(candidates.features()["codes"]) > 0
    nearest = np.where(has_code, -1, candidates.values["vectors"].own).argmax()
    return fact_rows(candidates), np.arange(len(has_code)) == nearest


def report_unknown(index: clickvec.Index, unknown: Sequence[Coded]) -> None:
    """Print how often a code that no title has is told, and how often parts of it are searched instead."""
    for name in ("together", "hyphen", "blank", "in words"):
        found = [index.corrections(STYLES[name](coded)) for coded in unknown]
        told = sum(() in words.values() for words in found)
        instead = sum(any(words.values()) for words in found)
        print(f"unknown, {name:9} {len(unknown)}: told {told}, parts searched instead {instead}")


def mixture(codes: float) -> Fusion:
    """Return the default mixture with another weight of codes."""
    rest = 1 - NUMBERS - codes
    weights = {"cosine": 0.7 * rest, "words": 0.3 * rest, "codes": codes, "numbers": NUMBERS}
    return Fusion.from_json({"method": "mixture", "weights": weights})


def read(path: Path) -> list[list[str]]:
    """Return the rows of a file, without its header."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines][1:]


def rewrite(path: Path, changed: dict[str, str]) -> None:
    """Replace the titles of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        header = next(lines)
        column = header.split().index("title")
        rows = [line.rstrip("\n").split("\t") for line in lines]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(header)
        for row in rows:
            row[column] = changed[row[column]]
            file.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
