"""Sections of the report about the inside of a model: keywords, topics of cells, near words, map of titles."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clickvec.explanation.report import ReadQuery, Report, WordNeighbours, WordUse
from clickvec.explanation.title_map import TitleMap
from clickvec.explanation.topics import Topic, Topics
from clickvec.render.html.markup import Html, joined, note, table, tag
from clickvec.render.html.word_chips import bar_cells, listed
from clickvec.render.labels import cell_name

TOPICS_SHOWN = 24  # cells with one of their signs
TOPIC_WORDS = 6
MAP_SIZE, MAP_EDGE = (620, 440), 16
COLOURS = 6  # c0 to c5 of style.css
# Six shapes, so that groups of one colour differ, and all groups in black and white.
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "M-4-4h8v8h-8z", "M0-5.4L5 4H-5z", "M0-5.6L5.6 0L0 5.6L-5.6 0z",
    "M0 5.4L5-4H-5z", "M-1.6-5h3.2v3.4H5v3.2H1.6V5h-3.2V1.6H-5v-3.2h3.4z",
)  # fmt: skip


def words_section(report: Report) -> Html:
    """Return the keywords of queries, and the words that hardly matter."""
    words = report.words
    if not words.places:
        return note(f"The {report.source} have no words.")
    sample = _sample(words.queries, report.queries, report.source)
    damped = (
        f"{words.unimportant_places / words.places:.0%} of the words are unimportant: they have less than half of the "
        "mean effect of the words of their query."
    )
    unimportant = _uses("Most often unimportant", words.unimportant, "unimportant")
    if not words.detects:
        about = f"{sample}. This model does not read word by word, so it has no keywords. {damped}"
        return joined(note(about), unimportant)
    found = (
        f"{words.keyword_places / words.places:.0%} of the words are keywords: 4 or more of the 10 most active cells "
        "detect them."
    )
    keywords = _uses("Most frequent keywords", words.keywords, "keyword")
    return joined(
        note(f"{sample}. {found} {damped}"),
        tag("h3", "Examples"),
        note("Keywords are bold and green, unimportant words are grey and in brackets."),
        tag("ul", (tag("li", _query(query)) for query in words.examples if query.words), class_="sample"),
        tag("div", keywords, unimportant, class_="pair"),
    )


def _sample(read: int, there: int, things: str) -> str:
    return f"All {there:,} {things}" if read == there else f"A random sample of {read:,} of {there:,} {things}"


def _query(query: ReadQuery) -> Html:
    marks = []
    for word, keyword, unimportant in zip(query.words, query.keywords, query.unimportant, strict=True):
        if keyword:
            marks.append(tag("b", word, class_="w p k", style="--a:.3"))
        else:
            marks.append(tag("span", f"({word})" if unimportant else word, class_="w u" if unimportant else "w"))
    return tag("span", marks, class_="words", dir="auto")


def _uses(heading: str, words: Sequence[WordUse], kind: str) -> Html:
    bars = bar_cells([use.counted for use in words], 0, sign=False)
    rows = [[use.word, bar, f"{use.times:,}"] for use, bar in zip(words, bars, strict=True)]
    head = ["word", f"times {kind}", "times in all"]
    content = table(f"Words by how often they are {kind}", head, rows, numeric=(2,))
    return tag("div", tag("h3", heading), content if rows else note("No word occurs often enough."))


# --- topics ------------------------------------------------------------------------------------------------------


def topics_section(report: Report) -> Html:
    """Return the words that each cell responds to."""
    topics = report.topics
    if topics is None:
        return note("There are no topics: this model does not read word by word, or knows none of the queries.")
    cells = f"{len(topics.dead):,} of {len(topics.topics) // 2:,} cells are dead"
    about = (
        f"{_sample(topics.texts, report.queries, report.source)}. In each, the {topics.active} most active cells of "
        f"each direction detect words, {topics.detections:,} times in all. A cell that ends a query above zero (+) and "
        "one that ends it below (−) are two topics. Lift: how much more often the cell detects the word than all cells "
        f"do. {cells}. A cell rarely stands for one topic, and a topic is spread over several cells."
    )
    return joined(note(about), _cells(topics))


def _cells(topics: Topics) -> Html:
    used = [topic for topic in topics.topics if topic.detections]
    shown = sorted(used, key=lambda topic: topic.worth, reverse=True)[:TOPICS_SHOWN]
    cells = [
        [
            _name(topic),
            listed(_with_number(word.word, f"{word.lift:.0f}×") for word in topic.words[:TOPIC_WORDS]),
            f"{topic.detections:,}",
            f"{topic.specificity:.2f}",
        ]
        for topic in shown
    ]
    about = "Specificity: 1 if a cell always detects the same word, 0 if it detects no word twice."
    head = ["cell", "words (lift)", "detections", "specificity"]
    caption = f"{len(shown):,} of {len(used):,} signed cells"
    return joined(
        tag("h3", "The most specific cells"), note(about), table(caption, head, cells, numeric=(2, 3), class_="wide")
    )


def _name(topic: Topic) -> str:
    return cell_name(topic.cell, topic.way, topic.sign).replace("-", "−")


def _with_number(text: str, number: str) -> Html:
    return joined(tag("bdi", text), " ", tag("small", number))


# --- near words, and the map -------------------------------------------------------------------------------------


def near_section(report: Report) -> Html:
    """Return the neighbours of frequent words."""
    if not report.near:
        return note("No word occurs often enough.")
    kind = "keywords" if report.words.detects else "words"
    titles = _sample(report.near_titles, report.catalogue, "different titles")
    about = (
        f"The words and titles nearest to the most frequent {kind} of the queries, with their cosine. Searched: "
        f"{titles}. A word is read as a query of one word. Words spelled differently share no letter trigram with it, "
        "so the model has learned that they are similar."
    )
    return joined(note(about), tag("div", (_near(near) for near in report.near), class_="cards"))


def _near(neighbours: WordNeighbours) -> Html:
    near = neighbours.near
    words, others = (
        listed(_with_number(one.word, f"{one.cosine:.2f}") for one in nearest.words)
        for nearest in (near, neighbours.unlike)
    )
    return tag(
        "article",
        tag("h3", tag("bdi", near.word)),
        tag("p", words),
        tag("p", tag("span", "spelled differently: ", class_="soft"), others) if neighbours.unlike.words else None,
        tag("ul", (tag("li", _with_number(one.title, f"{one.cosine:.2f}")) for one in near.titles[:3])),
    )


def map_section(report: Report) -> Html:
    """Return the map of titles, and what the titles of each neighbourhood have in common."""
    drawn = report.map
    if drawn is None:
        install = tag("code", "pip install 'clickvec[map]'")
        return note("The map is left out because scikit-learn is not installed. To get it: ", install, ".")
    if not drawn.titles:
        return note("There are not enough titles that the model can read to draw a map.")
    about = (
        f"{_sample(len(drawn.titles), report.catalogue, 'different titles')}. Titles that are close together are "
        "similar to the model. The axes, and the distances between distant groups, have no meaning. Colours and shapes "
        "only tell neighbourhoods apart. The label of a neighbourhood is its most characteristic word. Point at a mark "
        "to read its title."
    )
    return joined(note(about), tag("figure", _scatter(drawn)), _neighbourhoods(drawn))


def _scatter(drawn: TitleMap) -> Html:
    """Return the titles as marks with tooltips. Each neighbourhood has a colour, a shape, and a word at its centre."""
    low, high = drawn.points.min(axis=0), drawn.points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)

    def placed(point: ArrayLike) -> tuple[float, float]:
        x, y = MAP_EDGE + (np.asarray(point) - low) / span * (np.array(MAP_SIZE) - 2 * MAP_EDGE)
        return float(x), float(y)

    children = []
    for point, title, group in zip(drawn.points, drawn.titles, drawn.neighbourhood_of, strict=True):
        shape = _SHAPES[(group + group // COLOURS) % len(_SHAPES)]
        move = "translate({:.1f} {:.1f})".format(*placed(point))
        children.append(tag("path", tag("title", title), d=shape, transform=move, class_=f"c{group % COLOURS}"))
    for neighbourhood in drawn.neighbourhoods:
        x, y = placed(neighbourhood.centre)
        x = min(max(x, 50.0), MAP_SIZE[0] - 50.0)
        name = neighbourhood.words[0] if neighbourhood.words else ""
        children.append(tag("text", name, x=f"{x:.1f}", y=f"{y + 4:.1f}", text_anchor="middle", class_="name"))
    box = f"0 0 {MAP_SIZE[0]} {MAP_SIZE[1]}"
    return tag("svg", children, viewBox=box, class_="drawing", role="img", aria_label="Map of titles")


def _neighbourhoods(drawn: TitleMap) -> Html:
    rows = [
        [
            ", ".join(group.words),
            f"{group.titles:,}",
            tag("td", (tag("div", tag("bdi", title)) for title in group.examples)),
        ]
        for group in drawn.neighbourhoods
    ]
    caption = "Neighbourhoods: their words, and two titles"
    return table(caption, ["words", "titles", "examples"], rows, numeric=(1,))
