"""The verbs that look inside a model: explain, topics, nearest, report; `cli.py` puts them beside the others."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec import cli_input as given
from clickvec.cli_input import AsJson, MaxBad, ModelPath, Out, Overwrite
from clickvec.errors import ClickvecError

if TYPE_CHECKING:
    from clickvec.encoder import Encoder
    from clickvec.explain.detections import Detections
    from clickvec.explain.keywords import Rule
    from clickvec.explain.look import Look
    from clickvec.explain.topic_scores import TopicScore
    from clickvec.explain.topics import QueryTable, Topics
    from clickvec.index import Index


def explain(
    model: Annotated[Path, typer.Argument(help="A model folder, or an index folder.")],
    query: Annotated[str, typer.Argument(help="What was searched for.")],
    title: Annotated[
        str | None,
        typer.Argument(help="A title or, with an index, its id. None: the first hit, or the query by itself."),
    ] = None,
    first: Annotated[
        str | None, typer.Option(metavar="TITLE", help="What to compare the title with, in place of the first hit.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Another model, to set beside this one.")
    ] = None,
    method: Annotated[str, typer.Option(help="shapley, changes, leave-one-out or gradients.")] = "shapley",
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page about the pair.")] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a figure of the gates over the words.")
    ] = None,
    same_range: Annotated[bool, typer.Option("--same-range", help="One range of colours for all maps.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at --html and --png.")] = False,
    active: Annotated[int, typer.Option(min=1, help="How many of the most active cells vote on keywords.")] = 10,
    threshold: Annotated[
        float, typer.Option(help="Equal shares by which a cell changes at a word that it detects.")
    ] = 1.0,
    share: Annotated[float, typer.Option(help="The share of these cells that makes a word a keyword.")] = 0.4,
    everything: Annotated[
        bool, typer.Option("--all", help="Print cells, all links, keyword tables and single edits too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Why a query and a title have their score: words, cells, gates, keywords; and why the title is not first."""
    from clickvec.explain import METHODS, Rule

    if method not in METHODS:
        raise typer.BadParameter(f"there is no method {method!r}; the methods are {', '.join(METHODS)}")
    if first is not None and title is None:
        raise typer.BadParameter("--first is compared with a title; give the title after the query")
    if not threshold > 0:
        raise typer.BadParameter(f"--threshold is above 0, not {threshold:g}")
    if not 0 < share <= 1:
        raise typer.BadParameter(f"--share is above 0 and at most 1, not {share:g}")
    if same_range and not png:
        raise typer.BadParameter("--same-range is about the figure; give --png too")
    if png and png.suffix.lower() != ".png":
        raise typer.BadParameter(f"--png writes a PNG; give a file that ends in .png, not {png.name}")
    for file in (html, png):
        if file:
            given.check_new_file(file, overwrite, [*model.glob("*"), *model.glob("model/*")])
    if html and png and html.resolve() == png.resolve():
        raise typer.BadParameter("--html and --png are the same file; give each its own")
    rule = Rule(active, threshold, share)
    look = _look(model, query, title, first, against, method, rule)
    page = _page(look, given.names_of([model.resolve()]), rule, first is None) if html else ""
    if png:
        _draw(look, png, same_range, rule)
    if html:
        from clickvec.files import replacing_file

        with replacing_file(html) as written:
            written.write(page.encode(errors="replace"))
        given.tell(f"{html}: the page")
    if as_json:
        typer.echo(json.dumps(look.as_json(), ensure_ascii=False))
    else:
        from clickvec.screen.explanation import show
        from clickvec.screen.screen import this_screen

        typer.echo(show(look, this_screen(), everything=everything))


