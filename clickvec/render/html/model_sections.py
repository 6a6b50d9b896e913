"""What is inside a model, for the report: keywords, topics of cells, near words, and the map of titles."""

from collections import Counter
from collections.abc import Iterable, Sequence

from clickvec.explanation.query_words import ReadQuery, WordUse
from clickvec.explanation.report import Report, WordNeighbours
from clickvec.explanation.title_map import TitleMap
from clickvec.explanation.topics import SIGNS, Group, Topic, Topics, TopicWord
from clickvec.render.html import svg
from clickvec.render.html.cells import cell_name, two_ways
from clickvec.render.html.markup import Html, joined, note, table, tag
from clickvec.render.html.word_chips import bar

TOPICS_SHOWN = 24  # cells with one of their signs
GROUPS_SHOWN = 12
TOPIC_WORDS = 6
LEAST = 5  # detections of a cell that is shown
CHANCE = 3  # a word that a cell detects fewer times is not named, unless there are no others


def words_section(report: Report) -> Html:
    """Keywords of queries, and words that hardly matter."""
    words = report.words
    sample = _sample(words.queries, report.queries, report.source)
    if not words.places:
        return note(f"The {report.source} have no words.")
    damped = (
        f"{words.unimportant_places / words.places:.0%} of their words are unimportant: leaving one out turns the "
        "vector of its query less than half as far as leaving out a word of it does on average."
    )
    unimportant = _uses("Unimportant words over the queries", words.unimportant, "unimportant")
    if not words.detects:
        return joined(
            note(f"This model does not read word by word, and so has no keywords. {sample}: {damped}"),
            tag("h3", "Most often unimportant"),
            unimportant,
        )
    found = (
        f"{words.keyword_places / words.places:.0%} of their words are keywords: at least four of the ten most active "
        "cells answer to the word."
    )
    keywords = _uses("Keywords over the queries", words.keywords, "keyword")
    return joined(
        note(f"{sample}: {found} {damped}"),
        tag("h3", "A sample of queries"),
        note("Keywords are bold and green, unimportant words grey and in brackets."),
        tag("ul", (tag("li", _read(query)) for query in words.examples if query.words), class_="sample"),
        tag(
            "div",
            tag("div", tag("h3", "Most frequent keywords"), keywords),
            tag("div", tag("h3", "Most often unimportant"), unimportant),
            class_="pair",
        ),
    )


def _sample(read: int, there: int, what: str) -> str:
    return f"Of all {there:,} {what}" if read == there else f"Of {read:,} {what}, drawn by chance from {there:,}"


def _read(query: ReadQuery) -> Html:
    marks = []
    for word, keyword, unimportant in zip(query.words, query.keywords, query.unimportant, strict=True):
        if keyword:
            marks.append(tag("b", word, class_="w p k", style="--a:.3"))
        elif unimportant:
            marks.append(tag("span", f"({word})", class_="w u"))
        else:
            marks.append(tag("span", word, class_="w"))
    return tag("span", marks, class_="words", dir="auto")


def _uses(caption: str, words: Sequence[WordUse], kind: str) -> Html:
    if not words:
        return note("No word is met often enough to tell.")
    counts = [use.keyword if kind == "keyword" else use.unimportant for use in words]
    most = max(counts)
    rows = [
        [use.word, tag("td", bar(count, most, False, 0, sign=False), class_="b"), f"{use.times:,}"]
        for use, count in zip(words, counts, strict=True)
    ]
    return table(caption, ["word", f"times {kind}", "times in all"], rows, numeric=(2,))


# --- topics ------------------------------------------------------------------------------------------------------


def topics_section(report: Report) -> Html:
    """Which words each cell answers to."""
    topics = report.topics
    if topics is None:
        return note("There are no topics to show: this model does not read word by word, or knows none of the queries.")
    dead, cells = len(topics.dead), len(topics.cells)
    alive = f"{dead:,} of the {cells:,} cells are dead." if dead else f"None of the {cells:,} cells is dead."
    each = " of each direction" if two_ways(topics.cells) else ""
    read = _sample(topics.texts, report.queries, report.source)
    about = note(
        f"{read}: in each the {topics.active} most active cells{each} are asked which words they detect; they "
        f"do {topics.detections:,} times. A cell that ends a query above zero (+) and one that ends it "
        f"below (−) are two topics. Lift: how much more often the cell detects the word than all cells do. {alive}"
    )
    caveat = note(
        "A cell is rarely one topic: it answers to words of several, and a topic is spread over several cells. "
        "docs/inside.md of clickvec has measures."
    )
    return joined(about, caveat, _groups(topics), _cells(topics))


def _groups(topics: Topics) -> Html:
    heading = tag("h3", "Cells that detect the same words")
    if not topics.groups:
        return joined(heading, note("No two cells detect the same words."))
    rows = [
        [
            ", ".join(_signed_name(topics, member.dimension, member.sign) for member in group.members),
            ", ".join(_group_words(topics, group)[:8]),
        ]
        for group in topics.groups[:GROUPS_SHOWN]
    ]
    shown = f", the {GROUPS_SHOWN} largest" if len(topics.groups) > GROUPS_SHOWN else ""
    return joined(heading, table(f"{len(topics.groups):,} groups{shown}", ["cells", "words"], rows, class_="wide"))


