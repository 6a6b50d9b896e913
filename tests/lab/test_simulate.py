"""The simulated site: what its log and judged sets promise, and that they are the same for everybody."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickvec.errors import ClickvecError
from clickvec.lab import simulate
from clickvec.lab.simulate import Impressions, Site, Summary, traffic
from clickvec.lab.simulate import vocabulary as simulated_topics
from clickvec.lab.simulate.phrasing import BUY, NAVIGATE, Text
from clickvec.lab.simulate.site import DEV, TEST, TRAIN, Texts

SHANGHAI, BATH_TUB = simulated_topics.PAPER_PAIRS


@pytest.fixture(scope="module")
def site() -> Site:
    return Site.build(0)


@pytest.fixture(scope="module")
def block(site: Site) -> Impressions:
    blocks = list(simulate.impressions(site, 300_000))
    return Impressions._make(np.concatenate(columns) for columns in zip(*blocks, strict=True))


@pytest.fixture(scope="module")
def folder(site: Site, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    out = tmp_path_factory.mktemp("simulate") / "no" / "such" / "parent"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "build", lambda seed=0: site)
        return out, simulate.write(out)


@pytest.fixture
def built(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Spares `write` the building of the site."""
    monkeypatch.setattr(Site, "build", lambda seed=0: site)
    return site


def read(path: Path, header: str) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        assert next(lines) == header.replace(" ", "\t") + "\n"
        return [line.removesuffix("\n").split("\t") for line in lines]


def judged(folder: Path, name: str) -> list[list[str]]:
    return read(folder / f"{name}.tsv.gz", "query_id query doc_id title grade")


def clicks(folder: Path) -> list[list[str]]:
    return read(folder / "clicks.tsv.gz", "query title clicks")


# --- the vocabulary ----------------------------------------------------------------------------------------------


def test_there_are_enough_topics_and_intents_and_every_name_is_one_thing() -> None:
    topics = simulated_topics.TOPICS
    intents = [intent for topic in topics.values() for family in topic["families"].values() for intent in family]
    sites = [site for topic in topics.values() for site in topic["sites"]]
    assert len(topics) >= 14
    assert all(len([i for f in topic["families"].values() for i in f]) >= 20 for topic in topics.values())
    assert len(set(intents)) == len(intents)
    assert len(set(sites)) == len(sites)


def test_every_synonym_is_used_and_every_intent_can_be_bought() -> None:
    for name, topic in simulated_topics.TOPICS.items():
        lines = [line for family in topic["families"].values() for line in family.values()]
        used = {word for line in lines for word in line.split()}
        assert [line for line in topic["words"] if line.split()[0] not in used] == [], name
        assert [line for line in lines if all(form.startswith("to ") for form in line.split(" | "))] == [], name


# --- the site ----------------------------------------------------------------------------------------------------


def test_texts_are_unique_normalised_and_many(site: Site) -> None:
    for texts in (site.titles.text, site.queries.text):
        assert len(set(texts)) == len(texts)
        assert all(text == " ".join(text.lower().split()) for text in texts)
    assert 4_000 <= len(site.titles) <= 8_000
    assert len(site.lists) >= 20_000


def test_a_misspelling_is_one_edit_away_and_in_the_split_of_its_query(site: Site) -> None:
    for wrong in range(len(site.lists), len(site.queries), 97):
        meant = site.clean[wrong]
        written, right = site.queries.text[wrong].split(), site.queries.text[meant].split()
        pairs = [(a, b) for a, b in zip(written, right, strict=True) if a != b]
        assert len(pairs) == 1
        assert abs(len(pairs[0][0]) - len(pairs[0][1])) <= 1
        assert pairs[0][0][0] == pairs[0][1][0]
        assert site.split[wrong] == site.split[meant]


def test_rephrasing_by_function_words_does_not_cross_the_split(site: Site) -> None:
    sides: dict[tuple[str, ...], set[int]] = {}
    function_words = simulated_topics.FUNCTION_WORDS.split()
    for text, split in zip(site.queries.text, site.split[: len(site.lists)].tolist(), strict=False):
        sides.setdefault(tuple(sorted(set(text.split()) - set(function_words))), set()).add(split)
    assert [words for words, splits in sides.items() if len(splits) > 1] == []


