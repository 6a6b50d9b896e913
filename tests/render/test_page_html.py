"""Pages are whole and self-contained, say what the data says, and hold whatever text a query or a title may be."""

import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import look, needs_chromium, on_paper
from command import wrong_usage
from hypothesis import example, given
from hypothesis import strategies as st
from markup import Element, check_page, parse
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.config import RECURRENT
from clickvec.explanation import METHODS, explain_pair, read
from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.explainer import Rank
from clickvec.explanation.keywords import Keywords, Rule, keywords, verdicts
from clickvec.explanation.model_comparison import compare_models
from clickvec.explanation.reading import Reading
from clickvec.explanation.why_not import why_not
from clickvec.model.encoder import Encoder
from clickvec.render.html import explanation_page, svg
from clickvec.render.html.cells import MAPS, keyword_table
from clickvec.render.html.markup import Html, joined, table, tag
from clickvec.render.html.word_chips import number, signed

QUERY, TITLE = TEXTS[2], TEXTS[3]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><h1>mine</h1>",
    "'); DROP & < > &amp; &#60;",
    "</title></bdi><b>bold",
)
FOREIGN = ("上海 酒店 预订", "فنادق في شنغهاي", "מלון בשנגחאי", "हिन्दी होटल", "👩‍👩‍👧 café naïve")


def readings(encoder: Encoder, query: str, title: str) -> tuple[Reading | None, Reading | None]:
    if encoder.model.tower.kind not in RECURRENT:
        return None, None
    return read(encoder, "query", query), read(encoder, "title", title)


def draw(encoder: Encoder, query: str = QUERY, title: str = TITLE, **more: Any) -> str:  # noqa: ANN401
    return explanation_page(explain_pair(encoder, query, title), *readings(encoder, query, title), **more)


def section(root: Element, name: str) -> Element:
    (found,) = [one for one in root.all("section") if one.attributes["aria-labelledby"] == name]
    return found


# --- the builders ------------------------------------------------------------------------------------------------


@given(st.text(), st.text())
def test_text_comes_out_as_it_went_in(text: str, value: str) -> None:
    (element,) = parse(tag("p", text, tag("b", text), title=value)).children
    assert isinstance(element, Element)
    assert element.text == text * 2
    assert element.attributes == {"title": value}
    assert [child.name for child in element.children if isinstance(child, Element)] == ["b"]


def test_markup_is_not_escaped_twice_and_none_is_left_out() -> None:
    assert tag("p", joined("a < b", None, [tag("b", "&")]), id=None, open=False) == "<p>a &lt; b<b>&amp;</b></p>"
    assert tag("details", open=True, aria_label='"x"') == '<details open aria-label="&quot;x&quot;"></details>'
    assert tag("br") == "<br>"
    assert isinstance(joined("a"), Html)


def test_a_table_has_heads_for_rows_and_columns() -> None:
    root = parse(table("Caption", ["word", "count"], [["<a>", "1"], ["b", tag("td", "2", class_="x")]], numeric=[1]))
    assert root.all("table")[0].rows() == [["word", "count"], ["<a>", "1"], ["b", "2"]]
    assert [head.attributes["scope"] for head in root.all("th")] == ["col", "col", "row", "row"]
    assert [cell.attributes.get("class") for cell in root.all("td")] == ["n", "x"]
    (box,) = root.all("div", "scroll")
    assert (box.attributes["tabindex"], box.attributes["aria-label"]) == ("0", "Caption")


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.5, "+0.50"), (-0.5, "−0.50"), (0.001, "0.00"), (-0.001, "0.00"), (0.0, "0.00"), (12, "+12.00")],
)
def test_numbers_have_a_sign_unless_they_round_to_nothing(value: float, said: str) -> None:
    assert signed(value) == said
    assert number(value) == said.removeprefix("+")
    assert number(None) == "–"


# --- drawings ----------------------------------------------------------------------------------------------------


