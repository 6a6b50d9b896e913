"""The queries that a model ranks worst, each with a title that ranks too high and one that ranks too low."""

import shlex

from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.ranking import BASELINE, MEASURE, Missed, Ranked, Ranking
from clickvec.render.html.markup import Html, joined, note, tag, text_of
from clickvec.render.html.word_chips import chips, listed, named, number, signed
from clickvec.render.labels import counted, largest_contribution, merged

UNFOLDED = 3  # queries at the top of the list
NAMED = 2  # query words in the sentence
NOTABLE = 0.01  # the smallest difference that is named
SAME = 1e-6  # scores this close are equal: their last digits depend on the batch


def worst_section(ranking: Ranking, path: str) -> Html:
    """Return why each of these queries went wrong. `path` is the model folder, for the commands shown."""
    if not ranking.imperfect:
        return tag("p", f"There are none: every query has an {MEASURE} of 100.")
    if not ranking.worst:
        return note(f"{counted(ranking.imperfect, 'query is', 'queries are')} not perfect; none is shown.")
    about = (
        f"{len(ranking.worst):,} of {counted(ranking.imperfect, 'query', 'queries')} whose {MEASURE} is below 100, "
        "worst first. Each shows the first title that ranks above a better one, and the best title below it. The "
        "number under a word is its contribution to the score: green raises it, red lowers it. The command explains "
        "both titles in full."
    )
    return joined(note(about), (_missed(missed, path, at < UNFOLDED) for at, missed in enumerate(ranking.worst)))


def _missed(missed: Missed, path: str, opened: bool) -> Html:
    measured = tag("span", f"{MEASURE} {missed.ndcg:.1f}, {BASELINE} {missed.baseline:.1f}", class_="n")
    limit = largest_contribution(missed.why.first, missed.why.title)
    # A text may begin with "-", so it stands after "--".
    words = ("clickvec", "explain", f"--first={missed.above.title}", "--", path, missed.query, missed.below.title)
    return tag(
        "details",
        tag("summary", tag("b", text_of(missed.query)), " ", measured),
        tag("p", sentence(missed)),
        _title("Too high", missed.above, missed.why.first, limit),
        _title("Too low", missed.below, missed.why.title, limit),
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


def sentence(missed: Missed) -> Html:
    """Return why the better title ranks lower, in a sentence or two."""
    why, ranks = missed.why, f"The title at rank {missed.above.rank:,} scores"
    unknown = [word.word for word in why.title.query_words if not word.known]
    told: list[Html] = []
    if why.gap < SAME:
        told.append(joined("Both titles have the same score; their ids decide the order."))
    else:
        told.append(joined(f"{ranks} {number(why.gap)} more than the better title at rank {missed.below.rank:,}."))
        shares = [share for share in why.words if share.difference >= NOTABLE]
        shares = sorted(shares, key=lambda share: -share.difference)[:NAMED]
        if shares:
            words = (
                joined(tag("b", tag("bdi", one.word)), f" ({signed(one.first)} instead of {signed(one.title)})")
                for one in shares
            )
            told.append(joined(" It gets more from ", listed(words), "."))
        burdens = [word for word in merged(why.burdens, NAMED) if word[1] <= -NOTABLE]
        if burdens:
            told.append(joined(" The better title loses score by ", listed(named(*word) for word in burdens), "."))
    if unknown:
        told.append(joined(" The model knows no letter trigram of ", tag("b", tag("bdi", ", ".join(unknown))), "."))
    return joined(told)
