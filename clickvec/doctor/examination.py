"""Examine a log: one pass over its lines, then the findings."""

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from clickvec.config import Recipe
from clickvec.data.events import Events
from clickvec.data.parsing.lines import BadLines
from clickvec.doctor.cures import Cures
from clickvec.doctor.false_negatives import false_negatives
from clickvec.doctor.finding import Finding
from clickvec.doctor.line_counts import LineCounter
from clickvec.doctor.line_sample import LineSampler
from clickvec.doctor.log_findings import count_findings
from clickvec.doctor.position_findings import PositionSample, positions_finding
from clickvec.doctor.sample_findings import sample_findings, sample_note
from clickvec.doctor.secret_count import SecretCounter
from clickvec.doctor.text_findings import text_findings
from clickvec.doctor.training_findings import cost_finding, false_negatives_finding, no_cost_finding
from clickvec.errors import missing_extra
from clickvec.progress import Progress, ignore

FORECAST_LINES = 500_000  # clicked lines that a forecast may use


@dataclass(frozen=True)
class Examination:
    """What the doctor found."""

    source: str
    sampled: str  # what the findings from a sample are based on
    seconds: float
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the examination for programs."""
        return {
            "source": self.source, "sample": self.sampled, "seconds": self.seconds,
            "findings": [finding.as_json() for finding in self.findings],
        }  # fmt: skip


def examine(
    blocks: Iterable[Events], bad: BadLines, source: str, recipe: Recipe, *, cost: bool = True,
    forecast: bool = False, device: str = "auto", progress: Progress | None = None, cures: Cures | None = None,
    k_anonymous: int | None = None,
) -> Examination:  # fmt: skip
    """Read the lines of a log once and return the findings. Raise ClickvecError if no line has a click.

    `bad` is where the reader of the blocks counts bad lines. With `cost`, part of the sample is trained on, to
    measure the cost of training with the recipe; this takes most of the time. With `forecast`, four models are
    trained, which takes minutes. `cures` writes the commands of the findings. Examples are queries that at least
    `k_anonymous` clients typed, by default and at least 3.
    """
    cures = cures or Cures()
    if forecast and find_spec("torch") is None:
        raise missing_extra("torch", "train")
    started, report = time.monotonic(), progress or ignore
    samplers, positions, secrets = [LineSampler()], PositionSample(), SecretCounter()
    if forecast:
        samplers.append(LineSampler(FORECAST_LINES))
    with closing(LineCounter(k_anonymous)) as counter:
        for events in blocks:
            counter.add(events)
            for sampler in samplers:
                sampler.add(events)
            positions.add(events)
            secrets.add(events)
            report("reading", counter.lines, None)
        bad.check(source, 1.0, counter.clicked, "pair with a click")
        read_seconds = time.monotonic() - started
        counted = counter.finish()
        negatives = false_negatives(counter.pairs, counted.titles, counted.pairs, recipe.batch_size)
    sample, *larger = (sampler.finish().masked(counted.may_be_shown) for sampler in samplers)
    texts = list(text_findings(sample, counted, cures))
    if texts[-1].act:  # queries and titles are exchanged: a title may be what one client typed
        sample = replace(sample, shown=frozenset())
    titles = () if texts[-1].act else sample.titles
    findings = [
        *count_findings(bad, counted, titles, recipe.max_words, cures),
        *texts,
        *sample_findings(sample),
        positions_finding(counted, positions),
        secrets.finding(),
        false_negatives_finding(negatives, cures),
    ]
    if find_spec("torch") is None:
        findings.append(no_cost_finding())
    elif cost or forecast:
        from clickvec.doctor.training_cost import measure_cost  # imports torch

        measured = measure_cost(sample, counted.pairs, counted.queries, len(counted.titles.keys), recipe, device)
        findings.append(cost_finding(measured, counted, read_seconds, cures))
        if larger:
            from clickvec.doctor.forecast_finding import forecast_finding

            findings.append(forecast_finding(larger[0], counted.pairs, measured, recipe, device, progress))
    return Examination(source, sample_note(sample), time.monotonic() - started, tuple(findings))
