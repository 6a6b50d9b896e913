"""Planted trouble is found, and the command that the doctor prints cures it when it is pasted."""

import json
import random
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command import check_tells, ok, run

pytest.importorskip("torch")
SMALL = ("--set", "cells=8", "--set", "hidden=8", "--set", "batch_size=8", "--set", "epochs=1")
NOUNS = [f"{a}{b}" for a in ("lam", "cha", "tab", "ket", "car") for b in ("po", "iri", "ledu", "tlam", "pexo")]
COLOURS = ("red", "blue")
MESSES = ("entities", "mojibake", "heavy", "heavy without times", "swapped", "swapped pages", "bad lines", "long")


def rows() -> list[tuple[str, str]]:
    """Return 1,250 queries for 625 titles, as of a small shop."""
    titles = [f"{noun.title()} {number} for House and Home" for noun in NOUNS for number in range(25)]
    return [(f"{colour} {' '.join(title.lower().split()[:2])}", title) for title in titles for colour in COLOURS]


def write(path: Path, header: str, lines: Iterable[Sequence[object]]) -> Path:
    path.write_text("\n".join([header, *("\t".join(map(str, line)) for line in lines)]) + "\n", encoding="utf-8")
    return path


def plant(mess: str, path: Path) -> Path:
    """Write a log with one kind of trouble."""
    plain = rows()
    if mess == "entities":
        return write(path, "query\ttitle", [(query, f"{title} &amp; more") for query, title in plain])
    if mess == "mojibake":
        texts = [(query, f"{title} für Gäste".encode().decode("cp1252")) for query, title in plain]
        return write(path, "query\ttitle", texts)
    if mess.startswith("heavy"):
        timed = mess == "heavy"
        clients = [(*row, f"c{(at + more) % 99}") for at, row in enumerate(plain) for more in range(3)]
        clients += [(*plain[at % 50], "alice@example.com") for at in range(3000)]
        lines = [(*line, *([60 * at] if timed else [])) for at, line in enumerate(clients)]
        return write(path, "query\ttitle\tuser_id" + "\ttime" * timed, lines)
    if mess == "swapped":
        return write(path, "search_term\tname", [(title, query) for query, title in plain])
    if mess == "swapped pages":
        pages = [
            (f"{title} {at}", query, f"c{page}", page, int(at == 0))
            for page, (query, title) in enumerate(plain) for at in range(3)
        ]  # fmt: skip
        return write(path, "query\ttitle\tclient\ttime\tclicked", pages)
    if mess == "bad lines":
        kinds = [("", "t", 1), ("q", "", 1), ("q", "t", "many"), ("q", "t"), ("q",)] * 5 + [("q", "t", 1, 2)]
        return write(path, "query\ttitle\tclicks", [*((*row, 1) for row in plain), *kinds])
    words = " ".join(random.Random(0).sample(NOUNS, 15))
    return write(path, "query\ttitle", [(f"{query} {words}", title) for query, title in plain])


def findings(*arguments: object) -> dict[str, dict[str, Any]]:
    said = json.loads(ok("doctor", *arguments, "--json", *SMALL))
    return {finding["name"]: finding for finding in said["findings"]}


