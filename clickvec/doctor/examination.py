"""Examine a log: one pass over its lines, then the findings."""

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from clickvec.config import Recipe
from clickvec.data.events import Events
from clickvec.data.lines import BadLines
from clickvec.data.secrets import mask
from clickvec.doctor.false_negatives import false_negatives
from clickvec.doctor.finding import Finding
from clickvec.doctor.line_counts import LineCounter
from clickvec.doctor.line_sample import LineSampler, Sample
from clickvec.doctor.log_findings import count_findings
from clickvec.doctor.position_findings import positions_finding
from clickvec.doctor.sample_findings import sample_findings, sample_note
from clickvec.doctor.secret_count import SecretCounter
from clickvec.doctor.text_hashes import canonical_texts, hash_texts
from clickvec.doctor.training_findings import cost_finding, false_negatives_finding
from clickvec.progress import Progress, ignore


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
    blocks: Iterable[Events], bad: BadLines, source: str, recipe: Recipe, *, device: str = "auto",
    progress: Progress | None = None,
) -> Examination:  # fmt: skip
    """Read the lines of a log once and return the findings. Raise ClickvecError if no line has a click.

    `bad` is where the reader of the blocks counts bad lines. Part of the sample is trained on, to measure the cost of
    training with the recipe.
    """
    started, report = time.monotonic(), progress or ignore
    sampler, secrets = LineSampler(), SecretCounter()
    with closing(LineCounter()) as counter:
        for events in blocks:
            counter.add(events)
            sampler.add(events)
            secrets.add(events)
            report("reading", counter.lines, None)
        bad.check(source, 1.0, counter.clicked, "pair with a click")
        read_seconds = time.monotonic() - started
        counted = counter.finish()
        negatives = false_negatives(counter.pairs, counted.titles, counted.pairs, recipe.batch_size)
    sample = _masked(sampler.finish())
    text_of = dict(zip(hash_texts(canonical_texts(sample.titles)).tolist(), sample.titles, strict=True))
    findings = (
        *count_findings(bad, counted, text_of, recipe.max_words),
        *sample_findings(sample),
        positions_finding(counted),
        secrets.finding(),
        false_negatives_finding(negatives),
        cost_finding(sample, counted, recipe, device, read_seconds),
    )
    return Examination(source, sample_note(sample), time.monotonic() - started, findings)


def _masked(sample: Sample) -> Sample:
    """Mask the secrets of a sample, so that no example shows one."""
    return replace(sample, queries=mask(sample.queries)[0], titles=mask(sample.titles)[0])
