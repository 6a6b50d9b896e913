"""The queries that a model ranks worst, each with a title that ranks too high and one that ranks too low."""

import shlex

from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.ranking import BASELINE, Missed, Ranked, Ranking
from clickvec.render.html.comparison_section import gap_sentence
from clickvec.render.html.markup import Html, joined, note, tag, text_of
from clickvec.render.html.word_chips import chips, number
from clickvec.render.labels import counted, largest_contribution

UNFOLDED = 3  # queries at the top of the list


def worst_section(ranking: Ranking, path: str) -> Html:
    """Return why each of these queries went wrong. `path` is the model folder, for the commands shown."""
    if not ranking.imperfect:
        return tag("p", f"There are none: every query has an {CHOSEN_BY} of 100.")
    if not ranking.worst:
        return note(f"{counted(ranking.imperfect, 'query is', 'queries are')} not perfect; none is shown.")
    about = (
        f"{len(ranking.worst):,} of {counted(ranking.imperfect, 'query', 'queries')} whose {CHOSEN_BY} is below 100, "
        "worst first. Each shows the first title that ranks above a better one, and the best title below it. The "
        "number under a word is its contribution to the score: green raises it, red lowers it. The command explains "
        "both titles in full."
    )
    return joined(note(about), (_missed(missed, path, at < UNFOLDED) for at, missed in enumerate(ranking.worst)))


def _missed(missed: Missed, path: str, opened: bool) -> Html:
    measured = tag("span", f"{CHOSEN_BY} {missed.ndcg:.1f}, {BASELINE} {missed.baseline:.1f}", class_="n")
    limit = largest_contribution(missed.why.first, missed.why.title)
    # A text may begin with "-", so it stands after "--".
    words = ("clickvec", "explain", f"--first={missed.above.title}", "--", path, missed.query, missed.below.title)
    return tag(
        "details",
        tag("summary", tag("b", text_of(missed.query)), " ", measured),
        tag("p", gap_sentence(missed.why)),
        _title("Too high (the other title)", missed.above, missed.why.first, limit),
        _title("Too low (this title)", missed.below, missed.why.title, limit),
        tag("p", tag("code", shlex.join(words), dir="ltr"), class_="command"),
        open=opened,
    )


def _title(name: str, ranked: Ranked, pair: Pair, limit: float) -> Html:
    return tag(
        "div",
        tag("h3", f"{name}: rank {ranked.rank:,}, grade {ranked.grade}, score {number(pair.score, 2)}"),
        tag("p", tag("span", "id ", tag("bdi", ranked.doc_id), ": ", class_="soft"), text_of(ranked.title)),
        chips("query", pair.query_words, limit),
        chips("title", pair.title_words, limit),
        class_="placed",
    )
