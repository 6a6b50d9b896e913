"""A transformer that is fine-tuned on the clicks before it teaches: from its name to the vectors of all texts."""

import logging
import shutil
from pathlib import Path

from clickvec.data.dataset import Dataset, Texts
from clickvec.errors import ClickvecError, Interrupted
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.storage.outputs import resolve
from clickvec.storage.temporary import locked
from clickvec.teacher import teacher_folder
from clickvec.teacher.opening import Named, check_tunable, folder_of, open_teacher, split_names
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.teacher.token_source import TokenSource, write_tokens, write_tuned
from clickvec.training.checkpoint import name_data
from clickvec.training.fine_tuning import Tuner, Tuning

log = logging.getLogger(__name__)


def open_tuned(
    data: Dataset, texts: Texts, teacher: Named, beside: Path, tuning: Tuning, progress: Progress | None = None
) -> Teacher:
    """Fine-tune the transformer among the teachers on the pairs of a dataset, and return the vectors of all texts.

    They are kept in the folder `BESIDE.teacher`, as by `open_teacher`, and are not computed again. The state after each
    epoch is in `BESIDE.teacher.tuning`, and the next call continues from it.
    """
    models, others = split_names(teacher)
    base = check_tunable(others)
    folder, on = resolve(folder_of(beside)), f"{teacher_folder.TUNED}{name_data(data, None)} {tuple(tuning)} "
    if not base.startswith(on) and _stored_identity(folder) != on + base:
        run = folder.with_name(f"{folder.name}.tuning")
        try:
            with locked(run, str(folder)):
                _tune(data, texts, str(others[0]), folder, run, on + base, progress or ignore, tuning)
        except KeyboardInterrupt:
            raise Interrupted("Stopped while the teacher was fine-tuned. Run the same command again") from None
        except OSError as error:
            raise files.cannot_write(folder, error) from None
        shutil.rmtree(run, ignore_errors=True)
    return open_teacher(data, texts, [folder, *models], beside, progress)


def _tune(
    data: Dataset, texts: Texts, teacher: str, folder: Path, run: Path, identity: str, progress: Progress,
    tuning: Tuning,
) -> None:  # fmt: skip
    """Leave the tokens of all texts and the tuned weights in `folder`."""
    files.check_replaceable(folder, teacher_folder.MARKER, teacher_folder.ALL_FILES)
    tokens = Path(teacher)
    if not teacher_folder.is_teacher_folder(tokens):
        tokens = run / "tokens"
        write_tokens(data, texts, teacher, tokens, progress)
    source, taught = TokenSource(tokens), TaughtTexts(data, texts)
    source.check_texts(taught)
    bert = source.model(to_train=True)
    Tuner(bert, data, *source.all_tokens(taught), tuning, progress).run(run / "state.safetensors", identity)
    if teacher_folder.is_teacher_folder(folder) and teacher_folder.kind_of_teacher(folder) == "vectors":
        log.warning("%s has the vectors of another teacher; they are replaced.", folder)
    weights = {name: weight.detach().cpu().numpy() for name, weight in bert.weights.items()}
    write_tuned(tokens, weights, f"{source.name}, fine-tuned", identity, folder)


def _stored_identity(folder: Path) -> str:
    """Return the identity of the teacher in a folder; "" if there is none that can be read."""
    try:
        with teacher_folder.open_teacher_folder(folder) as (_, about):
            return str(about["identity"])
    except (ClickvecError, OSError):
        return ""
