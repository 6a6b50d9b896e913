"""Text from files and arguments is safe for a terminal in every verb. Bytes that pass through are not changed."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from command import PROGRAM, SMALL, Done, in_a_terminal, run
from ondisk import change_config, sign
from tiny import TEXTS, tiny_model

from clickvec import Encoder, Index
from clickvec.cli import streams

ESCAPES = "\x1b]0;own\x07\x1b[2J\x9b31m\u202e\x7f\x08\x1b[31mred\u2066"
FORGED = f"{ESCAPES}\r\n\x1b[1mclickvec: all is well"


def check(done: Done, status: int | None = None) -> Done:
    """Check that the output contains no control characters."""
    assert status is None or done.status == status, done
    for text in (done.out, done.err):
        assert all(char == "\n" or char.isprintable() for char in text), ascii(text)
    assert "Traceback" not in done.err
    return done


# --- safe text ---------------------------------------------------------------------------------------------------


def test_only_our_own_colour_codes_pass(capsys: pytest.CaptureFixture[str]) -> None:
    streams.print_result("\x1b[1;32mgood\x1b[0m \x1b[5mblink\x1b[38;5;1m\x1b[2J", coloured=True)
    assert capsys.readouterr().out == "\x1b[1;32mgood\x1b[0m ␛[5mblink␛[38;5;1m␛[2J\n"
    streams.print_result("\x1b[1;32mgood\x1b[0m\nbetter")
    assert capsys.readouterr().out == "␛[1;32mgood␛[0m\nbetter\n"


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    streams.print_message(FORGED)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.removesuffix("\n").isprintable()


# --- every verb --------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / f"model {ESCAPES}")


@pytest.fixture
def titles(tmp_path: Path) -> Path:
    path = tmp_path / f"titles {ESCAPES}.jsonl"
    rows = [{"id": f"{key}{FORGED}", "title": f"{text} {ESCAPES}", ESCAPES: FORGED} for key, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    return path


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    path = tmp_path / f"judged {ESCAPES}.jsonl"
    rows = [
        {
            "query_id": ESCAPES,
            "query": f"hotels {ESCAPES}",
            "doc_id": f"{key}{ESCAPES}",
            "title": text,
            "grade": grade,
        }
        for key, (text, grade) in enumerate(zip(TEXTS, "1100000x", strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    return path


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    path = tmp_path / f"clicks {ESCAPES}.jsonl"
    rows = [{"query": f"{text} {ESCAPES}", "title": f"{text} {ESCAPES}", "clicks": 1} for text in TEXTS]
    bad = {"query": ESCAPES, "title": ESCAPES, "clicks": ESCAPES}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, bad]))
    return path


def test_escape_codes_in_titles_and_models(model: Path, titles: Path, tmp_path: Path) -> None:
    index, bad = tmp_path / f"index {ESCAPES}", ("--max-bad", "0.5")
    assert "is given twice" in check(run("index", model, titles, "--out", index, *bad), 0).err
    check(run("index", model, titles, "--out", index), 1)
    check(run("index", model, titles, "--out", index, "--overwrite"), 1)  # too many bad lines
    check(run("encode", model, titles, "--out", tmp_path / f"{ESCAPES}.npy", *bad), 0)
    check(run("shrink", model, "--out", tmp_path / f"small {ESCAPES}"), 0)
    hits = check(run("search", index, f"hotels {ESCAPES}", "ЖЖЖ\x1b"), 0)
    assert "No hits" in hits.err
    check(run("search", index, f"hotels {ESCAPES}", f"ЖЖЖ {FORGED}", "--parts", "--facets", ESCAPES), 0)
    check(run("search", index, f"hotels {FORGED}", "--json"), 0)
    check(run("search", index, stdin=f"hotels {ESCAPES}\n"), 0)
    check(run("explain", index, f"hotels {ESCAPES}", f"0{FORGED}", "--all"), 0)
    check(run("explain", index, f"hotels {ESCAPES}", "--against", tmp_path / f"small {ESCAPES}", "--json"), 0)
    check(run("nearest", index, f"hotels{ESCAPES}", ESCAPES), 0)
    check(run("nearest", model, "hotels", "--titles", titles, *bad), 0)
    check(run("search", tmp_path / ESCAPES, "hotels"), 1)


def test_escape_codes_in_judged_sets_and_logs(model: Path, judged: Path, clicks: Path, tmp_path: Path) -> None:
    bad = ("--max-bad", "0.5")
    assert "is judged twice" in check(run("evaluate", model, "--judged", judged, *bad), 0).err
    check(run("evaluate", model, "--judged", judged), 1)
    check(run("prepare", clicks, "--out", tmp_path / f"data {ESCAPES}", *bad), 0)
    check(run("prepare", clicks, "--out", tmp_path / f"data {ESCAPES}", *bad), 1)
    check(run("topics", model, clicks, *bad), 0)
    (tmp_path / "header.tsv").write_text(f"{ESCAPES}\t{ESCAPES}\t{ESCAPES}\n" + f"{ESCAPES}\n" * 9)
    check(run("prepare", tmp_path / "header.tsv", "--out", tmp_path / "x"), 1)
    check(run("simulate", tmp_path / f"site {ESCAPES}", "--impressions", "100", "--no-log"))
    check(run("report", model, "--judged", judged, "--out", tmp_path / f"report {ESCAPES}", *bad))
    check(run("compare", "--clicks", clicks, "--dev", judged, "--test", judged, "--out", tmp_path / ESCAPES))
    check(run("rerank", model, stdin=f"{ESCAPES}\n" * 3), 1)


def test_escape_codes_in_training_data(clicks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / f"m {ESCAPES}"
    check(run("train", clicks, "--out", out, *SMALL, "--max-bad", "0.5"), 0)
    check(run("train", clicks, "--out", out, *SMALL, "--max-bad", "0.5"), 1)
    check(run("train", clicks, "--out", out, "--set", f"{ESCAPES}=1"), 1)
    check(run("info", out), 0)
    assert (out / "README.md").read_text().replace("\n", "").isprintable()


def test_a_foreign_model_cannot_forge_a_line_of_info(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    forged = {"from": f"{ESCAPES}\nverified: every byte", ESCAPES: [FORGED]}
    change_config(model, training={"data": forged, "kept": FORGED, "recipe": {"tower": FORGED}})
    sign(model)
    out = check(run("info", model), 0).out
    assert not any(line.startswith("verified") for line in out.splitlines())
    assert json.loads(check(run("info", model, "--json"), 0).out)["data"] == forged


def test_escape_codes_in_arguments(model: Path) -> None:
    for arguments in (
        (ESCAPES,),
        ("search", f"--{ESCAPES}"),
        ("search", model, "pizza", "-k", ESCAPES),
        ("explain", model, "pizza", "--method", ESCAPES),
        ("topics", model, ESCAPES, "--cells", ESCAPES),
        ("evaluate", ESCAPES, ESCAPES, "--judged", ESCAPES),
    ):
        check(run(*arguments), 2)


def test_colours_of_the_data_do_not_reach_a_terminal(model: Path) -> None:
    Index.build(Encoder.load(model), [f"{text} {ESCAPES}" for text in TEXTS]).save(model.parent / "index")
    for verb in (("explain",), ("search",), ("nearest",)):
        out = in_a_terminal(*verb, model.parent / "index", f"hotels {ESCAPES}", TERM="xterm")
        assert "␛[31mred" in out
        assert "\x1b[31mred" not in out
        assert re.sub(r"\x1b\[[0-9;]+m|\n", "", out).isprintable()


# --- bytes that pass through -------------------------------------------------------------------------------------


ENVIRONMENTS: tuple[dict[str, str], ...] = ({}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0"})


def printed(*arguments: str | Path, stdin: bytes = b"", **environment: str) -> bytes:
    command = [*PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, env=os.environ | environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_rerank_changes_no_byte(environment: dict[str, str], model: Path) -> None:
    lines = [f"上海 {ESCAPES}\t{ESCAPES}{key}\thotel \r🍕 {ESCAPES} {key}".encode() for key in range(3)]
    for end in (b"\n", b"\r\n"):
        *out, rest = printed("rerank", model, stdin=end.join(lines), **environment).split(b"\n")
        assert rest == b""
        assert sorted(line.rsplit(b"\t", 1)[0] for line in out) == lines


def test_rerank_is_safe_on_a_terminal(model: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*PROGRAM, "rerank", str(model)], stdin=subprocess.PIPE, stdout=theirs) as running:
        running.communicate(f"hotels\t{ESCAPES}\thotels\n".encode())
    os.close(theirs)
    out = os.read(ours, 65536).decode().replace("\r\n", "")
    os.close(ours)
    query, key, title, _ = out.split("\t")
    assert (query, key, title) == ("hotels", streams.clean(ESCAPES), "hotels")


def test_rerank_prints_each_list_as_soon_as_it_ends(model: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*PROGRAM, "rerank", str(model)], **pipes, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("hotels\t1\thotels\nflights\t2\tflights\n")
        running.stdin.flush()
        assert running.stdout.readline().startswith("hotels\t1\thotels\t")
        running.stdin.close()
        assert running.stdout.readline().startswith("flights\t2\tflights\t")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_json_stays_json_in_every_encoding(environment: dict[str, str], tmp_path: Path) -> None:
    note = f"hotels 上海 🍕 {ESCAPES}"
    encoder = Encoder.load(tiny_model(tmp_path / "model"))
    Index.build(encoder, titles=["hotels"], payloads=[{"note": note}]).save(tmp_path / "index")
    out = printed("search", tmp_path / "index", "hotels", "--json", **environment).decode()
    assert out.removesuffix("\n").isprintable()
    assert out.isascii() == bool(environment)
    assert json.loads(out)["hits"][0]["payload"]["note"] == note


def test_text_is_printed_in_every_encoding(tmp_path: Path) -> None:
    Index.build(Encoder.load(tiny_model(tmp_path / "model")), TEXTS).save(tmp_path / "index")
    assert rb"\u4e0a\u6d77" in printed("search", tmp_path / "index", "上海 酒店", PYTHONIOENCODING="ascii")
