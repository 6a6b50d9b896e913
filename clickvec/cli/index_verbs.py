"""The verb index: build an index, add titles to it, delete titles from it."""

import csv
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import (
    CataloguePath,
    ColumnNames,
    IndexLocation,
    MaxBad,
    ModelPath,
    NoHeader,
    Overwrite,
    input_option,
)
from clickvec.cli.streams import print_message, print_summary
from clickvec.cli.verbs import Verb, VerbsOrFirst
from clickvec.errors import ClickvecError
from clickvec.render.labels import counted

if TYPE_CHECKING:
    from clickvec.data import BadLines, ClickLog, Columns, Judged, Title
    from clickvec.data.titles import Ids
    from clickvec.model.encoder import Encoder
    from clickvec.search.documents.document import Document
    from clickvec.search.index import Index

app = typer.Typer(cls=VerbsOrFirst, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def about() -> None:
    """Build an index of titles, and change it."""


@app.command(cls=Verb)
def build(
    model: ModelPath,
    catalogue: CataloguePath,
    out: Annotated[Path | None, typer.Option(help="Where to write the index folder.")] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Or a database: postgresql://user:password@host/db, milvus://host:port."),
    ] = None,
    dev: Annotated[Path | None, input_option("A judged set. Choose how to fuse words and vectors on it.")] = None,
    held_out: Annotated[
        list[Path] | None, input_option("Or a click log that the model was not trained on. Repeatable.")
    ] = None,
    vectors: inputs.VectorType = "float32",
    search: inputs.SearchType = "auto",
    numbers: inputs.Numbers = "auto",
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Build an index of titles, to search by words and vectors. It contains a copy of the model.

    --out writes a folder. --to loads the titles into a database, PostgreSQL or Milvus; its address then
    stands for the index in all other verbs. With --overwrite, an index that is there stays in use until
    the new one is complete.

    `index MODEL CATALOGUE` is short for `index build MODEL CATALOGUE`.

    See also `index add --help`, `index update --help`, `index delete --help`.

    Further columns of the catalogue become the payload, which hits return and filters read.

    With --dev or --held-out, the best way to make one score of cosine and BM25 is chosen on judgements
    or clicks. Otherwise it is the one that training has chosen, or a fixed mixture.

    All cores are used. Set OMP_NUM_THREADS to use fewer threads.
    """
    from clickvec.data import BadLines, stream_titles
    from clickvec.model.encoder import Encoder
    from clickvec.model.shrink import check_vector_type
    from clickvec.search.engines.address import without_password
    from clickvec.search.engines.engine_opening import check_address
    from clickvec.search.index import check_index_output
    from clickvec.storage.outputs import check_output

    if dev and held_out:
        raise typer.BadParameter("give either --dev, a judged set, or --held-out, a click log")
    measured = [dev] if dev else held_out or []
    check_vector_type(vectors)  # before encoding, which can take an hour
    target: str | Path
    if to is not None and out is None:
        check_address(to, overwrite)
        target = to
    elif out is not None and to is None:
        check_output(out, [model, catalogue, *measured])
        check_index_output(out, overwrite)
        target = out
    else:
        raise typer.BadParameter("give either --out, a folder, or --to, the address of a database")
    columns = inputs.read_columns(column_names, no_header, [catalogue, *measured], delimiter, encoding)
    encoder, bad = Encoder.load(model), BadLines()
    source: ClickLog | Judged | None = None  # read before titles are encoded
    if dev:
        source = inputs.read_judged_set(dev, max_bad, columns)
    elif held_out:
        source = inputs.read_log(held_out, max_bad, columns, catalogue)
    titles = stream_titles(catalogue, bad, max_bad, columns, distinct=True)
    documents = documents_in(titles, chosen_numbers(numbers, catalogue, columns), catalogue, columns)
    with create(target, encoder, documents, bad, overwrite=overwrite, vectors=vectors, search=search) as index:
        for line in fit(index, source) if source else _of_training(index):
            print_message(line)
        print_summary(f"{without_password(target)}: {counted(len(index), 'title')}, fusion {index.fusion.method}")


def chosen_numbers(
    numbers: str, catalogue: Path, columns: "Columns", ids: "Ids" = "unused", fields: Collection[str] = ()
) -> list[str]:
    """Return the columns that hold numbers, from --numbers: with auto, find them and print them.

    Those that are `fields` of the index already keep their types.
    """
    from clickvec.data.titles import number_columns

    if numbers.strip() == "none":
        return []
    if numbers.strip() != "auto":
        return [name.strip() for row in csv.reader([numbers]) for name in row if name.strip()]
    found = [name for name in number_columns(catalogue, columns, ids) if name not in fields]
    if found:
        print_message(f"Read as numbers: {', '.join(found)} (--numbers none keeps text)")
    return found


def create(
    out: Path | str, encoder: "Encoder", documents: "Iterable[Document]", bad: "BadLines", *, overwrite: bool,
    vectors: str = "float32", search: str = "auto",
) -> "Index":  # fmt: skip
    """Create an index and open it. Print which lines were skipped, and what search cannot find."""
    from clickvec.search.index import Index

    index = Index.create(
        out, encoder, documents, overwrite=overwrite, vectors=vectors, search=search, progress=Bar()
    )  # fmt: skip
    inputs.report_bad_lines(bad)
    if index.unreachable:
        print_message(
            f"{counted(index.unreachable, 'title has', 'titles have')} no known letter trigram and so no vector: "
            "only words can find them"
        )
    if index.recall is not None:
        print_message(f"Approximate search finds {index.recall:.1%} of the 10 nearest titles (recall@10)")
    return index


def fit(index: "Index", source: "ClickLog | Judged") -> list[str]:
    """Choose how the index fuses words and vectors, and return the figures. With too few queries, change nothing."""
    from clickvec.evaluation.fitting import use_best_fusion
    from clickvec.render.terminal.fusion_text import report_lines

    try:
        return list(report_lines(use_best_fusion(index, source, Bar()).report))
    except ClickvecError as error:
        return [f"Kept the fusion {index.fusion.method}: {error}"]


def _of_training(index: "Index") -> list[str]:
    """Say so if the fusion that training has chosen is not better than words or vectors alone."""
    from clickvec.evaluation.fitting import verdict

    told = verdict(index.fusion_report) if index.fusion_report else ""
    return [told] if told else []


@app.command(cls=Verb)
def add(
    index: IndexLocation,
    catalogue: CataloguePath,
    numbers: inputs.Numbers = "auto",
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Add titles to an index, and replace those with the same id, with all their fields.

    Either all are added, or none.

    The catalogue needs a column of ids: doc_id, id, sku, product_id and others. Columns that hold only
    numbers in the index are read as numbers; --numbers is for columns that are new to the index, which
    are printed.

    A running service finds the titles within a second.
    """
    from clickvec.search.index import Index

    columns = inputs.read_columns(column_names, no_header, [catalogue], delimiter, encoding)
    with Index.open(index, repair=True) as opened:
        documents = _documents_for(opened, catalogue, "needed", numbers, columns, max_bad)
        count, fields = _lost_fields(opened, documents)
        opened.add(documents, progress=Bar())
        if count:
            print_message(
                f"{counted(count, 'replaced title')} lost {'the field' if len(fields) == 1 else 'the fields'} "
                f"{', '.join(sorted(fields))}; to change single fields, use clickvec index update"
            )
        print_summary(f"{_name(index)}: {counted(len(documents), 'title')} added or replaced, {len(opened):,} in all")


@app.command(cls=Verb)
def update(
    index: IndexLocation,
    changes: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", parser=inputs.input_path,
            help="Ids and new values, such as doc_id and price: TSV, CSV, JSON lines or Parquet; - is stdin.",
        ),
    ],
    numbers: inputs.Numbers = "auto",
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None, encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:  # fmt: skip
    """Change fields of titles that are in an index. All other fields stay.

    Either all are changed, or none; an id that the index does not have is an error.

    A blank cell changes nothing. null in JSON lines removes a field. Columns that hold only numbers in
    the index are read as numbers; --numbers is for columns that are new to the index, which are printed.
    """
    from clickvec.data.parsing.open_files import name_of
    from clickvec.search.documents.document import Change
    from clickvec.search.index import Index

    columns = inputs.read_columns(column_names, no_header, [changes], delimiter, encoding)
    with Index.open(index, repair=True) as opened:
        documents = _documents_for(opened, changes, "alone", numbers, columns, max_bad)
        new = [Change(one.id, one.title if one.title.strip() else None, one.payload or {}) for one in documents]
        without = sum(one.title is None and not one.payload for one in new)
        if without == len(new):
            raise ClickvecError(f"{name_of(changes)} has ids and no new value of a title or a field: nothing to change")
        opened.update(new, Bar())
        if without:
            print_message(f"{counted(without, 'line has', 'lines have')} an id and no new value, and changed nothing")
        print_summary(f"{_name(index)}: {counted(len(new) - without, 'title')} updated, {len(opened):,} in all")