NAMES = {
    "entities": "damaged_texts", "mojibake": "damaged_texts", "heavy": "clients", "heavy without times": "clients",
    "swapped": "columns", "swapped pages": "columns", "bad lines": "lines", "long": "query_lengths",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mess", MESSES)
def test_what_is_planted_is_found_and_the_pasted_command_cures_it(
    mess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log, name = plant(mess, Path("my log.tsv")), NAMES[mess]
    found = findings(log)
    assert found[name]["act"], found[name]
    others = [one["name"] for one in found.values() if one["act"]]
    assert set(others) <= {name, "k_anonymity", "popular_titles", "false_negatives", "clicks"}
    screen = ok("doctor", log, *SMALL)
    commands = [line.strip() for line in screen.splitlines() if line.strip().startswith("clickvec ")]
    assert found[name]["cure"] in commands
    _, verb, *arguments = shlex.split(found[name]["cure"])
    if verb == "doctor" and "--repair" not in arguments:
        assert not any(one["examples"] for one in found.values())  # what is taken for a title may be a query
        assert not findings(*arguments)[name]["act"]
        return
    if verb == "train":
        arguments += [*SMALL]
    done = run(verb, *arguments)
    assert done.status == 0, done.err
    if verb == "doctor":
        assert not findings(arguments[-1])[name]["act"]
        repaired = [json.loads(line) for line in Path(arguments[-1]).read_text(encoding="utf-8").splitlines()]
        ending = {"entities": " & more", "mojibake": " für Gäste"}[mess]
        assert [(row["query"], row["title"]) for row in repaired] == [
            (query, title + ending) for query, title in rows()
        ]
    if verb == "prepare":
        check_tells(done.err, "--max-per-client: 3,000 lines")


def test_a_file_whose_other_encoding_begins_late_is_cured_by_its_name(tmp_path: Path) -> None:
    """The first bytes are those of UTF-8."""
    path, plain = tmp_path / "late.tsv", "".join(f"{query}\t{title}\n" for query, title in rows())
    late = "".join(f"{query}\t{title} f\u00fcr G\u00e4ste\n" for query, title in rows()[:200])
    path.write_bytes(b"query\ttitle\n" + (plain * 2).encode() + late.encode("cp1252"))
    found = findings(path)["lines"]
    verb, *arguments = shlex.split(found["cure"])[1:]
    assert (verb, arguments) == ("doctor", [str(path), "--encoding", "cp1252"])
    assert not findings(*arguments)["lines"]["numbers"]["bad"]


@pytest.mark.parametrize(("options", "change"), [
    (("--encoding", "cp1250"), lambda text: text.replace("Home", "M\u011bsto").encode("cp1250")),
    (("--delimiter", "^"), lambda text: text.replace("\t", "^").encode()),
])  # fmt: skip
def test_commands_read_the_log_as_the_doctor_did(
    options: tuple[str, ...], change: Callable[[str], bytes], tmp_path: Path
) -> None:
    path = write(tmp_path / "log.txt", "query\ttitle", [*rows(), *[("", "blank")] * 100])
    path.write_bytes(change(path.read_text()))
    verb, *arguments = shlex.split(findings(path, *options)["lines"]["cure"])[1:]
    assert verb == "train"
    assert tuple(arguments[1:3]) == options
    ok(verb, *arguments[:-1], tmp_path / "model", *SMALL)


def test_every_command_of_the_doctor_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    write(Path("it's.tsv"), "a,b\tname\tuser_id", [(*row, f"c{at}") for at, row in enumerate(rows())])
    screen = ok("doctor", "it's.tsv", "--columns", '"query=a,b",title=name', *SMALL)
    commands = [line.strip() for line in screen.splitlines() if line.strip().startswith("clickvec ")]
    assert len(commands) >= 2
    for command in commands:
        _, *arguments = shlex.split(command)
        if arguments[0] == "train":
            arguments += [*SMALL, "--no-hold-out"]
            continue  # every query has one client, so nothing would be left to train on
        done = run(*arguments)
        assert done.status == 0, (command, done.err)
    assert Path("data-2").exists()


def test_the_terminal_shows_lines_of_each_reason_and_the_reasons_add_up(tmp_path: Path) -> None:
    lines = [
        *((*row, 1, 1, 1) for row in rows()),
        ("", "t", 1, 1, 1),
        ("q", "", 1, 1, 1),
        ("q", "t", "x\x1b[31m", 1, 1),
    ]
    lines += [("q", "t", 1, "late", 1), ("q", "t", 1, 1, "top"), ("q",), ("q", "t\0", 1, 1, 1)]
    log = write(tmp_path / "log.tsv", "query\ttitle\tclicks\ttime\tposition", lines)
    text = " ".join(ok("doctor", log, *SMALL).split())
    assert "\x1b" not in text
    for row in range(1252, 1259):
        assert f"{log}:{row}:" in text
    numbers = findings(log)["lines"]["numbers"]
    assert sum(numbers["reasons"].values()) == numbers["bad"] == 7
    check_tells(findings(log)["lines"]["text"], "7 (0.6%) are bad", "2 for other reasons")