def _look(
    folder: Path, query: str, title: str | None, first: str | None, against: Path | None, method: str, rule: "Rule"
) -> "Look":
    """Look at what the arguments name: in an index, or in a model alone."""
    from clickvec.encoder import Encoder
    from clickvec.explain.look import look, look_in
    from clickvec.explain.versus import names_apart
    from clickvec.index import Index

    index = Index.open(folder) if (folder / "index.json").exists() else None
    encoder = Encoder.load(folder) if index is None else index.encoder
    models = None
    if against:
        other = Encoder.load(_model_in(against))
        if against.samefile(folder):
            raise typer.BadParameter(f"--against {against} is the model itself; give another one")
        models = dict(zip(names_apart([folder, against]), (encoder, other), strict=True))
    if index is not None:
        for text in (title, first):
            _tell_how_read(index, text)
        return look_in(index, query, title, first, method=method, models=models, rule=rule)
    return look(encoder, query, title, first, method=method, models=models, rule=rule)


def _model_in(folder: Path) -> Path:
    """The model folder of an index folder; any other folder is one itself."""
    return folder / "model" if (folder / "index.json").exists() else folder


def _tell_how_read(index: "Index", text: str | None) -> None:
    """Say that a text was read as an id where it is also the words of another title."""
    if text is None:
        return
    one = index.find(text)
    if one is None or index[one].id != text:
        return
    other = index.find(text, ids=False)
    if other not in (None, one):
        from clickvec.screen.screen import clean

        read, also = index[one], index[other]
        given.tell(
            clean(f"{text!r} is read as an id, that of the title {read.title!r}; it is also the text of a title, ")
            + clean(f"which is named by its own id, {also.id!r}")
        )


def _draw(look: "Look", png: Path, same_range: bool, rule: "Rule") -> None:
    """The figure of the gates, which a model that does not read word by word has none of."""
    from clickvec import plots

    one, other = look.query_side.reading, look.title_side.reading if look.title_side else None
    if one is None:
        raise ClickvecError(
            f"--png draws the gates and outputs at each word, and this model is a {look.tower}, which has none; "
            "leave --png out, or take a model of the tower rnn, lstm or bilstm"
        )
    heading = [f"query  {look.query}"]
    if look.explanation:
        heading += [f"title  {look.explanation.title}", f"score  {look.explanation.score:.3f}"]
    plots.explanation(one, other, png, same_range=same_range, rule=rule, heading=heading)
    given.tell(f"{png}: the figure")


def _page(look: "Look", model: str, rule: "Rule", first_hit: bool) -> str:
    """The page about the pair; `first_hit`: it is beside the first hit, and not beside a title that the user named."""
    from clickvec.page import explanation_page

    if look.explanation is None:
        raise ClickvecError("--html is about a query and a title, and there is no title; give one after the query")
    one, other = look.query_side.reading, look.title_side.reading if look.title_side else None
    return explanation_page(
        look.explanation, one, other, why_not=look.why_not, versus=look.versus, model=model, rule=rule, rank=look.rank,
        first_hit=first_hit,
    )  # fmt: skip