def _documents_for(
    index: "Index", path: Path, ids: "Ids", numbers: str, columns: "Columns", max_bad: float
) -> "list[Document]":
    """Read documents for an index. Its fields keep their types; print those that are new to it."""
    kinds = index.view().field_kinds()
    titles = inputs.read_catalogue(path, max_bad, columns, ids)
    chosen = chosen_numbers(numbers, path, columns, ids, kinds)
    known = [name for name, kind in kinds.items() if kind.is_number]
    documents = list(documents_in(titles, chosen, path, columns, known, ids))
    fields = {name.partition(".")[0] for name in kinds} | set(kinds)
    new = sorted(
        {name for one in documents for name, value in (one.payload or {}).items() if value is not None} - fields
    )
    if new and len(index):
        print_message(f"New to the index: {'the field' if len(new) == 1 else 'the fields'} {', '.join(new)}")
    return documents


def _lost_fields(index: "Index", documents: "list[Document]") -> tuple[int, set[str]]:
    """Return how many titles of the index have fields that the documents which replace them lack, and these fields."""
    every = {name.partition(".")[0] for name in index.view().field_kinds()}
    count, lost = 0, set[str]()
    for document in documents:
        new = (document.payload or {}).keys()
        old = None if every <= new else index.get(document.id)
        if old is not None and isinstance(old.payload, dict) and old.payload.keys() - new:
            count += 1
            lost |= old.payload.keys() - new
    return count, lost


