"""The command line: one verb a stage, in the order of the flow. Results to stdout, the rest to stderr.

Exit 0: done; 1: bad data or a bad model, in one sentence; 2: wrong usage; 130: stopped by Ctrl-C. Every verb imports
what it needs when it runs, so that `--help` answers at once.
"""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

import clickvec
from clickvec import cli_input as given
from clickvec import cli_inside as inside
from clickvec.cli_input import AsJson, MaxBad, ModelPath, Out, Overwrite, TitlesPath, report, tell
from clickvec.errors import ClickvecError

if TYPE_CHECKING:
    from clickvec.readers import BadLines

app = typer.Typer(
    cls=given.Verbs,
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clickvec {clickvec.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Turn a search click log into a small semantic search engine that you can look inside."""


@app.command()
def demo(out: Out = Path("out/demo")) -> None:
    """The whole story on the built-in log: simulate, train, evaluate, index, search, explain, report."""
    from clickvec.demo import run

    def verb(arguments: list[str]) -> None:
        if status := app(arguments, standalone_mode=False):
            raise typer.Exit(status)

    run(verb, out)


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    impressions: Annotated[int, typer.Option(help="How many titles are shown in all.")] = 200_000,
    seed: int = 0,
    dev_queries: int = 300,
    test_queries: int = 600,
    log: Annotated[bool, typer.Option(help="Write every impression too, not only the clicks.")] = True,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the built-in click log: clicks, impressions, judged sets, catalogue, topic labels."""
    from clickvec.simulate import write

    if (out / "topics.tsv.gz").exists() and not overwrite:
        raise ClickvecError(
            f"{out} holds a simulated log already; choose another folder, or replace it with --overwrite"
        )
    summary = write(out, impressions, seed, dev_queries, test_queries, log)
    facts = summary._asdict()
    typer.echo(json.dumps(facts) if as_json else f"{out}: {given.plain(facts)}")


@app.command()
def prepare(
    logs: Annotated[
        list[Path], typer.Argument(help="Click logs: query, title, clicks; TSV, CSV, JSON lines; .gz too.")
    ],
    out: Out,
    shown: Annotated[Path | None, typer.Option(help="A judged set; its titles of grade 0 become negatives.")] = None,
    max_words: Annotated[int, typer.Option(min=1, help="The words from this one on form one last step.")] = 10,
    max_trigrams: Annotated[int, typer.Option(min=1)] = 50_000,
    overwrite: Overwrite = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Make a data folder: prepare a log once and train on it many times, with clickvec train FOLDER.

    Where only numpy, torch and safetensors are installed, python -m clickvec.train FOLDER does it.
    """
    from clickvec import dataset

    dataset.check_place(out, overwrite)
    data = given.read_data(logs, shown, max_words, max_trigrams, max_bad)
    dataset.save(data, out)
    facts = dataset.describe(data)
    typer.echo(json.dumps(facts) if as_json else f"{out}: {given.plain(facts)}")


@app.command()
def train(
    logs: Annotated[list[Path], typer.Argument(help="Click logs, or one data folder made by prepare.")],
    out: Out,
    dev: Annotated[Path | None, typer.Option(help="A judged set, measured after each epoch.")] = None,
    shown: Annotated[Path | None, typer.Option(help="A judged set; its titles of grade 0 become negatives.")] = None,
    recipe: Annotated[
        str, typer.Option(help="default: the best we have measured; paper: the paper's own.")
    ] = "default",
    tower: Annotated[str | None, typer.Option(help="rnn, lstm, bilstm, dssm or clsm.")] = None,
    recipe_file: Annotated[Path | None, typer.Option(help="A TOML file laid over the recipe.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, over the recipe. Repeatable.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run at --out.")] = False,
    overwrite: Overwrite = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Train a model from a click log and write it to --out."""
    from clickvec import config
    from clickvec.train.scratch import on_disk

    chosen = config.recipe(recipe, tower=tower, file=recipe_file, settings=settings or [])
    loop = given.import_training()
    loop.check_places(out, resume, overwrite)  # now, and not after an hour of reading
    loop.pick_device(device)
    data = on_disk(given.load_or_read(logs, shown, chosen, max_bad), out)
    judged = given.read_judged_set(dev, max_bad) if dev else None
    model = loop.train(
        data, chosen, out, dev=judged, device=device, resume=resume, overwrite=overwrite,
        about_data=given.names_of(logs),
    )  # fmt: skip
    if as_json:
        kept = {"model": str(out), "fingerprint": model.fingerprint, **model.training["kept"]}
        typer.echo(json.dumps(kept))
    else:
        from clickvec.train.card import headline

        typer.echo(f"{out}: {headline(model)}")


@app.command()
def evaluate(
    models: Annotated[list[str], typer.Argument(help="Model folders; bm25 is the lexical baseline.")],
    judged: Annotated[Path, typer.Option(help="A judged set, or TREC qrels with --queries and --titles.")],
    queries: Annotated[Path | None, typer.Option(help="With qrels: query_id and query.")] = None,
    titles: Annotated[Path | None, typer.Option(help="With qrels: doc_id and title.")] = None,
    catalogue: Annotated[Path | None, typer.Option(help="Titles to search: adds Recall@100 and MRR@10.")] = None,
    run: Annotated[Path | None, typer.Option(help="Write the TREC run of the one model given.")] = None,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """NDCG@1/3/10 of models on a judged set, in per cent."""
    from clickvec import evaluate as measure
    from clickvec.metrics import write_run
    from clickvec.terminal import table

    twice = next((name for name in models if models.count(name) > 1), None)
    if twice:
        raise typer.BadParameter(f"{twice} is given twice; give each model once")
    if run and len(models) != 1:
        raise typer.BadParameter("one run file holds one system; give one model with --run")
    if run:
        given.check_run_file(run, (judged, queries, titles, catalogue))
    sets = given.read_judged_set(judged, max_bad, queries, titles)
    known = given.read_catalogue(catalogue, max_bad) if catalogue else None
    rankers = [given.make_ranker(name, sets, known) for name in models]
    result = measure.evaluate(rankers, sets)
    if known:
        result = result.beside(given.measure_catalogue(rankers, sets, known))
    typer.echo(json.dumps(result.as_json()) if as_json else table(result.as_table()))
    left_out = f", {result.left_out:,} without a relevant title left out" if result.left_out else ""
    absent = f", {result.absent:,} of {result.relevant:,} relevant titles not in the catalogue" if result.absent else ""
    tell(f"{len(result.query_ids):,} queries{left_out}{absent}")
    if run:
        write_run(run, measure.run(rankers[0], sets), "_".join(rankers[0].name.split()))


@app.command()
def compare(
    clicks: Annotated[list[Path], typer.Option(help="A click log. Repeatable.")],
    dev: Annotated[Path, typer.Option(help="A judged set, to choose settings on.")],
    test: Annotated[Path, typer.Option(help="A judged set, to report.")],
    out: Out,
    shown: Annotated[Path | None, typer.Option(help="A judged set; its titles of grade 0 become negatives.")] = None,
    systems: Annotated[str, typer.Option(help="The rows, by commas: lstm,bm25,hybrid-mix. None: all.")] = "",
    recipe: Annotated[str, typer.Option(help="default or paper, for what is trained here.")] = "default",
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, over the recipe. Repeatable.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each system that depends on chance.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Systems to fit at once, one process each.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    prose: Annotated[
        list[Path] | None, typer.Option(help="Prose for Skip-Thought; none: the manual of Python. Repeatable.")
    ] = None,
    skip_thoughts: Annotated[Path | None, typer.Option(help="A folder of trained Skip-Thought files.")] = None,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """The paper's table: train and score every system, test the differences, write it all to --out."""
    from clickvec.compare import page, write
    from clickvec.compare.material import Material
    from clickvec.compare.run import check_place, compare
    from clickvec.compare.systems import choose

    keys = [key.strip() for key in systems.split(",") if key.strip()]
    choose(recipe, keys)
    check_place(out)
    write.check()
    log = given.read_log(clicks, max_bad)
    names = {
        "clicks": clicks, "dev": [dev], "test": [test], "shown": [shown] if shown else [],
        "prose": prose or [], "skip-thoughts": [skip_thoughts] if skip_thoughts else [],
    }  # fmt: skip
    material = Material(
        log, given.read_judged_set(dev, max_bad), given.read_judged_set(test, max_bad),
        given.read_judged_set(shown, max_bad) if shown else None, tuple(prose or ()), skip_thoughts,
        {name: [given.names_of([path]) for path in paths] for name, paths in names.items()},
    )  # fmt: skip
    found = compare(
        material, out, recipe=recipe, keys=keys, seeds=seeds,
        settings=settings or [], device=device, jobs=jobs, say=tell,
    )  # fmt: skip
    findings = write.write(found, log, out)
    typer.echo(json.dumps(page.as_json(findings)) if as_json else page.for_terminal(findings))


@app.command()
def shrink(
    model: ModelPath,
    out: Out,
    weights: Annotated[str, typer.Option(help="int8, a quarter of the size, or float16, a half.")] = "int8",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a smaller copy of a model, which does all that the model does."""
    from clickvec.shrink import write_shrunk

    small, size, before = write_shrunk(model, out, weights, overwrite)
    facts = {"fingerprint": small.fingerprint, "weights": small.precision, "bytes": size, "bytes_before": before}
    typer.echo(
        json.dumps({"model": str(out), **facts})
        if as_json
        else f"{out}: {weights}, {size / 1e6:.1f} MB in place of {before / 1e6:.1f}"
    )


@app.command()
def encode(
    model: ModelPath,
    titles: TitlesPath,
    out: Out,
    queries: Annotated[bool, typer.Option("--queries", help="Encode with the query tower.")] = False,
    vectors: Annotated[
        str, typer.Option(help="float32, float16 or int8, where a row is a direction, to be divided by its length.")
    ] = "float32",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run at --out.")] = False,
    overwrite: Overwrite = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Write the vectors of titles as .npy, a row for each good line, or as .parquet, with ids and titles beside them.

    A title of which the model knows no letter trigram has a row of zeros; a line that is skipped has none.

    It uses every core, or as many threads as OMP_NUM_THREADS says.
    """
    from clickvec.encoder import Encoder
    from clickvec.parquet import wanted
    from clickvec.readers import BadLines
    from clickvec.vectors import check_call, write_vectors

    given.check_not_read(out, [titles])
    check_call(out, titles, vectors, resume, overwrite)
    encoder, bad = Encoder.load(model), BadLines()
    written = write_vectors(
        out, encoder, titles, queries=queries, precision=vectors,
        resume=resume, overwrite=overwrite, max_bad=max_bad, bad=bad,
    )  # fmt: skip
    report(bad)
    if written.out_of_step and not wanted(out):
        tell(
            f"lines before {titles}:{written.out_of_step} have no row, so that from there on row and line numbers "
            "differ: mend those lines, or write .parquet, which has the ids beside the vectors"
        )
    if written.zeros:
        tell(
            f"{written.zeros:,} of {written.rows:,} texts have no letter trigram that the model knows: their rows are 0"
        )
    typer.echo(f"{out}: {written.rows:,} vectors of {encoder.dimensions} numbers")


@app.command()
def index(
    model: ModelPath,
    titles: TitlesPath,
    out: Out,
    vectors: Annotated[str, typer.Option(help="float32, float16 or int8: what the vectors are kept as.")] = "float32",
    overwrite: Overwrite = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Build an index of titles, with a copy of the model in it.

    It uses every core, or as many threads as OMP_NUM_THREADS says.
    """
    from clickvec.encoder import Encoder
    from clickvec.index import Index, check_place
    from clickvec.shrink import check

    check(vectors, "vectors")  # now, and not after an hour of encoding
    check_place(out, overwrite)
    encoder, found = Encoder.load(model), given.read_catalogue(titles, max_bad)
    ids, texts, payloads = zip(*found, strict=True) if len(found) else ((), (), ())
    built = Index.build(
        encoder, texts, ids=ids, payloads=[payload or None for payload in payloads], progress=True, vectors=vectors
    )
    built.save(out, overwrite=overwrite)
    if built.unreachable:
        tell(f"{built.unreachable:,} titles have no letter trigram that the model knows: no query will find them")
    typer.echo(f"{out}: {len(built):,} titles")


@app.command()
def search(
    folder: Annotated[Path, typer.Argument(help="An index folder.")],
    queries: Annotated[list[str] | None, typer.Argument(help="Queries; none: a query a line from stdin.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many hits.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Search an index."""
    from clickvec.index import Index
    from clickvec.readers import BadLines
    from clickvec.screen.screen import clean

    opened, bad = Index.open(folder), BadLines()
    for asked in [queries] if queries else _lines(bad):
        for query, hits in zip(asked, opened.search(asked, k=k), strict=True):
            if as_json:
                typer.echo(json.dumps({"query": query, "hits": [hit._asdict() for hit in hits]}, ensure_ascii=False))
                continue
            if query.strip() and (not queries or len(queries) > 1):
                typer.echo(f"{clean(query)}:")
            for hit in hits:
                payload = f"  {json.dumps(hit.payload, ensure_ascii=False)}" if hit.payload else ""
                typer.echo(clean(f"{hit.score:.3f}  {hit.id}  {' '.join(hit.title.split())}{payload}"))
    report(bad)


def _lines(bad: "BadLines") -> Iterator[list[str]]:
    """The lines of stdin as they come, a blank one for one that is no text, so that answers stay beside questions."""
    from clickvec.readers.lines import stream_lines

    return (lines for _, lines in stream_lines(_stdin(), "standard input", bad))


def _stdin() -> BinaryIO:
    return sys.stdin.buffer if sys.stdin else io.BytesIO()  # it may be closed


@app.command()
def rerank(model: ModelPath, max_bad: MaxBad = 0.01) -> None:
    """Re-order another engine's results: query, id, title by tabs from stdin, one list a query; the score is added."""
    from clickvec.encoder import Encoder
    from clickvec.rankers.rerank import rerank_lines
    from clickvec.readers import BadLines

    bad = BadLines()
    for line in rerank_lines(Encoder.load(model), _stdin(), bad, max_bad):
        typer.echo(line)
    report(bad)


for look in (inside.explain, inside.topics, inside.nearest, inside.report):
    app.command()(look)


@app.command()
def info(
    model: ModelPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and check it.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a model is: tower, size, the paper's way of counting, data, recipe, scores; and what computes it here."""
    from clickvec.about import about_model, computed_by
    from clickvec.folder import open_model, verify_model

    opened = (verify_model if verify else open_model)(model)
    facts = about_model(opened) | {"computed here by": computed_by(opened.tower)}
    if verify:
        facts["verified"] = "every byte"
    typer.echo(
        json.dumps(facts) if as_json else "\n".join(f"{name}: {given.plain(value)}" for name, value in facts.items())
    )


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a query or a path may hold bytes that are no text
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
