"""The objective, the optimizer and the negatives, against hand-worked numbers and other implementations."""

import math

import numpy as np
import pytest

from clickvec.config import HARD_POOL, Recipe, recipe
from clickvec.data import BadLines, ClickLog, Judged, JudgedQuery, data_folder, dataset

torch = pytest.importorskip("torch")

from clickvec.text.ragged import ragged  # noqa: E402
from clickvec.training import mining  # noqa: E402
from clickvec.training.negatives import Sampler  # noqa: E402
from clickvec.training.optimizers import Nesterov, learning_rate_at, momentum, norm_scale  # noqa: E402
from clickvec.training.towers import TowerPair  # noqa: E402
from clickvec.training.update import drop_tokens, losses, unit  # noqa: E402
from clickvec.training.workers import Workers  # noqa: E402


def log_of(pairs: list[tuple[str, str]]) -> ClickLog:
    queries, titles = zip(*pairs, strict=True)
    return ClickLog(list(queries), list(titles), np.ones(len(pairs)), BadLines())


def all_count(shape: tuple[int, int]) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


# --- equations 3, 4, 5 -------------------------------------------------------------------------------------------


def test_the_loss_is_minus_the_log_of_the_softmax() -> None:
    positive, negative = torch.tensor([0.7], dtype=torch.float64), torch.tensor([[0.1, -0.4, 0.3]], dtype=torch.float64)
    exponents = [math.exp(10 * score) for score in (0.7, 0.1, -0.4, 0.3)]
    by_hand = -math.log(exponents[0] / sum(exponents))
    assert losses(10.0, positive, negative, all_count((1, 3))).item() == pytest.approx(by_hand, rel=1e-12)


def test_a_model_without_an_opinion_pays_log_1_plus_n() -> None:
    found = losses(10.0, torch.zeros(1), torch.zeros(1, 4), all_count((1, 4)))
    assert found.item() == pytest.approx(math.log(5))


def test_the_loss_is_stable_at_any_gamma() -> None:
    positive = torch.tensor([-1.0, 1.0], requires_grad=True)
    found = losses(1e6, positive, torch.tensor([[1.0], [-1.0]]), all_count((2, 1)))
    found.sum().backward()
    assert found.tolist() == [2e6, 0.0]
    assert torch.isfinite(positive.grad).all()


def test_a_negative_that_does_not_count_changes_nothing() -> None:
    counts = torch.tensor([[True, False]])
    with_it = losses(5.0, torch.tensor([0.2]), torch.tensor([[0.1, 0.9]]), counts)
    without = losses(5.0, torch.tensor([0.2]), torch.tensor([[0.1]]), all_count((1, 1)))
    assert with_it.item() == pytest.approx(without.item())
    none = losses(5.0, torch.tensor([0.2]), torch.tensor([[0.1, 0.9]]), torch.zeros(1, 2, dtype=torch.bool))
    assert none.item() == 0


def test_the_gradient_of_a_zero_vector_is_finite() -> None:
    vectors = torch.zeros(2, 3, requires_grad=True)
    unit(vectors).sum().backward()
    assert torch.isfinite(vectors.grad).all()


# --- equation 6 --------------------------------------------------------------------------------------------------


def test_nesterov_is_equation_6_to_the_letter() -> None:
    """Λ_k = Λ_{k-1} + ΔΛ_k with ΔΛ_k = μ ΔΛ_{k-1} - ε ∇L(Λ_{k-1} + μ ΔΛ_{k-1}), worked out in NumPy."""
    hessian, target = np.diag([1.0, 7.0]), np.array([3.0, -2.0])
    rates = [(0.9, 0.1), (0.995, 0.1), (0.995, 0.05), (0.5, 0.1)]
    point, change = np.array([1.0, 1.0]), np.zeros(2)
    parameter = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    rule = Nesterov([parameter])
    for mu, step in rates:
        change = mu * change - step * hessian @ (point + mu * change - target)
        point = point + change
        rule.look_ahead(mu)
        parameter.grad = torch.tensor(hessian @ (parameter.detach().numpy() - target))
        rule.update(step)
        np.testing.assert_allclose(parameter.detach().numpy(), point, rtol=1e-14)
        np.testing.assert_allclose(rule.change[0].numpy(), change, rtol=1e-12)


