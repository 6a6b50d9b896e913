"""The verbs that use a trained model: shrink, encode, rerank, info."""

from pathlib import Path
from typing import Annotated, Any

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import (
    AsJson,
    CataloguePath,
    ColumnNames,
    MaxBad,
    ModelOrIndex,
    ModelPath,
    NoHeader,
    Out,
    Overwrite,
)
from clickvec.cli.streams import print_bytes, print_json, print_message, print_result, print_summary
from clickvec.render.labels import counted
from clickvec.text.printable import clean


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
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
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
    from clickvec.search.vectors.vector_file import check_vectors_output, write_vectors

    check_vectors_output(out, vectors, overwrite, [model, catalogue])
    columns = inputs.read_columns(column_names, no_header, [catalogue], delimiter, encoding)
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
    model: ModelOrIndex,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte of the model and check it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Describe a model or an index.

    Prints the tower, size, training data, recipe, scores, and the code that encodes on this machine; of
    an index, first its titles, and how it searches them; last, how well its fusion ranks, and how often
    titles of each probability were clicked.
    """
    from clickvec.model.about import about_model, computed_by
    from clickvec.model.folder import open_model

    facts, report = _about_index(model) if inputs.is_index(model) else ({}, None)
    opened = open_model(inputs.model_folder(model), verify)
    facts |= about_model(opened) | {"encoded here by": computed_by(opened.tower)}
    if verify:
        facts["verified"] = "every byte"
    if as_json:
        print_json(facts | ({"fusion report": report} if report else {}))
        return
    print_result("\n".join(clean(f"{name}: {inputs.format_value(value)}") for name, value in facts.items()))
    if report:
        from clickvec.render.terminal.fusion_text import report_lines

        print_result("\n".join(["", *report_lines(report)]))


def _about_index(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the facts about an index, and how its fusion was chosen."""
    from clickvec.search.index import Index

    with Index.open(path) as index:
        view = index.view()
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        facts = {
            "titles": len(view),
            "titles without a vector": index.unreachable,
            "deleted titles that still take space": view.size - len(view),
            "index bytes": size,
            "vectors": index.precision,
            "search": "exact" if index.recall is None else f"approximate, recall@10 {index.recall:.3f}",
            "fusion": index.fusion.as_json(),
            "BM25": {"k1": view.words.k1, "b": view.words.b},
        }
        return facts, index.fusion_report
