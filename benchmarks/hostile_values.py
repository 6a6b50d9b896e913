"""Changes of a valid file that leave it well formed: another type, range, shape or size of one of its values."""

import copy
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from clickvec.storage.arrays import read_arrays, write_arrays

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, -1e308, 5e-324, "", "x", "0",
    "-1", "S1000000000",
    "float64", "object", "../..", "/dev/zero", "²²²-x", "x" * 600, "\0", "\ud800", "上海", [], {}, [[]],
    [None] * 9, {"": None}, {"format": True}, [0] * 5000, {str(number): number for number in range(3000)},
]  # fmt: skip


def change_json(value: Any, rng: random.Random) -> Any:  # noqa: ANN401
    """Return JSON in which one to three values were replaced, removed, renamed or exchanged."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = [(holder, key) for holder in _holders(value) for key in _keys(holder)]
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        kind = rng.randrange(8)
        if kind < 5:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        elif kind == 5:
            del holder[key]
        elif kind == 6:
            other, other_key = rng.choice(places)
            if other_key in _keys(other):
                holder[key], other[other_key] = copy.deepcopy(other[other_key]), copy.deepcopy(holder[key])
        elif isinstance(holder[key], int | float):
            holder[key] = rng.choice(
                [-holder[key], holder[key] + 1, holder[key] - 1, holder[key] * 2, str(holder[key])]
            )
        else:
            holder[key] = [holder[key]]
    return value


def _holders(value: Any) -> list[Any]:  # noqa: ANN401
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return ([value] if isinstance(value, dict | list) else []) + [held for part in inner for held in _holders(part)]


def _keys(holder: Any) -> list[Any]:  # noqa: ANN401
    return list(holder) if isinstance(holder, dict) else list(range(len(holder)))


def json_file(path: Path, rng: random.Random) -> None:
    """Change values of a JSON file."""
    value = change_json(json.loads(path.read_text()), rng)
    path.write_text(json.dumps(value) if rng.random() < 0.9 else _doubled(json.dumps(value), rng))


def _doubled(text: str, rng: random.Random) -> str:
    """Return an object with a key twice."""
    return text.replace("{", '{"format": ' + json.dumps(rng.choice(VALUES)) + ", ", 1)


def settings(path: Path, rng: random.Random) -> None:
    """Change settings or counters in documents.sqlite, whose checksum is right then."""
    with _database(path) as connection:
        key = "state" if rng.random() < 0.8 else "counters"
        (text,) = connection.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        value = json.loads(text)
        changed = change_json(value, rng)
        if key == "state" and rng.random() < 0.7:  # one setting alone, so that others do not hide it
            changed = value | {rng.choice(list(value)): rng.choice(VALUES)}
        data = json.dumps(changed).encode()
        connection.execute(
            "UPDATE state SET value = ?, crc = ? WHERE key = ?", (data, crc32(data, crc32(key.encode())), key)
        )
    connection.close()


def rows(path: Path, rng: random.Random) -> None:
    """Change a document in documents.sqlite, whose checksum is right then."""
    with _database(path) as connection:
        (seq,) = connection.execute("SELECT seq FROM documents ORDER BY random() LIMIT 1").fetchone()
        columns = ["id", "is_integer", "title", "payload", "seq"]
        old = connection.execute(f"SELECT {', '.join(columns)} FROM documents WHERE seq = ?", (seq,)).fetchone()
        row = dict(zip(columns, old, strict=True))
        hostile = [
            b"",
            b"\xff\xfe",
            b"x" * 100_000,
            b"9" * 5_000,
            b"[" * 3_000,
            b"Infinity",
            b"{}",
            b"[]",
            b'{"a": 1e999}',
            7,
            None,
        ]
        name = rng.choice(columns)
        row[name] = rng.choice([0, 1, 2, -1]) if name == "is_integer" else rng.choice(hostile)
        if name == "seq":
            row[name] = rng.choice([-1, 0, seq + 1, 2**62, 2**63 - 1])
        parts = [
            part if isinstance(part, bytes) else str(part or "").encode()
            for part in (row["id"], row["title"], row["payload"])
        ]
        crc = crc32(b"%d %d\0%b\0%b\0%b" % (row["seq"], row["is_integer"], *parts))
        values = (row["seq"], row["id"], row["is_integer"], row["title"], row["payload"], crc, seq)
        changes = ", ".join(f"{column} = ?" for column in ("seq", "id", "is_integer", "title", "payload", "crc"))
        statement = f"UPDATE OR REPLACE documents SET {changes} WHERE seq = ?"
        try:
            connection.execute(statement, values)
        except sqlite3.IntegrityError:  # the table refuses the type
            connection.execute("DELETE FROM documents WHERE seq = ?", (seq,))
    connection.close()


def _database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    return connection


def arrays_file(path: Path, rng: random.Random) -> None:
    """Change arrays of a safetensors file."""
    with path.open("rb") as file:
        arrays = {name: np.array(values) for name, values in read_arrays(file, path.name).items()}
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(sorted(arrays))
        if name == "about" and rng.random() < 0.7:
            try:
                about = change_json(json.loads(arrays[name].tobytes()), rng)
            except ValueError:  # an earlier change has made it something else than JSON
                continue
            arrays[name] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        elif rng.random() < 0.05 and len(arrays) > 1:
            del arrays[name]
        else:
            arrays[name] = _changed(arrays[name], rng)
    write_arrays(path, arrays)
    if rng.random() < 0.1:  # a header that claims more than there is
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = change_json(json.loads(data[8 : 8 + size]), rng)
        encoded = json.dumps(header).encode()
        path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data[8 + size :])


def npy_file(path: Path, rng: random.Random) -> None:
    """Change an array file: its values, or what its header claims."""
    values = np.load(path)
    if rng.random() < 0.6:
        np.save(path, _changed(values, rng))
        return
    data = path.read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    shape = rng.choice([(10**12, *values.shape[1:]), (2**63,), (-1,), (), (0,), values.shape[::-1], (10**6, 10**6)])
    dtype = rng.choice([values.dtype.str, "|S1000000000", "|O", "<f8", "<c16", "<M8[s]", "x", "<i8,<i8"])
    header = repr({"descr": dtype, "fortran_order": rng.random() < 0.2, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path.write_bytes(data[:8] + len(header).to_bytes(2, "little") + header + data[start:])


def _changed(values: NDArray[Any], rng: random.Random) -> NDArray[Any]:
    values, chance = np.array(values), np.random.default_rng(rng.getrandbits(32))
    flat = values.reshape(-1)
    some = chance.integers(0, max(1, flat.size), rng.randint(1, 20)) if flat.size else np.zeros(0, np.int64)
    is_float = values.dtype.kind == "f"
    ends = (
        (np.nan, np.inf, -np.inf, 1e38, 0)
        if is_float
        else (np.iinfo(values.dtype).max, np.iinfo(values.dtype).min, 0, 1)
    )
    changes: list[Callable[[], NDArray[Any]]] = [
        lambda: values[: rng.randrange(len(values) + 1)] if values.ndim else values,
        lambda: np.concatenate((values, values)),
        lambda: values[:0],
        lambda: values[::-1].copy(),
        lambda: chance.permutation(flat).reshape(values.shape),
        lambda: flat if values.ndim > 1 else values[None],
        lambda: values.astype(rng.choice([np.float64, np.float32, np.int64, np.int32, np.uint8])),
        lambda: np.full_like(values, rng.choice(ends)),
    ]
    kind = rng.randrange(2 * len(changes))
    with np.errstate(all="ignore"):
        if kind < len(changes):
            return changes[kind]()
        if is_float:
            flat[some] = rng.choice(ends)
        else:
            flat[some] = rng.choice([*ends, *(flat[some] + 1).tolist()[:2], *(flat[some] - 1).tolist()[:2]] or [0])
    return values
