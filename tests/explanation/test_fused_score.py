"""The score of a hit, by words and vectors: its parts add up, ranks are those of a search, and gaps are explained."""

import json
import math

import pytest
from markup import check_page
from tiny import TEXTS, tiny

import clickvec
from clickvec.explanation import explainer
from clickvec.explanation.explainer import Explanation, explain_hits
from clickvec.explanation.fused_score import FusedQuery
from clickvec.model.encoder import Encoder
from clickvec.render.html.explanation_page import explanation_page
from clickvec.render.terminal.explanation_text import show
from clickvec.render.terminal.screen import Screen
from clickvec.search import retrieval
from clickvec.search.fusion import Fusion
from clickvec.search.index import Index
from clickvec.search.parts.vector_part import VECTORS
from clickvec.search.parts.word_part import WORDS

ENCODER = Encoder(tiny("lstm"))
UNREADABLE = "ЖЖЖ лев AB-1234"  # has no letter trigram that the model knows
TITLES = [*TEXTS, UNREADABLE, "hotels in shanghai hotels"]
QUERIES = [TEXTS[0], "cheap hotels", "лев", "лев hotels", "ab1234 paint"]
FEATURE_NAMES = [feature.name for part in (VECTORS, WORDS) for feature in part.features]
CLICKS = Fusion.from_json(
    {"method": "clicks", "weights": {"constant": -2.0, **dict.fromkeys(FEATURE_NAMES, 1.5), "unknown words": -1.0}}
)
CALIBRATED = Fusion.from_json({"method": "clicks", "weights": {**CLICKS.weights, "bend": -0.5, "bend from": -1.5}})
FUSIONS = {"default": Fusion.default(), "ranks": Fusion.ranks(5), "clicks": CLICKS, "calibrated": CALIBRATED}


def index_with(fusion: Fusion, vectors: str = "float32") -> Index:
    index = Index.build(ENCODER, titles=TITLES, ids=[f"t{number}" for number in range(len(TITLES))], vectors=vectors)
    index.use_fusion(fusion)
    return index


def told(explanation: Explanation) -> str:
    return " ".join(show(explanation, Screen(120)).split())


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_the_parts_of_every_hit_add_up(query: str, fusion: Fusion) -> None:
    index = index_with(fusion)
    hits = index.search(query, k=len(TITLES))
    assert hits
    for place, hit in enumerate(hits, 1):
        found = clickvec.explain(index, query, hit.id)
        fused, rank = found.fused, found.rank
        assert fused
        assert rank
        assert found.score == fused.score == pytest.approx(hit.score, abs=1e-6)
        assert fused.total == pytest.approx(sum(part.contribution for part in fused.terms))
        assert fused.is_probability == (fusion.method == "clicks")
        assert fused.score == pytest.approx(
            1 / (1 + math.exp(-fused.total)) if fused.is_probability else fused.total, abs=1e-6
        )
        assert fused.part("vectors").value == pytest.approx(hit.parts["cosine"], abs=1e-6)
        assert fused.part("words").value == pytest.approx(hit.parts["bm25"], abs=1e-6)
        assert sum(word.contribution for word in fused.part("words").words or ()) == pytest.approx(
            fused.part("words").value
        )
        for words in (found.query_words, found.title_words):
            contributions = sum(word.contribution for word in words) + fused.part("vectors").rounding
            assert contributions == pytest.approx(fused.part("vectors").value, abs=1e-6)
        assert (rank.rank, rank.of, rank.id, rank.first) == (place, len(TITLES), hit.id, hits[0].id)


@pytest.mark.parametrize("query", QUERIES)
def test_the_ranks_by_words_and_by_vectors_are_those_of_a_search(query: str) -> None:
    index = index_with(Fusion.default())
    alone = {
        mode: {hit.id: place for place, hit in enumerate(index.search(query, k=99, mode=mode), 1)}
        for mode in ("words", "vectors")
    }
    for number in range(len(TITLES)):
        rank = clickvec.explain(index, query, f"t{number}").rank
        assert rank
        assert rank.by["words"] == alone["words"].get(f"t{number}")
        assert rank.by["vectors"] == alone["vectors"].get(f"t{number}")