def test_no_training_query_is_left_without_traffic_and_no_other_has_any(site: Site) -> None:
    assert np.array_equal(site.share > 0, site.split[: len(site.lists)] == TRAIN)
    assert site.share.sum() == pytest.approx(1)


def test_every_query_has_fifteen_different_titles_and_one_that_is_worth_a_click(site: Site) -> None:
    assert site.lists.shape[1] == 15
    assert (np.diff(site.lists, axis=1) > 0).all()
    assert (site.grades.max(axis=1) > 0).all()
    assert (site.grades.max(axis=1) >= 2).mean() > 0.98


def test_grades_follow_from_intent_attribute_purpose_and_site() -> None:
    def texts(*rows: Text) -> Texts:
        return Texts.of(list(rows))

    query = texts(Text("", topic=0, family=1, intent=2, attribute=3))
    titles = texts(
        Text("exact", 0, 1, 2, 3),
        Text("no attribute", 0, 1, 2),
        Text("exact, but sells", 0, 1, 2, 3, kind=BUY),
        Text("another attribute", 0, 1, 2, 4),
        Text("another intent", 0, 1, 5, 3),
        Text("another family", 0, 6, 7, 3),
        Text("another topic", 8, 9, 10, -1),
    )
    every = np.arange(len(titles))
    assert simulate.grade(query, titles, np.zeros_like(every), every).tolist() == [3, 2, 2, 1, 1, 0, 0]

    query = texts(Text("", topic=0, site=1, kind=NAVIGATE))
    titles = texts(
        Text("home page", 0, site=1, kind=NAVIGATE),
        Text("section", 0, 2, site=1, kind=NAVIGATE),
        Text("article there", 0, 2, 3, site=1),
        Text("home page of a rival", 0, site=2, kind=NAVIGATE),
        Text("article elsewhere", 0, 2, 3, site=2),
        Text("article of no site", 0, 2, 3),
    )
    every = np.arange(len(titles))
    assert simulate.grade(query, titles, np.zeros_like(every), every).tolist() == [3, 2, 2, 1, 0, 0]


# --- the traffic -------------------------------------------------------------------------------------------------


def test_click_rate_falls_with_position_and_rises_with_grade(site: Site, block: Impressions) -> None:
    graded = site.grades[site.clean[block.query], block.slot]
    assert np.array_equal(site.lists[site.clean[block.query], block.slot], block.title)
    by_grade = [block.clicked[graded == grade].mean() for grade in range(4)]
    assert by_grade == sorted(by_grade)
    assert by_grade[3] > 5 * by_grade[0] > 0
    for grade in (2, 3):  # at the same grade, or better titles standing higher would do it
        rates = [block.clicked[(graded == grade) & (block.position == place)].mean() for place in (1, 3, 6, 10)]
        assert rates == sorted(rates, reverse=True)
        assert rates[0] > 2 * rates[-1]


def test_shares_of_the_traffic(site: Site, block: Impressions) -> None:
    kind = site.queries.kind[block.query]
    assert (site.clean[block.query] != block.query).mean() == pytest.approx(0.2, abs=0.015)
    assert (kind == NAVIGATE).mean() == pytest.approx(0.2, abs=0.015)
    assert (kind == BUY).mean() == pytest.approx(0.1, abs=0.015)
    assert (site.split[block.query] == TRAIN).all()