@app.command(cls=Verb)
def delete(
    index: IndexLocation,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of titles; - reads one per line from stdin.")],
) -> None:
    """Delete titles from an index by their ids.

    A running service no longer finds them within a second.
    """
    from clickvec.search.index import Index

    with Index.open(index, repair=True) as opened:
        wanted = list(dict.fromkeys(_ids(ids)))
        absent = [doc_id for doc_id in wanted if opened.get(doc_id) is None]
        count = opened.delete(wanted)
        if absent:
            named = ", ".join(absent[:5])
            more = f" and {len(absent) - 5:,} more" if len(absent) > 5 else ""
            print_message(
                f"{_name(index)} has no title with {'the id' if len(absent) == 1 else 'these ids'}: {named}{more}"
            )
        print_summary(f"{_name(index)}: {counted(count, 'title')} deleted, {len(opened):,} left")


def _name(index: str) -> str:
    """Return an index for people, without a password."""
    from clickvec.search.engines.address import without_password

    return without_password(index)


def _ids(ids: list[str]) -> Iterator[str]:
    """Yield ids. - stands for the lines of standard input."""
    from clickvec.data import BadLines
    from clickvec.data.parsing.lines import stream_lines
    from clickvec.data.parsing.open_files import standard_input

    for doc_id in ids:
        if doc_id != "-":
            yield doc_id
            continue
        bad = BadLines()
        for _, lines in stream_lines(standard_input(), "standard input", bad):
            yield from filter(None, lines)
        if bad.count:  # a part of the ids must not be deleted in silence
            raise ClickvecError(bad.examples[0])


def documents_in(
    titles: "Iterable[Title]", numbers: Collection[str], path: Path, columns: "Columns", known: Collection[str] = (),
    ids: "Ids" = "unused",
) -> "Iterator[Document]":  # fmt: skip
    """Yield the documents of a catalogue. Columns in `numbers` and `known` become numbers in the payload."""
    from clickvec.data.parsing.open_files import name_of
    from clickvec.data.titles import decimal_signs, has_decimal_commas
    from clickvec.search.documents.document import Document

    name, asked = name_of(path), dict.fromkeys(numbers, False)  # whether a title has it
    is_clear = not (asked or known) or not has_decimal_commas(path, columns)
    signs = {} if is_clear else decimal_signs(path, columns, ids)
    for title in titles:
        payload: dict[str, Any] = title.payload
        for column in payload.keys() & {*asked, *known}:
            asked[column] = True
            sign = "." if is_clear else signs.get(column)
            payload = payload | {column: _number(payload[column], sign, column, title.id, name)}
        yield Document(title.id, title.title, payload or None)
    missing = next((column for column, is_there in asked.items() if not is_there), None)
    if missing is not None:
        raise ClickvecError(f"no title of {name} has a value in a further column {missing!r}; correct --numbers")
    columns.check_used()


def _number(value: Any, sign: str | None, column: str, doc_id: str, name: str) -> int | float | None:  # noqa: ANN401
    """Return a cell as a number. JSON and Parquet have types."""
    from clickvec.data.parsing.numbers import is_ambiguous
    from clickvec.data.titles import read_number

    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]
    number = read_number(value, sign)
    if number is not None:
        return number
    where = f"{name}: {column} of id {doc_id} is {value!r}"
    if sign != "." and is_ambiguous(value.strip()):
        plain = value.strip().replace(".", "")
        raise ClickvecError(f"{where}, which is {plain} or {float(value):g}. Write {plain}, or {value.strip()}0")
    raise ClickvecError(
        f"{where}, not a number. Correct or clear the cell, or build the index with --numbers none, so that it is "
        "text. Decimal commas are read if the columns are separated by ;"
    )
