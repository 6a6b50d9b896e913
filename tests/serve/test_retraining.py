"""A new model is swapped in while requests are answered, and `retrain` closes the loop from clicks to a model."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from command import check_tells, ok, refused
from serving import Running, running, until
from tiny import TEXTS, tiny_model

from clickvec.data import Columns, read_clicks
from clickvec.data.cleaning import Cleaning
from clickvec.model.encoder import Encoder
from clickvec.search.fusion import Fusion
from clickvec.search.index import Index
from clickvec.serve.retraining import Reading, _read

FUSION = Fusion("mixture", {"cosine": 0.5, "words": 0.4, "codes": 0.1, "numbers": 0.1})
REPORT = {"queries": 7, "chosen": "words", "figures": {}, "reason": "of few clicks"}


def ask(service: Running) -> str:
    answer = service.post("/search", {"queries": list(TEXTS), "k": 3})
    return answer.text if answer.status_code == 200 else f"{answer.status_code} {answer.text}"


def test_no_request_fails_or_mixes_models_while_they_are_swapped(write_index: Path, tmp_path: Path) -> None:
    answers: list[str] = []
    is_over = threading.Event()
    with running(write_index, tmp_path) as service:
        expected = {ask(service)}

        def ask_all_the_time() -> None:
            while not is_over.is_set():
                answers.append(ask(service))

        asking = threading.Thread(target=ask_all_the_time)
        asking.start()
        for seed in range(1, 4):
            other = Encoder.load(tiny_model(tmp_path / f"model{seed}", seed=seed))
            with Index.open(write_index) as index:
                index.use_model(other)
            until(lambda other=other: service.client.get("/readyz").json()["model"] == other.fingerprint, seconds=5)
            expected.add(ask(service))
            so_far = len(answers)
            until(lambda so_far=so_far: len(answers) > so_far + 3)
        is_over.set()
        asking.join(60)
    assert len(expected) == 4
    assert set(answers) == expected


def test_retrain_learns_from_the_clicks_of_the_service(indexed: Path, site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    index = shutil.copytree(indexed, tmp_path / "index")
    clicks = read_clicks(site / "clicks.tsv.gz")
    id_of = {document.title: document.id for document in Index.open(index)}
    path = tmp_path / "index.clicks.jsonl"
    with running(index, tmp_path, click_log=path) as service:
        old = service.client.get("/readyz").json()["model"]
        for query, title in list(zip(clicks.queries, clicks.titles, strict=True))[:1_500]:
            if title in id_of:
                shown = [{"id": id_of[title]}]
                assert service.post("/click", {"query": query, "shown": shown, "clicked": [id_of[title]]}).is_success
        outcome = json.loads(ok("retrain", index, "--json"))
        assert outcome["compared"] or not outcome["swapped"]
        if outcome["swapped"]:
            assert outcome["fingerprint"] != old
            until(lambda: service.client.get("/readyz").json()["model"] == outcome["fingerprint"], seconds=5)
            assert not path.exists()
            assert "no new clicks" in refused("retrain", index)
        else:
            assert service.client.get("/readyz").json()["model"] == old
        assert service.post("/search", {"query": clicks.queries[0]}).json()["hits"]


def test_retrain_keeps_secrets_if_it_is_told_to_and_names_the_rule_that_drops(
    indexed: Path, site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("torch")
    clicks = read_clicks(site / "clicks.tsv.gz")
    lines = [
        {"query": f"{query} 06175901{number:02}", "title": title, "client": f"c{client}"}
        for number, (query, title) in enumerate(list(zip(clicks.queries, clicks.titles, strict=True))[:99])
        for client in range(3)
    ]
    rare = [{"query": f"only once {number}", "title": "x", "client": "c"} for number in range(900)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, *rare]))
    caplog.set_level("INFO")
    reasons = []
    for option in ((), ("--keep-secrets",)):
        index = shutil.copytree(indexed, tmp_path / f"index{len(reasons)}")
        reasons.append(
            json.loads(ok("retrain", index, "--clicks", tmp_path / "new.jsonl", *option, "--json"))["reason"]
        )
    assert "99 different queries" in reasons[1]
    assert "99 different queries" not in reasons[0]  # several became one
    assert "--k-anonymous 3 drops 900 of" in caplog.text
    assert "--drop-queries" not in caplog.text


def test_a_model_that_came_meanwhile_is_not_replaced(
    indexed: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from clickvec.training import continuing

    index, log, train = (
        shutil.copytree(indexed, tmp_path / "index"),
        tmp_path / "index.clicks.jsonl",
        continuing.continue_training,
    )
    other = Encoder.load(tiny_model(tmp_path / "other", seed=3))
    clicks = read_clicks(site / "clicks.tsv.gz")
    pairs = list(zip(clicks.queries, clicks.titles, strict=True))[:1_500]
    log.write_text("".join(json.dumps({"query": query, "title": title}) + "\n" for query, title in pairs))

    def slowly(*args: object, **options: object) -> Encoder:
        new = train(*args, **options)  # type: ignore[arg-type]
        with Index.open(index) as opened:
            opened.use_model(other)
        return new

    monkeypatch.setattr(continuing, "continue_training", slowly)
    check_tells(refused("retrain", index), "got another model meanwhile", "Run it again")
    with Index.open(index) as opened:
        assert opened.encoder.fingerprint == other.fingerprint
    assert not list(tmp_path.glob("*.used.jsonl"))


def test_too_few_clicks_keep_the_old_model_and_the_log(indexed: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    index = shutil.copytree(indexed, tmp_path / "index")
    first = next(iter(Index.open(index)))
    with running(index, tmp_path, click_log=tmp_path / "index.clicks.jsonl") as service:
        for number in range(5):
            service.post("/click", {"query": f"query {number}", "clicked": [first.id]})
    for _ in range(2):  # the clicks are there the next time too
        outcome = json.loads(ok("retrain", index, "--json"))
        assert not outcome["swapped"]
        assert "too few clicks" in outcome["reason"]
        assert "5 different queries" in outcome["reason"]


def test_retrain_fits_the_fusion_and_tells_what_k_anonymity_drops(
    indexed: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from clickvec.training import fusing

    index = shutil.copytree(indexed, tmp_path / "index")
    clicks = read_clicks(site / "clicks.tsv.gz")
    with Index.open(index) as opened:
        opened.use_fusion(FUSION, report=REPORT)
    lines = list(zip(clicks.queries, clicks.titles, strict=True))[:2_000]
    with (tmp_path / "new.jsonl").open("w") as file:
        for number, (query, title) in enumerate(lines):
            file.write(json.dumps({"query": query, "title": title, "client": f"c{number}"}) + "\n")
    outcome = json.loads(ok("retrain", index, "--clicks", tmp_path / "new.jsonl", "--json"))
    assert not outcome["swapped"]
    check_tells(outcome["reason"], "too few clicks", "different queries", "fewer than 3 clients", "--k-anonymous 0")
    with (tmp_path / "old.tsv").open("w") as file:  # without clients: its queries are kept
        file.write("query\ttitle\n" + "".join(f"{query}\t{title}\n" for query, title in lines[:1_500]))
    both = ("retrain", index, "--clicks", tmp_path / "new.jsonl", "--clicks", tmp_path / "old.tsv", "--json")
    with monkeypatch.context() as patched:  # with too few queries to fit a fusion, the old one stays
        patched.setattr(fusing, "FEWEST_QUERIES", 10**6)
        outcome = json.loads(ok(*both))
        assert (outcome["swapped"], outcome["reason"].endswith("The fusion of words and vectors stays.")) == (
            True,
            True,
        )
    with Index.open(index) as opened:
        assert (opened.fusion, opened.fusion_report) == (FUSION, REPORT)
    outcome = json.loads(ok("retrain", index, "--clicks", tmp_path / "new.jsonl", "--k-anonymous", "0", "--json"))
    assert outcome["compared"]
    check_tells(outcome["reason"], "fusion of words and vectors was fitted anew", "min_score")
    with Index.open(index) as opened:
        assert opened.encoder.fingerprint == outcome["fingerprint"]
        assert opened.fusion != FUSION
        assert opened.fusion_report["queries"] >= 50
        assert opened.encoder.model.fusion == opened.fusion.as_json()


def test_retrain_reads_and_cleans_logs_as_prepare_does(indexed: Path, site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    index = shutil.copytree(indexed, tmp_path / "index")
    clicks = read_clicks(site / "clicks.tsv.gz")
    lines = list(zip(clicks.queries, clicks.titles, strict=True))[:1_500]
    ids = {title: f"d{number}" for number, title in enumerate(dict.fromkeys(title for _, title in lines))}
    (tmp_path / "titles.tsv").write_text("doc_id\ttitle\n" + "".join(f"{i}\t{title}\n" for title, i in ids.items()))
    rows = [f"{query}\t{ids[title]}\tperson {number}\t{number * 60}\n" for number, (query, title) in enumerate(lines)]
    rows += [f"query of a robot {number}\td0\trobot\t{number}\n" for number in range(1_000)]
    (tmp_path / "new.tsv").write_text("search_term\tdoc_id\tclient\ttime\n" + "".join(rows))
    command = ("retrain", index, "--clicks", tmp_path / "new.tsv", "--k-anonymous", "0", "--json")
    names = ("--columns", "query=search_term", "--catalogue", tmp_path / "titles.tsv", "--max-per-hour", "100")
    assert json.loads(ok(*command, *names))["compared"]
    for most, is_there in ((0, True), (100, False)):
        columns, cleaning = Columns({"query": "search_term"}), Cleaning(max_per_hour=most)
        reading = Reading(columns, tmp_path / "titles.tsv", cleaning=cleaning)
        log, *_ = _read((), [tmp_path / "new.tsv"], reading._replace(cleaning=replace(cleaning, k_anonymous=0)))
        assert any("robot" in query for query in log.queries) is is_there
