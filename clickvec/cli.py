"""The command line: one verb a stage, in the order of the flow. Results to stdout, the rest to stderr.

Exit 0: done; 1: bad data or a bad model, in one sentence; 2: wrong usage; 130: stopped by Ctrl-C. Every verb imports
what it needs when it runs, so that `--help` answers at once.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.errors import ClickvecError

if TYPE_CHECKING:
    from clickvec.dataset import Dataset
    from clickvec.encoder import Encoder
    from clickvec.rankers import Ranker
    from clickvec.readers import BadLines, Judged

app = typer.Typer(
    help="Turn a search click log into a small semantic search engine that you can look inside.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip

Out = Annotated[Path, typer.Option(help="The folder or file to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MaxBad = Annotated[float, typer.Option(help="The share of bad lines to put up with.", min=0.0, max=1.0)]
ModelPath = Annotated[Path, typer.Argument(help="A model folder.")]
TitlesPath = Annotated[Path, typer.Argument(help="Titles: doc_id and title, or a title a line; TSV, CSV, JSON lines.")]


@app.command()
def demo(out: Out = Path("out/demo")) -> None:
    """The whole story on the built-in log: simulate, train, evaluate, index, search."""
    from clickvec.demo import run

    run(out)


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    impressions: Annotated[int, typer.Option(help="How many titles are shown in all.")] = 200_000,
    seed: int = 0,
    dev_queries: int = 300,
    test_queries: int = 600,
    log: Annotated[bool, typer.Option(help="Write every impression too, not only the clicks.")] = True,
) -> None:
    """Write the built-in click log: clicks, impressions, judged sets, catalogue, topic labels."""
    from clickvec.simulate import write

    summary = write(out, impressions, seed, dev_queries, test_queries, log)
    typer.echo(json.dumps(summary._asdict()))


@app.command()
def prepare(
    logs: Annotated[
        list[Path], typer.Argument(help="Click logs: query, title, clicks; TSV, CSV, JSON lines; .gz too.")
    ],
    out: Out,
    shown: Annotated[Path | None, typer.Option(help="A judged set; its titles of grade 0 become negatives.")] = None,
    max_words: Annotated[int, typer.Option(min=1, help="Words past this one form one last step.")] = 10,
    max_trigrams: Annotated[int, typer.Option(min=1)] = 50_000,
    max_bad: MaxBad = 0.01,
) -> None:
    """Make a data folder, from which training needs only numpy, torch and safetensors: python -m clickvec.train."""
    from clickvec import dataset

    data = _read_data(logs, shown, max_words, max_trigrams, max_bad)
    dataset.save(data, out)
    typer.echo(dataset.as_json(data))


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

    chosen = config.recipe(recipe, tower=tower, file=recipe_file, settings=settings or [])
    loop = _import_training()
    data = _load_or_read(logs, shown, chosen, max_bad)
    judged = _read_judged(dev, max_bad) if dev else None
    names = ", ".join(path.name for path in logs)
    model = loop.train(
        data, chosen, out, dev=judged, device=device, resume=resume, overwrite=overwrite, about_data=names
    )
    kept = model.training["kept"]
    if as_json:
        typer.echo(json.dumps({"model": str(out), "fingerprint": model.fingerprint, **kept}))
    else:
        scores = "".join(f", dev {name} {value:.1f}" for name, value in kept.get("dev", {}).items())
        typer.echo(f"{out}: epoch {kept['epoch']} of {chosen.epochs}, loss {kept['loss']:.4f}{scores}")


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

    if run and len(models) != 1:
        raise typer.BadParameter("one run file holds one system; give one model with --run")
    sets = _read_judged(judged, max_bad, queries, titles)
    rankers = [_ranker(name, sets, catalogue) for name in models]
    result = measure.evaluate(rankers, sets)
    found = [result, *(_over_catalogue(rankers, sets, catalogue, max_bad) if catalogue else [])]
    if run:
        write_run(run, measure.run(rankers[0], sets), rankers[0].name.replace(" ", "_"))
    if as_json:
        typer.echo(json.dumps([one.as_json() for one in found]))
        return
    for one in found:
        typer.echo(table(one.as_table()))
        left_out = f", {one.left_out} without a relevant title left out" if one.left_out else ""
        absent = f", {one.absent} of {one.relevant} relevant titles not in the catalogue" if one.absent else ""
        _tell(f"{len(one.query_ids):,} queries{left_out}{absent}")


@app.command()
def encode(
    model: ModelPath,
    titles: TitlesPath,
    out: Out,
    queries: Annotated[bool, typer.Option("--queries", help="Encode with the query tower.")] = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Write the vectors of titles as a .npy file, (titles, dimensions) float32, a row a line."""
    from clickvec.encoder import Encoder
    from clickvec.readers import BadLines, stream_titles
    from clickvec.vectors import write_vectors

    encoder, bad = Encoder.load(model), BadLines()
    texts = (title.title for title in stream_titles(titles, bad, max_bad))
    count = write_vectors(out, encoder, texts, queries=queries)
    _report(bad)
    typer.echo(f"{out}: {count:,} vectors of {encoder.dimensions} numbers")


