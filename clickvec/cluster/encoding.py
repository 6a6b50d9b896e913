"""Encode a catalogue on a Ray cluster: a folder of Parquet files, one for each shard of the catalogue.

A shard is some row groups of a Parquet file, or another file as a whole. A task encodes a shard and writes its file
under a temporary name, then renames it. So a file that is there is complete: a task that Ray repeats writes the same
file again, and a command that is repeated leaves finished shards alone. `vectors.json`, written last, is the manifest.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.cluster.session import RETRIES, finished
from clickvec.data.parsing.columns import Columns
from clickvec.data.parsing.lines import BadLines
from clickvec.data.titles import check_ids
from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.model.folder import open_model
from clickvec.progress import Progress, ignore
from clickvec.search.vectors.vector_file import is_parquet, write_vectors
from clickvec.storage import files
from clickvec.storage.temporary import locked

MANIFEST, PLAN = "vectors.json", "plan.json"
SHARD_TITLES = 250_000


class Shard(NamedTuple):
    """A part of a catalogue that one task encodes."""

    name: str
    path: Path
    groups: Sequence[int] | None  # row groups; None for a file that is not Parquet
    size: int  # bytes of the file: another size is another catalogue


class Encoded(NamedTuple):
    """What a task has written."""

    name: str
    rows: int
    zeros: int  # titles without a known trigram
    skipped: int  # bad lines


def plan(titles: Sequence[Path], shard_titles: int = SHARD_TITLES) -> list[Shard]:
    """Divide a catalogue into shards of about as many titles."""
    shards = list[Shard]()
    for path in titles:
        if not path.is_file():
            raise ClickvecError(f"{path} is not a file; a cluster reads files, best Parquet, that every node can open")
        for groups in _row_groups(path, shard_titles) if is_parquet(path) else (None,):
            shards.append(Shard(f"shard-{len(shards):05}.parquet", path.resolve(), groups, path.stat().st_size))
    return shards


def _row_groups(path: Path, shard_titles: int) -> Iterator[list[int]]:
    """Yield row groups, together until there are enough titles."""
    from clickvec.data.parsing.parquet_rows import row_group_sizes

    groups, rows = list[int](), 0
    for number, size in enumerate(row_group_sizes(path)):
        if groups and rows + size > shard_titles:
            yield groups
            groups, rows = [], 0
        groups.append(number)
        rows += size
    if groups:
        yield groups


def encode_shard(model: Path, fingerprint: str, shard: Shard, out: Path, columns: Columns, vectors: str) -> Encoded:
    """Encode one shard and write its file."""
    encoder, bad = _encoder(model), BadLines()
    if encoder.fingerprint != fingerprint:
        raise ClickvecError(f"{model} is another model on one of the nodes; copy the same model to all of them")
    if shard.path.stat().st_size != shard.size:
        raise ClickvecError(f"{shard.path} is not the same file on all nodes, or it changed; run the command again")
    with tempfile.TemporaryDirectory() as folder:
        source = shard.path if shard.groups is None else _cut(shard, Path(folder, shard.path.name))
        # The number of bad lines is checked for the whole catalogue.
        written = write_vectors(
            encoder, source, out / shard.name, columns=columns, vectors=vectors, overwrite=True, max_bad=1.0, bad=bad
        )
    return Encoded(shard.name, written.rows, written.zeros, bad.count)


@lru_cache(maxsize=1)
def _encoder(model: Path) -> Encoder:
    return Encoder.load(model)


def _cut(shard: Shard, to: Path) -> Path:
    """Copy the row groups of a shard to a file of their own."""
    from pyarrow.parquet import ParquetFile, ParquetWriter

    with ParquetFile(shard.path) as file, ParquetWriter(to, file.schema_arrow) as writer:
        for group in shard.groups or ():
            writer.write_table(file.read_row_group(group))
    return to


def encode_on_cluster(
    ray: Any,  # noqa: ANN401
    model: Path, titles: Sequence[Path], out: Path, columns: Columns, *, vectors: str = "float32",
    max_bad: float = 0.01, shard_titles: int = SHARD_TITLES, progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Encode a catalogue into the folder `out` and return its manifest. Shards that are there are not encoded again."""
    fingerprint, shards, show = open_model(model).fingerprint, plan(titles, shard_titles), progress or ignore
    for path in titles:
        check_ids(path, columns)
    about = {"model": fingerprint, "vectors": vectors, "shards": [_described(shard) for shard in shards]}
    with locked(out, str(out)):
        done = _resume(out, about)
        encode = ray.remote(max_retries=RETRIES)(encode_shard)
        left = [shard for shard in shards if shard.name not in done]
        tasks = [encode.remote(model.resolve(), fingerprint, shard, out.resolve(), columns, vectors) for shard in left]
        show("encoded shards", len(done), len(shards))
        for encoded in finished(ray, tasks):
            done[encoded.name] = encoded
            _note(out, encoded)
            show("encoded shards", len(done), len(shards))
        return _finish(out, about, [done[shard.name] for shard in shards], max_bad)