def test_an_example_worked_by_hand() -> None:
    """Two of three titles have `paint` once: idf = ln(1 + 1.5 / 2.5). They have two words each, as the mean."""
    index = Index.build(ENCODER, ["paint hotels", "cheap paint", "new york"])
    fusion = Fusion.from_json({"method": "mixture", "weights": {"cosine": 0.75, "words": 0.25, "codes": 0.1}})
    index.use_fusion(fusion)
    found = clickvec.explain(index, "paint", "1").fused
    assert found
    idf = math.log(1 + 1.5 / 2.5)
    assert found.part("words").value == pytest.approx(idf / (1 + 1.2), rel=1e-6)
    cosine = float(ENCODER.encode_query("paint") @ ENCODER.encode_document("cheap paint"))
    parts = {part.name: part.contribution for part in found.terms if part.contribution}
    assert parts == {"cosine": pytest.approx(0.75 * cosine, abs=1e-6), "words": pytest.approx(0.25 / 2.2)}
    assert [(word.word, word.matched, word.is_known, word.similar) for word in found.part("words").words or ()] == [
        ("paint", ("paint",), True, ())
    ]


def test_a_title_that_only_words_find_and_one_that_only_vectors_find() -> None:
    index = index_with(Fusion.default())
    by_words = clickvec.explain(index, "лев hotels", "t8")
    assert by_words.fused
    assert by_words.rank
    assert (by_words.fused.part("vectors").value, by_words.pair.score) == (0, 0)
    assert by_words.score > 0
    assert by_words.rank.by["vectors"] is None
    text = told(by_words)
    assert "The title has no letter trigram that the model knows: it has no vector, and only words can match." in text
    assert f"= BM25 query лев hotels title {UNREADABLE}" in text
    by_vectors = clickvec.explain(index, "hotel", "t0")
    assert by_vectors.fused
    if not by_vectors.fused.part("words").value:
        assert "No word of the query is in the title, so BM25 is 0." in told(by_vectors)
    assert by_vectors.fused.part("vectors").value != 0


def test_a_query_of_unknown_letters_is_found_by_its_words() -> None:
    found = clickvec.explain(index_with(Fusion.default()), "лев")
    assert (found.pair.title, found.rank and found.rank.rank) == (UNREADABLE, 1)
    assert "The query has no letter trigram" in told(found)
    page = explanation_page(found)
    assert "Parts of the score" in page
    assert "only words can match" in page


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
def test_the_gap_is_the_sum_of_the_differences(fusion: Fusion) -> None:
    index, query = index_with(fusion), "cheap hotels in shanghai"
    for number in range(len(TITLES)):
        found = clickvec.explain(index, query, f"t{number}")
        compared = found.why_not
        assert found.rank
        assert (compared is None) == (found.rank.rank in (None, 1))
        if compared is None:
            continue
        top = clickvec.explain(index, query)
        assert top.fused
        assert found.fused
        assert compared.score == found.score
        assert compared.first_score == pytest.approx(top.score, abs=1e-6)
        assert compared.gap == pytest.approx(top.score - found.score, abs=1e-6)
        differences = sum(share.difference for share in compared.terms)
        assert differences == pytest.approx(top.fused.total - found.fused.total, abs=1e-6)
        in_bm25 = sum(share.difference for share in compared.part_words["BM25"])
        assert in_bm25 == pytest.approx(top.fused.part("words").value - found.fused.part("words").value, abs=1e-6)
        in_cosine = sum(share.difference for share in compared.words)
        assert in_cosine == pytest.approx(top.fused.part("vectors").value - found.fused.part("vectors").value, abs=1e-5)
        if compared.reached and compared.gap > 0:
            assert compared.path[-1].score > compared.first_score


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
def test_texts_score_as_they_would_in_the_index(fusion: Fusion) -> None:
    index = index_with(fusion)
    query = FusedQuery(index.view(), "cheap hotels")
    scores = query.scores(TITLES)
    hits = {hit.id: hit.score for hit in index.search("cheap hotels", k=99)}
    if fusion.method == "ranks":  # a copy of a title ranks with the title itself
        assert all(scores[int(key[1:])] <= score + 1e-6 for key, score in hits.items())
    else:
        assert {key: pytest.approx(scores[int(key[1:])], abs=1e-6) for key in hits} == hits
    for text, score in zip(TITLES, scores, strict=True):
        assert query.of_text(text).score == pytest.approx(score, abs=1e-6)


