"""The queries that a model ranks worst, each with the title that it puts too high and the one that it puts too low."""

import shlex
from collections.abc import Sequence

from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.ranking import BASELINE, MEASURE, Missed, Ranked, Ranking
from clickvec.explanation.why_not import Share
from clickvec.render.html.comparison_section import parts
from clickvec.render.html.markup import Html, counted, details, joined, note, tag, text_of
from clickvec.render.html.word_chips import limit_of, number, shaded, side, signed

OPEN = 3  # of the list, unfolded from the start
NAMED = 2  # query words that are named
FELT = 0.01  # a difference that is worth a word
SAME = 1e-6  # a difference that is none: the last digits of a score depend on the company that it is computed in


def worst_section(ranking: Ranking, path: str) -> Html:
    """Why each of them went wrong; `path` is that of the model, for the lines to run."""
    if not ranking.imperfect:
        return tag("p", f"There are none: every query has an {MEASURE} of 100.")
    if not ranking.worst:
        return note(f"{counted(ranking.imperfect, 'query is', 'queries are')} not perfect; none of them is shown.")
    count = f"{len(ranking.worst):,} " if len(ranking.worst) > 1 else ""
    about = note(
        f"The {count}worst of {counted(ranking.imperfect, 'query', 'queries')} whose {MEASURE} is below 100; of those "
        "with the same, first the one whose best title stands furthest down. For each, the first title that stands "
        "where a better one should, and the best title below it. Under each word its contribution to the score of its "
        "pair: green raises it, red and underlined lowers it. The line at the end explains the two titles in full."
    )
    return joined(about, (_missed(missed, path, at < OPEN) for at, missed in enumerate(ranking.worst)))


def _missed(missed: Missed, path: str, opened: bool) -> Html:
    baseline = "" if missed.baseline is None else f", {BASELINE} {missed.baseline:.1f}"
    head = joined(
        tag("b", tag("bdi", " ".join(missed.query.split()))),
        " ",
        tag("span", f"{MEASURE} {missed.ndcg:.1f}{baseline}", class_="n"),
    )
    why = missed.why
    limit = limit_of(why.first, why.title)
    pairs = (
        _pair("Too high", missed.above, why.first, limit),
        _pair("Too low", missed.below, why.title, limit),
    )
    line = _unbroken("--first", command(path, missed.query, missed.below.title, missed.above.title))
    return details(
        head, tag("p", sentence(missed)), pairs, tag("p", tag("code", line, dir="ltr"), class_="command"), opened=opened
    )


def _unbroken(option: str, line: str) -> Html:
    """A line to type, in which no line ends within the option."""
    before, found, after = line.rpartition(option)
    return joined(before, tag("span", found), after)


def command(path: str, query: str, title: str, other: str) -> str:
    """What to type for all there is to say about a title and the other one that stands above it."""
    if any(text.startswith("-") for text in (path, query, title, other)):  # or they would be taken for options
        return shlex.join(("clickvec", "explain", f"--first={other}", "--", path, query, title))
    return shlex.join(("clickvec", "explain", path, query, title, "--first", other))


def _pair(name: str, ranked: Ranked, explanation: Pair, limit: float) -> Html:
    place = f"{name}: rank {ranked.rank:,}, grade {ranked.grade}, score {number(explanation.score)}"
    return tag(
        "div",
        tag("h3", place),
        tag("p", tag("span", "id ", tag("bdi", ranked.doc_id), ": ", class_="soft"), text_of(ranked.title)),
        side("query", shaded(explanation.query_words, limit)),
        side("title", shaded(explanation.title_words, limit)),
        class_="placed",
    )


def sentence(missed: Missed) -> Html:
    """Why the better title stands below, in a sentence or two."""
    why = missed.why
    unknown = [word.word for word in why.title.query_words if not word.known]
    said: list[Html | None] = [_lead(missed)]
    if why.gap >= SAME:
        for_first = sorted(why.words, key=lambda share: -share.difference)[:NAMED]
        felt = [share for share in for_first if share.difference >= FELT]
        burdens = [part for part in why.burdens if part.contribution <= -FELT][:NAMED]
        said.append(joined(" ", _shares(felt), ".") if felt else None)
        said.append(joined(" The better title is held back by ", parts(burdens), ".") if burdens else None)
    if unknown:
        said.append(joined(" The model knows no letter trigram of ", tag("b", tag("bdi", ", ".join(unknown))), "."))
    return joined(*said)


def _lead(missed: Missed) -> Html:
    above, below, gap = missed.above.rank, missed.below.rank, missed.why.gap
    if gap < SAME:
        return joined("Both titles have the same score, and the order of their ids decides.")
    ahead = f"{number(gap)} ahead" if gap >= FELT / 2 else "a hair's breadth ahead"
    return joined(f"The title at rank {above:,} is {ahead} of the better one at rank {below:,}.")


def _shares(shares: Sequence[Share]) -> Html:
    found = [
        joined(tag("b", tag("bdi", one.word)), f" gives it {signed(one.first)}, the better one {signed(one.title)}")
        for one in shares
    ]
    return joined(*(joined("; " if at else None, one) for at, one in enumerate(found)))
