"""`clickvec explain`: what it finds, what it prints, and what it refuses."""

import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import PROGRAM, contents, in_a_terminal, ok, refused, run, wrong_usage
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.explanation import METHODS, Pair, WhyNot, keywords
from clickvec.explanation.explainer import explain
from clickvec.model.encoder import Encoder
from clickvec.render.html.word_chips import sentence
from clickvec.render.labels import score_text, signed
from clickvec.render.terminal.explanation_text import show
from clickvec.render.terminal.screen import Screen, width
from clickvec.search.index import Index

QUERY, TITLE = TEXTS[0], TEXTS[1]
NASTY = (
    "", " \t\n", "上海 的 酒店 上海", "🍕 👨\u200d👩\u200d👧 cafe\u0301",
    "\x1b[31mred\x1b[0m \x07 \x9b1m \u202eevil\u202c \udcff \x7f",
    '"quotes" \'and\' <b>tags</b> % {braces} \\n', "a" * 500, " ".join(f"word{n}" for n in range(200)),
)  # fmt: skip


def explain_pair(encoder: Encoder, query: str, title: str, **more: object) -> Pair:
    return explain(encoder, query, title, **more).pair


def why_not(encoder: Encoder, query: str, title: str, first: str, **more: object) -> WhyNot:
    found = explain(encoder, query, title, first, **more).why_not
    assert found
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of every tower in it, and an index of the texts made with the one called lstm."""
    path = tmp_path_factory.mktemp("explain")
    for name, fields in TOWERS.items():
        tiny_model(path / name, **fields)
    ids = [f"t{number}" for number in range(len(TEXTS))]
    Index.build(Encoder.load(path / "lstm"), titles=TEXTS, ids=ids).save(path / "index")
    Index.build(Encoder.load(path / "lstm"), []).save(path / "empty")
    return path


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide the terminal is in which the tests run."""
    monkeypatch.setenv("COLUMNS", "80")


