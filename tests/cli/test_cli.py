"""Every verb of the command line, on a small simulated site and a small model trained on it."""

import csv
import gzip
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from command import PROGRAM, SMALL, check_tells, contents, ok, program, refused, run, sentence, wrong_usage
from ondisk import read_arrays

from clickvec import Encoder, Index, __version__, config
from clickvec.cli import demo
from clickvec.config import TOWERS
from clickvec.data import read_judged, read_titles
from clickvec.model.folder import open_model

VERBS = (
    "up", "demo", "doctor", "prepare", "train", "evaluate", "index", "search", "rerank", "encode", "shrink",
    "explain", "nearest", "topics", "report", "info", "serve", "retrain", "export", "cluster", "lab",
)  # fmt: skip


def unpacked(packed: Path, out: Path) -> Path:
    out.write_bytes(gzip.decompress(packed.read_bytes()))
    return out


# --- help, and behaviour as a program ---------------------------------------------------------------------------


def test_help_names_every_verb() -> None:
    done = run("--help")
    assert done.status == 0
    assert done.err == ""
    assert [line.split()[0] for line in done.out.split("Commands:\n")[1].splitlines()] == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(verb: str) -> None:
    done = run(verb, "--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"Usage: root {verb} ")
    assert "--help" in done.out


@pytest.mark.parametrize("verb", ["simulate", "compare"])
def test_verbs_of_the_laboratory_also_have_their_old_names(verb: str) -> None:
    new, old = run("lab", verb, "--help"), run(verb, "--help")
    assert (new.status, old.status) == (0, 0)
    assert new.out.startswith(f"Usage: root lab {verb} ")
    assert old.out.replace(f"root {verb}", f"root lab {verb}") == new.out


def test_help_imports_neither_numpy_nor_torch() -> None:
    code = (
        "import sys\nsys.argv = ['clickvec', *sys.argv[1:]]\nfrom clickvec.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'numpy', 'torch', 'safetensors', 'matplotlib', 'bm25s'} & set(sys.modules)))\n"
    )
    for arguments in (["--help"], ["train", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
        assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_wrong_usage_is_status_2(trained: Path, indexed: Path, site: Path) -> None:
    assert run().status == 2
    assert "No such command 'serach'" in wrong_usage("serach")
    assert "Missing argument" in wrong_usage("info")
    assert "Missing option '--out'" in wrong_usage("train", "log.tsv")
    assert "greater than or equal to 1" in wrong_usage("search", indexed, "pizza", "-k", "0")
    for share in ("-0.1", "1.1", "nan", "many"):
        assert "--max-bad" in wrong_usage("rerank", trained, "--max-bad", share)
    judged = ("--judged", site / "dev.tsv.gz")
    assert "--catalogue" in wrong_usage("evaluate", trained, *judged, "--queries", site / "x")
    assert "--run" in wrong_usage("evaluate", trained, "bm25", *judged, "--run", site / "x")
    assert "twice" in wrong_usage("evaluate", trained, "bm25", trained, *judged)


def test_a_reader_that_closes_the_pipe_is_not_an_error(indexed: Path, trained: Path) -> None:
    commands = [
        f'search "{indexed}" pizza hotel -k 1000',
        f'search "{indexed}" pizza -k 1',
        f'rerank "{trained}"',
        f'info "{trained}"',
    ]
    lines = "".join(f"q\t{number}\tpizza {number}\n" for number in range(2000))
    for command in commands:
        for reader in ("head -1", "true"):
            shell = f"{' '.join(PROGRAM)} {command} | {reader}; exit ${{PIPESTATUS[0]}}"
            done = subprocess.run(["bash", "-c", shell], input=lines, capture_output=True, text=True, timeout=300)
            assert (done.returncode, done.stderr) == (0, ""), shell
            assert len(done.stdout.splitlines()) <= 1


def test_a_full_stdout_is_an_error_in_one_sentence(indexed: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = program("search", indexed, "pizza", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert sentence(done.stderr).startswith("cannot write to standard output: ")


def test_invalid_utf8_arguments_and_a_closed_stdin(indexed: Path) -> None:
    strict = {"env": os.environ | {"PYTHONIOENCODING": "utf-8:strict"}}
    done = program("search", indexed, b"\xff pizza".decode(errors="surrogateescape"), "-k", "1", "--json", **strict)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["query"] == "\udcff pizza"
    closed = ["bash", "-c", f'{" ".join(PROGRAM)} search "{indexed}" <&-']
    assert subprocess.run(closed, capture_output=True, timeout=300).returncode == 0


# --- simulate, prepare, train ------------------------------------------------------------------------------------


def test_simulate_says_what_it_wrote(site: Path, tmp_path: Path) -> None:
    again = ("simulate", tmp_path / "site", "--impressions", "10000", "--dev-queries", "20", "--test-queries", "20")
    done = run(*again, "--no-log", "--json")
    assert (done.status, done.err) == (0, "")
    summary = json.loads(done.out)
    assert summary["impressions"] == 10_000
    assert summary["dev_queries"] == len(read_judged(site / "dev.tsv.gz")) == 20
    here, there = contents(tmp_path / "site"), contents(site)
    assert set(there) - set(here) == {"impressions.tsv.gz"}
    assert all(there[name] == data for name, data in here.items())


def test_simulate_overwrites_a_log_only_with_overwrite(site: Path) -> None:
    before = contents(site)
    check_tells(refused("lab", "simulate", site), site, "--overwrite")
    assert contents(site) == before


def test_the_version_is_that_of_the_package() -> None:
    assert ok("--version") == f"clickvec {__version__}\n"


def test_train_prints_its_result_to_stdout_and_progress_to_stderr(site: Path, tmp_path: Path) -> None:
    arguments = ("train", site / "clicks.tsv.gz", "--dev", site / "dev.tsv.gz", *SMALL)
    done = run(*arguments, "--out", tmp_path / "one")
    assert done.out.startswith(f"{tmp_path / 'one'}: epoch 1 of 1, loss ")
    result, title, *figures = done.out.splitlines()
    assert "dev NDCG@10" in result
    assert title.startswith("cross-validated clicks")  # there are few queries in this judged set
    assert [line.split()[0] for line in figures[1:4]] == ["model", "hybrid", "words"]
    assert "epoch 1/1: loss" in done.err
    assert "NDCG@10" in done.err
    found = json.loads(ok(*arguments, "--out", tmp_path / "two" / "deep" / "", "--json"))
    model = open_model(tmp_path / "two" / "deep")
    assert found["model"] == str(tmp_path / "two" / "deep")
    assert found["fingerprint"] == model.fingerprint == open_model(tmp_path / "one").fingerprint
    assert found["dev"]["NDCG@10"] == model.training["kept"]["dev"]["NDCG@10"]
    assert model.training["data"]["from"] == "clicks.tsv.gz"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["deep"]


@pytest.mark.slow
def test_a_data_folder_several_logs_and_plain_files_train_the_same_model(
    site: Path, trained: Path, tmp_path: Path
) -> None:
    plain = unpacked(site / "clicks.tsv.gz", tmp_path / "clicks.tsv")
    lines = plain.read_text().splitlines(keepends=True)
    (tmp_path / "a.tsv").write_text("".join(lines[:500]))
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress((lines[0] + "".join(lines[500:])).encode()))
    pairs = json.loads(ok("prepare", plain, "--out", tmp_path / "data", "--json"))["pairs"]
    assert pairs == len(lines) - 1
    wanted = open_model(trained).fingerprint
    for number, logs in enumerate(([plain], [tmp_path / "data"], [tmp_path / "a.tsv", tmp_path / "b.tsv.gz"])):
        out = tmp_path / f"model{number}"
        done = ok("train", *logs, "--no-hold-out", "--out", out, *SMALL, "--json")
        assert json.loads(done)["fingerprint"] == wanted


def test_held_out_clicks_are_the_same_from_a_log_and_from_a_data_folder(site: Path, tmp_path: Path) -> None:
    log = site / "clicks.tsv.gz"
    ok("prepare", log, "--hold-out", "--out", tmp_path / "data")
    done = [
        json.loads(ok("train", source, "--out", tmp_path / f"model{number}", *SMALL, "--json"))
        for number, source in enumerate((log, tmp_path / "data"))
    ]
    assert done[0]["fingerprint"] == done[1]["fingerprint"]
    for fact in ("queries", "titles", "bm25"):  # equal scores are ordered by the text, and a data folder has lower case
        assert done[0]["held_out"][fact] == done[1]["held_out"][fact]


@pytest.mark.slow
def test_shown_titles_are_negatives(site: Path, trained: Path, tmp_path: Path) -> None:
    shown = ("--shown", site / "train_judged.tsv.gz")
    assert (
        json.loads(ok("prepare", site / "clicks.tsv.gz", *shown, "--out", tmp_path / "data", "--json"))["shown"] > 1000
    )
    one = json.loads(ok("train", tmp_path / "data", "--out", tmp_path / "one", *SMALL, "--json"))
    all_clicks = (site / "clicks.tsv.gz", "--no-hold-out")
    two = json.loads(ok("train", *all_clicks, *shown, "--out", tmp_path / "two", *SMALL, "--json"))
    assert one["fingerprint"] == two["fingerprint"] != open_model(trained).fingerprint
    again = ("train", tmp_path / "data", "--out", tmp_path / "three", *SMALL)
    check_tells(refused(*again, *shown), tmp_path / "data", "--shown", "prepare")
    check_tells(refused(*again, site / "clicks.tsv.gz"), tmp_path / "data", "alone")
    check_tells(refused(*again, "--set", "max_words=7"), "max_words 10", "7", "--set max_words=10")


def test_recipe_tower_file_and_settings_reach_the_model(site: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("gamma = 3.5\nseed = 9\n")
    settings = ("--recipe", "paper", "--tower", "rnn", "--recipe-file", tmp_path / "mine.toml", "--set", "seed=5")
    ok("train", site / "clicks.tsv.gz", "--out", tmp_path / "m", *SMALL, *settings)
    model = open_model(tmp_path / "m")
    assert (model.tower.kind, model.tower.hidden, model.shared_tower) == ("rnn", 8, False)
    recipe = model.training["recipe"]
    assert (recipe["optimizer"], recipe["gamma"], recipe["seed"]) == ("nesterov", 3.5, 5)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--set", "cell=8"], ("'cell'", "'cells'")),
        (["--set", "cells=many"], ("cells", "'many'")),
        (["--set", "cells"], ("key=value", "'cells'")),
        (["--tower", "cnn"], (", ".join(TOWERS), "'cnn'")),
        (["--recipe", "best"], ("'best'", "default, paper")),
        (["--recipe-file", "none.toml"], ("none.toml", "No such file or directory")),
        (["--device", "gpu"], ("cpu", "cuda", "auto", "'gpu'")),
        (["--device", "cuda:99"], ("cuda:99", "--device cpu")),
        (["--resume"], ("m.run", "without --resume")),
    ],
)
def test_train_refuses_wrong_options(
    arguments: list[str], parts: tuple[str, ...], site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_tells(refused("train", site / "clicks.tsv.gz", "--out", "m", *arguments), *parts)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory_is_one_sentence(
    error: Exception, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clickvec.training import loop

    def train(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(loop, "run_training", train)
    said = refused("train", site / "clicks.tsv.gz", "--out", tmp_path / "m")
    check_tells(said, "out of memory", "batch_size", "cells", "--set")


# --- evaluate ----------------------------------------------------------------------------------------------------


def means(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    found = json.loads(ok("evaluate", *arguments, "--json"))
    return {system.pop("system"): system for system in found["systems"]}


def test_evaluate_prints_one_table(site: Path, trained: Path, model_folder: Path) -> None:
    arguments = ("evaluate", trained, model_folder, "bm25", "--judged", site / "test.tsv.gz")
    done = run(*arguments)
    table, notes = done.out.split("\n\n")
    header, _, *rows = table.splitlines()
    assert header.split() == ["system", "NDCG@1", "NDCG@3", "NDCG@10", "p"]
    assert "its judged titles alone" in notes
    assert "p: randomisation test of NDCG@10 against" in notes
    assert done.err.splitlines()[-1] == "20 queries"
    check_tells(done.err, "BM25", "k1", "--dev")
    found = means(*arguments[1:])
    assert [row.split()[0] for row in rows] == list(found) == [str(trained), str(model_folder), "BM25"]
    for row in rows:
        name, *numbers, p = row.split()
        assert p == ("best" if found[name]["p"] is None else f"{found[name]['p']:.3f}")
        assert numbers == [f"{found[name][measure]:.1f}" for measure in ("NDCG@1", "NDCG@3", "NDCG@10")]
    for word in ("queries", "left_out"):
        assert word in json.loads(ok(*arguments, "--json"))


def test_evaluate_over_a_catalogue(site: Path, trained: Path, tmp_path: Path) -> None:
    judged = ("--judged", site / "test.tsv.gz")
    done = run("evaluate", trained, "bm25", *judged, "--catalogue", site / "titles.tsv.gz")
    assert done.out.split()[:6] == ["system", "NDCG@1", "NDCG@3", "NDCG@10", "Recall@100", "MRR@10"]
    found = means(trained, "bm25", *judged, "--catalogue", site / "titles.tsv.gz")
    titles = read_titles(site / "titles.tsv.gz")
    index = Index.build(Encoder.load(trained), titles=[one.title for one in titles], ids=[one.id for one in titles])
    recalls = []
    for query in read_judged(site / "test.tsv.gz"):
        relevant = {doc_id for doc_id, grade in zip(query.doc_ids, query.grades, strict=True) if grade}
        hits = index.search(query.query, k=100, mode="vectors")
        recalls.append(len(relevant & {hit.id for hit in hits}) / len(relevant))
    assert found[str(trained)]["Recall@100"] == pytest.approx(100 * np.mean(recalls))
    assert found["BM25"]["Recall@100"] > 20
    assert 0 < found["BM25"]["MRR@10"] <= 100
    lines = unpacked(site / "titles.tsv.gz", tmp_path / "titles.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "few.tsv").write_text("".join([*lines[:100], "one bad line\n"]))
    few = ("evaluate", trained, "bm25", *judged, "--catalogue", tmp_path / "few.tsv", "--max-bad", "0.1")
    done = run(*few)
    assert done.status == 0
    assert "relevant titles not in the catalogue" in done.err
    assert f"{tmp_path / 'few.tsv'}:101: 1 column, expected doc_id, title" in done.err


def test_qrels_give_the_same_result_as_one_judged_file(site: Path, trained: Path, tmp_path: Path) -> None:
    judged = read_judged(site / "test.tsv.gz")
    rows = [(q.query_id, d, g) for q in judged for d, g in zip(q.doc_ids, q.grades.tolist(), strict=True)]
    (tmp_path / "qrels").write_text("".join(f"{query_id} 0 {doc_id} {grade}\n" for query_id, doc_id, grade in rows))
    (tmp_path / "queries.tsv").write_text(
        "query_id\tquery\n" + "".join(f"{query.query_id}\t{query.query}\n" for query in judged)
    )
    (tmp_path / "qrels.gz").write_bytes(gzip.compress((tmp_path / "qrels").read_bytes()))
    (tmp_path / "queries.tsv.gz").write_bytes(gzip.compress((tmp_path / "queries.tsv").read_bytes()))
    one = means(trained, "bm25", "--judged", site / "test.tsv.gz")
    for end in ("", ".gz"):
        beside = ("--queries", tmp_path / f"queries.tsv{end}", "--titles", site / "titles.tsv.gz")
        assert means(trained, "bm25", "--judged", tmp_path / f"qrels{end}", *beside) == one
    files = ("--queries", tmp_path / "queries.tsv", "--catalogue", site / "titles.tsv.gz")
    searched = means(trained, "bm25", "--judged", tmp_path / "qrels", *files)
    of_lists = ("NDCG@1", "NDCG@3", "NDCG@10")
    assert [searched[str(trained)][name] for name in of_lists] == [one[str(trained)][name] for name in of_lists]
    assert "Recall@100" in searched[str(trained)]
    assert means(trained, "bm25", "--judged", unpacked(site / "test.tsv.gz", tmp_path / "test.tsv")) == one


@pytest.mark.parametrize("system", ["model", "bm25"])
def test_trec_eval_agrees_on_the_run_file(system: str, site: Path, trained: Path, tmp_path: Path) -> None:
    name = str(trained) if system == "model" else system
    ours = means(name, "--judged", site / "test.tsv.gz", "--run", tmp_path / "new" / "run")
    judged = read_judged(site / "test.tsv.gz")
    gains = {q.query_id: dict(zip(q.doc_ids, (2**q.grades - 1).tolist(), strict=True)) for q in judged}
    with (tmp_path / "new" / "run").open() as file:
        run_file = pytrec_eval.parse_run(file)
    theirs = pytrec_eval.RelevanceEvaluator(gains, {"ndcg_cut.1,3,10"}).evaluate(run_file)
    assert len(theirs) == 20
    for k in (1, 3, 10):
        mean = np.mean([100 * query[f"ndcg_cut_{k}"] for query in theirs.values()])
        assert next(iter(ours.values()))[f"NDCG@{k}"] == pytest.approx(mean, abs=1e-6)
    measured = means(tmp_path / "new" / "run", name, "--judged", site / "test.tsv.gz")  # a run is a system too
    file, system = measured.values()
    assert file | {"p": None} == pytest.approx(system | {"p": None})
    again = means(name, "--judged", site / "test.tsv.gz", "--run", tmp_path / "new" / "run")  # a run may be replaced
    assert again == ours


# --- encode, index, search, rerank, info -------------------------------------------------------------------------


def test_encode_writes_the_vectors_of_the_encoder(site: Path, trained: Path, tmp_path: Path) -> None:
    encoder, titles = Encoder.load(trained), [title.title for title in read_titles(site / "titles.tsv.gz")]
    out = ok("encode", trained, site / "titles.tsv.gz", "--out", tmp_path / "new" / "titles.npy")
    assert out == f"{tmp_path / 'new' / 'titles.npy'}: {len(titles):,} vectors of 8 dimensions\n"
    found = np.load(tmp_path / "new" / "titles.npy")
    assert (found.dtype, found.shape) == (np.float32, (len(titles), 8))
    np.testing.assert_array_equal(found, encoder.encode_document(titles))
    (tmp_path / "queries.txt").write_text("title\npizza\nhotels in shanghai\n")
    ok("encode", trained, tmp_path / "queries.txt", "--queries", "--out", tmp_path / "queries.npy")
    queries = encoder.encode_query(["pizza", "hotels in shanghai"])
    np.testing.assert_array_equal(np.load(tmp_path / "queries.npy"), queries)
    plain = unpacked(site / "titles.tsv.gz", tmp_path / "titles.tsv")
    ok("encode", trained, plain, "--out", tmp_path / "queries.npy", "--overwrite")
    assert (tmp_path / "queries.npy").read_bytes() == (tmp_path / "new" / "titles.npy").read_bytes()


def test_index_and_search(tmp_path: Path, trained: Path) -> None:
    (tmp_path / "titles.csv").write_text('id,title,url\na,"Pizza, ""fresh""\nand hot",http://p\nb,naïve 上海,\n')
    out = ok("index", trained, tmp_path / "titles.csv", "--out", tmp_path / "index")
    assert out == f"{tmp_path / 'index'}: 2 titles, fusion clicks\n"
    (model,) = (tmp_path / "index" / "models").iterdir()
    assert contents(model) == contents(trained)
    hits = Index.open(tmp_path / "index").search("pizza fresh and hot")
    expected = [f"{hit.id}  {' '.join(hit.title.split())}" for hit in hits]
    lines = ok("search", tmp_path / "index" / "", "pizza fresh and hot").splitlines()
    assert [line.split("  {")[0].split("  ", 1)[1] for line in lines] == expected
    assert [float(line.split()[0]) for line in lines] == pytest.approx([hit.score for hit in hits], abs=5e-4)
    assert next(line for line in lines if "  a  " in line).endswith('  {"url": "http://p"}')
    found = json.loads(ok("search", tmp_path / "index", "pizza fresh and hot", "--json", "-k", "1"))
    expected_hit = hits[0]._asdict() | {"parts": dict(hits[0].parts)}
    assert found == {"query": "pizza fresh and hot", "hits": [expected_hit]}
    ok("index", trained, tmp_path / "titles.csv", "--out", tmp_path / "index", "--overwrite")


def test_search_reads_queries_from_arguments_or_from_stdin(indexed: Path) -> None:
    queries = ["pizza", "上海 ホテル", "  ", "naïve café"]
    by_argument = ok("search", indexed, *queries, "-k", "2", "--json")
    by_stdin = ok("search", indexed, "-k", "2", "--json", stdin="".join(f"{query}\r\n" for query in queries))
    assert by_argument == by_stdin
    found = [json.loads(line) for line in by_stdin.splitlines()]
    assert [one["query"] for one in found] == queries
    assert [len(one["hits"]) for one in found] == [2, 0, 0, 2]  # no trigram of 上海 ホテル is known
    assert ok("search", indexed, "-k", "1", stdin="pizza").splitlines()[0] == "pizza:"
    assert len(ok("search", indexed, "-k", "1", "pizza").splitlines()) == 1
    assert ok("search", indexed, stdin="") == ok("search", indexed, "") == ""
    many = ok("search", indexed, "pizza", "-k", "100000000000000000000")
    assert len(many.splitlines()) == len(Index.open(indexed))


def test_search_replaces_control_characters(tmp_path: Path, trained: Path) -> None:
    payloads = [{"note": "\x9b2J"}, None]
    titles = ["pizza \x1b[2J\tfresh\x07", "ЖЖЖ"]
    Index.build(Encoder.load(trained), titles=titles, ids=["a\u202e", "b"], payloads=payloads).save(tmp_path / "index")
    head, line = ok("search", tmp_path / "index", "pizza", "fresh\x1b[1m", "-k", "9").splitlines()[-2:]
    assert head == "fresh␛[1m:"
    assert line.split("  ", 1)[1] == 'a\ufffd  pizza ␛[2J fresh␇  {"note": "\ufffd2J"}'
    (hit,) = json.loads(ok("search", tmp_path / "index", "pizza", "--json"))["hits"]  # ЖЖЖ has no vector
    assert (hit["id"], hit["title"], hit["payload"]) == ("a\u202e", titles[0], payloads[0])


def test_search_skips_and_counts_invalid_lines(indexed: Path) -> None:
    done = run("search", indexed, "-k", "1", "--json", stdin=b"\xff\nfoo\0bar\npizza\n")
    assert done.status == 0
    assert [json.loads(line)["query"] for line in done.out.splitlines()] == ["", "", "pizza"]
    assert "2 of 3 lines" in done.err.splitlines()[0]
    assert "standard input:1: not UTF-8" in done.err


def test_rerank_orders_each_list_by_the_cosine(trained: Path) -> None:
    titles = {"1": "hotel shanghai", "2": "pizza near me", "3": "cheap flights"}
    lines = [f"{query}\t{key}\t{title}\n" for query in ("pizza", "flights") for key, title in titles.items()]
    out = ok("rerank", trained, stdin="".join(lines))
    rows = list(csv.reader(StringIO(out), delimiter="\t"))
    encoder = Encoder.load(trained)
    for query, list_of_three in (("pizza", rows[:3]), ("flights", rows[3:])):
        assert {row[0] for row in list_of_three} == {query}
        assert {row[1]: row[2] for row in list_of_three} == titles
        scores = [float(row[3]) for row in list_of_three]
        assert scores == sorted(scores, reverse=True)
        vectors = encoder.encode_document([row[2] for row in list_of_three])
        assert scores == pytest.approx((vectors @ encoder.encode_query(query)).tolist(), abs=2e-6)


def test_rerank_keeps_the_order_of_ties(trained: Path) -> None:
    ids = ["b", "z", "a", "9", "10"]
    out = ok("rerank", trained, stdin="".join(f"pizza\t{key}\tthe same title\r\n" for key in ids))
    assert [line.split("\t")[1] for line in out.splitlines()] == ids


def test_rerank_skips_bad_lines_and_fails_when_there_are_too_many(trained: Path) -> None:
    lines = "query\tid\ttitle\npizza\t1\tpizza\n\nno tabs\npizza\t2\t \npizza\t3\thotel\n"
    done = run("rerank", trained, "--max-bad", "0.5", stdin=lines)
    assert sorted(line.split("\t")[1] for line in done.out.splitlines()) == ["1", "3"]
    assert done.status == 0
    counts, fourth, fifth = done.err.splitlines()
    check_tells(counts, "2 of 4 lines")
    check_tells(fourth, "standard input:4:", "1 column", "query, id, title")
    check_tells(fifth, "standard input:5:", "title")
    done = run("rerank", trained, stdin=lines)
    assert done.status == 1
    check_tells(done.err, "standard input", "2 of 4 lines", "50.0%", "--max-bad 0.01", "standard input:4:")
    check_tells(refused("rerank", trained), "standard input", "empty")


def test_info_counts_the_parameters(trained: Path) -> None:
    sizes = {name: array.size for name, array in read_arrays(trained / "weights.safetensors").items()}
    facts = json.loads(ok("info", trained, "--json"))
    assert facts["parameters"] == sum(sizes.values())
    assert facts["input weights per tower"] == sum(size for name, size in sizes.items() if name.endswith(".input"))
    assert facts["the same with 50,000 trigrams, as the paper counts"] == "1.2M"
    assert facts["fingerprint"] == open_model(trained).fingerprint
    assert "verified" not in facts
    lines = dict(line.split(": ", 1) for line in ok("info", trained / "").splitlines())
    assert lines["parameters"] == f"{sum(sizes.values()):,}"
    assert lines["tower"] == "LSTM-RNN, 8 cells"
    assert "from clicks.tsv.gz" in lines["data"]
    assert json.loads(ok("info", trained, "--verify", "--json"))["verified"] == "every byte"


# --- demo --------------------------------------------------------------------------------------------------------


def test_demo_runs_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("msgspec")
    from clickvec.serve.about_folder import read_about

    for key, value in {"cells": 8, "epochs": 2}.items():
        monkeypatch.setitem(config.DEFAULT, key, value)
    monkeypatch.setattr(demo, "IMPRESSIONS", 5000)
    out = ok("demo", "--out", tmp_path / "demo")
    commands = [line.split()[2] for line in out.splitlines() if line.startswith("$ clickvec ")]
    assert commands == ["lab", "train", "evaluate", "index", "search", "search", "search", "explain", "report"]
    assert "BM25" in out
    assert (tmp_path / "demo" / "gates.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "demo" / "report" / "index.html").exists()
    assert Index.open(tmp_path / "demo" / "index").encoder.dimensions == 8
    about = tmp_path / "demo" / "about"  # for the page: `clickvec serve` finds it beside the index
    told = read_about(about)
    assert not told.problems
    assert told.measured
    assert {row.system for row in told.measured.rows} == {"model", "BM25"}
    assert all((row.low or 0) <= row.value <= (row.high or 0) for row in told.measured.rows)
    assert told.doctor
    assert told.doctor.findings
    message = refused(
        "evaluate", "bm25", "--judged", tmp_path / "demo/site/test.tsv.gz", "--about", about / "doctor.json"
    )
    check_tells(message, "--about", "folder")
    demo._check(tmp_path / "demo")  # its own it may replace


def test_demo_overwrites_only_an_earlier_demo(site: Path, trained: Path) -> None:
    before = contents(site.parent)  # a site and a model of the names that the demo uses
    message = refused("demo", "--out", site.parent)
    assert str(site.parent) in message
    assert "--out" in message
    assert contents(site.parent) == before