def test_queries_have_a_head_and_a_tail(block: Impressions) -> None:
    views = np.sort(np.unique(block.query[::10], return_counts=True)[1])[::-1]
    assert views[: len(views) // 10].sum() > 0.3 * views.sum()
    assert (views == 1).mean() > 0.3


def test_a_page_view_is_one_client_one_query_and_ten_different_titles(block: Impressions) -> None:
    for column in (block.time, block.client, block.query):
        assert (column.reshape(-1, 10) == column[::10, None]).all()
    assert (np.diff(np.sort(block.title.reshape(-1, 10), axis=1), axis=1) > 0).all()
    assert (block.position.reshape(-1, 10) == np.arange(1, 11)).all()
    assert (np.diff(block.time) >= 0).all()


@settings(max_examples=25)
@given(count=st.integers(0, 150_000))
def test_a_short_log_is_the_beginning_of_a_longer_one(site: Site, block: Impressions, count: int) -> None:
    short = list(simulate.impressions(site, count))
    assert sum(len(part.query) for part in short) == count
    start = 0
    for part in short:
        for column, whole in zip(part, block, strict=True):
            assert np.array_equal(column, whole[start : start + len(column)])
        start += len(part.query)


def test_another_seed_is_another_log(site: Site, block: Impressions) -> None:
    other = next(simulate.impressions(site, 1_000, seed=1))
    assert not np.array_equal(other.query, block.query[:1_000])


def test_memory_does_not_grow_with_the_log(site: Site) -> None:
    def peak(blocks: int) -> int:
        tracemalloc.start()
        # Only some blocks of 10^8 impressions are taken, and those are not held.
        taken: Iterator[Impressions] = islice(simulate.impressions(site, 10**8), blocks)
        assert sum(len(block.query) for block in taken) == blocks * 100_000
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(20) < 1.2 * peak(3) < 100e6


# --- the files ---------------------------------------------------------------------------------------------------


def test_the_default_log(folder: tuple[Path, Summary]) -> None:
    out, summary = folder
    rows = read(out / "impressions.tsv.gz", "time client query title position clicked")
    assert len(rows) == summary.impressions == 200_000
    counted = Counter((query, title) for _, _, query, title, _, clicked in rows if clicked == "1")
    assert {(query, title): int(count) for query, title, count in clicks(out)} == counted
    assert summary.clicks == counted.total()
    assert 15_000 <= summary.pairs == len(counted) <= 40_000
    shown = {(query, title): grade for _, query, _, title, grade in judged(out, "train_judged")}
    assert shown.keys() == {(row[2], row[3]) for row in rows}
    assert {pair for pair, grade in shown.items() if grade == "1"} == counted.keys()
    assert set(shown.values()) == {"0", "1"}
    assert summary.queries == len({row[2] for row in rows})


def test_many_clicked_pairs_share_no_word(folder: tuple[Path, Summary]) -> None:
    out, summary = folder
    apart = [not set(query.split()) & set(title.split()) for query, title, _ in clicks(out)]
    assert summary.no_common_word == pytest.approx(np.mean(apart))
    assert 0.3 < summary.no_common_word < 0.65


def test_judged_sets(folder: tuple[Path, Summary]) -> None:
    out, summary = folder
    titles = dict(read(out / "titles.tsv.gz", "doc_id title"))
    assert len(titles) == summary.titles
    seen = [{row[1] for row in judged(out, "train_judged")} | {row[0] for row in clicks(out)}]
    for name, count in (("dev", 300), ("test", 600)):
        rows = judged(out, name)
        assert set(Counter(row[0] for row in rows).values()) == {15}
        assert len({row[1] for row in rows}) == len({row[0] for row in rows}) == count
        assert all(titles[row[2]] == row[3] for row in rows)
        grades = Counter(row[4] for row in rows)
        assert set(grades) == {"0", "1", "2", "3"}
        assert min(grades.values()) > 0.05 * len(rows)
        seen.append({row[1] for row in rows})
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]


def test_judged_queries_are_of_all_kinds(site: Site) -> None:
    for split in (DEV, TEST):
        queries = traffic._judged(site, split, 600, 0)
        kind = site.queries.kind[queries]
        assert (site.split[queries] == split).all()
        assert (site.clean[queries] != queries).mean() == pytest.approx(0.2, abs=0.05)
        assert (kind == NAVIGATE).mean() == pytest.approx(0.2, abs=0.05)
        assert (kind == BUY).mean() == pytest.approx(0.1, abs=0.05)


def test_the_papers_examples_are_judged_as_in_the_paper(folder: tuple[Path, Summary]) -> None:
    grades = {(query, title): grade for _, query, _, title, grade in judged(folder[0], "test")}
    assert SHANGHAI[0][0] == "hotels in shanghai"
    assert grades[SHANGHAI[0][0], SHANGHAI[1][0]] == "2"
    assert BATH_TUB[0][0] == "how to fix bath tub wont turn off"
    assert grades[BATH_TUB[0][0], BATH_TUB[1][0]] == "0"
    queries = {query for query, _ in grades}
    assert {query for query, _ in simulated_topics.PAPER_QUERIES} <= queries


def test_pizza_and_infection_can_be_learnt(folder: tuple[Path, Summary]) -> None:
    rows = clicks(folder[0])
    for word in ("pizza", "infection", "shanghai"):
        assert sum(word in query.split() for query, _, _ in rows) > 20, word
        assert sum(word in title.split() for _, title, _ in rows) > 10, word