def painted(drawing: str, rows: int, columns: int) -> np.ndarray:
    """The shades of a heat map, read off its paths."""
    found = np.zeros((rows, columns), int)
    for path in parse(drawing).all("path"):
        sign = 1 if path.attributes["class"] == "p" else -1
        shade = sign * round(float(path.attributes["stroke-opacity"] or 0) * svg.LEVELS)
        x, y = 0, 0
        assert (path.attributes["d"] or "").startswith("M0 .5")
        for across, down, width in re.findall(r"m(-?\d+) ?(-?\d+)h(\d+)", path.attributes["d"] or ""):
            x, y = x + int(across), y + int(down)
            assert not found[y, x : x + int(width)].any()  # nothing is painted twice
            found[y, x : x + int(width)] = shade
            x += int(width)
    return found


@given(st.integers(1, 6), st.integers(1, 20), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]))
def test_a_heat_map_paints_each_number_on_its_shade(rows: int, columns: int, seed: int, centre: float) -> None:
    values = np.random.default_rng(seed).normal(centre, 0.2, (rows, columns))
    limit = float(np.abs(values - centre).max())
    drawing = svg.heat(values, "x", centre)
    expected = np.rint((values - centre) / limit * svg.LEVELS)
    np.testing.assert_array_equal(painted(drawing, rows, columns), expected)
    assert f'viewBox="0 0 {columns} {rows}"' in drawing


def test_a_heat_map_of_nothing_but_the_middle_is_blank() -> None:
    assert not parse(svg.heat(np.full((2, 3), 0.5), "x", 0.5)).all("path")


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
@example(0.0, 5e-324)
@example(1e6, 1e-9)
def test_ticks_are_round_few_and_around_the_values(low: float, span: float) -> None:
    high = low + span
    ticks = svg.nice_ticks(low, high)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(set(ticks)) == len(ticks) <= 7