def _group_words(topics: Topics, group: Group) -> Sequence[str]:
    """The words of a group that its cells detect often enough together, if there are such."""
    times: Counter[str] = Counter()
    for member in group.members:
        times.update({one.word: one.count for one in topics.cells[member.dimension].signs[member.sign].words})
    return [word for word in group.words if times[word] >= CHANCE] or group.words


def _often(topic: Topic) -> list[TopicWord]:
    return [word for word in topic.words if word.count >= CHANCE]


def _cells(topics: Topics) -> Html:
    signed = [
        (cell, sign, cell.signs[sign])
        for cell in topics.cells
        for sign in SIGNS
        if cell.signs[sign].detections >= LEAST
    ]
    if not signed:
        return note(f"No cell detects {LEAST} words.")
    chosen = sorted(signed, key=lambda one: (not _often(one[2]), -one[2].specificity))[:TOPICS_SHOWN]
    rows = [
        [
            _signed_name(topics, cell.dimension, sign),
            _topic_words(topic),
            f"{topic.detections:,}",
            f"{topic.specificity:.2f}",
        ]
        for cell, sign, topic in chosen
    ]
    about = (
        "Specificity: 1 for a cell that detects one word again and again, 0 for one that detects no word twice. Words "
        f"that a cell detects fewer than {CHANCE} times are not shown where there are others."
    )
    caption = f"The {len(chosen)} most specific of {len(signed):,} cells with a sign"
    head = ["cell", "words, with their lift", "detections", "specificity"]
    return joined(
        tag("h3", "The most specific cells"), note(about), table(caption, head, rows, numeric=(2, 3), class_="wide")
    )


def _topic_words(topic: Topic) -> Html:
    return _listed((word.word, f"{word.lift:.0f}×") for word in (_often(topic) or topic.words)[:TOPIC_WORDS])


def _listed(pairs: Iterable[tuple[str, str]]) -> Html:
    """Words, each with its number, by commas."""
    found = [joined(tag("bdi", word), " ", tag("small", number)) for word, number in pairs]
    return joined(*(joined(", " if at else None, one) for at, one in enumerate(found)))


def _signed_name(topics: Topics, dimension: int, sign: str) -> str:
    cell = topics.cells[dimension]
    return cell_name(cell.cell, cell.way, two_ways(topics.cells), sign)


# --- what it learned ---------------------------------------------------------------------------------------------


def near_section(report: Report) -> Html:
    """WordNeighbours of frequent words."""
    if not report.near:
        return note("No word is met often enough to ask for its neighbours.")
    what = "keywords" if report.words.detects else "words"
    among = _sample(report.near_titles, report.catalogue, "different titles").removeprefix("Of ")
    about = note(
        f"For the most frequent {what} of the queries, the words and titles whose vectors are nearest, with their "
        f"cosine, among those of {among}. A word is read as a query of one word; words in other letters share no "
        "letter trigram with it, so that it is not their letters that bring them near."
    )
    return joined(about, tag("div", (_near(near) for near in report.near), class_="cards"))


def _near(found: WordNeighbours) -> Html:
    near = found.near
    words, others = (
        _listed((one.word, f"{one.cosine:.2f}") for one in nearest.words) for nearest in (near, found.unlike)
    )
    titles = (tag("li", tag("bdi", one.title), " ", tag("small", f"{one.cosine:.2f}")) for one in near.titles[:3])
    return tag(
        "article",
        tag("h3", tag("bdi", near.word)),
        tag("p", words),
        tag("p", tag("span", "in other letters: ", class_="soft"), others) if found.unlike.words else None,
        tag("ul", titles),
    )


def map_section(report: Report) -> Html:
    """Titles in the plane, and what their neighbourhoods have in common."""
    drawn = report.map
    if drawn is None:
        install = tag("code", "pip install 'clickvec[map]'")
        return note("The map is left out because scikit-learn is not installed. To get it: ", install, ".")
    if not drawn.titles:
        return note("There are not enough titles that the model can read to draw a map.")
    among = _sample(len(drawn.titles), report.catalogue, "different titles").removeprefix("Of ")
    about = note(
        f"A map of {among}: titles that lie together are alike to the model. The axes mean nothing, and nor do "
        "distances between far groups. Colours and shapes tell neighbourhoods apart, and mean nothing else; each has "
        "the word on it that tells its titles best from the others. Rest on a point to read its title."
    )
    centres = [group.centre for group in drawn.neighbourhoods]
    names = [group.words[0] if group.words else "" for group in drawn.neighbourhoods]
    drawing = svg.scatter(drawn.points, drawn.titles, drawn.neighbourhood_of, centres, names, "Map of titles")
    return joined(about, tag("figure", drawing), _neighbourhoods(drawn))


def _neighbourhoods(drawn: TitleMap) -> Html:
    both = two_ways(cell for group in drawn.neighbourhoods for cell in group.cells)
    rows = [
        [
            ", ".join(group.words),
            f"{group.titles:,}",
            ", ".join(cell_name(at.cell, at.way, both, "+" if at.difference > 0 else "-") for at in group.cells),
            tag("td", (tag("div", tag("bdi", title)) for title in group.examples)),
        ]
        for group in drawn.neighbourhoods
    ]
    caption = "Neighbourhoods: their words, the cells that stand out above (+) or below (−) all titles, and two titles"
    return table(caption, ["words", "titles", "cells", "for example"], rows, numeric=(1,))
