"""The verbs of the laboratory: `lab simulate` and `lab compare`."""

from pathlib import Path
from typing import Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, MaxBad, NoHeader, Out, Overwrite, Shown, input_option
from clickvec.cli.streams import print_message
from clickvec.errors import ClickvecError
from clickvec.storage.outputs import check_output


def simulate(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    impressions: Annotated[int, typer.Option(help="Number of titles shown, over all page views.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    dev_queries: Annotated[int, typer.Option(help="Number of judged queries in dev.tsv.gz.")] = 300,
    test_queries: Annotated[int, typer.Option(help="Number of judged queries in test.tsv.gz.")] = 600,
    log: Annotated[bool, typer.Option(help="Also write every impression, not only the clicks.")] = True,
    messy: Annotated[
        bool,
        typer.Option("--messy", help="Write impressions with position bias, bots, secrets and typos, and truth.json."),
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a simulated click log: clicks, impressions, judged sets, catalogue, topic labels."""
    from clickvec.lab.simulate import write, write_messy

    if messy and not log:
        raise typer.BadParameter("--messy writes impressions; leave out --no-log")
    check_output(out)
    if (out / "topics.tsv.gz").exists() and not overwrite:
        raise ClickvecError(
            f"{out} already contains a simulated log; choose another folder, or replace it with --overwrite"
        )
    if messy:
        facts = write_messy(out, impressions, seed, dev_queries, test_queries)._asdict()
    else:
        facts = write(out, impressions, seed, dev_queries, test_queries, log)._asdict()
    inputs.print_outcome(f"{out}: {inputs.format_value(facts)}", facts, as_json)


def compare(
    clicks: Annotated[list[Path], input_option("A click log. Repeatable.")],
    out: Out,
    dev: Annotated[Path | None, input_option("A judged set for choosing settings.")] = None,
    test: Annotated[Path | None, input_option("A judged set for the reported figures.")] = None,
    held_out: Annotated[
        list[Path] | None, input_option("Clicks that are not in --clicks, instead of --dev and --test. Repeatable.")
    ] = None,
    catalogue: Annotated[
        Path | None, input_option("Titles: every system searches all of them instead of ranking judged lists.")
    ] = None,
    shown: Shown = None,
    systems: Annotated[str, typer.Option(help="Systems, with commas: lstm,bm25,hybrid-mix. Default: all.")] = "",
    recipe: Annotated[str, typer.Option(help="The recipe of the trained systems: default or paper.")] = "default",
    settings: inputs.Settings = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random seeds of each trained system.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Number of systems to fit in parallel.")] = 1,
    device: inputs.Device = "auto",
    prose: Annotated[
        list[Path] | None, typer.Option(help="Text to train Skip-Thought on. Default: the Python manual. Repeatable.")
    ] = None,
    skip_thoughts: Annotated[Path | None, typer.Option(help="A folder of trained Skip-Thought files.")] = None,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Make the paper's table: train and score every system, test the differences, write everything to --out."""
    from clickvec.evaluation.test_set import Catalogue
    from clickvec.lab.compare import result_page
    from clickvec.lab.compare.findings import as_json as to_json
    from clickvec.lab.compare.held_out_lists import FOUND, RANDOM, dev_and_test
    from clickvec.lab.compare.material import Material
    from clickvec.lab.compare.run import check_place, compare
    from clickvec.lab.compare.systems import choose
    from clickvec.lab.compare.trained import Trainer
    from clickvec.render.terminal.screen import this_screen
    from clickvec.training.process_settings import tuned_for_training

    keys = [key.strip() for key in systems.split(",") if key.strip()]
    for name, path in (("--dev", dev), ("--test", test)):
        if bool(path) == bool(held_out):
            fault = f"{name} and --held-out exclude each other" if path else f"Missing option '{name}'"
            raise typer.BadParameter(f"{fault}: give --dev and --test, judged sets, or --held-out, a click log")
    measured = [path for path in (dev, test, *(held_out or ())) if path]
    check_output(out, [*clicks, *measured, catalogue, shown, *(prose or ()), skip_thoughts])
    Trainer(recipe, tuple(settings or ())).check_settings(choose(recipe, keys))
    check_place(out)
    result_page.check()
    columns = inputs.read_columns(column_names, no_header, (*clicks, *measured, catalogue, shown), delimiter, encoding)
    log = inputs.read_log(clicks, max_bad, columns)
    names = {
        "clicks": clicks, "dev": [dev] if dev else [], "test": [test] if test else [], "held-out": held_out or [],
        "catalogue": [catalogue] if catalogue else [], "shown": [shown] if shown else [],
        "prose": prose or [], "skip-thoughts": [skip_thoughts] if skip_thoughts else [],
    }  # fmt: skip
    if dev and test:
        sets = inputs.read_judged_set(dev, max_bad, columns), inputs.read_judged_set(test, max_bad, columns)
    else:
        sets, known = dev_and_test(log, inputs.read_log(held_out or [], max_bad, columns))
        print_message(
            f"Held-out clicks: {len(sets[0]):,} queries choose settings, {len(sets[1]):,} give the figures. Each has a "
            f"list of its clicked titles, {FOUND} that BM25 finds and {RANDOM} random ones. Left out {known:,} queries "
            "that --clicks has too."
        )
    searched = None
    if catalogue:
        searched = Catalogue(title.title for title in inputs.read_catalogue(catalogue, max_bad, columns, "unused"))
    material = Material(
        log, *sets, inputs.read_judged_set(shown, max_bad, columns) if shown else None, tuple(prose or ()),
        skip_thoughts, searched,
        {name: [inputs.file_names([path]) for path in paths] for name, paths in names.items()},
    )  # fmt: skip
    columns.check_used()
    with tuned_for_training():
        comparison = compare(
            material, out, recipe=recipe, keys=keys, seeds=seeds,
            settings=settings or [], device=device, jobs=jobs, say=print_message, progress=Bar(),
        )  # fmt: skip
    findings = result_page.write(comparison, log, out)
    table = result_page.for_terminal(findings, this_screen(piped=100, most=1_000))
    inputs.print_outcome(table, to_json(findings), as_json)