@app.command()
def index(model: ModelPath, titles: TitlesPath, out: Out, overwrite: Overwrite = False, max_bad: MaxBad = 0.01) -> None:
    """Build an index of titles, with a copy of the model in it."""
    from clickvec.encoder import Encoder
    from clickvec.index import Index
    from clickvec.readers import read_titles

    encoder, found = Encoder.load(model), read_titles(titles, max_bad)
    _report(found.bad)
    ids, texts, payloads = zip(*found, strict=True) if len(found) else ((), (), ())
    built = Index.build(encoder, texts, ids=ids, payloads=[payload or None for payload in payloads], progress=True)
    built.save(out, overwrite=overwrite)
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

    opened = Index.open(folder)
    asked = queries or [line.rstrip("\n") for line in sys.stdin]
    for query, hits in zip(asked, opened.search(asked, k=k), strict=True):
        if as_json:
            typer.echo(json.dumps({"query": query, "hits": [hit._asdict() for hit in hits]}, ensure_ascii=False))
            continue
        if len(asked) > 1:
            typer.echo(f"{query}:")
        for hit in hits:
            typer.echo(f"{hit.score:.3f}  {hit.id}  {hit.title}" + (f"  {hit.payload}" if hit.payload else ""))


@app.command()
def rerank(model: ModelPath, max_bad: MaxBad = 0.01) -> None:
    """Re-order another engine's results: query, id, title by tabs from stdin, one list a query; the score is added."""
    from clickvec.encoder import Encoder
    from clickvec.rankers.rerank import rerank_lines
    from clickvec.readers import BadLines

    bad = BadLines()
    for line in rerank_lines(Encoder.load(model), sys.stdin.buffer, bad, max_bad):
        typer.echo(line)
    _report(bad)


@app.command()
def info(
    model: ModelPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and check it.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a model is: tower, size, the paper's way of counting, data, recipe, scores."""
    from clickvec.about import about_model
    from clickvec.folder import open_model, verify_model

    facts = about_model((verify_model if verify else open_model)(model))
    if verify:
        facts["verified"] = "every byte"
    typer.echo(json.dumps(facts) if as_json else "\n".join(f"{name}: {_plain(value)}" for name, value in facts.items()))


# --- what the verbs share ----------------------------------------------------------------------------------------


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(part)}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _report(bad: "BadLines") -> None:
    if bad.count:
        _tell(f"{bad.count:,} of {bad.total:,} lines skipped:")
        for example in bad.examples:
            _tell(f"  {example}")
        if bad.count > len(bad.examples):
            _tell(f"  and {bad.count - len(bad.examples):,} more")


def _import_training() -> Any:  # noqa: ANN401
    try:
        from clickvec.train import loop
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from clickvec.errors import missing_extra

        raise missing_extra("torch", "train") from None
    return loop


def _read_data(logs: list[Path], shown: Path | None, max_words: int, max_trigrams: int, max_bad: float) -> "Dataset":
    from clickvec import dataset
    from clickvec.readers import read_clicks

    log = read_clicks(logs, max_bad)
    _report(log.bad)
    return dataset.prepare(log, max_words, max_trigrams, _read_judged(shown, max_bad) if shown else None)


def _load_or_read(logs: list[Path], shown: Path | None, recipe: Any, max_bad: float) -> "Dataset":  # noqa: ANN401
    from clickvec import dataset

    if len(logs) != 1 or not (logs[0] / "data.json").exists():
        return _read_data(logs, shown, recipe.max_words, recipe.max_trigrams, max_bad)
    if shown:
        raise ClickvecError("--shown belongs to prepare when training from a data folder: it is part of the folder")
    data = dataset.load(logs[0])
    if data.max_words != recipe.max_words:
        raise ClickvecError(
            f"{logs[0]} was prepared with max_words {data.max_words}, the recipe has {recipe.max_words}: prepare it "
            f"again, or add --set max_words={data.max_words}"
        )
    return data


def _read_judged(path: Path, max_bad: float, queries: Path | None = None, titles: Path | None = None) -> "Judged":
    from clickvec.readers import read_judged, read_qrels

    if (queries is None) != (titles is None):
        raise typer.BadParameter("TREC qrels need both --queries and --titles")
    judged = read_qrels(path, queries, titles, max_bad) if queries and titles else read_judged(path, max_bad)
    _report(judged.bad)
    return judged


def _ranker(name: str, judged: "Judged", catalogue: Path | None) -> "Ranker":
    from clickvec.encoder import Encoder
    from clickvec.rankers.neural import Neural

    if name == "bm25" and not Path(name).exists():
        from clickvec.rankers.lexical import BM25
        from clickvec.readers import read_titles

        known = [title.title for title in read_titles(catalogue)] if catalogue else []
        return BM25([*known, *(title for query in judged for title in query.titles)])
    return Neural(Encoder.load(name), name)


def _over_catalogue(rankers: "list[Ranker]", judged: "Judged", path: Path, max_bad: float) -> list[Any]:
    """Recall@100 and MRR@10 of each model over all the titles of a catalogue."""
    from clickvec.evaluate import evaluate_catalogue
    from clickvec.index import Index
    from clickvec.rankers.neural import Neural
    from clickvec.readers import read_titles

    titles = read_titles(path, max_bad)
    _report(titles.bad)
    found = []
    for ranker in rankers:
        if isinstance(ranker, Neural):
            encoder: Encoder = ranker.encoder  # type: ignore[assignment]
            built = Index.build(encoder, [title.title for title in titles], [title.id for title in titles])

            def look_up(queries: list[str], k: int, built: Index = built) -> list[list[str]]:
                return [[hit.id for hit in hits] for hits in built.search(queries, k=k)]

            found.append(evaluate_catalogue(look_up, judged, {title.id for title in titles}, name=ranker.name))
    return found


def main() -> None:
    """Run the command line, with errors as one sentence."""
    try:
        app()
    except ClickvecError as error:
        _tell(f"clickvec: {error}")
        raise SystemExit(130 if type(error).__name__ == "Interrupted" else 1) from None
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        _tell("clickvec: stopped")
        raise SystemExit(130) from None
    except OSError as error:
        _tell(f"clickvec: {error.filename or ''}: {error.strerror or error}")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
