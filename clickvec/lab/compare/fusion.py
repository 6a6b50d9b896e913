"""The hybrids: two recorded systems fused, with what there is to choose chosen on dev."""

from collections.abc import Sequence
from functools import partial

from clickvec.lab.compare.material import Material
from clickvec.lab.compare.store import Facts, Recorded, scores_of
from clickvec.lab.compare.systems import System
from clickvec.lab.compare.tuning import Trial, best_on
from clickvec.lab.other_systems.hybrid import MIXTURE_GRID, RRF_GRID, Mixture, ReciprocalRank


def fuse(system: System, parts: Sequence[Recorded], material: Material) -> Recorded:
    """The fused system. It takes the time of its parts; the sum of their parameters is what it knows."""
    words, vectors = parts
    if system.key == "hybrid-rrf":
        trials: list[Trial] = [(grid, partial(ReciprocalRank, [words, vectors], **grid)) for grid in RRF_GRID]
    else:
        trials = [(grid, partial(Mixture, vectors, words, **grid)) for grid in MIXTURE_GRID]
    best = best_on(material.dev, trials)
    scores = {split: scores_of(best.ranker, judged) for split, judged in material.sets.items()}
    facts = [part.facts for part in parts]
    fused = Facts(
        parameters=sum(fact.parameters or 0 for fact in facts),
        train_seconds=sum(fact.train_seconds for fact in facts),
        queries_per_second=1 / sum(1 / fact.queries_per_second for fact in facts),
        settings=best.settings, history=[], commit=vectors.facts.commit, machine=vectors.facts.machine,
    )  # fmt: skip
    return Recorded(system.label, fused, material.sets, scores)