def topics(
    model: Annotated[Path, typer.Argument(help="A model folder, or an index folder.")],
    texts: Annotated[
        Path, typer.Argument(metavar="FILE", help="Queries: one a line, or a click log or judged set with them.")
    ],
    titles: Annotated[bool, typer.Option("--titles", help="Read the titles of FILE, with the title tower.")] = False,
    cells: Annotated[str, typer.Option(help="The cells to show, by commas: 12,40. None: the most specific.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Show every cell.")] = False,
    words: Annotated[int, typer.Option(min=1, help="How many words a cell.")] = 8,
    labels: Annotated[
        Path | None, typer.Option(help="Known topics, as text and topic: score the cells against them.")
    ] = None,
    clicks: Annotated[
        list[Path] | None, typer.Option(help="With --labels, a click log to fit PLSA to; none: the labelled texts.")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print the table text by cell too.")] = False,
    active: Annotated[int, typer.Option(min=1, help="How many of the most active cells are asked.")] = 5,
    threshold: Annotated[
        float | None, typer.Option(help="Equal shares by which a cell changes at a word that it detects.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Of more texts than this, so many drawn by chance.")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn by chance.")] = 0,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Which words each cell answers to, which cells carry one topic, which are dead; with --labels, how well."""
    from clickvec.encoder import Encoder
    from clickvec.explain.detections import detect, some_of
    from clickvec.explain.keywords import THRESHOLD
    from clickvec.explain.reading import directions_of
    from clickvec.explain.topics import query_table_of, topics_of
    from clickvec.readers import read_texts
    from clickvec.screen.screen import counted, this_screen
    from clickvec.screen.topics import MOST, query_blocks, score_table, topic_map

    if clicks and not labels:
        raise typer.BadParameter("--clicks is for PLSA, which stands beside the scores; give --labels too")
    if threshold is not None and not threshold > 0:
        raise typer.BadParameter(f"--threshold is above 0, not {threshold:g}")
    encoder, side = Encoder.load(_model_in(model)), "title" if titles else "query"
    directions_of(encoder)  # refuses a model that does not read word by word, before anything else is read
    shown = _dimensions(cells, encoder)
    read = read_texts(texts, side, max_bad)
    given.report(read.bad)
    some = some_of(read.texts, most, seed)
    if len(some) < len(read.texts):
        given.tell(f"{len(some):,} of {len(read.texts):,} texts, drawn by chance; --most takes more, and memory")
    found = detect(encoder, some, side=side, active=active, threshold=threshold or THRESHOLD, progress=True)
    mapped = topics_of(found).top(words)
    by_cell = query_table_of(found) if table else None
    scores = _topic_scores(encoder, found, labels, clicks or [], seed, max_bad) if labels else None
    if as_json:
        typer.echo(json.dumps(_topics_json(mapped, shown, by_cell, scores), ensure_ascii=False))
        return
    screen = this_screen(piped=120, most=1_000)  # tables: the wider the better
    parts = [topic_map(mapped, shown, screen, most=None if cells or everything else MOST)]
    if by_cell:
        parts.append(query_blocks(by_cell, shown, screen))
    if scores:
        parts.append(score_table(scores, screen))
    typer.echo("\n\n".join(parts))
    given.tell(f"{counted(mapped.texts, 'text')}, {counted(mapped.detections, 'detection')}")


def _topics_json(
    found: "Topics", dimensions: list[int], by_cell: "QueryTable | None", scores: "dict[str, TopicScore] | None"
) -> dict[str, Any]:
    """All of it as plain values for `json.dumps`, of these cells."""
    said = found.as_json()
    said["cells"] = [cell for cell in said["cells"] if cell["dimension"] in dimensions]
    said["dead"] = [cell.dimension for cell in found.dead]
    if by_cell:
        said["table"] = [
            {"query": query, "cells": {column: words for column, words in row.items() if column in dimensions}}
            for query, row in zip(by_cell.queries, by_cell.rows, strict=True)
        ]
    if scores:
        said["scores"] = {name: score.as_json() for name, score in scores.items()}
    return said


def _dimensions(cells: str, encoder: "Encoder") -> list[int]:
    """The places in a vector of the cells that are named, in both directions; of all, where none is."""
    from clickvec.explain.hit import cell_names

    names = cell_names(encoder)
    wanted = [part.strip() for part in cells.split(",") if part.strip()]
    known = {str(cell) for cell, _ in names}
    wrong = next((part for part in wanted if part not in known), None)
    if wrong is not None:
        raise typer.BadParameter(f"there is no cell {wrong!r}; the cells are 0 to {len(known) - 1}, by commas")
    return [at for at, (cell, _) in enumerate(names) if not wanted or str(cell) in wanted]


def _topic_scores(
    encoder: "Encoder", found: "Detections", labels: Path, clicks: list[Path], seed: int, max_bad: float
) -> "dict[str, TopicScore]":
    """How well the cells tell the known topics, beside an untrained model and, where scipy is installed, PLSA."""
    from importlib.util import find_spec

    from clickvec.explain.topic_scores import score_all
    from clickvec.readers import read_labels
    from clickvec.text import canonical

    known = read_labels(labels, found.side, max_bad)
    given.report(known.bad)
    log = given.read_log(clicks, max_bad) if clicks else None
    corpus = [f"{query} {title}" for query, title in zip(log.queries, log.titles, strict=True)] if log else known.texts
    if not find_spec("scipy"):
        given.tell("PLSA is left out: scipy is not installed; it comes with: pip install 'clickvec[baselines]'")
        corpus = ()
    topics = [known.topics.get(canonical(text)) for text in found.texts]
    if missing := topics.count(None):
        given.tell(f"{missing:,} of {len(topics):,} texts have no topic in {labels}, and are not scored")
    return score_all(encoder, found, topics, corpus=corpus, seed=seed)


def nearest(
    folder: Annotated[Path, typer.Argument(help="A model folder, or an index folder.")],
    words: Annotated[list[str], typer.Argument(help="Words; a phrase in quotes is one.")],
    titles: Annotated[
        Path | None, typer.Option(help="Titles to look among, as for index; none: those of the index.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many words, and how many titles.")] = 10,
    least: Annotated[int, typer.Option(min=1, help="Leave out words that the titles hold fewer times.")] = 1,
    unlike: Annotated[bool, typer.Option("--unlike", help="Leave out words that share a letter trigram.")] = False,
    as_title: Annotated[bool, typer.Option("--as-title", help="Read the words with the title tower.")] = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """The words and titles nearest to a word, be it one that the model has never seen."""
    from clickvec.encoder import Encoder
    from clickvec.explain.learned import Learned
    from clickvec.index import Index
    from clickvec.screen.nearest import show
    from clickvec.screen.screen import this_screen
    from clickvec.text import canonical

    index = Index.open(folder) if (folder / "index.json").exists() else None
    encoder = Encoder.load(folder) if index is None else index.encoder
    if index is None and titles is None:
        raise typer.BadParameter(f"{folder} is a model, and has no titles; give some with --titles, or an index folder")
    entries = index if titles is None else given.read_catalogue(titles, max_bad)
    texts = (entry.title for entry in entries or ())
    learned = Learned(encoder, texts, side="title" if as_title else "query", progress=True)
    asked = [word for word in words if canonical(word)] or words  # where none has words, the first is refused
    for word in words:
        if word not in asked:
            given.tell(f"{word!r} has no words, and is left out")
    found = [learned.nearest(word, k, least=least, unlike=unlike) for word in asked]
    screen = this_screen(most=1_000)
    for place, near in enumerate(found):
        if as_json:
            typer.echo(json.dumps(near.as_json(), ensure_ascii=False))
        else:
            typer.echo(("\n" if place else "") + show(near, screen))


def report(
    model: ModelPath,
    judged: Annotated[Path, typer.Option(help="A judged set.")],
    out: Out,
    titles: Annotated[
        Path | None, typer.Option(help="A catalogue, for near words and the map. None: the judged titles.")
    ] = None,
    clicks: Annotated[
        list[Path] | None,
        typer.Option(metavar="LOG", help="A click log, whose queries give words and topics. None: the judged queries."),
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst queries to explain.")] = 10,
    overwrite: Overwrite = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """A page about a model, to read in a browser: ranking, worst queries, keywords, topics, map, training."""
    from clickvec.encoder import Encoder
    from clickvec.report import gather, write
    from clickvec.screen.screen import counted

    write.check_place(out, overwrite)
    for file in (write.PAGE, write.NUMBERS):
        given.check_not_read(out / file, (judged, titles, *(clicks or ())))
    encoder, sets = Encoder.load(model), given.read_judged_set(judged, max_bad)
    catalogue = [title.title for title in given.read_catalogue(titles, max_bad)] if titles else None
    log = given.read_log(clicks, max_bad).queries if clicks else None
    found = gather(
        encoder, sets.queries, name=model.resolve().name, judged_name=judged.name, path=str(model), titles=catalogue,
        log=log, worst=worst, progress=True,
    )  # fmt: skip
    write.write(found, out, overwrite)
    evaluation = found.ranking.evaluation
    means = ", ".join(f"{name} {mean:.1f}" for name, mean in zip(evaluation.measures, evaluation.means[0], strict=True))
    typer.echo(f"{out / write.PAGE}: {means} on {counted(len(evaluation.query_ids), 'query', 'queries')}")
