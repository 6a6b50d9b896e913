"""Skip-Thought: the run time against torch and torch's own GRU, the published files, training, expansion, prose."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from clickvec.errors import ClickvecError
from clickvec.lab.other_systems.skipthought import EOS, GRU, UNKNOWN, SkipThought, plain_tables, split_words
from clickvec.model.packing import pack
from clickvec.text.ragged import Ragged, ragged

WORDS = (EOS, UNKNOWN, "hotels", "in", "Shanghai", "USA", "paint", "a", "bathtub", "?")
E, UNI, BI = 6, 24, 12  # a hundredth of the published 620, 2400 and 1200
Spoil = Callable[[Path], object]
LENGTHS = [3, 1, 0, 8, 8, 2, 0, 5]


def gru_weights(rng: np.random.Generator, H: int, dtype: type = np.float32) -> GRU:
    shapes = (E, 2 * H), (2 * H,), (H, 2 * H), (E, H), (H,), (H, H)
    return GRU(*(rng.normal(0, 0.5, shape).astype(dtype) for shape in shapes))


def published(folder: Path, seed: int = 0) -> Path:
    """A folder as the authors publish it, its tables as plain numbers, with a pickle that must not be opened."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for kind, H, prefixes in (("uni", UNI, ["encoder_"]), ("bi", BI, ["encoder_", "encoder_r_"])):
        arrays = {prefix + key: value for prefix in prefixes for key, value in gru_weights(rng, H)._asdict().items()}
        others = {"decoder_f_W": np.zeros(3), "history_errs": np.zeros(0)}
        np.savez(folder / f"{kind}_skip.npz", Wemb=rng.normal(size=(4, E)).astype(np.float32), **arrays, **others)
        np.save(folder / f"{kind[0]}table.npy", rng.normal(size=(len(WORDS), E)).astype(np.float32))
        (folder / f"{kind}_skip.npz.pkl").write_bytes(pickle.dumps(Bomb()))
    (folder / "dictionary.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    return folder


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('unpickled')",)


def change_npz(path: Path, **changes: np.ndarray | None) -> None:
    with np.load(path) as archive:
        arrays = {**archive, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return published(tmp_path / "model")


def random_texts(lengths: list[int] = LENGTHS, words: int = len(WORDS), seed: int = 0) -> Ragged:
    rng = np.random.default_rng(seed)
    return ragged(rng.integers(0, words, length).tolist() for length in lengths)


# --- the encoder -------------------------------------------------------------------------------------------------


def test_gru_is_that_of_the_published_code_word_by_word() -> None:
    rng, H = np.random.default_rng(1), 5
    w, embeddings, texts = gru_weights(rng, H, np.float64), rng.normal(size=(len(WORDS), E)), random_texts()
    found = w(embeddings, pack(texts))
    for row, (first, last) in enumerate(zip(texts.offsets, texts.offsets[1:], strict=False)):
        h = np.zeros(H)
        for x in embeddings[texts.values[first:last]]:
            preact = 1 / (1 + np.exp(-(x @ w.W + w.b + h @ w.U)))
            r, u = preact[:H], preact[H:]
            h = u * h + (1 - u) * np.tanh((h @ w.Ux) * r + x @ w.Wx + w.bx)
        np.testing.assert_allclose(found[row], h, rtol=0, atol=1e-12)


def test_gru_is_torchs_gru() -> None:
    torch = pytest.importorskip("torch")
    rng, H = np.random.default_rng(2), 5
    w, embeddings = gru_weights(rng, H), rng.normal(size=(len(WORDS), E)).astype(np.float32)
    texts = random_texts([4] * 7)
    oracle = torch.nn.GRU(E, H, batch_first=True)
    with torch.no_grad():  # torch has reset, update and new in rows, and a second bias, which is 0 here
        oracle.weight_ih_l0.copy_(torch.tensor(np.concatenate([w.W, w.Wx], axis=1).T))
        oracle.weight_hh_l0.copy_(torch.tensor(np.concatenate([w.U, w.Ux], axis=1).T))
        oracle.bias_ih_l0.copy_(torch.tensor(np.concatenate([w.b, w.bx])))
        oracle.bias_hh_l0.zero_()
        expected = oracle(torch.tensor(embeddings[texts.values].reshape(7, 4, E)))[1][0].numpy()
    np.testing.assert_allclose(w(embeddings, pack(texts)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("ways", [1, 2], ids=["uni", "bi"])
def test_numpy_equals_torch(ways: int) -> None:
    torch = pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import as_skip, encode

    rng = np.random.default_rng(3)
    weights = {"Wemb": rng.normal(size=(len(WORDS), E)).astype(np.float32)}
    for prefix in ("encoder_", "encoder_r_")[:ways]:
        weights |= {prefix + key: value for key, value in gru_weights(rng, 7)._asdict().items()}
    texts = random_texts([length for length in LENGTHS if length])
    by_torch = encode({name: torch.tensor(array) for name, array in weights.items()}, texts).numpy()
    by_numpy = as_skip(weights)(np.arange(len(WORDS), dtype=np.int32), texts)
    assert by_numpy.shape == (6, 7 * ways)
    np.testing.assert_allclose(by_numpy, by_torch, rtol=0, atol=1e-5)


# --- the ranker --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size"), [("uni", UNI), ("bi", 2 * BI), ("combine", UNI + 2 * BI)])
def test_load_infers_sizes(folder: Path, kind: str, size: int) -> None:
    model = SkipThought.load(folder, kind)
    vectors = model.encode(["hotels in shanghai", "paint a bathtub"])
    assert vectors.shape == (2, size) == (2, model.dimensions)
    assert vectors.dtype == np.float32
    assert all(isinstance(skip.table, np.memmap) for skip in model.skips)


def test_combine_is_uni_and_bi_each_of_length_one(folder: Path) -> None:
    texts = ["hotels in shanghai", "paint a bathtub ?"]
    uni, bi, both = (SkipThought.load(folder, kind).encode(texts) for kind in ("uni", "bi", "combine"))
    np.testing.assert_array_equal(both, np.concatenate([uni, bi], axis=1))
    np.testing.assert_allclose(np.linalg.norm(uni, axis=1), 1, rtol=1e-6)


def test_parameters_are_the_learned_numbers(folder: Path) -> None:
    encoder = [3 * H * (E + H + 1) for H in (UNI, BI, BI)]
    assert SkipThought.load(folder).parameters == sum(encoder) + 2 * 4 * E
    assert SkipThought.load(folder, "uni").parameters == encoder[0] + 4 * E


def test_scores_are_cosines(folder: Path) -> None:
    model = SkipThought.load(folder)
    titles = ["hotels in shanghai", "Hotels in  SHANGHAI", "paint a bathtub", "", "zzz", "hotels"]
    scores = model.score("hotels in shanghai", titles)
    a, b = model.encode(["hotels in shanghai", "paint a bathtub"])
    assert scores.shape == (6,)
    assert scores.dtype == np.float32
    assert scores[0] == scores[1] == pytest.approx(1)
    assert scores[2] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert scores[3] == scores[4] == 0
    assert abs(scores[5]) < 1


def test_a_text_without_a_known_word_is_zero(folder: Path) -> None:
    model = SkipThought.load(folder)
    assert not model.encode(["", " \t", "zzz yyy"]).any()
    assert not model.score("zzz", ["hotels", "zzz", ""]).any()
    assert model.score("hotels", []).shape == (0,)
    assert model.encode([]).shape == (0, model.dimensions)
    assert model.encode(["zzz hotels"]).any()


def test_unknown_words_are_all_read_as_unk_and_count(folder: Path) -> None:
    model = SkipThought.load(folder)
    one, other, none = model.encode(["zzz hotels", "yyy hotels", "hotels"])
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - none).max() > 1e-3


def test_eos_is_read_last(folder: Path) -> None:
    model = SkipThought.load(folder, "uni")
    expected = model.skips[0](np.arange(len(WORDS), dtype=np.int32), ragged([[2, 3, 0]]))[0]
    np.testing.assert_allclose(model.encode(["hotels in"])[0], expected / np.linalg.norm(expected), atol=1e-6)


def test_a_word_is_found_in_other_capitals(folder: Path) -> None:
    model = SkipThought.load(folder)
    assert model.encode(["shanghai", "usa", "Usa"]).any(axis=1).all()
    np.testing.assert_array_equal(model.encode(["HOTELS"]), model.encode(["hotels"]))


def test_encoding_in_pieces_and_from_the_cache_is_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["hotels", "paint a bathtub", "hotels in shanghai", "", "a", "paint a bathtub"]
    whole = SkipThought.load(folder).encode(texts)
    monkeypatch.setattr("clickvec.lab.other_systems.skipthought.CHUNK", 2)
    monkeypatch.setattr("clickvec.lab.other_systems.skipthought.CACHE_BYTES", 500)
    model = SkipThought.load(folder)
    for _ in range(3):
        np.testing.assert_allclose(model.encode(texts), whole, rtol=0, atol=1e-6)


def test_a_table_that_is_not_a_number_is_an_error(folder: Path) -> None:
    np.save(folder / "utable.npy", np.full((len(WORDS), E), np.nan, np.float32))
    with pytest.raises(ClickvecError, match="NaN"):
        SkipThought.load(folder).score("hotels", ["hotels in"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't PAINT, it's John's o'clock!", "do n't paint , it 's john 's o'clock !"),
        ('He said "yes" (“no”).', "he said `` yes '' ( `` no '' ) ."),
        ("well-known u.s. 3.5 AT&T -- wait...", "well-known u.s . 3.5 at&t -- wait ..."),
        ("naïve 上海?", "naïve 上海 ?"),
        ("they're we've I'm can’t", "they 're we 've i 'm ca n't"),
        ("  ", ""),
    ],
)
def test_words(text: str, words: str) -> None:
    assert split_words(text) == words.split()


@hypothesis.given(hypothesis.strategies.text(alphabet="aAns'\"’“” .-&3é?", max_size=20))
def test_words_stay_what_they_are(text: str) -> None:
    assert split_words(" ".join(split_words(text))) == split_words(text)


# --- the files ---------------------------------------------------------------------------------------------------

TABLE = np.zeros((len(WORDS), E), np.float32)


def rewrite(name: str, array: np.ndarray) -> Spoil:
    return lambda folder: np.save(folder / name, array)


def text(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content)


def truncate(name: str, size: int) -> Spoil:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def weights(name: str, **changes: np.ndarray | None) -> Spoil:
    return lambda folder: change_npz(folder / name, **changes)


ROWS = np.array([np.zeros((1, E), np.float32), np.zeros(E, np.float32)] * 5, dtype=object)
BAD = {
    "no dictionary": (lambda folder: (folder / "dictionary.txt").unlink(), "dictionary.txt is missing"),
    "no weights": (lambda folder: (folder / "bi_skip.npz").unlink(), "bi_skip.npz is missing"),
    "no table": (lambda folder: (folder / "btable.npy").unlink(), "btable.npy is missing"),
    "pickled table": (rewrite("utable.npy", ROWS), "is a pickle.*plain_tables"),
    "table of words": (rewrite("utable.npy", np.full((10, E), "x")), "floating-point"),
    "narrow table": (rewrite("utable.npy", TABLE[:, 1:]), r"\(10, 5\).*\(10, 6\)"),
    "flat table": (rewrite("btable.npy", TABLE[0]), "take all files from one model"),
    "long dictionary": (rewrite("btable.npy", TABLE[:-1]), r"\(9, 6\).*\(10, 6\)"),
    "truncated table": (truncate("utable.npy", 200), "utable.npy is damaged"),
    "table of text": (text("utable.npy", b"hello"), "utable.npy is damaged"),
    "truncated weights": (truncate("uni_skip.npz", 3000), "uni_skip.npz is damaged"),
    "weights of text": (text("uni_skip.npz", b"hello"), "uni_skip.npz is damaged"),
    "a pickle as weights": (text("uni_skip.npz", pickle.dumps(Bomb())), "uni_skip.npz is damaged"),
    "uni as bi": (
        lambda folder: (folder / "bi_skip.npz").write_bytes((folder / "uni_skip.npz").read_bytes()),
        "lacks encoder_r_W",
    ),
    "no Ux": (weights("uni_skip.npz", encoder_Ux=None), "lacks encoder_Ux"),
    "pickled weight": (weights("uni_skip.npz", encoder_b=np.array([Bomb()], dtype=object)), "contains pickles"),
    "words as weight": (weights("uni_skip.npz", encoder_b=np.array(["x"])), "contains pickles"),
    "wrong shape": (weights("bi_skip.npz", encoder_r_U=np.zeros((BI, BI))), r"encoder_r_U has the shape \(12, 12\)"),
    "scalar": (weights("uni_skip.npz", encoder_Ux=np.zeros(())), "encoder_"),
    "NaN": (weights("uni_skip.npz", encoder_U=np.full((UNI, 2 * UNI), np.nan)), "encoder_U contains NaN"),
    "no UNK": (text("dictionary.txt", b"<eos>\nhotels\n"), "has no line UNK"),
    "not UTF-8": (text("dictionary.txt", b"<eos>\nUNK\n\xff\n"), "dictionary.txt cannot be read"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_one_clear_sentence(folder: Path, spoil: Spoil, message: str) -> None:
    spoil(folder)
    with pytest.raises(ClickvecError, match=message) as caught:
        SkipThought.load(folder)
    assert "\n" not in str(caught.value)


def test_bad_calls(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ClickvecError, match="no folder"):
        SkipThought.load(tmp_path / "nothing")
    with pytest.raises(ClickvecError, match="uni, bi or combine"):
        SkipThought.load(folder, "both")


def test_a_bad_table_of_the_other_kind_is_not_opened(folder: Path) -> None:
    (folder / "btable.npy").unlink()
    assert SkipThought.load(folder, "uni").encode(["hotels"]).any()


def python_2_pickle(rows: np.ndarray) -> bytes:
    """What Python 2 writes for an array of arrays: the bytes of a row are its `str`."""
    head = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03(K\x01"
    row = b"h\x01h\x02K\x00\x85U\x01b\x87R(K\x01K\x06\x85U\x02f4\x89U\x18%sU\x00tb"
    return head + b"]" + b"(" + b"".join(row % bytes(np.asarray(r, "<f4")) for r in rows) + b"et" + b"b."


@pytest.mark.parametrize("python", [2, 3])
def test_published_tables_become_numbers_without_being_unpickled(folder: Path, python: int) -> None:
    expected = SkipThought.load(folder).encode(["hotels in shanghai"])
    for name in ("utable.npy", "btable.npy"):
        table = np.load(folder / name)
        rows = np.empty(len(table), dtype=object)
        rows[:] = [row[None] if place % 2 else row for place, row in enumerate(table)]
        if python == 3:
            np.save(folder / name, rows)
        else:
            with (folder / name).open("wb") as file:
                header = {"descr": "|O", "fortran_order": False, "shape": rows.shape}
                np.lib.format.write_array_header_1_0(file, header)
                file.write(python_2_pickle(table))
    with pytest.raises(ClickvecError, match="plain_tables"):
        SkipThought.load(folder)
    plain_tables(folder)
    np.testing.assert_array_equal(SkipThought.load(folder).encode(["hotels in shanghai"]), expected)
    plain_tables(folder)  # nothing more to do


def test_a_pickle_with_a_row_too_few_stays_as_it_is(folder: Path) -> None:
    rows = np.empty(len(WORDS), dtype=object)
    rows[:] = [np.zeros(E - (place == 3), np.float32) for place in range(len(WORDS))]
    np.save(folder / "utable.npy", rows)
    before = (folder / "utable.npy").read_bytes()
    with pytest.raises(ClickvecError, match="9 rows of 6 numbers"):
        plain_tables(folder)
    assert (folder / "utable.npy").read_bytes() == before
    (folder / "utable.npy").write_bytes(before[:-20])
    with pytest.raises(ClickvecError, match="the pickle is damaged"):
        plain_tables(folder)


# --- training ----------------------------------------------------------------------------------------------------

STORY = {
    "the sun rises": "people wake up",
    "rain falls down": "streets get wet",
    "music plays loud": "crowds dance now",
}


def story(rng: np.random.Generator, length: int) -> list[str]:
    """Pairs in any order: the second of a pair always follows its first."""
    firsts = rng.choice(list(STORY), length)
    return [sentence for first in firsts for sentence in (str(first), STORY[str(first)])]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import Settings, train

    out = tmp_path_factory.mktemp("skip") / "model"
    settings = Settings(words=40, embedding=12, uni=16, bi=8, epochs=10, batch_size=32, learning_rate=0.02)
    return train(story(np.random.default_rng(0), 300), settings, out, device="cpu"), out


def test_training_lowers_the_loss(trained: tuple[Any, Path]) -> None:
    for losses in trained[0].losses.values():
        assert len(losses) == 10
        assert losses[-1] < 0.5 * losses[0]


def test_training_learns_what_follows(trained: tuple[Any, Path]) -> None:
    """Of the two neighbours one is certain and one a guess among three; without the encoder both would be guesses."""
    guess = np.log(3) / 8  # of 8 words, <eos> counted
    for losses in trained[0].losses.values():
        assert guess < losses[-1] < 1.5 * guess


def test_training_writes_the_published_layout(trained: tuple[Any, Path]) -> None:
    model, out = trained[0].model, trained[1]
    names = ["about.json", "bi_skip.npz", "btable.npy", "dictionary.txt", "uni_skip.npz", "utable.npy"]
    assert sorted(path.name for path in out.iterdir()) == names
    loaded = SkipThought.load(out)
    texts = ["the sun rises", "people wake late", ""]
    np.testing.assert_array_equal(loaded.encode(texts), model.encode(texts))
    assert loaded.words == model.words
    assert loaded.dimensions == 32
    assert json.loads((out / "about.json").read_text())["settings"]["uni"] == 16


def test_training_is_the_same_for_the_same_seed() -> None:
    pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import Settings, train

    settings = Settings(words=40, embedding=6, uni=6, bi=4, epochs=1, batch_size=16, sampled_softmax=True)
    prose = story(np.random.default_rng(1), 60)
    one, again, other = (train(prose, settings, seed=seed, device="cpu") for seed in (1, 1, 2))
    assert one.losses == again.losses != other.losses
    for a, b in zip(one.model.skips, again.model.skips, strict=True):
        np.testing.assert_array_equal(a.forward.U, b.forward.U)


def test_sampled_softmax_of_a_minibatch_with_every_word_is_the_full_one() -> None:
    torch = pytest.importorskip("torch")
    from clickvec.lab.other_systems.prose import Corpus
    from clickvec.lab.other_systems.skipthought_training import Learner, Settings, initial_weights

    corpus = Corpus.read(story(np.random.default_rng(0), 2000), 40, 30)
    losses = []
    for sampled in (False, True):
        settings = Settings(words=40, embedding=6, uni=6, sampled_softmax=sampled)
        weights = initial_weights(settings, len(corpus.words), "uni", 0)
        weights["ff_logit_b"][1] = -50  # UNK is not in the story
        learner = Learner(weights, corpus, settings, torch.device("cpu"))
        losses.append(learner.loss(corpus.middles[:200])[0].item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_decoder_is_conditioned_on_the_sentence_and_forced() -> None:
    """Equations 5 to 8, word by word, with the reset gate and z where the published code has them."""
    torch = pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import decode

    rng, H = np.random.default_rng(6), 5
    w = {f"d_{key}": value for key, value in gru_weights(rng, H, np.float64)._asdict().items()}
    w |= {"d_C": rng.normal(size=(3, 2 * H)), "d_Cx": rng.normal(size=(3, H)), "Wemb": rng.normal(size=(len(WORDS), E))}
    texts, vectors = random_texts([3, 1, 5, 2]), rng.normal(size=(4, 3))
    batch = pack(texts)
    found = decode({key: torch.tensor(value) for key, value in w.items()}, "d_", torch.tensor(vectors), batch).numpy()
    starts = np.concatenate(([0], np.cumsum(batch.sizes)))
    for place, text in enumerate(batch.order):
        h, h_i = np.zeros(H), vectors[text]
        words = texts.values[texts.offsets[text] : texts.offsets[text + 1]]
        for t, x in enumerate([np.zeros(E), *w["Wemb"][words[:-1]]]):
            gates = 1 / (1 + np.exp(-(x @ w["d_W"] + w["d_b"] + h @ w["d_U"] + h_i @ w["d_C"])))
            h_bar = np.tanh(x @ w["d_Wx"] + w["d_bx"] + gates[:H] * (h @ w["d_Ux"]) + h_i @ w["d_Cx"])
            h = gates[H:] * h + (1 - gates[H:]) * h_bar
            np.testing.assert_allclose(found[starts[t] + place], h, rtol=0, atol=1e-12)


def test_initial_weights_are_the_papers() -> None:
    pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import Settings, initial_weights

    w = initial_weights(Settings(embedding=9, bi=7), 20, "bi", 0)
    for name in ("encoder_Ux", "encoder_r_Ux", "decoder_f_Ux"):
        np.testing.assert_allclose(w[name] @ w[name].T, np.eye(len(w[name])), atol=1e-5)
    assert w["decoder_b_C"].shape == (14, 28)
    assert 0.09 < np.abs(w["Wemb"]).max() <= 0.1
    assert not w["encoder_b"].any()


def test_training_refuses_a_folder_of_something_else_and_a_step_too_great(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import Settings, train

    (tmp_path / "diary.txt").write_text("dear diary")
    with pytest.raises(ClickvecError, match="other files in it"):
        train(story(np.random.default_rng(0), 9), out=tmp_path, device="cpu")
    settings = Settings(words=40, embedding=6, uni=6, bi=4, epochs=9, learning_rate=1e38)
    with pytest.raises(ClickvecError, match="learning rate"):
        train(story(np.random.default_rng(0), 90), settings, device="cpu")


def test_prose_without_neighbours_is_an_error() -> None:
    pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import train

    with pytest.raises(ClickvecError, match="contiguous prose"):
        train(["a b", "", "c d", "e f", "", "g"])


def test_a_break_ends_contiguity_and_long_sentences_are_left_out() -> None:
    from clickvec.lab.other_systems.prose import Corpus

    corpus = Corpus.read(["a", "b", "c", "", "d", "e", "f " * 9, "g", "h", "i"], 20, 5)
    assert corpus.middles.tolist() == [1, 8]


# --- vocabulary expansion ----------------------------------------------------------------------------------------


def test_expansion_recovers_a_planted_linear_map(folder: Path) -> None:
    pytest.importorskip("torch")
    from clickvec.lab.other_systems.skipthought_training import expand

    rng = np.random.default_rng(5)
    known = [f"k{place}" for place in range(50)]
    vectors, W, b = rng.normal(size=(60, 4)), rng.normal(size=(4, E)), rng.normal(size=E)
    special = rng.normal(size=(2, E))
    table = np.concatenate([special, vectors[:50] @ W + b]).astype(np.float32)
    skip = SkipThought.load(folder, "uni").skips[0]._replace(table=table)
    model = SkipThought((EOS, UNKNOWN, *known), [skip])
    words = [*known, UNKNOWN, *(f"n{place}" for place in range(9))]
    vectors[50] = 1e3  # a word that is called UNK is not the unknown word
    bigger = expand(model, words, vectors)
    assert bigger.words == (*model.words, *words[51:])
    np.testing.assert_array_equal(bigger.skips[0].table[:52], table)
    np.testing.assert_allclose(bigger.skips[0].table[52:], vectors[51:] @ W + b, atol=1e-4)
    assert model.score("n1", ["n2"])[0] == 0 != bigger.score("n1", ["n2"])[0]
    assert bigger.parameters == model.parameters
    with pytest.raises(ClickvecError, match="share no word"):
        expand(model, ["x"], np.zeros((1, 4)))


def test_expansion_by_word2vec_is_saved_and_repeatable(trained: tuple[Any, Path], tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    from clickvec.lab.other_systems.skipthought_training import expand, save, word_vectors

    texts = ["the sun shines bright", "rain falls now", "people dance", ""] * 20
    words, vectors = word_vectors(texts, size=8, epochs=2)
    again = word_vectors(texts, size=8, epochs=2)
    assert words == again[0]
    np.testing.assert_array_equal(vectors, again[1])
    model = expand(trained[0].model, words, vectors)
    assert {"shines", "bright"} <= set(model.words)
    save(model, tmp_path / "expanded", {})
    np.testing.assert_array_equal(SkipThought.load(tmp_path / "expanded").encode(texts), model.encode(texts))


# --- prose -------------------------------------------------------------------------------------------------------


def test_sentences() -> None:
    from clickvec.lab.other_systems.prose import split_sentences

    paragraph = """Mr. Knightley, e.g. of Donwell, said: "No!" He left at 3.30 p.m. on Monday... "Was it J. Smith?"
    (Yes.) It was I. 20 men came, i.e. all   of them! what now?"""
    assert split_sentences(paragraph) == [
        'Mr. Knightley, e.g. of Donwell, said: "No!"', "He left at 3.30 p.m. on Monday...", '"Was it J. Smith?"',
        "(Yes.)", "It was I.", "20 men came, i.e. all of them! what now?",
    ]  # fmt: skip
    assert split_sentences(" \n ") == []


def test_prose_files(tmp_path: Path) -> None:
    from clickvec.lab.other_systems.prose import read_prose, split_prose

    book = "One day\nit rained. It poured.\n\nThen it stopped.\n \n\n\nChapter two began.\r\n"
    (tmp_path / "a.txt").write_bytes(book.encode())
    (tmp_path / "b.txt").write_text("Another book.\n")
    first = ["One day it rained.", "It poured.", "Then it stopped.", "", "Chapter two began."]
    assert read_prose([tmp_path / "a.txt", tmp_path / "b.txt"]) == [*first, "", "Another book."]
    assert split_prose(book, paragraphs_break=True).count("") == 2
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\n")
    for path, message in (("c.txt", "not UTF-8"), ("d.txt", "cannot be read"), ("e.txt", "no sentence")):
        (tmp_path / "e.txt").write_text("\n\n")
        with pytest.raises(ClickvecError, match=message):
            read_prose([tmp_path / path])


def test_builtin_prose_is_contiguous_english() -> None:
    from clickvec.lab.other_systems.prose import Corpus, builtin_prose

    prose = builtin_prose()
    corpus = Corpus.read(prose, 2000, 30)
    assert len(corpus.middles) > 300
    assert prose == builtin_prose()
    assert not any(">>>" in sentence or "::=" in sentence for sentence in prose)
