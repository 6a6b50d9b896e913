"""BM25 and the fusions as SQL expressions. They give the scores of `query_terms.py` and `fusion.py`."""

from collections.abc import Sequence

import numpy as np

from clickvec.search.engines.postgres_filters import Parameters
from clickvec.search.fusion import RARE, Candidates, Fusion, candidates_of
from clickvec.search.lexical.query_terms import QueryTerms, Term
from clickvec.search.lexical.word_segment import MOST

_LEAST = 1e-30  # instead of 0, so that nothing is divided by 0


def match_sql(term: Term, words: QueryTerms, parameters: Parameters) -> str:
    """Return what a term adds to the BM25 of the document `d`: 0 if the title does not have it."""
    add = parameters.add
    constant = add(max(_LEAST, words.k1 * (1 - words.b)))
    slope = add(words.k1 * words.b / words.mean_length)
    saturation = f"({constant}::float8 + {slope}::float8 * d.length)"
    parts = []
    for word, weight in zip(term.words, term.weights, strict=True):
        times = f"least({MOST}, cardinality(array_positions(d.words, {add(word)}::text)))"
        # f / (f + s) is 1 - s / (f + s), which counts the word once.
        parts.append(f"{add(weight * term.idf)}::float8 * (1 - {saturation} / ({times} + {saturation}))")
    return f"({' + '.join(parts)})" if parts else "0::float8"


def score_sql(fusion: Fusion, terms: Sequence[Term], parameters: Parameters) -> str:
    """Return the fused score of the columns cosine, bm25 and m0, m1, ...: what each term adds."""
    add, weights = parameters.add, fusion.weights
    if fusion.method == "ranks":
        constant = add(float(weights["constant"]))
        each = [
            f"CASE WHEN {part} = 0 THEN 0 ELSE 1 / ({constant}::float8 + rank() OVER (ORDER BY {part} DESC)) END"
            for part in ("cosine", "bm25")
        ]
        return f"({constant}::float8 + 1) / 2 * ({' + '.join(each)})"
    facts = _of_query(terms)
    total = float(facts.bounds.sum())
    scale = 1 / total if total else 0.0
    parts = [f"{add(weights['cosine'])}::float8 * cosine", f"{add(weights['words'] * scale)}::float8 * bm25"]
    values = weights["codes"] * facts.code_shares + weights["numbers"] * scale * facts.bounds * facts.is_number
    for at in np.flatnonzero(facts.is_code | facts.is_number).tolist():
        parts.append(f"CASE WHEN m{at} > 0 THEN {add(float(values[at]))}::float8 ELSE 0 END")
    if fusion.method == "mixture":
        return " + ".join(parts)
    matched = [f"CASE WHEN m{at} > 0 THEN {add(float(idf))}::float8 END" for at, idf in enumerate(facts.rarity)]
    if matched:
        rarest = f"coalesce(greatest({', '.join(matched)}), 0)"
        parts.append(f"{add(weights['rarest match'] / RARE)}::float8 * {rarest}")
    same_for_all = weights["constant"] + weights["query length"] * float(np.log(max(1, len(terms))))
    same_for_all += weights["unknown words"] * float(facts.bounds[~facts.is_known].sum()) * scale
    same_for_all += weights["rarest word"] * float(facts.rarity.max(initial=0)) / RARE
    log_odds = f"({add(same_for_all)}::float8 + {' + '.join(parts)})"
    if bend := weights.get("bend", 0.0):
        above = f"greatest({log_odds} - {add(weights.get('bend from', 0.0))}::float8, 0)"
        log_odds = f"({log_odds} + {add(bend)}::float8 * {above})"
    return f"0.5 * (1 + tanh(0.5 * {log_odds}))"


def _of_query(terms: Sequence[Term]) -> Candidates:
    """Return what the fusion knows about the query alone."""
    return candidates_of(terms, np.zeros((0, len(terms))), np.zeros(0))
