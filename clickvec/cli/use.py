"""The verbs that put a model to use: shrink, encode, index, search, rerank, info."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import (
    AsJson,
    CataloguePath,
    ColumnNames,
    MaxBad,
    ModelPath,
    NoHeader,
    Out,
    Overwrite,
    report_bad_lines,
)
from clickvec.cli.streams import print_bytes, print_json, print_message, print_result, print_summary
from clickvec.render.terminal.screen import counted
from clickvec.text.printable import clean

if TYPE_CHECKING:
    from clickvec.data import BadLines
    from clickvec.search.index import Hit, Index


def shrink(
    model: ModelPath,
    out: Out,
    weights: Annotated[str, typer.Option(help="int8, a quarter of the size, or float16, a half.")] = "int8",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a smaller copy of a model, which does all that the model does."""
    from clickvec.model.shrink import write_shrunk
    from clickvec.storage.outputs import check_output

    check_output(out, [model])
    small, size, before = write_shrunk(model, out, weights, overwrite)
    facts = {"fingerprint": small.fingerprint, "weights": small.precision, "bytes": size, "bytes_before": before}
    if as_json:
        print_json({"model": str(out), **facts})
    else:
        print_summary(f"{out}: {weights}, {size / 1e6:.1f} MB in place of {before / 1e6:.1f}")


def encode(
    model: ModelPath,
    titles: CataloguePath,
    out: Out,
    queries: Annotated[bool, typer.Option("--queries", help="Encode with the query tower.")] = False,
    vectors: Annotated[
        str, typer.Option(help="float32, float16 or int8, where a row is a direction, to be divided by its length.")
    ] = "float32",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run at --out.")] = False,
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Write the vectors of titles as .npy, a row for each good line, or as .parquet, with ids and titles beside them.

    A title of which the model knows no letter trigram has a row of zeros; a line that is skipped has none.

    It uses every core, or as many threads as OMP_NUM_THREADS says.
    """
    from clickvec.data import BadLines
    from clickvec.data.lines import name_of
    from clickvec.data.parquet import wanted
    from clickvec.model.encoder import Encoder
    from clickvec.search.vectors import check_call, write_vectors
    from clickvec.storage.outputs import check_output_file

    check_output_file(out, [model, titles])
    check_call(out, titles, vectors, resume, overwrite)
    columns = inputs.read_columns(column_names, no_header, [titles])
    encoder, bad = Encoder.load(model), BadLines()
    written = write_vectors(
        out, encoder, titles, queries=queries, precision=vectors,
        resume=resume, overwrite=overwrite, max_bad=max_bad, bad=bad, columns=columns, progress=Bar(),
    )  # fmt: skip
    report_bad_lines(bad)
    if written.out_of_step and not wanted(out):
        print_message(
            f"some lines before {name_of(titles)}:{written.out_of_step} have no row of their own, so that from there "
            "on row and line numbers differ; .parquet has the ids beside the vectors"
        )
    if written.zeros:
        texts = counted(written.rows, "text")
        print_message(f"{written.zeros:,} of {texts} have no letter trigram that the model knows: their rows are 0")
    print_summary(f"{out}: {counted(written.rows, 'vector')} of {counted(encoder.dimensions, 'number')}")


def index(
    model: ModelPath,
    titles: CataloguePath,
    out: Out,
    vectors: Annotated[str, typer.Option(help="float32, float16 or int8: what the vectors are kept as.")] = "float32",
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Build an index of titles, with a copy of the model in it.

    It uses every core, or as many threads as OMP_NUM_THREADS says.
    """
    from clickvec.model.encoder import Encoder
    from clickvec.model.shrink import check
    from clickvec.search.index import Index, check_place
    from clickvec.storage.outputs import check_output

    check(vectors, "vectors")  # now, and not after an hour of encoding
    check_output(out, [model, titles])
    check_place(out, overwrite)
    columns = inputs.read_columns(column_names, no_header, [titles])
    encoder, found = Encoder.load(model), inputs.read_catalogue(titles, max_bad, columns)
    columns.check_used()
    ids, texts, payloads = zip(*found, strict=True) if len(found) else ((), (), ())
    built = Index.build(
        encoder, texts, ids=ids, payloads=[payload or None for payload in payloads], progress=Bar(), vectors=vectors
    )
    built.save(out, overwrite=overwrite)
    if built.unreachable:
        titles_without = counted(built.unreachable, "title has", "titles have")
        print_message(f"{titles_without} no letter trigram that the model knows: no query can find them")
    print_summary(f"{out}: {counted(len(built), 'title')}")


def search(
    folder: Annotated[Path, typer.Argument(help="An index folder.")],
    queries: Annotated[list[str] | None, typer.Argument(help="Queries; none: a query a line from stdin.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many hits.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Search an index."""
    from clickvec.data import BadLines
    from clickvec.search.index import Index

    opened, bad = Index.open(folder), BadLines()
    for asked in [queries] if queries else _lines(bad):
        for query, hits in zip(asked, opened.search(asked, k=k), strict=True):
            if as_json:
                print_json({"query": query, "hits": [hit._asdict() for hit in hits]})
                continue
            head = [f"{clean(query)}:"] if query.strip() and (not queries or len(queries) > 1) else []
            if head or hits:
                print_result("\n".join([*head, *map(_hit_line, hits)]))
            if not hits and (queries or query.strip()):  # a blank line of stdin is no query
                print_message(f"nothing found for {query!r}: {_why_nothing(opened, query)}")
    report_bad_lines(bad)


def _hit_line(hit: "Hit") -> str:
    payload = f"  {json.dumps(hit.payload, ensure_ascii=False)}" if hit.payload else ""
    return clean(f"{hit.score:.3f}  {hit.id}  {' '.join(hit.title.split())}{payload}")


def _why_nothing(index: "Index", query: str) -> str:
    from clickvec.text.tokens import canonical

    if not canonical(query):
        return "the query has no words"
    if not len(index):
        return "the index is empty"
    if not index.encoder.encode_query([query]).any():
        return "the model knows no letter trigram of the query"
    return "the model knows no letter trigram of any title in the index"


def _lines(bad: "BadLines") -> Iterator[list[str]]:
    """The lines of stdin as they come, a blank one for one that is no text, so that answers stay beside questions."""
    from clickvec.data.lines import standard_input, stream_lines

    return (lines for _, lines in stream_lines(standard_input(), "standard input", bad))


def rerank(model: ModelPath, max_bad: MaxBad = 0.01) -> None:
    """Re-order another engine's results: query, id, title by tabs from stdin, one list a query; the score is added.

    Queries, ids and titles come out byte for byte as they came in. Lines end with LF, those that came with CRLF too.
    """
    from clickvec.data import BadLines
    from clickvec.data.lines import standard_input
    from clickvec.model.encoder import Encoder
    from clickvec.search.rerank import reranked

    bad = BadLines()
    for lines in reranked(Encoder.load(model), standard_input(), bad, max_bad):
        print_bytes("".join(f"{line}\n" for line in lines).encode())
    report_bad_lines(bad)


def info(
    model: ModelPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and check it.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a model is: tower, size, the paper's way of counting, data, recipe, scores; and what computes it here."""
    from clickvec.model.about import about_model, computed_by
    from clickvec.model.folder import open_model, verify_model

    opened = (verify_model if verify else open_model)(model)
    facts = about_model(opened) | {"encoded here by": computed_by(opened.tower)}
    if verify:
        facts["verified"] = "every byte"
    if as_json:
        print_json(facts)
    else:
        print_result("\n".join(clean(f"{name}: {inputs.format_value(value)}") for name, value in facts.items()))
