"""`python -m clickvec.training DATA --out MODEL`: train where only numpy, torch and safetensors are installed.

`clickvec prepare LOG --out DATA` makes the data folder. `clickvec train` does the same and more.
"""

import argparse
import sys
from pathlib import Path

from clickvec import config
from clickvec.cli import ending, streams
from clickvec.cli.bar import Bar
from clickvec.data import read_judged
from clickvec.model.threads import check_environment
from clickvec.storage.outputs import check_output
from clickvec.training.process_settings import tuned_for_training


def main() -> int:
    """Parse the arguments, train, and print the scores of the model that was kept."""
    streams.open_streams()
    streams.show_log()
    ending.stop_on_signals()
    return ending.run(_work)


def _work() -> int:
    with streams.printing_parser_output():
        arguments = _parse_arguments()
    check_environment()
    check_output(arguments.out, [arguments.data, arguments.dev, arguments.recipe_file])
    with tuned_for_training():
        _train(arguments)
    return 0


def _train(arguments: argparse.Namespace) -> None:
    from clickvec.training.card import headline  # torch is imported here, after its settings are made
    from clickvec.training.checkpoint import check_output_folder
    from clickvec.training.loop import run_training
    from clickvec.training.trainer import load_checked

    check_output_folder(arguments.out, arguments.resume, arguments.overwrite)
    data = load_checked(arguments.data)
    settings = [f"max_words={data.max_words}", *arguments.settings]
    settings += [f"tower={arguments.tower}"] if arguments.tower else []
    recipe = config.recipe(arguments.recipe, file=arguments.recipe_file, settings=settings)
    model = run_training(
        data, recipe, arguments.out, dev=read_judged(arguments.dev) if arguments.dev else None,
        device=arguments.device, resume=arguments.resume, overwrite=arguments.overwrite, source=arguments.data.name,
        progress=Bar(),
    )  # fmt: skip
    streams.print_summary(f"{arguments.out}: {headline(model)}")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clickvec.training", description=__doc__)
    parser.add_argument("data", type=Path, help="a data folder")
    parser.add_argument("--out", type=Path, required=True, help="the model folder to write")
    parser.add_argument("--dev", type=Path, help="a judged set to measure after each epoch")
    parser.add_argument("--recipe", default="default", help="default or paper")
    parser.add_argument("--tower", help=", ".join(config.TOWERS))
    parser.add_argument("--recipe-file", type=Path, help="a TOML file with settings that override the recipe")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="override one setting"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--resume", action="store_true", help="resume the interrupted run at --out")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing model")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
