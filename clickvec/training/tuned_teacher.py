"""A transformer that is fine-tuned on the clicks before it teaches: from its name to the vectors of all texts."""

import hashlib
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

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
from clickvec.training.fine_tuning import Tuner, Tuning

log = logging.getLogger(__name__)
STATE = "state.safetensors"


def open_tuned(
    data: Dataset, texts: Texts, teacher: Named, beside: Path, tuning: Tuning, progress: Progress | None = None
) -> Teacher:
    """Fine-tune the transformer among the teachers on the pairs of a dataset, and return the vectors of all texts.

    They are kept in the folder `BESIDE.teacher`, as by `open_teacher`, and are not computed again. The state after each
    epoch is in `BESIDE.teacher.tuning`, and the next call continues from it.
    """
    models, others = split_names(teacher)
    base, taught = check_tunable(others), TaughtTexts(data, texts)
    on = f"{teacher_folder.TUNED}{_pairs_digest(data, taught)} {tuple(tuning)} "
    if base.startswith(teacher_folder.TUNED):
        if not base.startswith(on):
            raise ClickvecError(
                f"{others[0]} was fine-tuned on other clicks or with other teacher_epochs; leave out teacher_epochs to "
                "use it as it is, or name the transformer to fine-tune it again"
            )
        return open_teacher(data, texts, teacher, beside, progress)
    folder = resolve(folder_of(beside))
    stored = _stored_identity(folder)
    if stored != on + base:
        files.check_replaceable(folder, teacher_folder.MARKER, teacher_folder.ALL_FILES)
        if stored not in ("", base):
            log.warning("%s has the vectors or tokens of another teacher; fine-tuning replaces them.", folder)
        run = folder.with_name(f"{folder.name}.tuning")
        try:
            with locked(run, str(folder)), _cleared(run):
                tokens = Path(others[0])
                if not teacher_folder.is_teacher_folder(tokens):
                    tokens = run / "tokens"
                    write_tokens(data, texts, str(others[0]), tokens, progress)
                _tune(data, taught, tokens, folder, run / STATE, on + base, progress or ignore, tuning)
                (run / STATE).unlink()
        except KeyboardInterrupt:
            raise Interrupted(
                "Stopped while the teacher was fine-tuned. Run the same command again to continue after the last epoch"
            ) from None
        except OSError as error:
            raise files.cannot_write(folder, error) from None
    return open_teacher(data, texts, [folder, *models], beside, progress)


def _tune(
    data: Dataset, taught: TaughtTexts, tokens: Path, folder: Path, state: Path, identity: str, progress: Progress,
    tuning: Tuning,
) -> None:  # fmt: skip
    """Leave the tokens of all texts and the tuned weights in `folder`."""
    source = TokenSource(tokens)
    source.check_texts(taught)
    bert = source.model(to_train=True)
    Tuner(bert, data, *source.all_tokens(taught), tuning, state, progress).run(identity)
    weights = {name: weight.detach().cpu().numpy() for name, weight in bert.weights.items()}
    write_tuned(tokens, weights, f"{source.name}, fine-tuned", identity, folder)


@contextmanager
def _cleared(run: Path) -> Iterator[None]:
    """On exit, remove what a run has left, except its state and what it did not write."""
    try:
        yield
    finally:
        if teacher_folder.is_teacher_folder(run / "tokens"):
            shutil.rmtree(run / "tokens", ignore_errors=True)
        if not (run / STATE).exists():
            (run / "lock").unlink(missing_ok=True)
            with suppress(OSError):
                run.rmdir()


def _pairs_digest(data: Dataset, taught: TaughtTexts) -> str:
    """Return a hash of what a transformer is fine-tuned on: texts, pairs, and titles that were shown."""
    digest = hashlib.sha256(taught.digest.encode())
    for part in (data.pair_query, data.pair_title, data.shown.values, data.shown.offsets):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:32]


def _stored_identity(folder: Path) -> str:
    """Return the identity of the teacher in a folder; "" if there is none that can be read."""
    try:
        with teacher_folder.open_teacher_folder(folder) as (_, about):
            return str(about["identity"])
    except (ClickvecError, OSError):
        return ""
