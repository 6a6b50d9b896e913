"""Names and number formats that the terminal, the pages and the figures share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that the command line starts without NumPy
    from clickvec.explanation.explained_pair import Pair, Word
    from clickvec.explanation.explainer import Explanation

ARROWS = {"left to right": "→", "right to left": "←"}
# The activations of a recurrent tower, in the order in which they are shown: name, and symbol in the paper.
ACTIVATIONS = {
    "input_gate": ("Input gate", "i(t)"), "forget_gate": ("Forget gate", "f(t)"), "cell": ("Cell state", "c(t)"),
    "output_gate": ("Output gate", "o(t)"), "output": ("Output", "y(t)"),
}  # fmt: skip
EDITS = {"add": "add {put}", "leave out": "remove {out}", "replace": "replace {out} with {put}"}
METHODS = {
    "shapley": "what the word adds to the score, averaged over all orders of adding the words (Shapley value)",
    "changes": "the change of the output at the word, times the other vector",
    "leave-one-out": "how much the score falls without the word",
}
ADDS_UP = ("shapley", "changes")
NEGLIGIBLE = 0.005  # a contribution that two decimals show as zero


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun: 1 title, 2,910 titles."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign. A number that rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def plain(value: float | None, digits: int = 3) -> str:
    """Return a number without a plus sign, or a dash for None."""
    return "–" if value is None else signed(value, digits).removeprefix("+")


def score_text(value: float) -> str:
    """Return a score with three decimals. Smaller scores, such as small probabilities, keep one digit: 4e-05."""
    return plain(value) if abs(value) >= 0.0005 or not value else f"{value:.0e}"


def count(cells: int | None) -> str:
    """Return how many cells detect a word. The direction that reads the word first cannot tell, and has a dash."""
    return "–" if cells is None else str(cells)


def cell_name(cell: int, way: str, sign: str = "") -> str:
    """Return the number of a cell and its sign, with an arrow if the cell reads from right to left."""
    return f"{cell}{sign}{' ←' if way == 'right to left' else ''}"


def largest(values: Iterable[float], least: float = 0.0) -> float:
    """Return the largest absolute value, or `least` if all values are smaller."""
    return max((abs(value) for value in values), default=0.0) or least


def largest_contribution(*explanations: "Pair") -> float:
    """Return the contribution that gets the full colour. Noise around zero stays pale."""
    words = (word for one in explanations for word in (*one.query_words, *one.title_words))
    return max(0.05, largest(word.contribution for word in words))


def total(words: "Sequence[Word]", explanation: "Pair", name: str = "score") -> str:
    """Return the sum of the contributions, and whether it is the score. `name` is what the cosine is called."""
    equal = f"= {name}" if explanation.method in ADDS_UP else f"(need not equal the {name} {plain(explanation.score)})"
    return f"Total {signed(sum(word.contribution for word in words))} {equal}"


def merged(parts: "Iterable[Word]", most: int) -> list[tuple[str, float]]:
    """Return the words with the largest contributions. A word that occurs twice has the sum."""
    sums: dict[str, float] = {}
    for part in parts:
        sums[part.word] = sums.get(part.word, 0.0) + part.contribution
    felt = [(word, given) for word, given in sums.items() if abs(given) >= NEGLIGIBLE]
    return sorted(felt, key=lambda entry: -abs(entry[1]))[:most]


def same_words(models: "Mapping[str, Explanation]") -> list[tuple[str, list[str], list[list[str]]]]:
    """Return tables of how many cells of each model detect each word: the side, the columns and the rows.

    A model with a smaller `max_words` reads the last words as one token, and so has a table of its own.
    """
    tables: dict[tuple[str, tuple[str, ...]], dict[str, Sequence[int | None]]] = {}
    for name, model in models.items():
        for side, voted in (("query", model.query_side.keywords), ("title", model.title_side.keywords)):
            if voted and voted.words:
                columns = {f"{name} {ARROWS[way]}": counts for way, counts in voted.counts.items()}
                tables.setdefault((side, voted.words), {}).update(columns)
    return [
        (side, list(columns), [[word, *(count(row[at]) for row in columns.values())] for at, word in enumerate(words)])
        for (side, words), columns in sorted(tables.items(), key=lambda table: table[0][0])
    ]