def explained(*arguments: str | Path) -> dict[str, Any]:
    """The JSON of an explanation, which must be all of the output."""
    done = run("explain", *arguments, "--json")
    assert (done.status, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    assert list(found) == [
        "tower", "query", "title", "score", "fused", "rank", "explanation", "why_not", "versus",
    ]  # fmt: skip
    return found


def plain(value: Any) -> Any:  # noqa: ANN401
    return json.loads(json.dumps(value))


# --- what it finds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOWERS)
def test_json_of_a_pair_is_what_the_functions_give(models: Path, name: str) -> None:
    encoder = Encoder.load(models / name)
    found = explained(models / name, QUERY, TITLE)
    assert found["explanation"] == plain(dataclasses.asdict(explain_pair(encoder, QUERY, TITLE)))
    assert (found["rank"], found["why_not"], found["versus"]) == (None, None, None)


def test_unimportant_words_are_named(models: Path) -> None:
    pair = explain_pair(Encoder.load(models / "lstm"), QUERY, TITLE)
    names = [word.word for word in pair.query_words if word.unimportant]
    assert "Unimportant" not in ok("explain", models / "lstm", QUERY, TITLE)
    said = re.search(r"Unimportant in the query \(.*\): (.*)\.", ok("explain", models / "lstm", QUERY, TITLE, "--all"))
    assert (said[1].split(", ") if said else []) == names


def test_words_that_the_model_does_not_know_are_named(models: Path) -> None:
    out = ok("explain", models / "lstm", "hotels zzz", "ёж hotels")
    assert "zzz (0%), ёж (0%)" in out


@pytest.mark.parametrize("method", METHODS)
def test_every_method(models: Path, method: str) -> None:
    found = explained(models / "lstm", QUERY, TITLE, "--method", method)["explanation"]
    assert found["method"] == method
    assert found == plain(dataclasses.asdict(explain_pair(Encoder.load(models / "lstm"), QUERY, TITLE, method=method)))
    out = ok("explain", models / "lstm", QUERY, TITLE, "--method", method)
    assert out.count(" = score\n") == (2 if method in ("shapley", "changes") else 0)
    for side in ("query", "title"):
        assert f"Total {sum(word['contribution'] for word in found[f'{side}_words']):+.3f}" in out


def test_the_first_title_to_compare_with(models: Path) -> None:
    encoder = Encoder.load(models / "lstm")
    found = explained(models / "lstm", QUERY, "new york", "--first", TITLE)
    assert found["why_not"] == plain(dataclasses.asdict(why_not(encoder, QUERY, "new york", TITLE)))
    assert found["explanation"] == found["why_not"]["title"]


# --- in an index -------------------------------------------------------------------------------------------------


def test_the_first_hit_of_an_index(models: Path) -> None:
    hits = Index.open(models / "index").search(QUERY, k=8)
    found = explained(models / "index", QUERY)
    assert found["title"] == hits[0].title
    index, top = Index.open(models / "index"), hits[0].id
    alone = [[hit.id for hit in index.search(QUERY, mode=mode)] for mode in ("words", "vectors")]
    by_words, by_vectors = (ids.index(top) + 1 if top in ids else None for ids in alone)
    assert found["rank"] == {
        "rank": 1, "of": 8, "id": top, "first": top, "by": {"words": by_words, "vectors": by_vectors},
        "depth": None,
    }  # fmt: skip
    assert found["score"] == pytest.approx(hits[0].score, abs=1e-6)
    assert found["fused"]["parts"][0]["value"] == pytest.approx(hits[0].parts["cosine"], abs=1e-6)
    assert found["fused"]["parts"][1]["value"] == pytest.approx(hits[0].parts["bm25"], abs=1e-6)
    assert found["why_not"] is None
    out = ok("explain", models / "index", QUERY)
    places = f"(by words alone {by_words or '–'}, by vectors alone {by_vectors or '–'})"
    assert f"rank   1 of 8 titles, id {top} {places}\n" in out
    assert f"Total {signed(hits[0].score)} = score\n" in out
    assert f"Total {signed(hits[0].parts['bm25'])} = BM25\n" in out or not hits[0].parts["bm25"]


@pytest.mark.parametrize("place", range(8))
def test_any_title_of_an_index_by_its_id_or_its_words(models: Path, place: int) -> None:
    hits = Index.open(models / "index").search(QUERY, k=8)
    hit = hits[place]
    found = explained(models / "index", QUERY, hit.id)
    assert found == explained(models / "index", QUERY, hit.title)
    assert explained(models / "index", QUERY, f" {hit.title.upper()}")["rank"]["id"] == hit.id
    assert found["title"] == hit.title
    rank = found["rank"]
    assert (rank["rank"], rank["of"], rank["id"], rank["first"]) == (place + 1, 8, hit.id, hits[0].id)
    if place == 0:
        assert found["why_not"] is None
    else:
        assert found["why_not"]["first"]["title"] == hits[0].title
        assert found["why_not"]["gap"] == pytest.approx(hits[0].score - hit.score, abs=1e-6)


def test_a_title_that_is_not_in_the_index_is_ranked_where_it_would_stand(models: Path) -> None:
    encoder, new = Encoder.load(models / "lstm"), ("shanghai", "what paint", "of paint", "new hotels in york")
    for title in new:
        found = explained(models / "index", QUERY, title)
        with_it = Index.build(encoder, [*TEXTS, title]).search(QUERY, k=9)
        expected = next(at for at, hit in enumerate(with_it, 1) if hit.id == "8")
        assert (found["rank"]["rank"], found["rank"]["of"], found["rank"]["id"]) == (expected, 8, None)
        assert (found["why_not"] is None) == (expected == 1)
        assert f"would rank {expected} of 9 (" in ok("explain", models / "index", QUERY, title)


def test_an_id_comes_before_a_title_of_the_same_words() -> None:
    index = Index.build(Encoder(tiny()), titles=["hotels", "two", "one"], ids=["one", "two", "hotels"])
    titles = {text: explain(index, QUERY, text).pair.title for text in ("one", "hotels", "two")}
    assert titles == {"one": "hotels", "hotels": "one", "two": "two"}


def test_equal_titles_have_the_rank_of_the_first_of_them_and_nothing_between_them() -> None:
    index = Index.build(Encoder(tiny()), titles=["hotels in shanghai", "Hotels in Shanghai"], ids=["one", "two"])
    seen = explain(index, QUERY, "two")
    assert seen.rank is not None
    assert (seen.rank.rank, seen.rank.first) == (2, "one")
    assert seen.why_not is not None
    assert seen.why_not.reached
    assert "scores the same" in show(seen, Screen())
    by_words = explain(index, QUERY, "hotels in shanghai")
    assert by_words.rank is not None
    assert by_words.rank.id == "one"


def test_the_title_to_compare_with_may_be_an_id(models: Path) -> None:
    found = explained(models / "index", QUERY, "t3", "--first", "t5")
    assert found["why_not"]["first"]["title"] == TEXTS[5]
    assert explained(models / "index", QUERY, "t3", "--first", "paint")["why_not"]["first"]["title"] == "paint"


@pytest.mark.parametrize("query", ["", "лев"])
def test_a_query_that_finds_nothing(models: Path, query: str) -> None:
    assert f"finds nothing for {query!r}" in refused("explain", models / "index", query)
    why = "no letter trigram that the model knows" if query else "no words"
    found = explained(models / "index", query, "t3")
    assert (found["title"], found["rank"]["rank"], found["rank"]["id"]) == (TEXTS[3], None, "t3")
    assert found["why_not"] is None
    for arguments in ((models / "index", query, "t3"), (models / "lstm", query, TEXTS[3], "--first", TITLE)):
        out = ok("explain", *arguments)
        assert f"title  {TEXTS[3]}\n" in out
        assert f"The query has {why}" in " ".join(out.split())


@pytest.mark.parametrize("title", ["", "лев"])
def test_a_title_that_no_query_can_find(models: Path, tmp_path: Path, title: str) -> None:
    Index.build(Encoder.load(models / "lstm"), [*TEXTS, "ЖЖЖ"]).save(tmp_path / "index")
    why = "no letter trigram that the model knows" if title else "no words"
    for arguments in ((tmp_path / "index", QUERY, title), (models / "lstm", QUERY, title, "--first", TITLE)):
        found = explained(*arguments)
        assert found["explanation"]["score"] == 0
        assert (found["why_not"] is None) == ("--first" not in arguments)
        assert found["rank"] is None or found["rank"]["rank"] is None
        for more in ((), ("--all",)):
            told = ok("explain", *arguments, *more)
            assert f"query  {QUERY}\n{f'title  {title}'.rstrip()}\nThe title has {why}" in told
            assert ("not in the index; it is not found" in told) == (arguments[0].name == "index")
    by_id = explained(tmp_path / "index", QUERY, "8")
    assert (by_id["title"], by_id["rank"]["rank"], by_id["rank"]["id"]) == ("ЖЖЖ", None, "8")


def test_an_empty_index(models: Path) -> None:
    assert f"finds nothing for {QUERY!r}" in refused("explain", models / "empty", QUERY)
    assert explained(models / "empty", QUERY, TITLE)["explanation"]["score"] != 0


# --- models side by side -----------------------------------------------------------------------------------------


def test_models_side_by_side(models: Path) -> None:
    found = explained(models / "lstm", QUERY, TITLE, "--against", models / "bilstm")["versus"]
    alone = {name: explained(models / name, QUERY, TITLE) for name in ("lstm", "bilstm")}
    assert found == {name: {key: one[key] for key in one if key != "versus"} for name, one in alone.items()}
    out = ok("explain", models / "lstm", QUERY, TITLE, "--against", models / "bilstm").split("Models side by side")[1]
    for side in ("query", "title"):
        assert re.search(rf"^{side} word +lstm → +bilstm → +bilstm ←$", out, re.MULTILINE)
    for name, model in found.items():
        score, tower = model["explanation"]["score"], re.escape(model["tower"])
        assert re.search(rf"^{name} +{score:.3f} +{tower}$", out, re.MULTILINE)
    alone = ok("explain", models / "index", QUERY, "--against", models / "dssm").split("Models side by side")[1]
    assert "dssm →" not in alone
    assert "index →" in alone


def test_two_folders_of_the_same_name(models: Path, tmp_path: Path) -> None:
    other = tiny_model(tmp_path / "other" / "lstm", seed=1)
    found = explained(models / "lstm", QUERY, TITLE, "--against", other)["versus"]
    assert list(found) == [str((models / "lstm").resolve()), str(other.resolve())]


def test_a_model_that_takes_fewer_words_has_a_table_of_its_own() -> None:
    both = {name: explain(Encoder(tiny(max_words=n)), QUERY, TITLE) for name, n in (("ten", 10), ("three", 3))}
    out = show(both["ten"], Screen(), models=both)
    out = out.split("Models side by side")[1]
    heads = re.findall(r"^(?:query|title) word +(.*)", out, re.MULTILINE)
    assert [head.split() for head in heads] == [["ten", "→", "three", "→"], ["ten", "→"], ["three", "→"]]


# --- what it prints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOWERS)
@pytest.mark.parametrize("query", [QUERY, *NASTY])
def test_every_line_fits_and_nothing_steers_the_terminal(models: Path, name: str, query: str) -> None:
    encoder = Encoder.load(models / name)
    for title, first in ((TITLE, TEXTS[2]), (query, TITLE), (TITLE, query)):
        seen = explain(encoder, query, title, first)
        both = {"\x1b[7mone": seen, "other \n": seen}
        out = show(seen, Screen(80), models=both)
        assert all(line == "" or line.isprintable() or "\u200d" in line for line in out.split("\n"))
        assert max(map(width, out.split("\n"))) <= 80
        coloured = show(seen, Screen(80, colour=True), models=both)
        assert max(map(width, coloured.split("\n"))) <= 80
        ours = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert all(line == "" or line.isprintable() or "\u200d" in line for line in ours.split("\n"))


def test_a_pair_without_colour_by_signs(models: Path) -> None:
    out = ok("explain", models / "lstm", QUERY, TITLE, "--all")
    assert "\x1b" not in out
    found = explain_pair(Encoder.load(models / "lstm"), QUERY, TITLE)
    for word in (*found.query_words, *found.title_words):
        assert re.search(rf"^{word.word} +{re.escape(signed(word.contribution))} +-?\d\.\d\d\d ", out, re.MULTILINE)
    assert f"score  {found.score:.3f}\n" in out
    for link in found.strongest:
        one, other = found.query_words[link.query_word].word, found.title_words[link.title_word].word
        assert f"{one} ~ {other} " in out
    heaviest = max(found.cells, key=lambda cell: abs(cell.contribution))
    numbers = f"{heaviest.query:+.3f} {heaviest.title:+.3f} {heaviest.contribution:+.3f}"
    assert f"{heaviest.cell} {numbers}" in re.sub(" +", " ", out)


def test_counts_and_keywords_come_with_all(models: Path) -> None:
    voted = keywords(Encoder.load(models / "bilstm"), QUERY)
    lines = ok("explain", models / "bilstm", QUERY, TITLE, "--all").split("query word")[1].splitlines()[2:]
    for at, (word, line) in enumerate(zip(voted.words, lines, strict=False)):
        counts = ["–" if row[at] is None else str(row[at]) for row in voted.counts.values()]
        assert line.split()[0] == word
        assert line.removesuffix(" yes").split()[-2:] == counts
        assert line.endswith("yes") == bool(voted.verdicts[at])


def test_the_short_answer_and_all_of_it(models: Path) -> None:
    arguments = ("explain", models / "bilstm", QUERY, TITLE, "--first", TEXTS[6])
    short, whole = ok(*arguments), ok(*arguments, "--all")
    assert short.startswith("score  ")
    assert [head in short for head in ("contribution", "Total", "Compared with")] == [True] * 3
    more = ("without", "gate", "cells →", "strongest links", "single edit", "\ncell  ", "keyword: ")
    assert [text in short for text in more] == [False] * len(more)
    assert [text in whole for text in more] == [True] * len(more)
    for out in (short, whole, ok(*arguments, "--against", models / "rnn")):
        assert "\n\n\n" not in out
    assert len(short.splitlines()) < 66


def test_the_sentence_of_the_page(models: Path) -> None:
    found = explain_pair(Encoder.load(models / "lstm"), QUERY, TITLE)
    best = max(found.query_words, key=lambda word: word.contribution)
    out = " ".join(ok("explain", models / "lstm", QUERY, TITLE).split())
    assert f"{best.word} ({best.contribution:+.3f})" in out
    assert f"<b><bdi>{best.word}</bdi></b>" in sentence(found)


@pytest.mark.parametrize("method", METHODS)
def test_the_legend_names_the_method(models: Path, method: str) -> None:
    legend = " ".join(
        ok("explain", models / "lstm", QUERY, TITLE, "--method", method, "--all").split("\n\n")[-1].split()
    )
    words = {"shapley": "Shapley", "changes": "change of the output", "leave-one-out": "falls"}
    assert [name for name, word in words.items() if word in legend] == [method]


@pytest.mark.parametrize(("title", "first"), [(1, 2), (1, 4), (6, 7)])  # not reached; add, leave out, replace
def test_edits_are_quoted_and_end_in_a_sentence(models: Path, title: int, first: int) -> None:
    found = why_not(Encoder.load(models / "lstm"), QUERY, TEXTS[title], TEXTS[first])
    last = found.path[-1]
    out = ok("explain", models / "lstm", QUERY, TEXTS[title], "--first", TEXTS[first])
    for edit in found.path:
        replaced = f'replace "{edit.out}" with "{edit.put}"'
        told = {"add": f'add "{edit.put}"', "leave out": f'remove "{edit.out}"', "replace": replaced}[edit.kind]
        assert re.search(rf"^{re.escape(told)} +{edit.score:.3f} +{re.escape(signed(edit.change))}$", out, re.MULTILINE)
    end = " ".join(out.split("The edited title")[1].split())
    assert f"{score_text(last.score)} and {'passes' if found.reached else 'does not pass'} the other" in end
    assert end.endswith(last.title)


def test_a_closed_output(models: Path) -> None:
    command = " ".join([*map(shlex.quote, [*PROGRAM, "explain", str(models / "lstm"), QUERY, TITLE]), ">&-"])
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert "standard output" in done.stderr


def test_colour_only_in_a_terminal_that_wants_it(models: Path) -> None:
    arguments = ("explain", models / "lstm", QUERY, TITLE)
    coloured = in_a_terminal(*arguments, TERM="xterm")
    assert "\x1b[32m" in coloured or "\x1b[7;32m" in coloured
    assert "\x1b[31m" in coloured or "\x1b[1;31m" in coloured or "\x1b[7;31m" in coloured
    without = in_a_terminal(*arguments, TERM="xterm", NO_COLOR="1")
    assert without == ok(*arguments)
    assert "\x1b" not in without
    wide = in_a_terminal(*arguments, TERM="dumb", COLUMNS="110")
    assert "\x1b" not in wide
    assert wide.count("\n") < without.count("\n")


# --- files -------------------------------------------------------------------------------------------------------


def test_a_page_and_a_figure(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    html, png = tmp_path / "new" / "page.html", tmp_path / "figure.png"
    arguments = ("explain", models / "index", QUERY, "t3", "--against", models / "rnn", "--html", html, "--png", png)
    done = run(*arguments, "--json")
    assert done.status == 0
    assert json.loads(done.out)["title"] == TEXTS[3]
    assert [line.split()[-1] for line in done.err.splitlines()] == [str(png), str(html)]
    assert "<html" in html.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    before = contents(tmp_path)
    message = refused(*arguments)
    assert str(html) in message
    assert "--overwrite" in message
    assert contents(tmp_path) == before


def test_a_tower_without_gates_has_a_page_and_no_figure(models: Path, tmp_path: Path) -> None:
    ok("explain", models / "clsm", QUERY, TITLE, "--first", TEXTS[2], "--html", tmp_path / "page.html")
    said = refused("explain", models / "clsm", QUERY, TITLE, "--png", tmp_path / "a.png", "--html", tmp_path / "b.html")
    assert "this model is a CLSM" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]


def test_a_page_needs_a_title(models: Path, tmp_path: Path) -> None:
    for model, query in (("lstm", QUERY), ("index", ""), ("empty", QUERY)):
        said = refused("explain", models / model, query, "--html", tmp_path / "page.html")
        assert "title" in said
    assert list(tmp_path.iterdir()) == []


def test_the_model_itself_is_not_written_over(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    before = contents(model)
    for file in ("config.json", "weights.safetensors"):
        said = refused("explain", model, QUERY, TITLE, "--html", model / file, "--overwrite")
        assert "which is a model folder; choose an output outside of it" in said
    assert contents(model) == before


# --- what it refuses ---------------------------------------------------------------------------------------------


def test_folders_that_are_no_models(models: Path, tmp_path: Path) -> None:
    assert "there is no model folder" in refused("explain", tmp_path / "none", QUERY)
    assert "there is no model folder" in refused(
        "explain", models / "lstm", QUERY, TITLE, "--against", tmp_path / "none"
    )
    assert "is not a complete model folder" in refused("explain", tmp_path, QUERY)
    index = tmp_path / "index"
    Index.build(Encoder.load(models / "lstm"), TEXTS).save(index)
    about = json.loads((index / "index.json").read_text())
    (index / "index.json").write_text(json.dumps(about | {"format": 9}))
    assert "format 9, newer than" in refused("explain", index, QUERY)
    (index / "index.json").write_text("{")
    assert "cannot be read" in refused("explain", index, QUERY)


def test_wrong_usage(models: Path, tmp_path: Path) -> None:
    lstm = models / "lstm"
    for arguments, told in (
        ((QUERY, TITLE, "--method", "guess"), ("'guess'", "shapley, changes")),
        ((QUERY, "--first", TITLE), ("--first", "title")),
        ((QUERY, TITLE, "--against", models / "rnn" / ".." / "lstm"), ("--against",)),
        ((QUERY, TITLE, "--html", tmp_path / "x.png", "--png", tmp_path / "." / "x.png"), ("same file",)),
        ((), ("Missing argument",)),
    ):
        said = wrong_usage("explain", lstm, *arguments)
        assert all(word in said for word in told)
    assert "does not read word by word" in refused("explain", models / "dssm", QUERY, TITLE, "--method", "changes")