def test_a_line_chart_keeps_names_apart_and_takes_one_epoch() -> None:
    drawing = parse(svg.line_chart({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": [3.0, 2.01]}, [1, 2], "x", "epoch"))
    heights = sorted(float(text.attributes["y"] or 0) for text in drawing.all("text") if text.text in "abc")
    assert min(np.diff(heights)) > 15
    one = parse(svg.line_chart({"loss": [0.5]}, [1], "x", "epoch"))
    assert len(one.all("circle")) == 1
    assert "nan" not in str(one.all("circle")[0].attributes)


def test_a_histogram_has_a_bar_for_each_count() -> None:
    drawing = parse(svg.histogram({"m": [0, 3], "b": [1, 0]}, ["0", "50", "100"], "x", "y"))
    assert [bar.text for bar in drawing.all("rect")] == ["m, 50 to 100: 3", "b, 0 to 50: 1"]
    tall, short = (float(bar.attributes["height"] or 0) for bar in drawing.all("rect"))
    assert tall == pytest.approx(3 * short, rel=0.01)
    assert not parse(svg.histogram({"m": [0, 0]}, ["0", "50", "100"], "x", "y")).all("rect")


def test_neighbours_get_different_colours() -> None:
    centres = [(float(x), 0.0) for x in range(20)]
    colours = svg.far_colours(centres)
    assert set(colours) == set(range(svg.COLOURS))
    assert all(one != other for one, other in pairwise(colours))


# --- the page of an explanation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_a_page_for_every_tower(fields: dict[str, Any]) -> None:
    encoder = Encoder(tiny(**fields))
    explanation = explain_pair(encoder, QUERY, TITLE)
    page = draw(encoder, model="tiny")
    root = check_page(page)
    assert root.all("h1")[0].text == QUERY
    assert f"{explanation.score:.3f}".replace("-", "−") in root.all("header")[0].text
    lines = [
        [word.all("span")[0].text for word in line.all("span", "w")] for line in section(root, "why").all("p", "words")
    ]
    assert lines == [[word.word for word in words] for words in (explanation.query_words, explanation.title_words)]
    reads = fields["kind"] in RECURRENT
    assert ("gates" in page) == reads
    drawn = [svg.attributes["aria-label"] for svg in root.all("svg", "heat") if "of the query" in str(svg.attributes)]
    ways = ("left to right", "right to left") if fields["kind"] == "bilstm" else ("left to right",)
    maps = [name for key, (name, _) in MAPS.items() if _has(fields, key)]
    assert drawn == [f"{name} of the query, {way}" for way in ways for name in maps if reads]


def _has(fields: dict[str, Any], key: str) -> bool:
    if fields["kind"] == "rnn":
        return key == "output"
    return key != "forget_gate" or bool(fields.get("forget_gate"))


def test_the_table_of_words_says_what_the_explanation_says() -> None:
    encoder = Encoder(tiny("bilstm"))
    explanation = explain_pair(encoder, QUERY, TITLE)
    root = check_page(draw(encoder))
    tables = section(root, "words").all("table")
    for words, found in zip((explanation.query_words, explanation.title_words), tables, strict=True):
        head, *rows = found.rows()
        assert head[:7] == ["word", "contribution", "score without it", "effect", "input gate", "cells →", "cells ←"]
        for word, row in zip(words, rows, strict=True):
            counts = ["–" if count is None else str(count) for count in word.detected_by.values()]
            expected = [word.word, signed(word.contribution), number(word.without, 3), number(word.effect, 3)]
            assert row[:7] == [*expected, number(word.gate), *counts]
            assert ("keyword" in row[-1]) == bool(word.keyword)
            assert ("unimportant" in row[-1]) == word.unimportant


def test_the_matrix_of_links_is_all_there() -> None:
    encoder = Encoder(tiny("lstm"))
    explanation = explain_pair(encoder, QUERY, TITLE)
    matrix = section(check_page(draw(encoder)), "links").all("table", "grid")[0].rows()
    assert explanation.links
    assert matrix[0][1:] == [word.word for word in explanation.title_words]
    for word, row, shown in zip(explanation.query_words, explanation.links, matrix[1:], strict=True):
        assert shown == [word.word, *map(signed, row)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_described(method: str) -> None:
    encoder = Encoder(tiny("lstm"))
    page = explanation_page(explain_pair(encoder, QUERY, TITLE, method=method), *readings(encoder, QUERY, TITLE))
    assert "Under each word its contribution" in section(check_page(page), "why").text


@pytest.mark.parametrize("kind", ["lstm", "bilstm", "dssm"])
@pytest.mark.parametrize(
    ("query", "title"), [("", TITLE), (QUERY, ""), ("", ""), ("hotels", "hotels"), ("ЖЖЖ", TITLE), (QUERY, "ЖЖЖ ЩЩЩ")]
)
def test_pages_of_texts_without_words_or_that_cannot_be_read(kind: str, query: str, title: str) -> None:
    encoder = Encoder(tiny(kind))
    why = section(check_page(draw(encoder, query, title)), "why").text
    if not query or not title:
        assert f"The {'title' if query else 'query'} has no words: it has no vector, and " in why
    elif "ЖЖЖ" in query + title:
        assert f"The {'query' if 'ЖЖЖ' in query else 'title'} has no letter trigram that the model knows: it has" in why


@pytest.mark.parametrize("text", [*HOSTILE, *FOREIGN])
def test_any_text_is_text_and_nothing_else(text: str) -> None:
    encoder = Encoder(tiny("bilstm"))
    other = why_not(encoder, text, text, "hotels in shanghai")
    root = check_page(
        draw(encoder, text, text, why_not=other, versus=compare_models({text: encoder}, text, text), model=text)
    )
    assert root.all("h1")[0].text == " ".join(text.split())
    assert text.lower().split()[0] in section(root, "why").text


def test_half_a_character_of_a_broken_argument_is_replaced() -> None:
    page = draw(Encoder(tiny("lstm")), "hotels \udce9", "in shanghai")
    page.encode()
    assert check_page(page).all("h1")[0].text == "hotels ?"


def test_why_not_is_on_the_page_when_it_is_asked_for() -> None:
    encoder = Encoder(tiny("bilstm", shared_tower=True))  # so that a text has the cosine 1 with itself
    found = why_not(encoder, QUERY, TITLE, QUERY)
    assert found.gap > 0
    root = section(check_page(draw(encoder, why_not=found)), "why-not")
    shares = root.all("table")[0].rows()
    assert shares[1:] == [
        [share.word, signed(share.first), signed(share.title), signed(share.difference)] for share in found.words
    ]
    steps = [step.text for step in root.all("ol")[0].all("li")] if found.path else []
    assert len(steps) == len(found.path)
    for edit, step in zip(found.path, steps, strict=True):
        assert number(edit.score, 3) in step
        assert (edit.put or edit.out or "") in step
    swapped = why_not(encoder, QUERY, QUERY, TITLE)
    assert swapped.gap <= 0
    assert (
        "nothing that stands between"
        in section(check_page(draw(encoder, QUERY, QUERY, why_not=swapped)), "why-not").text
    )


def test_a_title_that_the_user_names_is_not_called_the_first() -> None:
    encoder = Encoder(tiny("bilstm", shared_tower=True))
    found = why_not(encoder, QUERY, TITLE, QUERY)
    first, other = (
        section(check_page(draw(encoder, why_not=found, first_hit=first)), "why-not").text for first in (True, False)
    )
    assert f"This title scores {number(found.title.score, 3)}, the one that ranked first 1.000" in first
    assert f"This title scores {number(found.title.score, 3)}, the other title 1.000" in other
    assert "first" not in other.replace("best first", "")
    assert found.path
    end = f"{number(found.path[-1].score, 3)} and is {'' if found.reached else 'not '}past the"
    for text, name in ((first, "first"), (other, "other")):
        assert f"the edited title scores {end} {name} title, which scores 1.000:" in text


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (None, None),
        (Rank(1_234, 5_000, "t<7>", "t0"), "1,234rank among 5,000 titles, id t<7>"),
        (Rank(3, 5, None, "t0"), "3would be its rank among 5 titles; it is not in the index"),
        (Rank(None, 5, "t1", None), "–no rank among 5 titles: the query or the title has no vector"),
    ],
)
def test_the_rank_in_an_index(rank: Rank | None, said: str | None) -> None:
    figures = check_page(draw(Encoder(tiny("lstm")), rank=rank)).all("ul", "figures")[0].all("li")
    assert [figure.text for figure in figures[1:]] == ([said] if said else [])


def test_contributions_of_a_long_text_are_called_an_estimate() -> None:
    encoder, long = Encoder(tiny("lstm")), " ".join(["hotels in shanghai"] * 3)
    some, others = "hotels in shanghai", "cheap hotels york"
    short = section(check_page(draw(encoder, some, others)), "why").text
    assert "averaged over all orders in which the words could have been put in; over each text" in short
    for query, title, which in ((some, long, "title"), (long, others, "query"), (long, long, "query and of the title")):
        text = section(check_page(draw(encoder, query, title)), "why").text
        assert f"(of the {which}, with more than 8 words, over a sample of the orders, which puts a word off" in text


def test_a_figure_is_a_png(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model", "lstm")
    said = wrong_usage("explain", model, QUERY, TITLE, "--png", tmp_path / "gates.svg")
    assert "ends in .png, not gates.svg" in " ".join(said.split())


def test_models_side_by_side() -> None:
    encoders = {"two ways": Encoder(tiny("bilstm")), "rnn": Encoder(tiny("rnn")), "bag": Encoder(tiny("dssm"))}
    encoders["short"] = Encoder(tiny("rnn", max_words=3))
    found = compare_models(encoders, QUERY, TITLE)
    root = section(check_page(draw(encoders["two ways"], versus=found)), "models")
    scores, *tables = root.all("table")
    assert [row[0] for row in scores.rows()[1:]] == list(encoders)
    names = [[row[0] for row in one.rows()[1:]] for one in tables]  # one that reads other words has its own table
    together = [
        "two ways left to right",
        "two ways right to left",
        "two ways keyword",
        "rnn left to right",
        "rnn keyword",
    ]
    assert names == [together, ["short left to right", "short keyword"]] * 2
    assert "bag does not read word by word" in root.text


def test_the_papers_keyword_table_as_it_prints_it() -> None:
    words = ("hotels", "in", "shanghai")
    counts = {"left to right": (None, 0, 7), "right to left": (6, 0, None)}
    found = Keywords(words, 10, counts, {}, verdicts(counts))
    (printed,) = parse(keyword_table("Query", [("", found)])).all("table")
    assert printed.rows() == [
        ["", "hotels", "in", "shanghai"], ["left to right", "–", "0", "7"], ["right to left", "6", "0", "–"],
        ["keyword", "yes", "no", "yes"],
    ]  # fmt: skip
    assert [cell.text for cell in printed.all("td", "hit")] == ["7", "6"]


def test_the_rule_for_keywords_is_that_of_the_page() -> None:
    encoder, rule = Encoder(tiny("bilstm")), Rule(active=5, threshold=0.5, share=0.8)
    made = explain_pair(encoder, QUERY, TITLE, rule=rule)
    root = check_page(explanation_page(made, *readings(encoder, QUERY, TITLE), rule=rule))
    told = section(root, "keywords")
    assert "How many of the 5 most active cells" in told.text
    assert "at least 0.5 times what each word" in told.text
    assert "4 of 5, in each direction" in told.text
    for printed, side, text in zip(told.all("table"), ("query", "title"), (QUERY, TITLE), strict=True):
        voted = keywords(encoder, text, side, rule)
        *counts, verdict = printed.rows()[1:]
        assert [row[1:] for row in counts] == [
            ["–" if count is None else str(count) for count in row] for row in voted.counts.values()
        ]
        assert verdict[1:] == ["yes" if said else "no" for said in voted.verdicts]
        enough = [count for row in voted.counts.values() for count in row if count is not None and count >= 4]
        assert len(printed.all("td", "hit")) == len(enough)
    assert len(section(root, "active").all("table")[0].rows()) == 1 + 5


def test_a_page_stays_small_with_many_cells() -> None:
    encoder = Encoder(tiny("bilstm", cells=96, forget_gate=True))
    assert len(draw(encoder, versus=compare_models({"a": encoder}, QUERY, TITLE)).encode()) < 300_000


def test_what_raises_the_score_and_what_lowers_it_is_said_first() -> None:
    given = explain_pair(Encoder(tiny("lstm")), "hotels in", "hotels york cheap")

    def with_contributions(words: tuple[Any, ...], *numbers: float) -> tuple[Any, ...]:
        return tuple(dataclasses.replace(word, contribution=n) for word, n in zip(words, numbers, strict=True))

    made: Pair = dataclasses.replace(
        given,
        query_words=with_contributions(given.query_words, 0.9, 0.1),
        title_words=with_contributions(given.title_words, 0.8, 0.7, -0.5),
    )
    said = section(check_page(explanation_page(made, None, None)), "why").all("p")[0].text
    assert said == (
        "Most of the score comes from these words: of the query hotels (+0.90); of the title hotels (+0.80) and york "
        "(+0.70). In the title cheap (−0.50) lowers it."
    )


# --- in a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_page() -> str:
    encoder = Encoder(tiny("bilstm", cells=96, forget_gate=True))
    title = f"{TITLE} {HOSTILE[1]} {FOREIGN[1]} donaudampfschifffahrtsgesellschaftskapitänsmütze"
    other = why_not(encoder, QUERY, title, QUERY)
    return draw(encoder, QUERY, title, why_not=other, versus=compare_models({"a": encoder, "b": encoder}, QUERY, title))


@needs_chromium
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_a_phone_and_a_screen_and_asks_for_nothing(whole_page: str, width: int, tmp_path: Path) -> None:
    seen = look(whole_page, tmp_path, width)
    assert seen["width"] == width
    assert seen["wide"] == []
    assert seen["scroll"] == width
    assert seen["asked"] == ["/page.html"]
    assert (seen["scripts"], seen["images"]) == (0, 0)
    assert seen["headings"] == whole_page.count("<h2")
    assert seen["drawings"] == seen["all_drawings"] > 20
    assert "onerror=alert(1)" in seen["text"]


@needs_chromium
def test_it_is_dark_at_night_and_never_on_paper(whole_page: str, tmp_path: Path) -> None:
    assert look(whole_page, tmp_path, dark=True)["background"] == "rgb(18, 25, 26)"
    paper = look(on_paper(whole_page), tmp_path, width=690, dark=True)
    assert (paper["background"], paper["nav"], paper["wide"]) == ("rgb(255, 255, 255)", 0, [])
    assert paper["scroll"] == 690