def _described(shard: Shard) -> dict[str, Any]:
    groups = None if shard.groups is None else list(shard.groups)
    return {"file": shard.name, "from": str(shard.path), "row groups": groups, "bytes": shard.size}


def _resume(out: Path, about: dict[str, Any]) -> dict[str, Encoded]:
    """Return the shards that are finished. Refuse a folder of another model or catalogue, and one that is not ours."""
    if (out / MANIFEST).exists():
        raise ClickvecError(f"{out} holds the vectors of a catalogue already; choose another --out, or remove it")
    others = [entry.name for entry in out.iterdir() if entry.name not in ("lock", PLAN) and entry.name[0] != "."]
    if not (out / PLAN).exists():
        if others:
            raise ClickvecError(f"{out} holds {sorted(others)[0]}, which is not ours; choose another --out")
        with files.replacing_file(out / PLAN) as file:
            file.write(json.dumps(about).encode())
    if json.loads((out / PLAN).read_text()) != about:
        raise ClickvecError(
            f"{out} was begun with another model, catalogue or number format; give the same ones, or another --out"
        )
    noted = (json.loads(path.read_text()) for path in sorted(out.glob("shard-*.json")))
    done = (Encoded(**fields) for fields in noted)
    return {encoded.name: encoded for encoded in done if (out / encoded.name).exists()}


def _note(out: Path, encoded: Encoded) -> None:
    """Note that a shard is finished."""
    with files.replacing_file((out / encoded.name).with_suffix(".json")) as file:
        file.write(json.dumps(encoded._asdict()).encode())


def _finish(out: Path, about: dict[str, Any], done: Sequence[Encoded], max_bad: float) -> dict[str, Any]:
    """Write the manifest and remove what only a resumed run needs."""
    rows, skipped = sum(encoded.rows for encoded in done), sum(encoded.skipped for encoded in done)
    if not rows or skipped > max_bad * (rows + skipped):
        raise ClickvecError(
            f"{skipped:,} of {rows + skipped:,} lines of the catalogue are bad; correct them, or raise --max-bad"
        )
    described = [
        {**fields, "rows": encoded.rows, "bytes written": (out / encoded.name).stat().st_size}
        for fields, encoded in zip(about["shards"], done, strict=True)
    ]
    manifest = {
        "model": about["model"], "vectors": about["vectors"], "rows": rows, "skipped": skipped,
        "rows without a known trigram": sum(encoded.zeros for encoded in done), "shards": described,
    }  # fmt: skip
    with files.replacing_file(out / MANIFEST) as file:
        file.write((json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())
    for path in [*out.glob("shard-*.json"), out / PLAN, out / "lock"]:
        path.unlink(missing_ok=True)
    for leftover in out.glob(".shard-*.partial"):  # of tasks whose node was killed
        shutil.rmtree(leftover, ignore_errors=True)
    return manifest
