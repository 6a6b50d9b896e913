"""The verbs that use a trained model: shrink, encode, index, search, rerank, info."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, CataloguePath, ColumnNames, MaxBad, ModelPath, NoHeader, Out, Overwrite
from clickvec.cli.streams import print_bytes, print_json, print_message, print_result, print_summary
from clickvec.render.labels import counted
from clickvec.text.printable import clean

if TYPE_CHECKING:
    from clickvec.search.index import Hit, Index


def shrink(
    model: ModelPath,
    out: Out,
    weights: Annotated[str, typer.Option(help="int8 (a quarter of the size) or float16 (half).")] = "int8",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a smaller copy of a model.

    Every verb accepts it in place of the original.
    """
    from clickvec.model.shrink import write_shrunk
    from clickvec.storage.outputs import check_output

    check_output(out, [model])
    small, size, before = write_shrunk(model, out, weights, overwrite)
    facts = {"fingerprint": small.fingerprint, "weights": small.precision, "bytes": size, "bytes_before": before}
    summary = f"{out}: {weights}, {size / 1e6:.1f} MB instead of {before / 1e6:.1f} MB"
    inputs.print_outcome(summary, {"model": str(out), **facts}, as_json)


def encode(
    model: ModelPath,
    catalogue: CataloguePath,
    out: Out,
    queries: Annotated[bool, typer.Option("--queries", help="Encode with the query tower.")] = False,
    vectors: Annotated[str, typer.Option(help="float32, or int8: normalise these rows before use.")] = "float32",
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Encode titles and write one vector per row.

    The result is .npy, or .parquet with ids and titles.

    Titles without any known trigram become zero vectors. Skipped lines produce no row.

    All cores are used. Set OMP_NUM_THREADS to use fewer threads.
    """
    from clickvec.data import BadLines
    from clickvec.data.parsing.open_files import name_of
    from clickvec.model.encoder import Encoder
    from clickvec.search.vectors import check_vectors_output, write_vectors

    check_vectors_output(out, vectors, overwrite, [model, catalogue])
    columns = inputs.read_columns(column_names, no_header, [catalogue])
    encoder, bad = Encoder.load(model), BadLines()
    written = write_vectors(
        encoder, catalogue, out, columns=columns, queries=queries, vectors=vectors, overwrite=overwrite,
        max_bad=max_bad, bad=bad, progress=Bar(),
    )  # fmt: skip
    inputs.report_bad_lines(bad)
    if written.out_of_step:
        print_message(
            f"From {name_of(catalogue)}:{written.out_of_step} on, row numbers differ from line numbers, because lines "
            "before it produced no row. Write .parquet to store the ids with the vectors."
        )
    if written.zeros:
        texts = counted(written.rows, "text")
        print_message(f"{written.zeros:,} of {texts} have no known letter trigram: their rows are zero")
    print_summary(f"{out}: {counted(written.rows, 'vector')} of {counted(encoder.dimensions, 'dimension')}")


def index(
    model: ModelPath,
    catalogue: CataloguePath,
    out: Out,
    vectors: Annotated[str, typer.Option(help="Number format of the vectors: float32 or int8.")] = "float32",
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Build an index of titles. It contains a copy of the model.

    All cores are used. Set OMP_NUM_THREADS to use fewer threads.
    """
    from clickvec.model.encoder import Encoder
    from clickvec.model.shrink import check_vector_type
    from clickvec.search.index import Index, check_index_output
    from clickvec.storage.outputs import check_output

    check_vector_type(vectors)  # before encoding, which can take an hour
    check_output(out, [model, catalogue])
    check_index_output(out, overwrite)
    columns = inputs.read_columns(column_names, no_header, [catalogue])
    encoder, titles = Encoder.load(model), inputs.read_catalogue(catalogue, max_bad, columns)
    columns.check_used()
    ids, texts, payloads = zip(*titles, strict=True) if len(titles) else ((), (), ())
    built = Index.build(
        encoder, texts, ids=ids, payloads=[payload or None for payload in payloads], progress=Bar(), vectors=vectors
    )
    built.save(out, overwrite=overwrite)
    if built.unreachable:
        unreachable = counted(built.unreachable, "title has", "titles have")
        print_message(f"{unreachable} no known letter trigram: no query can find them")
    print_summary(f"{out}: {counted(len(built), 'title')}")


def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")],
    queries: Annotated[list[str] | None, typer.Argument(help="Queries. If none, read one per line from stdin.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of hits per query.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Search an index."""
    from clickvec.data import BadLines
    from clickvec.data.parsing.lines import stream_lines
    from clickvec.data.parsing.open_files import standard_input
    from clickvec.search.index import Index

    opened, bad = Index.open(folder), BadLines()
    # A bad line of stdin becomes a blank one: each result stays beside its query.
    batches = [(1, queries)] if queries else stream_lines(standard_input(), "standard input", bad)
    for _, batch in batches:
        for query, hits in zip(batch, opened.search(batch, k=k), strict=True):
            if as_json:
                print_json({"query": query, "hits": [hit._asdict() for hit in hits]})
                continue
            heading = [f"{clean(query)}:"] if query.strip() and (not queries or len(queries) > 1) else []
            if heading or hits:
                print_result("\n".join([*heading, *map(_hit_line, hits)]))
            if not hits and (queries or query.strip()):  # a blank line of stdin is not a query
                print_message(f"No hits for {query!r}: {_why_no_hits(opened, query)}")
    inputs.report_bad_lines(bad)


def _hit_line(hit: "Hit") -> str:
    payload = f"  {json.dumps(hit.payload, ensure_ascii=False)}" if hit.payload else ""
    return clean(f"{hit.score:.3f}  {hit.id}  {' '.join(hit.title.split())}{payload}")


def _why_no_hits(index: "Index", query: str) -> str:
    from clickvec.text.tokens import canonical

    if not canonical(query):
        return "the query has no words"
    if not len(index):
        return "the index is empty"
    if not index.encoder.encode_query([query]).any():
        return "the model knows no letter trigram of the query"
    return "the model knows no letter trigram of any title in the index"


def rerank(
    model: ModelPath,
    score: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Blend with the score in this column: its name or its number from 1."),
    ] = None,
    weight: Annotated[
        float | None, typer.Option(min=0, max=1, help="Weight of that score; the model has the rest.  [default: 0.1]")
    ] = None,
    max_bad: MaxBad = 0.01,
) -> None:
    """Re-order the results of another search engine.

    Reads lines of query, id, title and any further columns, separated by tabs, from stdin; the lines of
    a query must be consecutive. Appends the new score to each line.

    The new score is the cosine. With --score, the cosines and the engine's scores of a query are
    standardised (mean 0, standard deviation 1), and the new score is their weighted sum.

    All columns are copied byte for byte. A header is read and not copied. Lines end with LF, even if
    they ended with CRLF.
    """
    from clickvec.data import BadLines
    from clickvec.data.parsing.open_files import standard_input
    from clickvec.model.encoder import Encoder
    from clickvec.search.rerank import WEIGHT, reranked

    if weight is not None and score is None:
        raise typer.BadParameter("--weight needs --score, the column of the engine's score")
    bad = BadLines()
    blended = WEIGHT if weight is None else weight
    for lines in reranked(Encoder.load(model), standard_input(), bad, max_bad, score, blended):
        print_bytes("".join(f"{line}\n" for line in lines).encode())
    inputs.report_bad_lines(bad)


def info(
    model: ModelPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and check it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Describe a model.

    Prints the tower, size, training data, recipe, scores, and the code that encodes on this machine.
    """
    from clickvec.model.about import about_model, computed_by
    from clickvec.model.folder import open_model

    opened = open_model(model, verify)
    facts = about_model(opened) | {"encoded here by": computed_by(opened.tower)}
    if verify:
        facts["verified"] = "every byte"
    if as_json:
        print_json(facts)
    else:
        print_result("\n".join(clean(f"{name}: {inputs.format_value(value)}") for name, value in facts.items()))