def test_rounded_vectors_are_accounted_for() -> None:
    index = index_with(Fusion.default(), "int8")
    hit = index.search(TEXTS[0], k=1)[0]
    found = clickvec.explain(index, TEXTS[0])
    assert found.fused
    assert found.score == pytest.approx(hit.score, abs=1e-6)
    assert found.fused.part("vectors").rounding == pytest.approx(hit.parts["cosine"] - found.pair.score, abs=1e-6)
    assert found.fused.part("vectors").rounding != 0


def test_a_misspelled_word_names_the_word_it_stands_for() -> None:
    index = Index.build(ENCODER, ["kitchen faucet", "paint", "new york"])
    term = index.view().words.terms("fauct")[0]
    if not term.words:
        pytest.skip("no word of the index is near")
    found = clickvec.explain(index, "fauct", "0")
    assert found.fused
    (word,) = found.fused.part("words").words or ()
    assert (word.word, word.matched, word.is_known) == ("fauct", ("faucet",), False)
    assert "fauct -> faucet" in told(found)
    assert "fauct → faucet" in explanation_page(found)


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
def test_json_and_the_page_hold_all_of_it(fusion: Fusion) -> None:
    found = clickvec.explain(index_with(fusion), "cheap hotels", "t3")
    data = json.loads(json.dumps(found.as_json()))
    assert found.fused
    assert data["score"] == found.score
    assert data["fused"]["parts"][1]["value"] == found.fused.part("words").value
    assert [part["name"] for part in data["fused"]["terms"]] == [part.name for part in found.fused.terms]
    assert data["why_not"]["terms"]
    page = explanation_page(found)
    check_page(page)
    for text in ("Parts of the score", "Why this cosine", "BM25: what each word of the query adds"):
        assert text in page
    assert ("probability of a click" in page) == (fusion.method == "clicks")
    assert repr(found).startswith(f"Explanation(score {found.score:.3f}, cosine ")


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
def test_hits_that_are_explained_together_are_explained_as_each_alone(fusion: Fusion) -> None:
    index = index_with(fusion)
    ids = [hit.id for hit in index.search("cheap hotels", k=4)]
    for found, doc_id in zip(explain_hits(index, "cheap hotels", ids), ids, strict=True):
        alone = clickvec.explain(index, "cheap hotels", doc_id)
        assert found.as_json() | {"why_not": None} == alone.as_json() | {"why_not": None}
    assert explain_hits(index, "cheap hotels", []) == []


def test_titles_that_were_added_replaced_and_deleted() -> None:
    index = index_with(Fusion.default())
    index.add(ids=["t0", "new"], titles=["paint", "paint a bathtub"])
    index.delete(["t5"])
    found = clickvec.explain(index, "paint", "t0")
    assert found.rank
    assert (found.pair.title, found.rank.id, found.rank.of) == ("paint", "t0", len(TITLES))
    assert found.score == pytest.approx({hit.id: hit.score for hit in index.search("paint", k=99)}["t0"], abs=1e-6)
    gone = clickvec.explain(index, "new york", "t5")  # no longer an id: it is explained as a text
    assert gone.rank
    assert (gone.pair.title, gone.rank.id) == ("t5", None)


def test_in_a_large_index_only_the_best_titles_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_with(Fusion.default())
    places = {hit.id: place for place, hit in enumerate(index.search("cheap hotels", k=99), 1)}
    monkeypatch.setattr(explainer, "RANKED_TITLES", 5)
    for doc_id, place in places.items():
        rank = clickvec.explain(index, "cheap hotels", doc_id).rank
        assert rank
        assert (rank.rank, rank.depth) == (place, None)
    monkeypatch.setattr(explainer, "RANKED_DEPTH", 1)
    monkeypatch.setattr(retrieval, "DEPTH", 1)
    last = clickvec.explain(index, "cheap hotels", list(places)[-1])
    assert last.rank
    assert (last.rank.rank, last.rank.depth) == (None, 1)
    assert last.why_not
    assert f"below 1 of {len(TITLES)} titles" in told(last)
    assert "not among the first 1 of" in explanation_page(last)
    monkeypatch.setattr(retrieval, "DEPTH", 100)
    text = clickvec.explain(index, "cheap hotels", "hotels that are new")
    assert "not in the index; it would rank" in told(text)