def test_labels_cover_every_text_of_the_other_files(folder: tuple[Path, Summary]) -> None:
    out, _ = folder
    rows = read(out / "topics.tsv.gz", "text kind topic intent")
    queries = {text: (topic, intent) for text, kind, topic, intent in rows if kind == "query"}
    titles = {text: topic for text, kind, topic, _ in rows if kind == "title"}
    tables = [judged(out, name) for name in ("train_judged", "dev", "test")]
    assert queries.keys() == {row[1] for table in tables for row in table}
    assert titles.keys() == {row[1] for row in read(out / "titles.tsv.gz", "doc_id title")}
    assert set(titles.values()) == set(simulated_topics.TOPICS)
    assert queries["implant infection"] == ("health", "implant infection")
    assert queries["torre de pizza"] == ("food", "pizza place")


def test_same_seed_same_bytes_in_another_process_with_another_hash_seed(tmp_path: Path, built: Site) -> None:
    code = "import sys, pathlib; from clickvec.lab import simulate; simulate.write(pathlib.Path(sys.argv[1]), 12_345)"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(simulate.__file__).parents[3])}
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "b")], env=environment)
    simulate.write(tmp_path / "a", 12_345)
    assert other.wait(timeout=60) == 0
    files = sorted((tmp_path / "a").iterdir())
    assert len(files) == 7
    for file in files:
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_no_impressions_give_headers_and_complete_judged_sets(tmp_path: Path, built: Site) -> None:
    summary = simulate.write(tmp_path / "out", 0, dev_queries=5, test_queries=0)
    assert summary[:4] == (0, 0, 0, 0)
    assert summary.misspelled == summary.navigational == summary.transactional == summary.no_common_word == 0
    assert read(tmp_path / "out" / "impressions.tsv.gz", "time client query title position clicked") == []
    assert clicks(tmp_path / "out") == []
    assert judged(tmp_path / "out", "train_judged") == []
    assert len(judged(tmp_path / "out", "dev")) == 75
    assert judged(tmp_path / "out", "test") == []


def test_one_impression_and_a_view_cut_short(tmp_path: Path, built: Site) -> None:
    header = "time client query title position clicked"
    simulate.write(tmp_path / "one", 1)
    simulate.write(tmp_path / "more", 25)
    rows = read(tmp_path / "more" / "impressions.tsv.gz", header)
    assert [row[4] for row in rows] == [str(i % 10 + 1) for i in range(25)]
    assert read(tmp_path / "one" / "impressions.tsv.gz", header) == rows[:1]


def test_without_the_log_the_other_files_are_the_same(tmp_path: Path, built: Site) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert simulate.write(one, 5_000) == simulate.write(other, 5_000, log=False)
    assert not (other / "impressions.tsv.gz").exists()
    assert all((one / file.name).read_bytes() == file.read_bytes() for file in other.iterdir())


def test_an_earlier_simulation_is_replaced_whole(tmp_path: Path, built: Site) -> None:
    simulate.write(tmp_path / "out", 50)
    simulate.write(tmp_path / "out", 0, log=False)
    assert not (tmp_path / "out" / "impressions.tsv.gz").exists()
    assert clicks(tmp_path / "out") == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_not_ours_is_left_alone(tmp_path: Path, built: Site) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ClickvecError, match="is a file"):
        simulate.write(file, 0)
    with pytest.raises(ClickvecError):
        simulate.write(file / "below", 0)
    assert file.read_text() == "mine"
    for names in (["notes.txt"], ["clicks.tsv.gz", "titles.tsv.gz"], ["topics.tsv.gz", "model"]):
        folder = tmp_path / names[0] / "folder"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text("mine")
        with pytest.raises(ClickvecError, match="folder"):
            simulate.write(folder, 0)
        assert sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("wrong", [{"impressions": -1}, {"seed": -1}, {"dev_queries": 10**6}, {"test_queries": 10**6}])
def test_numbers_that_cannot_be_had_are_refused_and_nothing_is_written(
    tmp_path: Path, built: Site, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ClickvecError, match=r"negative|ask for fewer"):
        simulate.write(tmp_path / "out", **wrong)
    assert list(tmp_path.iterdir()) == []
