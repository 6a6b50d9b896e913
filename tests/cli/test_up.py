"""The verb up: the stages, what is done again, what is refused, kills, and the service at its end."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from command import Done, check_tells, contents, ok, program, refused, run, started, wrong_usage

import clickvec
from clickvec import Index, config
from clickvec.cli import up as up_verb
from clickvec.cli.up_stages import STAGES
from clickvec.errors import ClickvecError, Interrupted
from clickvec.storage.lock import take_lock

pytest.importorskip("torch")
from clickvec.training.loop import Run

NAMES = [stage.name for stage in STAGES]
THINGS = ("lamp", "chair", "table", "kettle", "carpet", "mirror", "shelf", "pillow", "blanket", "clock")
KINDS = ("red", "blue", "green", "oak", "steel", "glass", "small", "large", "old", "round")
PLACES = ("kitchen", "garden", "bath", "office", "cellar", "attic")


def write_log(path: Path) -> Path:
    """Write clicks of 600 queries on 100 titles."""
    rows = [(kind, thing, place) for kind in KINDS for thing in THINGS for place in PLACES]
    lines = [f"{kind} {thing} for the {place}\t{thing} made of {kind}\t3\n" for kind, thing, place in rows]
    path.write_text("query\ttitle\tclicks\n" + "".join(lines))
    return path


def write_catalogue(path: Path, more: str = "") -> Path:
    titles = [f"{thing} made of {kind}" for kind in KINDS for thing in THINGS]
    lines = [f"p{number}\t{title}\t{number}\n" for number, title in enumerate(titles)]
    path.write_text("product_id\ttitle\tprice\n" + "".join(lines) + more)
    return path


@contextlib.contextmanager
def small_models(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Train small models, and let the doctor not measure for seconds what training costs."""
    from clickvec.doctor import training_cost

    patch.setitem(config.DEFAULT, "cells", 8)
    patch.setitem(config.DEFAULT, "epochs", 2)
    patch.setattr(training_cost, "MINIBATCHES", 2)
    yield


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with small_models(monkeypatch):
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished folder beside its log and catalogue. Tests that change it take a copy."""
    path = tmp_path_factory.mktemp("up")
    with pytest.MonkeyPatch.context() as patch, small_models(patch):
        log, catalogue = write_log(path / "log.tsv"), write_catalogue(path / "catalogue.tsv")
        (path / "screen.txt").write_text(ok("up", log, "--catalogue", catalogue, "--out", path / "out", "--no-serve"))
    return path


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def run_again(at: Path, *options: str) -> Done:
    return run("up", at / "log.tsv", "--catalogue", at / "catalogue.tsv", "--out", at / "out", "--no-serve", *options)


def again(at: Path, *options: str) -> str:
    done = run_again(at, *options)
    assert done.status == 0, done.err
    return done.out


def done_before(screen: str) -> list[str]:
    """Return the stages that were not done again."""
    paragraphs = re.split(r"\n(?=\d/\d )", screen)
    found = [re.match(r"\d/\d (\w+)", text) for text in paragraphs]
    return [
        match[1] for match, text in zip(found, paragraphs, strict=True)
        if match and re.search(r"\(done\s+before\)", text)
    ]  # fmt: skip


# --- the stages --------------------------------------------------------------------------------------------------


def test_a_log_becomes_a_measured_index_in_one_folder(made: Path) -> None:
    screen, out = (made / "screen.txt").read_text(), made / "out"
    check_tells(screen, "log.tsv", "1,800 clicks", "hybrid", "BM25 (tuned)", "held-out quer", "clickvec search")
    assert [line.split()[1] for line in screen.splitlines() if re.match(r"\d/\d ", line)] == NAMES
    assert {path.name for path in out.iterdir()} == {
        "about", "data", "index", "lock", "model", "titles.jsonl", "up.json"
    }  # fmt: skip
    with Index.open(out / "index") as index:
        assert len(index) == 100
        (hit,) = index.search("red lamp for the kitchen", k=1)
    assert (hit.id, hit.title, hit.payload) == ("p0", "lamp made of red", {"price": 0})


def test_the_page_reads_what_was_measured(made: Path) -> None:
    pytest.importorskip("msgspec")
    from clickvec.serve.about_folder import read_about, read_queries

    about = read_about(made / "out/about")
    assert not about.problems
    assert about.doctor
    assert len(read_queries(made / "out/about")) > 400  # the others are held out
    assert about.measured
    assert about.measured.titles == 100
    assert about.measured.queries == 60
    assert {row.system for row in about.measured.rows} == {"hybrid", "words", "model", "BM25 (tuned)"}
    assert {row.metric for row in about.measured.rows} == {"MRR@10", "Recall@100", "NDCG@10"}
    assert all((row.low or 0) <= row.value <= (row.high or 0) for row in about.measured.rows)
    assert {figure.unit for figure in about.measured.speed} == {"ms", "titles/s", "MB"}


def test_the_page_shows_only_queries_with_some_clicks(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\tclicks\nrare\ta lamp\t2\nsome\ta lamp\t3\nmany\ta lamp\t5\nmany\ta chair\t1\n")
    ok("up", log, "--out", tmp_path / "out", "--no-serve")
    assert (tmp_path / "out/about/queries.txt").read_text() == "many\nsome\n"


def test_the_titles_of_the_log_are_the_catalogue_if_there_is_none(tmp_path: Path) -> None:
    ok("up", write_log(tmp_path / "log.tsv"), "--out", tmp_path / "out", "--no-serve")
    with Index.open(tmp_path / "out/index") as index:
        assert {document.title for document in index} == {f"{a} made of {b}" for a in THINGS for b in KINDS}


def test_nothing_is_measured_if_the_log_is_too_small(tmp_path: Path) -> None:
    log = tmp_path / "tiny.tsv"
    log.write_text("query\ttitle\nred lamp\tlamp made of red\nblue chair\tchair made of blue\n")
    screen = ok("up", log, "--out", tmp_path / "out", "--no-serve")
    told = " ".join(screen.split())
    check_tells(told, "fewer than 500 different queries", "Nothing, because")
    check_tells(told, "Hybrid search ranks by words alone: the model was trained on 2 different queries", "--dev")
    check_tells(told, "2 titles of the log, with row numbers as ids, to search by words; vectors only order titles")
    measured = json.loads((tmp_path / "out/about/measured.json").read_text())
    assert (measured["queries"], measured["rows"]) == (0, [])
    assert (measured["titles"], len(measured["speed"])) == (2, 4)


def test_figures_of_a_small_log_are_called_cross_validated(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv")
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:301]))
    ok("up", log, "--out", tmp_path / "out", "--no-serve")
    measured = json.loads((tmp_path / "out/about/measured.json").read_text())
    assert (measured["data"], measured["queries"]) == ("clicks of log.tsv, cross-validated", 300)
    assert "cross-validated clicks: queries 300" in ok("info", tmp_path / "out/model")


def test_nothing_is_measured_if_the_catalogue_has_no_clicked_title(copy: Path) -> None:
    (copy / "catalogue.tsv").write_text("title\nsomething else\n")
    check_tells(" ".join(again(copy).split()), "Nothing: the index has none of the relevant titles")


def test_the_default_folder_is_named_after_the_log() -> None:
    names = {"clicks.tsv.gz": "clicks", "logs/day-*.jsonl": "day", "a b.csv": "a-b", "*.tsv": "log"}
    assert {log: up_verb._default_folder([Path(log)]).as_posix() for log in names} == {
        log: f"out/{name}" for log, name in names.items()
    }
    assert up_verb._default_folder([]) == Path("out/built-in")


def test_the_default_folder_is_not_used_for_another_log_of_the_same_name(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copy)
    (copy / "out").rename(copy / "made")
    (copy / "out").mkdir()
    (copy / "made").rename(copy / "out/log")
    again = ok("up", "log.tsv", "--catalogue", "catalogue.tsv", "--out", "out/log", "--no-serve")
    assert done_before(again) == NAMES
    assert done_before(ok("up", "log.tsv", "--catalogue", "catalogue.tsv", "--no-serve")) == NAMES
    (copy / "other").mkdir()
    write_log(copy / "other/log.tsv")
    before = contents(copy / "out")
    check_tells(refused("up", "other/log.tsv", "--no-serve"), copy / "log.tsv", "--out")
    assert contents(copy / "out") == before


@pytest.mark.slow
def test_names_of_columns_may_be_those_of_the_log_or_of_the_catalogue(tmp_path: Path) -> None:
    log, catalogue = write_log(tmp_path / "log.tsv"), write_catalogue(tmp_path / "catalogue.tsv")
    log.write_text(log.read_text().replace("query\t", "typed\t", 1))
    catalogue.write_text(catalogue.read_text().replace("product_id", "vendor_no", 1))
    command = ("up", log, "--catalogue", catalogue, "--out", tmp_path / "out", "--no-serve", "--columns")
    check_tells(refused(*command, "query=typed,client=user,doc_id=vendor_no"), "client=user", "log.tsv")
    ok(*command, "query=typed,doc_id=vendor_no")
    with Index.open(tmp_path / "out/index") as index:
        assert index.get("p0") is not None


def test_ids_that_are_not_recognised_are_refused_before_the_first_stage(tmp_path: Path) -> None:
    log, catalogue = write_log(tmp_path / "log.tsv"), write_catalogue(tmp_path / "catalogue.tsv")
    catalogue.write_text(catalogue.read_text().replace("product_id", "vendor_no", 1))
    said = refused("up", log, "--catalogue", catalogue, "--out", tmp_path / "out", "--no-serve")
    check_tells(said, "catalogue.tsv", "vendor_no may be the ids", "--columns doc_id=vendor_no", "doc_id=-")
    assert not (tmp_path / "out").exists()


def test_verbs_take_the_folder_of_up(made: Path, tmp_path: Path) -> None:
    out = made / "out"
    assert ok("search", out, "lamp", "--json") == ok("search", out / "index", "lamp", "--json")
    assert ok("explain", out, "lamp", "--json") == ok("explain", out / "index", "lamp", "--json")
    assert ok("info", out) == ok("info", out / "index")
    assert ok("nearest", out, "lamp", "--json") == ok("nearest", out / "index", "lamp", "--json")
    judged = tmp_path / "judged.tsv"
    judged.write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n1\tred lamp\tp0\tlamp made of red\t2\n")
    assert str(out / "model") in ok("evaluate", out, "--judged", judged)
    assert "hybrid" in ok("evaluate", "--index", out, "--judged", judged)


def test_a_wrong_folder_is_told_with_the_right_one(made: Path) -> None:
    with pytest.raises(ClickvecError) as error:
        Index.open(made / "out")
    check_tells(str(error.value), "the folder of clickvec up", made / "out" / "index", made / "out" / "model")
    check_tells(refused("search", made / "out/model", "lamp"), "is a model folder", "clickvec index")
    check_tells(refused("info", made / "out/data"), "is a data folder", "clickvec train")
    check_tells(refused("serve", made / "out/model"), "is a model folder", "clickvec index")


# --- what is done again ------------------------------------------------------------------------------------------


def test_finished_stages_are_skipped(copy: Path) -> None:
    assert done_before(again(copy)) == NAMES
    before = contents(copy / "out")
    assert done_before(again(copy)) == NAMES
    assert contents(copy / "out") == before


def test_a_changed_log_is_told_and_all_is_done_again(copy: Path) -> None:
    with (copy / "log.tsv").open("a") as file:
        file.write("green thing\tlamp made of green\t1\n")
    screen = again(copy)
    assert done_before(screen) == []
    check_tells(" ".join(screen.split()), "again, because the log changed", "again, because the prepared data changed")
    assert done_before(again(copy)) == NAMES


@pytest.mark.slow
def test_a_changed_catalogue_is_indexed_without_training(copy: Path) -> None:
    write_catalogue(copy / "catalogue.tsv", "p100\ta new lamp\t5\n")
    screen = again(copy)
    assert done_before(screen) == ["train"]
    check_tells(" ".join(screen.split()), "101 titles of the catalogue", "again, because the catalogue changed")


@pytest.mark.slow
def test_a_log_of_ids_is_prepared_again_if_titles_change(copy: Path, tmp_path: Path) -> None:
    log = tmp_path / "ids.tsv"
    clicks = (copy / "log.tsv").read_text().splitlines()[1:]
    titles = [line.split("\t")[1] for line in (copy / "catalogue.tsv").read_text().splitlines()[1:]]
    ids = [f"{query}\tp{titles.index(title)}" for query, title, _ in (line.split("\t") for line in clicks)]
    log.write_text("\n".join(["query\tdoc_id", *ids, ""]))
    command = ("up", log, "--catalogue", copy / "catalogue.tsv", "--out", tmp_path / "out", "--no-serve")
    ok(*command)
    text = (copy / "catalogue.tsv").read_text()
    (copy / "catalogue.tsv").write_text(text.replace("lamp made of red", "crimson lantern"))
    assert done_before(ok(*command)) == []


def test_an_id_that_two_titles_have_is_told_before_the_first_stage(tmp_path: Path) -> None:
    catalogue = write_catalogue(tmp_path / "catalogue.tsv", "p1\tanother lamp\t5\n" * 3)
    command = ("up", write_log(tmp_path / "log.tsv"), "--catalogue", catalogue, "--out", tmp_path / "out", "--no-serve")
    assert "id p1 is given twice" in refused(*command)
    assert not (tmp_path / "out").exists()


def test_article_numbers_that_look_like_phones_are_found_by_every_door(tmp_path: Path) -> None:
    log, catalogue = write_log(tmp_path / "log.tsv"), write_catalogue(tmp_path / "catalogue.tsv")
    for path in (log, catalogue):
        path.write_text(path.read_text().replace(" made of", " 0617590196 made of"))
    told = " ".join(ok("up", log, "--catalogue", catalogue, "--out", tmp_path / "out", "--no-serve").split())
    assert "not in the catalogue" not in told
    rows = json.loads((tmp_path / "out/about/measured.json").read_text())["rows"]
    words = {row["metric"]: row["value"] for row in rows if row["system"] == "words"}
    trained = clickvec.train(tmp_path / "out/data", tmp_path / "m", catalogue=catalogue).model.training["held_out"]
    [of_training] = [one for one in trained["systems"] if one["system"] == "words"]
    assert {name: of_training[name] for name in words} == pytest.approx(words)


def test_another_encoding_reads_the_log_again(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv")
    log.write_bytes(log.read_bytes().replace(b"lamp", "l\u00e4mp".encode("cp1252")))
    command = ("up", log, "--out", tmp_path / "out", "--no-serve")
    ok(*command)
    screen = " ".join(ok(*command, "--encoding", "cp1251").split())
    check_tells(screen, "again, because --encoding changed")
    assert done_before(ok(*command, "--encoding", "cp1251")) == NAMES
    assert "l\u0434mp" in ok("search", tmp_path / "out", "chair table", "-k", "200")


def test_a_delimiter_of_the_log_alone_serves_all_stages(tmp_path: Path) -> None:
    log, catalogue = write_log(tmp_path / "log.csv"), write_catalogue(tmp_path / "catalogue.tsv")
    log.write_text(log.read_text().replace("\t", "^"))
    command = ("up", log, "--catalogue", catalogue, "--out", tmp_path / "out", "--no-serve", "--delimiter", "^")
    ok(*command, "--numbers", "price")
    assert done_before(ok(*command, "--numbers", "price", "--vectors", "int8")) == ["doctor", "prepare", "train"]
    check_tells(refused(*command[:-1], "|"), "query^title^clicks", "--delimiter")


def test_options_of_the_verbs_reach_their_stages(copy: Path) -> None:
    options = ("--numbers", "none", "--vectors", "int8", "--search", "exact")
    assert done_before(again(copy, *options)) == ["doctor", "prepare", "train"]
    done = run("search", copy / "out/index", "lamp", "--where", '{"price": {"lt": 3}}')
    check_tells(done.err, "all values of price are text", "--numbers price")
    assert json.loads(ok("info", copy / "out/index", "--json"))["vectors"] == "int8"
    assert done_before(again(copy, *options)) == NAMES
    screen = " ".join(again(copy, "--numbers", "none").split())
    check_tells(screen, "again, because --vectors and --search changed")


def test_prices_are_numbers_without_an_option(made: Path) -> None:
    found = ok("search", made / "out", "lamp", "--where", '{"price": {"lt": 3}}', "--json")
    assert {hit["id"] for hit in json.loads(found)["hits"]} == {"p0", "p1", "p2"}


def test_cleaning_and_settings_of_up(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv")
    judged = tmp_path / "judged.tsv"
    judged.write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n1\tred lamp\tp0\tlamp made of red\t2\n")
    drop = tmp_path / "drop.txt"
    drop.write_text("red lamp for the kitchen\n")
    command = ("up", log, "--catalogue", write_catalogue(tmp_path / "c.tsv"), "--out", tmp_path / "out", "--no-serve")
    done = run(*command, "--drop-queries", drop, "--set", "cells=6", "--set", "epochs=1", "--judged", judged)
    assert done.status == 0, done.err
    check_tells(" ".join(done.out.split()), "1 epoch over", "judged NDCG@10", "1 judged query")
    check_tells(done.err, "--drop-queries")
    assert json.loads(ok("info", tmp_path / "out/model", "--json"))["dimensions"] == 6


def test_wrong_options_of_up_are_refused_before_the_first_stage(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv")
    command = ("up", log, "--out", tmp_path / "out", "--no-serve")
    assert "no_such" in refused(*command, "--set", "no_such=1")
    assert "int4" in refused(*command, "--vectors", "int4")
    assert "fuzzy" in refused(*command, "--search", "fuzzy")
    catalogue = write_catalogue(tmp_path / "c.tsv")
    assert "correct --numbers" in refused(*command, "--catalogue", catalogue, "--numbers", "no_such")
    catalogue.write_text("doc_id\ttitle\tprice\na\tlamp\t50.99 EUR\n")
    assert "price of id a is '50.99 EUR'" in refused(*command, "--catalogue", catalogue, "--numbers", "price")
    assert "--numbers names columns of --catalogue" in wrong_usage(*command, "--numbers", "price")
    assert "--judged is for a log of yours" in wrong_usage("up", "--judged", log)
    assert not (tmp_path / "out").exists()


def test_a_missing_result_is_made_again(copy: Path) -> None:
    before = contents(copy / "out/model")
    shutil.rmtree(copy / "out/model")
    assert done_before(again(copy)) == ["doctor", "prepare", "index", "measure"]
    after = contents(copy / "out/model")
    assert after["weights.safetensors"] == before["weights.safetensors"]


def test_an_index_that_has_changed_is_not_lost(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("doc_id\ttitle\nextra\tan extra title\n")
    ok("index", "add", copy / "out/index", tmp_path / "more.tsv")
    screen = " ".join(again(copy).split())
    check_tells(screen, "done before, and changed since by other commands", "again, because the index changed")
    assert done_before(again(copy)) == [name for name in NAMES if name != "index"]  # the figures are those of the index
    before = contents(copy / "out")
    write_catalogue(copy / "catalogue.tsv", "p100\ta new lamp\t5\n")
    for arguments in ((), ("--set", "epochs=3")):  # the second one would train again first
        done = run_again(copy, *arguments)
        assert done.status == 1
        check_tells(done.err, copy / "out/index", "has changed", "--out")
        assert done.out == ""
        assert contents(copy / "out") == before
        write_catalogue(copy / "catalogue.tsv")
    with Index.open(copy / "out/index") as index:
        assert index.get("extra") is not None


def stop_after_an_epoch(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt the stage train after its first epoch."""
    one_epoch = Run._one_epoch

    def stop(run: Run) -> None:
        if run.state.epoch:
            raise Interrupted("Training stopped. Resume it with --resume")
        one_epoch(run)

    shutil.rmtree(copy / "out/model")
    with monkeypatch.context() as patch:
        patch.setattr(Run, "_one_epoch", stop)
        done = run_again(copy)
    assert done.status == 130
    check_tells(done.err.splitlines()[-1], "stopped in the stage train", "the same command continues")


