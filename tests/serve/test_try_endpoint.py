"""POST /try, highlighted hits, and the activations in explanations."""

import pytest
from serving import Running
from tiny import TEXTS


def test_a_title_can_be_tried_out(reading: Running) -> None:
    answer = reading.post("/try", {"query": "hotels in shanghai", "title": "new hotels"}).json()
    assert [word["word"] for word in answer["title"]] == ["new", "hotels"]
    assert answer["title"][-1]["cosine"] == pytest.approx(answer["cosine"], abs=1e-5)
    assert answer["rank"]["of"] == len(TEXTS)
    assert "trace" not in answer
    same = reading.post("/try", {"query": "new york", "title": TEXTS[5], "id": "t5"}).json()
    top = reading.post("/search", {"query": "new york", "k": len(TEXTS)}).json()["hits"]
    assert same["rank"]["rank"] == [hit["id"] for hit in top].index("t5") + 1
    assert same["rank"]["id"] == "t5"


def test_a_trial_has_the_activations_of_each_cell_at_each_word(reading: Running) -> None:
    answer = reading.post("/try", {"query": "hotels in shanghai", "title": "new hotels", "trace": True}).json()
    (query,), (title,) = answer["trace"]["query"], answer["trace"]["title"]
    assert (query["words"], title["words"]) == (["hotels", "in", "shanghai"], ["new", "hotels"])
    assert {"input_gate", "forget_gate", "output_gate", "cell", "output"} <= set(title["values"])
    for values in title["values"].values():
        assert [len(row) for row in values] == [7, 7]
    explained = reading.post("/explain", {"query": "hotels in shanghai", "title": "new hotels", "trace": True}).json()
    assert explained["trace"] == answer["trace"]


def test_too_long_texts_are_refused(reading: Running) -> None:
    limits = reading.service.limits
    for body in (
        {"query": "x" * (limits.query_characters + 1), "title": "y"},
        {"query": "x", "title": "y" * (limits.title_characters + 1)},
    ):
        answer = reading.post("/try", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_hits_are_highlighted_in_every_mode(reading: Running, mode: str) -> None:
    answer = reading.post("/search", {"query": "hotels in shanghai", "k": 3, "mode": mode, "highlight": True}).json()
    assert answer["hits"]
    for hit in answer["hits"]:
        assert " ".join(word["text"] for word in hit["words"]) == hit["title"]
        assert sum(word["bm25"] for word in hit["words"]) == pytest.approx(hit["parts"]["bm25"], abs=1e-4)
    plain = reading.post("/search", {"query": "hotels in shanghai", "k": 3, "mode": mode}).json()
    assert "words" not in plain["hits"][0]
    too_many = reading.post("/search", {"query": "a", "k": 500, "highlight": True})
    assert (too_many.status_code, "highlight" in too_many.json()["error"]["message"]) == (422, True)


def test_an_explanation_compares_with_the_title_that_was_asked_for(reading: Running) -> None:
    body = {"query": "hotels in shanghai", "id": "t4", "compare_with": "t5"}
    assert reading.post("/explain", body).json()["why_not"]["first"]["title"] == TEXTS[5]
    body["compare_with"] = "x" * (reading.service.limits.title_characters + 1)
    assert reading.post("/explain", body).status_code == 422
