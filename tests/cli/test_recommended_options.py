"""The options that messages recommend exist."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from command import wrong_usage

from clickvec.cli.app import app

ROOT = Path(__file__).parents[2]
OF_OTHERS = ("native", "cluster", "lab")  # these name options of compilers, ray and git


def options_of(command: Any) -> dict[str, set[str]]:  # noqa: ANN401
    """Return the options of each verb, by the name of the verb."""
    found = {}
    for name, verb in command.commands.items():
        if hasattr(verb, "commands"):
            found |= {f"{name} {part}": options for part, options in options_of(verb).items()}
        else:
            found[name] = {
                option for parameter in verb.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
    return found


VERBS = options_of(typer.main.get_command(app))


def test_every_recommended_option_exists() -> None:
    known = set().union(*VERBS.values()) | {"--version", "--help", "--nproc-per-node"}  # the last is of torchrun
    unknown = {}
    for path in sorted((ROOT / "clickvec").rglob("*.py")):
        if path.relative_to(ROOT / "clickvec").parts[0] in OF_OTHERS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for option in re.findall(r"(?<![\w<!-])--[a-z][a-z-]+[a-z]", node.value):
                    if option not in known:
                        unknown[option] = path.name
    assert unknown == {}


@pytest.mark.parametrize("verb", ["up", "prepare", "train", "retrain"])
def test_verbs_that_read_logs_have_the_options_that_readers_recommend(verb: str) -> None:
    assert {"--catalogue", "--queries", "--columns", "--no-header", "--max-bad"} <= VERBS[verb]


@pytest.mark.parametrize("verb", ["up", "retrain"])
def test_verbs_that_clean_logs_have_the_options_of_prepare(verb: str) -> None:
    rules = {"--k-anonymous", "--merge-minutes", "--max-per-hour", "--drop-queries", "--drop-clients"}
    assert rules | {"--max-query-words", "--min-clicks", "--keep-secrets"} <= VERBS[verb] & VERBS["prepare"]


def test_up_has_the_options_of_its_verbs() -> None:
    assert {"--recipe", "--set", "--device"} <= VERBS["up"] & VERBS["train"]
    assert {"--numbers", "--vectors", "--search"} <= VERBS["up"] & VERBS["index build"]
    assert {"--memory"} <= VERBS["up"] & VERBS["prepare"]


@pytest.mark.parametrize("words", [("--epochs", "10"), ("--epochs=10",)])
def test_an_option_that_is_a_setting_gets_a_hint(words: tuple[str, ...]) -> None:
    assert "--set epochs=10" in wrong_usage("train", "log.tsv", "--out", "m", *words)
    assert "--set batch_size=VALUE" in wrong_usage("up", "--batch-size")
    assert "--set" not in wrong_usage("search", "index", "query", "--epochs", "10")