def test_nesterov_agrees_with_torch_at_constant_momentum() -> None:
    """torch keeps the look-ahead point as its parameter; ours is a step of momentum behind it."""
    ours = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    rule, sgd = Nesterov([ours]), torch.optim.SGD([theirs], lr=0.05, momentum=0.9, nesterov=True)
    for _ in range(20):
        rule.look_ahead(0.9)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)
        for parameter in (ours, theirs):
            parameter.grad = None
            (parameter**4).sum().backward()
        rule.update(0.05)
        sgd.step()


def test_momentum_is_low_in_the_first_and_last_two_per_cent() -> None:
    paper = recipe("paper")
    values = [momentum(paper, update, 1000) for update in range(1000)]
    assert values[:20] == [0.9] * 20
    assert values[-20:] == [0.9] * 20
    assert values[20:-20] == [0.995] * 960
    for updates in (20, 49, 147, 735, 1470):
        ends = [momentum(paper, update, updates) == 0.9 for update in range(updates)]
        assert ends == ends[::-1]  # as many at the end as at the beginning
        assert sum(ends) == 2 * -(-2 * updates // 100)


def test_the_gradient_of_a_whole_tower_is_scaled_and_only_when_it_is_long() -> None:
    gradients = [torch.tensor([3.0]), torch.tensor([0.0, 4.0])]
    assert norm_scale(gradients, 0.0) is None
    for threshold, scale in ((10.0, 1.0), (5.0, 1.0), (1.0, 0.2)):
        found = norm_scale(gradients, threshold)
        assert found is not None
        assert found.item() == pytest.approx(scale, rel=1e-6)


def test_the_learning_rate_is_fixed_or_falls_to_zero() -> None:
    def rates(**settings: object) -> list[float]:
        return [
            learning_rate_at(recipe("default", learning_rate=1.0, **settings), update, 100) for update in range(100)
        ]

    assert rates(schedule="fixed") == [1.0] * 100
    assert rates(schedule="linear") == [1 - update / 100 for update in range(100)]


# --- words left out ----------------------------------------------------------------------------------------------


def test_words_are_left_out_by_chance_and_never_all_of_them() -> None:
    lengths = [0, 1, 5, 0, 10, 10, 0]
    texts = ragged([list(range(10 * row, 10 * row + length)) for row, length in enumerate(lengths)])
    kept, rounds = np.zeros(len(texts.values)), 2000
    for seed in range(rounds):
        found = drop_tokens(texts, 0.3, np.random.default_rng(seed))
        assert ((found.lengths > 0) == (texts.lengths > 0)).all()
        assert (found.values // 10 == np.repeat(np.arange(len(lengths)), found.lengths)).all()
        assert (np.diff(found.values) > 0).all()  # the order of words is kept
        kept += np.isin(texts.values, found.values)
    np.testing.assert_allclose(kept[6:] / rounds, 0.7, atol=0.05)
    assert kept[0] == rounds  # a text of one word keeps it
    alone = drop_tokens(texts, 0.9999, np.random.default_rng(0))
    assert alone.lengths.tolist() == [0, 1, 1, 0, 1, 1, 0]
    assert drop_tokens(ragged([[], []]), 0.5, np.random.default_rng(0)).lengths.tolist() == [0, 0]


# --- negatives ---------------------------------------------------------------------------------------------------

PAIRS = [("a", "t1"), ("a", "t2"), ("b", "t2"), ("c", "t3"), ("d", "t4"), ("d", "t1"), ("e", "t5")]


@pytest.mark.parametrize("n", [1, 2, 4, 6, 8, 50])
def test_random_negatives_were_never_clicked_for_the_query(n: int) -> None:
    data = dataset.prepare(log_of(PAIRS), 10, 1000)
    sampler = Sampler(data, recipe("paper", negatives=n))
    for seed in range(20):
        found = sampler.draw(np.arange(len(PAIRS)), np.random.default_rng(seed))
        assert found.negative is not None
        assert found.negative.shape == (len(PAIRS), n)
        assert found.counts.all()
        queries = np.repeat(data.pair_query[:, None], n, axis=1)
        assert not sampler.was_clicked(queries, found.titles[found.negative]).any()
        np.testing.assert_array_equal(found.titles[found.positive], data.pair_title)


def test_a_query_that_clicked_everything_has_no_negatives() -> None:
    data = dataset.prepare(log_of([("a", "t1"), ("a", "t2"), ("b", "t1")]), 10, 1000)
    found = Sampler(data, recipe("paper")).draw(np.arange(3), np.random.default_rng(0))
    assert not found.counts[data.pair_query == 0].any()
    assert found.counts[data.pair_query == 1].all()
    assert found.masked == 8


def test_batch_negatives_mask_every_known_click() -> None:
    data = dataset.prepare(log_of(PAIRS), 10, 1000)
    found = Sampler(data, recipe("default")).draw(np.arange(len(PAIRS)), np.random.default_rng(0))
    clicked = set(zip(data.pair_query.tolist(), data.pair_title.tolist(), strict=True))
    for row, query in enumerate(data.pair_query.tolist()):
        for column, title in enumerate(found.titles.tolist()):
            assert found.counts[row, column] == ((query, title) not in clicked)
    # a clicked t1 and t2, d clicked t4 and t1: four pairs have one other known click each
    assert found.masked == 4


def test_shown_titles_become_negatives_unless_they_were_clicked() -> None:
    shown = Judged(
        (
            JudgedQuery("1", "A", ("x", "y", "z"), ("T1", "t9", "t8"), np.array([0, 0, 1])),
            JudgedQuery("2", "not in the log", ("x",), ("t7",), np.array([0])),
        ),
        BadLines(),
    )
    data = dataset.prepare(log_of(PAIRS), 10, 1000, shown)
    assert data.shown.lengths.tolist() == [1, 0, 0, 0, 0]  # t9: T1 was clicked, t8 is relevant
    assert len(data.titles.lengths) == 6
    assert data.clicked_titles == 5
    only_shown = data.shown.values[0]
    found = Sampler(data, recipe("paper", shown_negatives=3)).draw(np.array([0]), np.random.default_rng(0))
    assert found.negative is not None
    assert found.counts[0].tolist() == [True] * 5 + [False] * 2  # four drawn, and the one that there is
    assert found.titles[found.negative[0, 4]] == only_shown
    assert only_shown not in found.titles[found.negative[0, :4]]
    in_batch = Sampler(data, recipe("default")).draw(np.array([0]), np.random.default_rng(0))
    assert only_shown in in_batch.titles


def test_a_title_that_was_ever_relevant_is_no_negative() -> None:
    grades = [np.array([2, 0]), np.array([0, 0])]
    entries = [JudgedQuery(str(k), "a", ("x", "y"), ("t9", "t8"), grade) for k, grade in enumerate(grades)]
    data = dataset.prepare(log_of(PAIRS), 10, 1000, Judged(tuple(entries), BadLines()))
    assert data.shown.lengths.tolist() == [1, 0, 0, 0, 0]  # t8, once; t9 has a grade of 2 in the first list


def mined_by_hand(data: dataset.Dataset, towers: TowerPair, pool: np.ndarray) -> list[list[int]]:
    device = torch.device("cpu")
    scores = (
        mining._encode(towers.query, data.queries, data.tokens, device)
        @ mining._encode(towers.title, data.titles, data.tokens, device).T
    ).detach()
    clicked = set(zip(data.pair_query.tolist(), data.pair_title.tolist(), strict=True))
    return [
        sorted((t for t in pool.tolist() if (q, t) not in clicked), key=lambda t: -row[t].item())[:HARD_POOL]
        for q, row in enumerate(scores)
    ]


@pytest.mark.parametrize("pool_titles", [1000, 30])
@pytest.mark.parametrize(("texts", "scores"), [(8192, 2**20), (7, 90)])
def test_mined_titles_are_the_best_that_were_not_clicked(
    pool_titles: int, texts: int, scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"{first}{second}" for first in "bdfgklmnpr" for second in ("ab", "ec", "id", "of")]
    log = log_of([(f"q{word}", f"{word} {words[place // 2]}") for place, word in enumerate(words)] + [("qbab", "x y")])
    data, chosen = dataset.prepare(log, 10, 1000), recipe("default", cells=8, initial_scale=0.5, hard_negatives=3)
    towers = TowerPair(chosen, data.trigrams, torch.device("cpu"))
    monkeypatch.setattr(mining, "MOST_TITLES", pool_titles)
    monkeypatch.setattr(mining, "TEXTS_AT_ONCE", texts)
    monkeypatch.setattr(mining, "SCORES_AT_ONCE", {"cpu": scores})
    found = np.zeros((len(data.queries.lengths), HARD_POOL), np.int32)
    mining.mine(data, towers, np.random.default_rng(5), torch.device("cpu"), found)
    pool = mining._draw(data.clicked_titles, pool_titles, np.random.default_rng(5))
    assert len(set(pool.tolist())) == min(pool_titles, data.clicked_titles)
    assert found.tolist() == mined_by_hand(data, towers, pool)


def test_with_many_titles_a_query_searches_those_near_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bdfgklmnpr" for b in "aeiou" for c in "lmnrst"]
    titles = [" ".join(rng.choice(words, 3)) for _ in range(900)]
    data = dataset.prepare(log_of([(" ".join(title.split()[:2]), title) for title in titles]), 10, 1000)
    chosen = recipe("default", cells=16, initial_scale=0.5)
    towers = TowerPair(chosen, data.trigrams, torch.device("cpu"))
    every, found = (np.zeros((len(data.queries.lengths), HARD_POOL), np.int32) for _ in range(2))
    mining.mine(data, towers, np.random.default_rng(0), torch.device("cpu"), every)
    monkeypatch.setattr(mining, "MOST_EXACT", 100)
    monkeypatch.setattr(mining, "QUERIES_AT_ONCE", 300)
    mining.mine(data, towers, np.random.default_rng(0), torch.device("cpu"), found)
    monkeypatch.setattr(mining, "QUERIES_AT_ONCE", 2**21)
    at_once = np.zeros_like(found)
    mining.mine(data, towers, np.random.default_rng(0), torch.device("cpu"), at_once)
    assert (found == at_once).all(axis=1).mean() > 0.99  # nearly equal scores may be rounded into another order
    assert mining.titles_searched(900, len(found)) == 8 * 30
    assert (found >= 0).all()
    share = [len(set(one) & set(other)) / HARD_POOL for one, other in zip(found.tolist(), every.tolist(), strict=True)]
    assert np.mean(share) > 0.7  # by chance 240 of 900 titles hold 27% of the best
    for query, row in enumerate(found.tolist()):
        clicked = data.clicked.values[data.clicked.offsets[query] : data.clicked.offsets[query + 1]]
        assert not set(row) & set(clicked.tolist())
    monkeypatch.setattr(mining, "SCORES", 1)
    assert mining.titles_searched(900, len(found)) == 30


@pytest.mark.parametrize("most_exact", [10_000, 100])
def test_workers_mine_the_titles_that_one_process_mines(most_exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "MOST_EXACT", most_exact)
    rng, device = np.random.default_rng(0), torch.device("cpu")
    words = [f"{a}{b}{c}" for a in "bdfgklmnpr" for b in "aeiou" for c in "lmnrst"]
    titles = [" ".join(rng.choice(words, 3)) for _ in range(900)]
    data = dataset.prepare(log_of([(" ".join(title.split()[:2]), title) for title in titles]), 10, 1000)
    towers = TowerPair(recipe("default", cells=16, initial_scale=0.5), data.trigrams, device)
    one, three = (np.full((len(data.queries.lengths), HARD_POOL), -7, np.int32) for _ in range(2))
    mining.mine(data, towers, np.random.default_rng(0), device, one)
    ids = np.arange(data.clicked_titles)
    for rank in range(3):  # one after the other: what a worker gets from the others is computed here
        worker = Workers(rank, 3)
        shares = [ids[worker.share(len(ids), other)] for other in range(3)]
        parts = [mining._encode(towers.title, data.titles.take(share), data.tokens, device) for share in shares]
        monkeypatch.setattr(worker, "gather", lambda own, rows, parts=parts: torch.cat(parts).detach())
        monkeypatch.setattr(worker, "fill", lambda array: None)
        mining.mine(data, towers, np.random.default_rng(0), device, three, worker)
    y_q, y_d = (
        mining._encode(tower, texts, data.tokens, device).detach().numpy()
        for tower, texts in ((towers.query, data.queries), (towers.title, data.titles))
    )
    assert (one == three).all(axis=1).mean() > 0.99
    assert three.min() >= 0
    # Rounding may exchange titles of almost the same cosine, and nothing else.
    cosines = [np.einsum("rd,rkd->rk", y_q, y_d[mined]) for mined in (one, three)]
    np.testing.assert_allclose(*cosines, atol=1e-6)


@pytest.mark.parametrize("name", ["paper", "default"])
def test_mined_titles_are_drawn_beside_the_others(name: str) -> None:
    pairs = [("a", f"t{place}") for place in range(3)] + [(f"q{place}", f"t{place}") for place in range(3, 30)]
    data = dataset.prepare(log_of(pairs), 10, 1000)
    sampler = Sampler(data, recipe(name, hard_negatives=3))
    plain = Sampler(data, recipe(name)).draw(np.array([0]), np.random.default_rng(0))
    nothing_yet = sampler.draw(np.array([0]), np.random.default_rng(0))
    assert nothing_yet.counts.sum() == plain.counts.sum()
    sampler.mined[0] = [*range(10, 15), *[-1] * (HARD_POOL - 5)]
    seen: set[int] = set()
    for seed in range(200):
        found = sampler.draw(np.array([0]), np.random.default_rng(seed))
        if found.negative is None:
            mined = found.titles[found.counts[0]]
        else:
            assert found.negative.shape == (1, 4 + 3)
            mined = found.titles[found.negative[0, 4:]][found.counts[0, 4:]]
        assert len(mined) == len(set(mined.tolist())) <= 3
        seen |= set(mined.tolist())
    assert seen == set(range(10, 15))


def test_a_query_with_few_other_titles_has_few_mined_ones() -> None:
    data = dataset.prepare(log_of([("a", "t1"), ("a", "t2"), ("b", "t1")]), 10, 1000)
    towers = TowerPair(Recipe(cells=4), data.trigrams, torch.device("cpu"))
    found = np.zeros((2, HARD_POOL), np.int32)
    mining.mine(data, towers, np.random.default_rng(0), torch.device("cpu"), found)
    assert set(found[0].tolist()) == {-1}
    assert sorted(set(found[1].tolist())) == [-1, 1]


# --- the prepared data -------------------------------------------------------------------------------------------


def test_texts_that_differ_in_case_and_space_are_one() -> None:
    data = dataset.prepare(log_of([("Hot  Dogs", "Buy"), ("hot dogs", "BUY "), ("ｈｏｔ dogs", "buy")]), 10, 1000)
    assert len(data.pair_query) == 1
    assert data.pair_clicks.tolist() == [3.0]


def test_data_folder_round_trip(tmp_path) -> None:  # noqa: ANN001
    data = dataset.prepare(log_of(PAIRS), 10, 1000)
    data_folder.save(data, tmp_path / "data")
    back = data_folder.load(tmp_path / "data")
    assert back.trigrams == data.trigrams
    for name in ("tokens", "queries", "titles", "clicked", "shown"):
        np.testing.assert_array_equal(getattr(back, name).values, getattr(data, name).values)
        np.testing.assert_array_equal(getattr(back, name).offsets, getattr(data, name).offsets)
    np.testing.assert_array_equal(back.pair_clicks, data.pair_clicks)
