"""The score in a sentence or two, for the page and the terminal: text, and between it the words that are named."""

from collections.abc import Sequence

from clickvec.explanation.hit import Explanation, Word

ENOUGH = 0.75  # of what words add: so much is named in the first sentence
MOST_NAMED = 3
FELT = 0.005  # less than this is shown as 0.00

Pieces = tuple[str | Word, ...]


def summary(explanation: Explanation) -> Pieces:
    """Which words carry the score, and which lower it; or that there is no score, and why."""
    texts = {"query": explanation.query_words, "title": explanation.title_words}
    for name, words in texts.items():
        if said := no_vector(name, [word.known for word in words]):
            return (f"{said[0].upper()}{said[1:]}.",)
    carried = {name: carriers for name, words in texts.items() if (carriers := _carriers(words))}
    burdens = sorted((word for word in explanation.title_words if word.contribution <= -FELT),
                     key=lambda word: word.contribution)[:MOST_NAMED]  # fmt: skip
    lowered: Pieces = ()
    if burdens:
        lowered = (" In the title ", *_listed(burdens), f" {'lowers' if len(burdens) == 1 else 'lower'} it.")
    if not carried:
        return ("No word raises the score.", *lowered)
    said_of: list[str | Word] = []
    for name, carriers in carried.items():
        said_of += [f"{'; ' if said_of else ''}of the {name} ", *_listed(carriers)]
    return ("Most of the score comes from these words: ", *said_of, ".", *lowered)


def no_vector(name: str, known: Sequence[float]) -> str | None:
    """That a query or a title has no vector, by the shares of its words that the model knows; None where it has one."""
    if any(known):
        return None
    why = "no letter trigram that the model knows" if known else "no words"
    so = "finds nothing" if name == "query" else "no query can find it"
    return f"the {name} has {why}: it has no vector, and {so}"


def _carriers(words: Sequence[Word]) -> list[Word]:
    """The words that give most of what is given, the strongest first."""
    helpful = sorted((word for word in words if word.contribution >= FELT), key=lambda word: -word.contribution)
    total, so_far, found = sum(word.contribution for word in helpful), 0.0, list[Word]()
    for word in helpful[:MOST_NAMED]:
        if so_far >= ENOUGH * total:
            break
        so_far += word.contribution
        found.append(word)
    return found


def _listed(words: Sequence[Word]) -> list[str | Word]:
    """Words with commas, and an `and` before the last."""
    found: list[str | Word] = []
    for at, word in enumerate(words):
        found += [word, ", " if at < len(words) - 2 else " and " if at == len(words) - 2 else ""]
    return found
