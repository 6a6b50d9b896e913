"""Pages are whole and self-contained, say what the data says, and hold whatever text a query or a title may be."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import look, needs_chromium, on_paper
from command import wrong_usage
from hypothesis import given
from hypothesis import strategies as st
from markup import Element, check_page, parse
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.explanation import METHODS, Explanation, explain
from clickvec.explanation.explainer import Rank
from clickvec.explanation.title_map import TitleMap
from clickvec.model.encoder import Encoder
from clickvec.render.html import model_sections
from clickvec.render.html.explanation_page import explanation_page
from clickvec.render.html.markup import Html, joined, table, tag
from clickvec.render.html.word_chips import bar_cells, number, signed
from clickvec.render.labels import METHODS as METHOD_TEXTS
from clickvec.render.labels import count, merged

QUERY, TITLE = TEXTS[2], TEXTS[3]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><h1>mine</h1>",
    "'); DROP & < > &amp; &#60;",
    "</title></bdi><b>bold",
)
FOREIGN = ("上海 酒店 预订", "فنادق في شنغهاي", "מלון בשנגחאי", "हिन्दी होटल", "👩‍👩‍👧 café naïve")


def draw(encoder: Encoder, query: str = QUERY, title: str = TITLE, first: str | None = None, **more: Any) -> str:  # noqa: ANN401
    return explanation_page(explain(encoder, query, title, first), **more)


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
    assert number(value, 2) == said.removeprefix("+")
    assert number(None) == "–"


# --- drawings ----------------------------------------------------------------------------------------------------


def test_a_bar_starts_at_zero_and_is_as_long_as_its_share_of_the_largest() -> None:
    def bars(*values: float) -> list[tuple[str | None, ...]]:
        rects = [parse(cell).all("rect")[0].attributes for cell in bar_cells(values)]
        return [(rect["x"], rect["width"], rect["class"]) for rect in rects]

    assert bars(1.0, 0.5) == [("0.0", "100.0", "p"), ("0.0", "50.0", "p")]
    assert bars(1.0, -0.5) == [("50.0", "50.0", "p"), ("25.0", "25.0", "m")]
    assert bars(0.0) == [("0.0", "0.0", "p")]
    assert [parse(cell).text for cell in bar_cells([1234, 5], 0, sign=False)] == ["1,234", "5"]


def test_every_neighbourhood_of_a_map_has_its_own_mark() -> None:
    points = np.arange(40.0).reshape(20, 2)
    drawing = model_sections._scatter(TitleMap(("t",) * 20, points, tuple(range(20)), ()))
    marks = {(mark.attributes["class"], mark.attributes["d"]) for mark in parse(drawing).all("path")}
    assert len(marks) == 20


# --- the page of an explanation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_a_page_for_every_tower(fields: dict[str, Any]) -> None:
    encoder = Encoder(tiny(**fields))
    explanation = explain(encoder, QUERY, TITLE)
    page = draw(encoder, model="tiny")
    root = check_page(page)
    assert root.all("h1")[0].text == QUERY
    assert f"{explanation.score:.3f}".replace("-", "−") in root.all("header")[0].text
    lines = [
        [word.all("span")[0].text for word in line.all("span", "w")] for line in section(root, "why").all("p", "words")
    ]
    assert lines == [[word.word for word in words] for words in (explanation.query_words, explanation.title_words)]
    anchors = [one.attributes["aria-labelledby"] for one in root.all("section")]
    assert anchors == ["why", "words", "links"]


def test_the_table_of_words_says_what_the_explanation_says() -> None:
    encoder = Encoder(tiny("bilstm"))
    explanation = explain(encoder, QUERY, TITLE).pair
    root = check_page(draw(encoder))
    tables = section(root, "words").all("table")
    for words, found in zip((explanation.query_words, explanation.title_words), tables, strict=True):
        head, *rows = found.rows()
        assert head[:7] == ["word", "contribution", "score without it", "effect", "input gate", "cells →", "cells ←"]
        for word, row in zip(words, rows, strict=True):
            expected = [word.word, signed(word.contribution), number(word.without), number(word.effect)]
            assert row[:7] == [*expected, number(word.gate, 2), *map(count, word.detected_by.values())]
            assert ("keyword" in row[-1]) == bool(word.keyword)
            assert ("unimportant" in row[-1]) == word.unimportant


def test_the_matrix_of_links_is_all_there() -> None:
    encoder = Encoder(tiny("lstm"))
    explanation = explain(encoder, QUERY, TITLE).pair
    matrix = section(check_page(draw(encoder)), "links").all("table", "grid")[0].rows()
    assert explanation.links
    assert matrix[0][1:] == [word.word for word in explanation.title_words]
    for word, row, shown in zip(explanation.query_words, explanation.links, matrix[1:], strict=True):
        assert shown == [word.word, *map(signed, row)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_described(method: str) -> None:
    page = explanation_page(explain(Encoder(tiny("lstm")), QUERY, TITLE, method=method))
    assert METHOD_TEXTS[method] in section(check_page(page), "why").text


@pytest.mark.parametrize("kind", ["lstm", "bilstm", "dssm"])
@pytest.mark.parametrize(
    ("query", "title"), [("", TITLE), (QUERY, ""), ("", ""), ("hotels", "hotels"), ("ЖЖЖ", TITLE), (QUERY, "ЖЖЖ ЩЩЩ")]
)
def test_pages_of_texts_without_words_or_that_cannot_be_read(kind: str, query: str, title: str) -> None:
    encoder = Encoder(tiny(kind))
    why = section(check_page(draw(encoder, query, title)), "why").text
    if not query or not title:
        assert f"The {'title' if query else 'query'} has no words" in why
    elif "ЖЖЖ" in query + title:
        assert f"The {'query' if 'ЖЖЖ' in query else 'title'} has no letter trigram that the model knows" in why


@pytest.mark.parametrize("text", [*HOSTILE, *FOREIGN])
def test_any_text_is_text_and_nothing_else(text: str) -> None:
    encoder = Encoder(tiny("bilstm"))
    models = {text: explain(encoder, text, text)}
    root = check_page(draw(encoder, text, text, "hotels in shanghai", models=models, model=text))
    assert root.all("h1")[0].text == " ".join(text.split())
    assert text.lower().split()[0] in section(root, "why").text


def test_half_a_character_of_a_broken_argument_is_replaced() -> None:
    page = draw(Encoder(tiny("lstm")), "hotels \udce9", "in shanghai")
    page.encode()
    assert check_page(page).all("h1")[0].text == "hotels ?"


def test_why_not_is_on_the_page_when_it_is_asked_for() -> None:
    encoder = Encoder(tiny("bilstm", shared_tower=True))  # so that a text has the cosine 1 with itself
    found = explain(encoder, QUERY, TITLE, QUERY).why_not
    assert found.gap > 0
    root = section(check_page(draw(encoder, first=QUERY)), "why-not")
    shares = root.all("table")[0].rows()
    assert shares[1:] == [
        [share.word, signed(share.first, 3), signed(share.title, 3), signed(share.difference, 3)]
        for share in found.words
    ]
    steps = [step.text for step in root.all("ol")[0].all("li")] if found.path else []
    assert len(steps) == len(found.path)
    for edit, step in zip(found.path, steps, strict=True):
        assert number(edit.score) in step
        assert (edit.put or edit.out or "") in step
    for words in (found.missing, found.burdens):
        assert all(f"{word} ({signed(given)})" in root.text for word, given in merged(words, 6))
    assert explain(encoder, QUERY, QUERY, TITLE).why_not.gap <= 0
    same = section(check_page(draw(encoder, QUERY, QUERY, TITLE)), "why-not")
    assert "no gap" in same.text
    assert not same.all("table")


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (None, None),
        (
            Rank(1_234, 5_000, "t<7>", "t0", {"words": 7, "vectors": None}),
            "1,234rank among 5,000 titles, id t<7> (by words alone 7, by vectors alone –)",
        ),
        (Rank(3, 5, None, "t0", {}), "3would be its rank among 5 titles; it is not in the index"),
        (Rank(None, 5, "t1", None, {}), "–no rank among 5 titles: nothing finds it"),
    ],
)
def test_the_rank_in_an_index(rank: Rank | None, said: str | None) -> None:
    found: Explanation = dataclasses.replace(explain(Encoder(tiny("lstm")), QUERY, TITLE), rank=rank)
    figures = check_page(explanation_page(found)).all("ul", "figures")[0].all("li")
    assert [figure.text for figure in figures[1:]] == ([said] if said else [])


def test_contributions_of_a_long_text_are_called_an_estimate() -> None:
    encoder, long = Encoder(tiny("lstm")), " ".join(["hotels in shanghai"] * 3)
    some, others = "hotels in shanghai", "cheap hotels york"
    assert "sample" not in section(check_page(draw(encoder, some, others)), "why").text
    for query, title, which in ((some, long, "title"), (long, others, "query"), (long, long, "query and the title")):
        text = section(check_page(draw(encoder, query, title)), "why").text
        assert f"The {which} has more than 8 words, so a random sample" in text


def test_a_figure_is_a_png(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model", "lstm")
    said = wrong_usage("explain", model, QUERY, TITLE, "--png", tmp_path / "gates.svg")
    assert ".png, not gates.svg" in " ".join(said.split())


def test_models_side_by_side() -> None:
    encoders = {"two ways": Encoder(tiny("bilstm")), "rnn": Encoder(tiny("rnn")), "bag": Encoder(tiny("dssm"))}
    encoders["short"] = Encoder(tiny("rnn", max_words=3))
    found = {name: explain(encoder, QUERY, TITLE) for name, encoder in encoders.items()}
    root = section(check_page(draw(encoders["two ways"], models=found)), "models")
    scores, *tables = root.all("table")
    assert [row[0] for row in scores.rows()[1:]] == list(encoders)
    heads = [one.rows()[0] for one in tables]  # a model that reads other words has its own table
    assert heads == [["word", "two ways →", "two ways ←", "rnn →"], ["word", "short →"]] * 2
    voted = found["two ways"].query_side.keywords
    assert voted
    shown = [row[:3] for row in tables[0].rows()[1:]]
    counts = [list(map(count, row)) for row in voted.counts.values()]
    assert shown == list(map(list, zip(voted.words, *counts, strict=True)))
    assert "reading: bag" in root.text


def test_the_rule_for_keywords_is_told() -> None:
    words = section(check_page(draw(Encoder(tiny("bilstm", cells=12)))), "words").text
    assert "10 most active cells" in words
    assert "4 or more in each direction" in words


def test_a_page_stays_small_with_many_cells() -> None:
    encoder = Encoder(tiny("bilstm", cells=96, forget_gate=True))
    assert len(draw(encoder, models={"a": explain(encoder, QUERY, TITLE)}).encode()) < 300_000


def test_what_raises_the_score_and_what_lowers_it_is_said_first() -> None:
    given = explain(Encoder(tiny("lstm")), "hotels in", "hotels york cheap")

    def with_contributions(words: tuple[Any, ...], *numbers: float) -> tuple[Any, ...]:
        return tuple(dataclasses.replace(word, contribution=n) for word, n in zip(words, numbers, strict=True))

    pair = dataclasses.replace(
        given.pair,
        query_words=with_contributions(given.query_words, 0.9, 0.1),
        title_words=with_contributions(given.title_words, 0.8, 0.7, -0.5),
    )
    said = section(check_page(explanation_page(dataclasses.replace(given, pair=pair))), "why").all("p")[0].text
    raised, lowered = said.split("york (+0.70)")
    assert [word in raised for word in ("hotels (+0.90)", "hotels (+0.80)", "cheap")] == [True, True, False]
    assert "cheap (−0.50)" in lowered


# --- in a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_page() -> str:
    encoder = Encoder(tiny("bilstm", cells=96, forget_gate=True))
    title = f"{TITLE} {HOSTILE[1]} {FOREIGN[1]} donaudampfschifffahrtsgesellschaftskapitänsmütze"
    models = dict.fromkeys("ab", explain(encoder, QUERY, title))
    return draw(encoder, QUERY, title, QUERY, models=models)


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
