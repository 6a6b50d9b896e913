"""The score of a hit as one SQL statement, from the SQL of its parts. It gives the scores of `fusion.py`."""

from collections.abc import Collection, Mapping

from clickvec.search.fusion import Fusion
from clickvec.search.parts import PROPOSING
from clickvec.search.parts.part import Sql


def hybrid_sql(documents: str, columns: str, parts: Mapping[str, Sql], fusion: Fusion, silent: Collection[str]) -> str:
    """Return the statement that finds the candidates of all parts, scores them, and reads them, best first.

    It selects the `columns` of the table `documents`, the score, and the columns of the parts in their order.
    """
    sources = [f"SELECT seq FROM ({part.candidates}) AS of_{name}" for name, part in parts.items() if part.candidates]
    each = {name: expression for part in parts.values() for name, expression in part.columns.items()}
    own = "".join(f", {part.own} AS own_{name}" for name, part in parts.items())
    found = " UNION ".join(sources) or f"SELECT seq FROM {documents} WHERE FALSE"
    listed = "".join(f", {expression} AS {name}" for name, expression in each.items())
    return (
        f"WITH found AS MATERIALIZED ({found}), "
        f"parts AS (SELECT {columns}{listed} FROM {documents} d WHERE d.seq IN (SELECT seq FROM found)), "
        f"owned AS (SELECT *{own} FROM parts) "
        f"SELECT seq, id, is_integer, title, payload, {_score_sql(fusion, parts, silent)} AS score"
        f"{''.join(f', {name}' for name in each)} FROM owned ORDER BY score DESC, seq"
    )


def _score_sql(fusion: Fusion, parts: Mapping[str, Sql], silent: Collection[str]) -> str:
    """Return the fused score, from the columns of the parts."""
    weights = fusion.weights_without(silent)
    if fusion.method == "ranks":
        constant, proposing = _number(weights["constant"]), [part.name for part in PROPOSING]
        each = [
            f"CASE WHEN own_{name} = 0 THEN 0 ELSE 1 / ({constant} + rank() OVER (ORDER BY own_{name} DESC)) END"
            for name in parts
            if name in proposing
        ]
        return f"({constant} + 1) / {len(each)} * ({' + '.join(each)})"
    features = {name: feature for part in parts.values() for name, feature in part.features.items()}
    weighed = {name: feature for name, feature in features.items() if weights.get(name)}
    same_for_all = weights.get("constant", 0.0) + sum(
        weights[name] * feature for name, feature in weighed.items() if not isinstance(feature, str)
    )
    terms = [f"{_number(weights[name])} * {of}" for name, of in weighed.items() if isinstance(of, str)]
    total = f"({' + '.join([_number(same_for_all), *terms])})"
    if bend := weights.get("bend", 0.0):
        above = f"greatest({total} - {_number(weights.get('bend from', 0.0))}, 0)"
        total = f"({total} + {_number(bend)} * {above})"
    return f"0.5 * (1 + tanh(0.5 * {total}))" if fusion.is_probability else total


def _number(value: float) -> str:
    return f"({value!r})::float8"