@pytest.mark.slow
def test_a_run_that_stopped_is_resumed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, one_epoch, epochs = contents(copy / "out/model"), Run._one_epoch, list[int]()
    stop_after_an_epoch(copy, monkeypatch)

    def count(run: Run) -> None:
        epochs.append(run.state.epoch)
        one_epoch(run)

    monkeypatch.setattr(Run, "_one_epoch", count)
    again(copy)
    assert epochs == [1]
    assert contents(copy / "out/model")["weights.safetensors"] == before["weights.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["data", "damage"])
def test_a_checkpoint_that_does_not_fit_is_not_resumed(
    change: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after_an_epoch(copy, monkeypatch)
    if change == "data":
        with (copy / "log.tsv").open("a") as file:
            file.write("green thing\tlamp made of green\t1\n")
    else:
        (copy / "out/model.run/checkpoint.safetensors").write_bytes(b"\0" * 100)
    done = run_again(copy)
    assert done.status == 0, done.err
    assert "training starts again" in done.err
    assert not (copy / "out/model.run").exists()


# --- what is refused ---------------------------------------------------------------------------------------------


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    log, other = write_log(tmp_path / "log.tsv"), tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    check_tells(refused("up", log, "--out", other, "--no-serve"), other, "letter.txt", "--out")
    check_tells(refused("up", log, "--out", log, "--no-serve"), log)
    check_tells(refused("up", log, "--out", tmp_path, "--no-serve"), "overlaps", log)
    assert contents(other) == {"letter.txt": b"dear"}


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 1, "stages": {"train": 3}}', '{"format": 9}'])
def test_a_damaged_state_is_refused(text: str, made: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/up.json").write_text(text)
    check_tells(refused("up", made / "log.tsv", "--out", tmp_path / "out", "--no-serve"), tmp_path / "out/up.json")
    assert (tmp_path / "out/up.json").read_text() == text


def test_bad_input_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_tells(refused("up", tmp_path / "no.tsv", "--out", out, "--no-serve"), "no.tsv")
    assert not out.exists()
    bad = tmp_path / "bad.tsv"
    for text in ("", "query\ttitle\n", "apples\tpears\n1\t2\n"):
        bad.write_text(text)
        check_tells(refused("up", bad, "--out", out, "--no-serve"), "bad.tsv")  # the error alone
        assert not out.exists()
    check_tells(refused("up", "-", "--out", out, "--no-serve", stdin="query\ttitle\n"), "standard input", "file")
    check_tells(wrong_usage("up", "--catalogue", bad, "--no-serve"), "--catalogue")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")
    message = refused("up", tmp_path / "pipe.tsv", "--out", tmp_path / "out", "--no-serve")
    check_tells(message, "pipe.tsv", "not a regular file")


def test_a_folder_in_use_is_refused(copy: Path) -> None:
    out, before = copy / "out", contents(copy / "out/model")
    lock = take_lock(out)
    assert lock is not None
    with lock:
        check_tells(refused("up", copy / "log.tsv", "--out", out, "--no-serve"), out, "in use by process", "--out")
        state = json.loads((out / "up.json").read_text())
        (out / "up.json").write_text(json.dumps(state | {"address": "http://127.0.0.1:8080"}))
        check_tells(refused("up", copy / "log.tsv", "--out", out), "served at http://127.0.0.1:8080", "Ctrl-C")
    assert contents(out / "model") == before


def test_a_busy_port_is_told_before_the_first_stage(made: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        check_tells(
            refused("up", made / "log.tsv", "--out", tmp_path / "out", "--port", str(port)), str(port), "--port"
        )
    assert not (tmp_path / "out").exists()


def test_missing_packages_are_told_before_the_first_stage(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "uvicorn", None)
        check_tells(refused("up", made / "log.tsv", "--out", out), "uvicorn", "clickvec[serve]")
    monkeypatch.setattr(up_verb, "find_spec", lambda name: None)
    check_tells(refused("up", made / "log.tsv", "--out", out, "--no-serve"), "torch", "clickvec[train]")
    assert not out.exists()


# --- as a program ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.slow
def test_killed_in_each_stage_it_continues_to_the_same_model(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv")
    done = program("up", log, "--out", tmp_path / "whole", "--no-serve")
    assert done.returncode == 0, done.stderr
    killed = tmp_path / "killed"
    for name in ["", *NAMES[:-1]]:
        with started("up", log, "--out", killed, "--no-serve") as running:
            while running.poll() is None and name not in ("", *_finished(killed)):
                pass
            running.send_signal(signal.SIGKILL)
    done = program("up", log, "--out", killed, "--no-serve")
    assert done.returncode == 0, done.stderr
    whole, after = contents(tmp_path / "whole"), contents(killed)
    assert {name for name in whole if "segments" not in name} == {name for name in after if "segments" not in name}
    assert not list(killed.rglob("*.partial"))
    for name in ("model/weights.safetensors", "data/data.safetensors", "data/test.tsv", "titles.jsonl"):
        assert after[name] == whole[name]


def _finished(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return list(json.loads((folder / "up.json").read_text())["stages"])
    return []


@pytest.mark.slow
def test_it_serves_until_a_signal_comes(copy: Path) -> None:
    pytest.importorskip("uvicorn")
    out = copy / "out"
    with started("up", copy / "log.tsv", "--catalogue", copy / "catalogue.tsv", "--out", out, "--port", "0") as running:
        # The settings of the small model are unknown to the program, so it trains again first.
        timer = threading.Timer(120, running.kill)
        timer.start()
        assert running.stderr
        address = next(found[0] for line in running.stderr if (found := re.search(r"http://[\d.:]+", line)))
        timer.cancel()
        ready = httpx.get(f"{address}/readyz", trust_env=False)
        assert ready.status_code == 200
        found = httpx.post(f"{address}/search", json={"query": "red lamp for the kitchen"}, trust_env=False).json()
        assert found["hits"][0]["title"] == "lamp made of red"
        second = program("up", copy / "log.tsv", "--out", out)
        assert second.returncode == 1
        check_tells(second.stderr, f"{out} is served at", f"process {running.pid}")
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    with contextlib.ExitStack() as stack:
        lock = take_lock(out)
        assert lock is not None
        stack.enter_context(lock)
