"""What the service knows about its model."""

import json
from pathlib import Path

import pytest
from serving import running
from tiny import TEXTS, tiny

from clickvec.model.encoder import Encoder
from clickvec.model.folder import save_model
from clickvec.search.index import Index
from clickvec.serve.about_folder import Figure, Measured, MeasuredRow, write_measured
from clickvec.serve.counters import Counters

HELD_OUT = {
    "queries": 500, "titles": 8,
    "systems": [
        {"system": "model", "NDCG@10": 61.3, "intervals": {"NDCG@10": [60.0, 62.5]}},
        {"system": "BM25 (tuned)", "NDCG@10": 52.5, "intervals": {"NDCG@10": [51.2, 53.8]}},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def trained_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    model = tiny()
    training = {"recipe": {"epochs": 2}, "data": {"from": "log.tsv", "pairs": 9}, "kept_epoch": 2, "held_out": HELD_OUT}
    rows = [{"epoch": 1, "loss": 3.5, "seconds": 7.5, "dev": {"NDCG@10": 90.5}}, {"epoch": 2, "loss": 2.5}]
    metrics = "\n".join(["not JSON", *map(json.dumps, rows), '{"epoch": 3, "loss": NaN}', ""])
    save_model(model._replace(metrics=metrics, training=training), folder / "model")
    index = Index.build(Encoder.load(folder / "model"), TEXTS)
    index.save(folder / "index")
    return folder / "index"


def test_the_model_of_the_index_tells_how_it_was_trained(trained_index: Path, tmp_path: Path) -> None:
    with running(trained_index, tmp_path) as service:
        service.post("/search", {"query": "hotels"})
        told = service.client.get("/model").json()
    assert told["history"] == [
        {"epoch": 1, "loss": 3.5, "seconds": 7.5, "dev": {"NDCG@10": 90.5}},
        {"epoch": 2, "loss": 2.5, "seconds": None, "dev": {}},
    ]
    assert (told["kept_epoch"], told["recipe"], told["data"]["pairs"]) == (2, {"epochs": 2}, 9)
    assert told["facts"]["parameters"] > 0
    assert {size["name"] for size in told["sizes"]} == {"titles", "model", "vectors and words", "titles and payloads"}
    assert told["measured"]["queries"] == 500
    assert "log.tsv" in told["measured"]["data"]
    assert told["measured"]["rows"][1] == {
        "system": "BM25 (tuned)", "metric": "NDCG@10", "value": 52.5, "low": 51.2, "high": 53.8
    }  # fmt: skip
    assert [figure["name"] for figure in told["speed"]] == [
        "searches since the start", "95% of searches answered within"
    ]  # fmt: skip
    assert (told["doctor"], told["problems"]) == (None, [])


def test_the_folder_about_tells_more(trained_index: Path, tmp_path: Path) -> None:
    measured = Measured(
        "test.tsv", 7, [MeasuredRow("model", "MRR@10", 50.0)], speed=[Figure("search", 900, "queries/s")]
    )
    write_measured(tmp_path / "about", measured)
    (tmp_path / "about" / "doctor.json").write_text('{"source": "log.tsv", "findings": 7}')
    with running(trained_index, tmp_path, about=tmp_path / "about") as service:
        told = service.client.get("/model").json()
    assert (told["measured"]["data"], told["speed"][0]["value"], told["doctor"]) == ("test.tsv", 900, None)
    assert len(told["problems"]) == 1
    assert "doctor.json" in told["problems"][0]


def test_a_folder_that_was_removed_is_told(trained_index: Path, tmp_path: Path) -> None:
    with running(trained_index, tmp_path, about=tmp_path / "gone") as service:
        told = service.client.get("/model").json()
    assert told["problems"] == ["There is no folder gone."]


def test_latencies_are_bounds_that_hold_for_a_share_of_the_requests() -> None:
    counters = Counters(["a", "b"], workers=2)
    for number in range(100):
        counters.count(number % 2, "a", 200, 0.0015 if number < 94 else 0.3)
    assert (counters.requests("a"), counters.requests("b")) == (100, 0)
    assert (counters.within("a", 0.5), counters.within("a", 0.95)) == (0.002, 0.5)


def test_a_request_longer_than_all_bounds_is_within_none_of_them() -> None:
    counters = Counters(["a"])
    for seconds in (0.0015, 60.0):
        counters.count(0, "a", 200, seconds)
    assert (counters.within("a", 0.5), counters.within("a", 0.95)) == (0.002, None)
