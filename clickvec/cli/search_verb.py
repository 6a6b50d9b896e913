"""The verb search: search an index by words and vectors."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.cli import inputs
from clickvec.cli.inputs import AsJson
from clickvec.cli.streams import print_json, print_message, print_result
from clickvec.render.labels import score_text
from clickvec.text.printable import clean

if TYPE_CHECKING:
    from clickvec.search.index import Hit, Index
    from clickvec.search.payload.facets import Facet


def search(
    folder: inputs.IndexLocation,
    queries: Annotated[list[str] | None, typer.Argument(help="Queries. If none, read one per line from stdin.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of hits per query.")] = 10,
    mode: Annotated[str, typer.Option(help="hybrid, words (BM25 alone) or vectors (cosine alone).")] = "hybrid",
    where: Annotated[
        str | None, typer.Option(metavar="JSON", help='Filter on the payload: \'{"price": {"lt": 20}}\'.')
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Skip this many hits.")] = 0,
    min_score: Annotated[float | None, typer.Option(help="Leave out hits with a lower score.")] = None,
    facets: Annotated[
        list[str] | None,
        typer.Option("--facets", metavar="FIELD", help="Count the values of a field among the hits. Repeatable."),
    ] = None,
    parts: Annotated[bool, typer.Option("--parts", help="Show the cosine and BM25 of each hit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search an index by words and vectors.

    Prints score, id, title and payload. Words that no title contains stand for similar ones, so that
    misspelled queries work; stderr tells which, and names codes that no title
    contains.

    --facets counts all titles that contain a word of the query with --mode words; otherwise the best 100
    by words and the best 100 by vectors. --min-score applies to them too.
    """
    from clickvec.data import BadLines
    from clickvec.data.parsing.lines import stream_lines
    from clickvec.data.parsing.open_files import standard_input
    from clickvec.search.index import Index
    from clickvec.search.parts import MODES
    from clickvec.search.payload.filters import parse_filter

    if mode not in MODES:
        raise typer.BadParameter(f"unknown mode {mode!r}; choose one of {', '.join(MODES)}", param_hint="--mode")
    condition = _read_filter(where)
    checked = parse_filter(condition)
    with Index.open(folder) as index:
        bad = BadLines()
        if checked:
            for note in index.view().notes(checked):
                print_message(note)
        # A bad line of stdin becomes a blank one: each result stays beside its query.
        batches = [(1, queries)] if queries else stream_lines(standard_input(), "standard input", bad)
        for _, batch in batches:
            found = index.search(batch, k=k, where=condition, mode=mode, offset=offset, min_score=min_score)
            for query, hits in zip(batch, found, strict=True):
                counts = None
                if facets:
                    counts = index.facets(query, facets, where=condition, mode=mode, min_score=min_score)
                corrected = index.corrections(query) if mode in ("hybrid", "words") else {}
                if as_json:
                    print_json(_as_json(query, hits, counts, corrected))
                    continue
                heading = [f"{clean(query)}:"] if query.strip() and (not queries or len(queries) > 1) else []
                if heading or hits:
                    print_result("\n".join([*heading, *(_hit_line(hit, parts) for hit in hits)]))
                if counts and (queries or query.strip()):
                    print_result("\n".join(_facet_line(field, facet) for field, facet in counts.items()))
                for word, others in corrected.items():
                    instead = f"; searching for {', '.join(others)} instead" if others else ""
                    if others or hits:  # without hits, the next message says it
                        print_message(f"No title contains {word!r}{instead}")
                if not hits and (queries or query.strip()):  # a blank line of stdin is not a query
                    limits = {"--where": where, "--offset": offset, "--min-score": min_score is not None}
                    reason = _why_no_hits(index, query, mode, [name for name, is_set in limits.items() if is_set])
                    print_message(f"No hits for {query!r}: {reason}")
        inputs.report_bad_lines(bad)


def _read_filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f'this is not JSON, such as {{"price": {{"lt": 20}}, "brand": "acme"}}: {error}', param_hint="--where"
        ) from None
    if not isinstance(value, dict):
        raise typer.BadParameter('this is not a JSON object, such as {"price": {"lt": 20}}', param_hint="--where")
    return value


def _as_json(
    query: str, hits: "list[Hit]", facets: "Mapping[str, Facet] | None", corrected: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    found: dict[str, Any] = {"query": query, "hits": [hit._asdict() | {"parts": dict(hit.parts)} for hit in hits]}
    if facets:
        found["facets"] = {field: facet._asdict() for field, facet in facets.items()}
    if corrected:
        found["corrected"] = corrected
    return found


def _hit_line(hit: "Hit", parts: bool) -> str:
    from clickvec.search.parts import PARTS

    payload = f"  {json.dumps(hit.payload, ensure_ascii=False)}" if hit.payload else ""
    each = "".join(f"  {part.label} {hit.parts[part.measure]:.3f}" for part in PARTS) if parts else ""
    return clean(f"{score_text(hit.score)}{each}  {hit.id}  {' '.join(hit.title.split())}{payload}")


def _facet_line(field: str, facet: "Facet") -> str:
    counts = ", ".join(f"{value} {count:,}" for value, count in facet.counts)
    more = f" and {facet.distinct - len(facet.counts):,} more values" if facet.distinct > len(facet.counts) else ""
    return clean(f"{field}: {counts or 'no values'}{more}")


def _why_no_hits(index: "Index", query: str, mode: str, limits: list[str]) -> str:
    from clickvec.text.tokens import canonical

    if not canonical(query):
        return "the query has no words"
    if not len(index):
        return "the index is empty"
    if limits:
        return f"no title is left after {' and '.join(limits)}"
    if mode == "words":
        return "no title contains a word of the query"
    if not index.encoder.encode_query([query]).any():
        unknown = "the model knows no letter trigram of the query"
        return unknown if mode == "vectors" else f"no title contains a word of it, and {unknown}"
    return "the model knows no letter trigram of any title in the index"
