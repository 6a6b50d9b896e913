"""From what a user names as a teacher to its vectors of all texts of a dataset."""

from collections.abc import Sequence
from pathlib import Path

from clickvec.data.dataset import Dataset, Texts
from clickvec.errors import ClickvecError
from clickvec.model.folder import open_model
from clickvec.progress import Progress
from clickvec.storage.outputs import resolve
from clickvec.teacher import teacher_folder
from clickvec.teacher.given_vectors import StoredVectors, open_npy, open_parquet
from clickvec.teacher.model_teacher import encode_all, is_model_folder
from clickvec.teacher.sentence_source import SentenceSource
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.teacher.teacher_source import Source
from clickvec.teacher.teacher_vectors import Teacher, mean_of
from clickvec.teacher.teaching import teach
from clickvec.teacher.token_source import TokenSource, check_tokens

Named = str | Path | Sequence[str | Path]  # what a user names: a teacher, or several


def folder_of(path: Path) -> Path:
    """Return where the teacher's vectors are kept, beside a data folder or a model."""
    return path.with_name(f"{path.name}.teacher")


def open_teacher(
    data: Dataset, texts: Texts, teacher: Named, beside: Path, progress: Progress | None = None
) -> Teacher:
    """Return the vectors of all texts of a dataset, and keep them in the folder `BESIDE.teacher`.

    `teacher` is a sentence-transformers model (its name or folder), vectors with their texts (.npy with .txt or .tsv
    beside it, or .parquet), a teacher folder (one that `prepare --tokens` wrote, or that of other data), or a clickvec
    model, whose vectors are computed each time and not kept. Of several teachers, the cosines are averaged.
    """
    if not len(data.titles.offsets) - 1:
        raise ClickvecError("there are no titles to teach")
    models, others = split_names(teacher)
    kept = [_open_kept(data, texts, one, beside, progress) for one in others]
    return mean_of([*kept, *(encode_all(path, data, texts, progress) for path in models)])


def _open_kept(data: Dataset, texts: Texts, teacher: str | Path, beside: Path, progress: Progress | None) -> Teacher:
    folder, taught = folder_of(beside), TaughtTexts(data, texts)
    if resolve(Path(teacher)) == resolve(folder) and teacher_folder.kind_of_teacher(folder) == "vectors":
        stored = teacher_folder.load(folder)
        if stored.digest == taught.digest:
            return stored.teacher
    source = open_source(teacher, folder)
    if isinstance(source, TokenSource):
        source.check_texts(taught)
    return teach(taught, source, folder, progress)


def split_names(teacher: Named) -> tuple[list[Path], list[str | Path]]:
    """Return the clickvec models among the teachers, and the others, of which there is at most one."""
    names = [teacher] if isinstance(teacher, str | Path) else list(teacher)
    if not all(map(str, names)) or not names:
        raise ClickvecError("the name of a teacher is empty; leave it out, or give a name")
    resolved = [resolve(Path(name)) for name in names]
    twice = next((name for at, name in enumerate(names) if resolved[at] in resolved[:at]), None)
    if twice is not None:
        raise ClickvecError(f"the teacher {twice} is given twice; give it once")
    models = [Path(name) for name in names if is_model_folder(Path(name))]
    others = [name for name in names if not is_model_folder(Path(name))]
    if len(others) > 1:
        raise ClickvecError(
            f"{others[0]} and {others[1]} cannot both teach: the vectors of one are kept; give one of them, and any "
            "number of clickvec models"
        )
    return models, others


def check_source(teacher: Named) -> None:
    """Raise if there is nothing of that name: before an hour of reading, not after it."""
    models, others = split_names(teacher)
    for path in models:
        open_model(path)
    for name in others:
        path = Path(name)
        if not teacher_folder.is_teacher_folder(path) and not (path.suffix in (".npy", ".parquet") and path.is_file()):
            SentenceSource(str(name))


def check_tuning(teacher: Named, epochs: int) -> None:
    """Raise if a transformer is to be fine-tuned, and none of the teachers can be."""
    if epochs:
        check_tunable(split_names(teacher)[1])


def check_tunable(teachers: Sequence[str | Path]) -> str:
    """Return the identity of the teacher that is not a clickvec model. Raise if it cannot be fine-tuned.

    It is a transformer, or a teacher folder with tokens, or with the vectors of a transformer that is tuned already.
    """
    if not teachers:
        raise ClickvecError("teacher_epochs is for a transformer, and the teacher is a clickvec model; leave it out")
    path = Path(teachers[0])
    if not teacher_folder.is_teacher_folder(path):
        if path.suffix in (".npy", ".parquet"):
            raise ClickvecError(f"{path} holds vectors, which cannot be fine-tuned; leave out teacher_epochs")
        check_tokens(str(teachers[0]))
        return SentenceSource(str(teachers[0])).identity
    with teacher_folder.open_teacher_folder(path) as (_, about):
        identity = str(about["identity"])
        if about["kind"] != "tokens" and not identity.startswith(teacher_folder.TUNED):
            raise ClickvecError(
                f"{path} holds vectors, which cannot be fine-tuned; name the transformer instead of the folder"
            )
        return identity


def open_source(teacher: str | Path, folder: Path) -> Source:
    """Return the source that a user names. `folder` is where its vectors will be kept."""
    path = Path(teacher)
    if teacher_folder.is_teacher_folder(path):
        return TokenSource(path) if teacher_folder.kind_of_teacher(path) == "tokens" else StoredVectors(path)
    if path.suffix == ".npy" and path.is_file():
        return open_npy(path)
    if path.suffix == ".parquet" and path.is_file():
        scratch = resolve(folder).parent
        scratch.mkdir(parents=True, exist_ok=True)
        return open_parquet(path, scratch)
    return SentenceSource(str(teacher))
