"""The `explain` verb: why a query and a title have their score."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.inputs import AsJson
from clickvec.cli.streams import print_json, print_message, print_result
from clickvec.storage.outputs import check_new_file

if TYPE_CHECKING:
    from clickvec.explanation import Explanation


def explain(
    model: Annotated[
        str,
        typer.Argument(
            parser=inputs.model_or_index,
            help="A model folder, an index folder, that of up, or the address of an index in a database.",
        ),
    ],
    query: Annotated[str, typer.Argument(help="The query.")],
    title: Annotated[str | None, typer.Argument(help="A title, or its id in the index. Default: the top hit.")] = None,
    first: Annotated[str | None, typer.Option(help="Compare with this title instead of the top hit.")] = None,
    against: Annotated[
        Path | None, typer.Option(parser=inputs.model_location, help="Show this model side by side with the first.")
    ] = None,
    method: Annotated[str, typer.Option(help="shapley, changes or leave-one-out.")] = "shapley",
    html: Annotated[Path | None, typer.Option(help="Write an HTML page about the pair.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a figure of gates and cells over the words.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing --html and --png files.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also show gates, cells, counts, links, edits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show which words of a query and a title produce their score, and why the title is not the top hit."""
    from clickvec.explanation import METHODS
    from clickvec.explanation import explain as explain_texts
    from clickvec.model.encoder import Encoder
    from clickvec.search.engines.address import is_address, short_name
    from clickvec.search.index import Index

    if method not in METHODS:
        raise typer.BadParameter(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if first is not None and title is None:
        raise typer.BadParameter("--first needs a title to compare with; give the title after the query")
    if png and png.suffix.lower() != ".png":
        raise typer.BadParameter(f"--png writes a PNG; the file must end in .png, not {png.name}")
    for file in (html, png):
        if file:
            check_new_file(file, overwrite, [None if is_address(model) else Path(model), against])
    if html and png and html.resolve() == png.resolve():
        raise typer.BadParameter("--html and --png are the same file; choose two files")
    opened = Index.open(model) if inputs.is_index(model) else Encoder.load(model)
    explanation = explain_texts(opened, query, title, first, method=method)
    if against and is_address(model):
        raise typer.BadParameter("--against compares model folders; give one instead of an address")
    models = _compare(explanation, Path(model), against) if against else None
    if png:
        from clickvec.render.figures.gates import draw_gates

        draw_gates(explanation, png)
        print_message(f"Wrote the figure to {png}")
    if html:
        from clickvec.render.html.explanation_page import explanation_page
        from clickvec.storage.files import replacing_file

        name = short_name(model) if is_address(model) else inputs.file_names([Path(model).resolve()])
        page = explanation_page(explanation, models=models, model=name)
        with replacing_file(html) as written:
            written.write(page.encode(errors="replace"))
        print_message(f"Wrote the page to {html}")
    if as_json:
        versus = {name: model.as_json() for name, model in models.items()} if models else None
        print_json({**explanation.as_json(), "versus": versus})
    else:
        from clickvec.render.terminal.explanation_text import show
        from clickvec.render.terminal.screen import this_screen

        screen = this_screen()
        print_result(show(explanation, screen, models=models, everything=everything), coloured=screen.colour)


def _compare(explanation: "Explanation", folder: Path, against: Path) -> "dict[str, Explanation]":
    """Return the explanations by this model and by the one at `against`, by the names of the models."""
    from clickvec.explanation import explain
    from clickvec.model.encoder import Encoder

    other = Encoder.load(inputs.model_folder(against))
    if against.samefile(folder):
        raise typer.BadParameter(f"--against {against} is the model itself; give another one")
    second = explain(other, explanation.pair.query, explanation.pair.title)
    paths = folder.resolve(), against.resolve()
    names = [path.name for path in paths] if paths[0].name != paths[1].name else map(str, paths)
    return dict(zip(names, (explanation, second), strict=True))
