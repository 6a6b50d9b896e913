"""A title compared with another one, and models compared on the same texts."""

from collections.abc import Mapping

from clickvec.explanation.explainer import Explanation
from clickvec.explanation.fused_score import Fused
from clickvec.explanation.why_not import Edit, WhyNot
from clickvec.render.html.fused_section import compared_parts, shares_table
from clickvec.render.html.markup import Html, joined, note, table, tag
from clickvec.render.html.word_chips import chips, listed, named, number, signed
from clickvec.render.labels import EDITS, largest_contribution, merged, same_words

WORDS_NAMED = 6
SAME = 1e-6  # scores this close are equal: their last digits depend on the batch


def why_not_section(compared: WhyNot, fused: Fused | None = None) -> Html:
    """Return what separates a title from the other one, and the edits that would change it."""
    limit = largest_contribution(compared.title, compared.first)
    about = joined(
        tag("p", gap_sentence(compared)),
        chips("other title", compared.first.title_words, limit),
        chips("this title", compared.title.title_words, limit),
    )
    if compared.gap <= 0:
        return about
    return joined(
        about,
        compared_parts(compared, fused.is_probability) if fused else None,
        shares_table(f"Contributions of the query's words to both {'cosines' if fused else 'scores'}", compared.words),
        tag("h3", "Edits that would change it"),
        _path(compared),
    )


def gap_sentence(compared: WhyNot) -> Html:
    """Return the two scores, and the words that explain the gap between them."""
    scores = f"This title scores {number(compared.score)}, the other title {number(compared.first_score)}"
    if compared.gap < SAME:
        return joined(f"{scores}, so there is no gap to explain.")
    lists = {
        "It lacks words that help the other title: ": compared.missing,
        f"These words lower its {'cosine' if compared.terms else 'score'}: ": compared.burdens,
    }
    found = [(lead, merged(words, WORDS_NAMED)) for lead, words in lists.items()]
    told = [joined(" ", lead, listed(named(*word) for word in words), ".") for lead, words in found if words]
    return joined(f"{scores}: a gap of ", tag("b", number(compared.gap)), ".", *told)


def _path(compared: WhyNot) -> Html:
    if not compared.path:
        return tag("p", "No single word of the query or the other title, added or removed, raises the score.")
    steps = (tag("li", _edit(edit), f": {number(edit.score)} ({signed(edit.change, 3)})") for edit in compared.path)
    verdict = "passes" if compared.reached else "does not pass"
    scores = f"scores {number(compared.path[-1].score)} and {verdict} the other title ({number(compared.first_score)})"
    return joined(tag("p", f"With the best edit at each step, the title {scores}:"), tag("ol", steps))


def _edit(edit: Edit) -> Html:
    words = {"out": edit.out, "put": edit.put}
    return Html(EDITS[edit.kind].format(**{name: tag("b", tag("bdi", word)) for name, word in words.items()}))


def models_section(models: Mapping[str, Explanation]) -> Html:
    """Return the scores of models, and how many of the most active cells of each detect each word."""
    rows = [[name, model.tower, number(model.score)] for name, model in models.items()]
    tables = [table("Score of the pair", ["model", "tower", "score"], rows, numeric=(2,))]
    tables.append(note("How many of the most active cells of each model detect each word:"))
    for side, head, cells in same_words(models):
        tables.append(table(side.capitalize(), ["word", *head], cells, numeric=range(1, len(head) + 1)))
    silent = [name for name, model in models.items() if not model.query_side.reading]
    return joined(tables, note(f"Without word by word reading: {', '.join(silent)}.") if silent else None)
