"""The model card: what a model was trained on, how, and how good it is. It goes into README.md and config.json."""

from typing import Any

from clickvec.evaluation.bm25 import describe_settings
from clickvec.model.folder import Model
from clickvec.text.printable import clean
from clickvec.training.measuring import figures_table


def write(model: Model) -> str:
    """Return the README.md of the model folder."""
    about = model.training
    kept, data = about["kept"], about["data"]
    lines = [
        f"# A clickvec model: {model.tower.kind}, {model.tower.dimensions} dimensions", "",
        "Turns search queries and titles into vectors whose cosine says how well they match. Open it with",
        '`clickvec.Encoder.load(FOLDER)`, or `clickvec search`, after `clickvec index`.', "",
        "## Data", "",
        *([f"From {clean(data['from'])}.", ""] if data["from"] else []),
        "| | |", "|---|---|", *(f"| {name} | {_number(value)} |" for name, value in data.items() if name != "from"), "",
        *_teacher(about.get("teacher")),
        "## Training", "",
        f"Kept: epoch {about['kept_epoch']} of {about['recipe']['epochs']}.", "",
        "| | |", "|---|---|",
        *(f"| {name} | {_number(value)} |" for name, value in kept.items() if not isinstance(value, dict)),
        *(f"| dev {name} | {value:.2f} |" for name, value in kept.get("dev", {}).items()), "",
        *_held_out(about.get("held_out")), *_continued(about.get("continued")),
        "## Recipe", "",
        "```toml", *(f"{name} = {_toml(value)}" for name, value in about["recipe"].items()), "```",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _teacher(teacher: dict[str, Any] | None) -> list[str]:
    """Return the section about the teacher, if there was one."""
    if teacher is None:
        return []
    return [
        "## Teacher", "",
        f"{clean(teacher['name'])}, for {teacher['titles']:,} titles. The model learned which texts are alike; the",
        f"teacher is not needed any more.{_agreement(teacher)}", "",
    ]  # fmt: skip


def _agreement(teacher: dict[str, Any]) -> str:
    share = teacher.get("agreement")  # models of earlier versions do not tell it
    return "" if share is None else f" It agrees with {100 * share:.0f}% of the clicks."


def _held_out(figures: dict[str, Any] | None) -> list[str]:
    """Return the section about held-out clicks, if there were any."""
    if figures is None:
        return []
    head, *rows = figures_table(figures)
    whose = "that are not in training" if "folds" not in figures else "of the log"
    how = (
        f"BM25 is tuned on other held-out queries: {describe_settings(figures['bm25'])}." if "bm25" in figures else
        f"Each query is searched by one of {figures['folds']} models that were trained on the other parts of the log."
    )  # fmt: skip
    return [
        "## Held-out clicks" if "folds" not in figures else "## Cross-validation", "",
        f"{figures['queries']:,} queries {whose}, and {figures['titles']:,} titles that each system",
        "searches for the clicked ones. In per cent, with 95% confidence intervals (bootstrap over queries).", how, "",
        f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), "",
    ]  # fmt: skip


def _continued(continued: dict[str, Any] | None) -> list[str]:
    """Return the section about the model that training continued from, if there was one."""
    if continued is None:
        return []
    return [
        "## Continued", "",
        f"From the model {continued['from']}. NDCG@10 of both, in per cent:", "",
        "| on | queries | before | now | p |", "|---|---|---|---|---|",
        *(
            f"| {row['on']} | {row['queries']:,} | {row['before']:.2f} | {row['now']:.2f} | {row['p']:.2g} |"
            for row in continued["compared"]
        ), "",
    ]  # fmt: skip


def headline(model: Model) -> str:
    """Return one line about the model that was kept."""
    kept = model.training["kept"]
    scores = "".join(f", dev {name} {value:.1f}" for name, value in kept.get("dev", {}).items())
    return f"epoch {kept['epoch']} of {model.training['recipe']['epochs']}, loss {kept['loss']:.4f}{scores}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
