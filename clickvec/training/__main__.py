"""`python -m clickvec.training DATA --out MODEL`: train where only numpy, torch and safetensors are installed.

`clickvec prepare LOG --out DATA` makes the data folder; `clickvec train` does all this and more where it is installed.
"""

import argparse
import sys
from pathlib import Path

from clickvec import config
from clickvec.cli import ending, streams
from clickvec.cli.bar import Bar
from clickvec.data import dataset, read_judged
from clickvec.model.threads import check_environment
from clickvec.storage.outputs import check_output
from clickvec.training.card import headline
from clickvec.training.loop import train


def main() -> int:
    """Parse the arguments, train, and print the scores of the model that was kept."""
    streams.open_streams()
    streams.show_log()
    ending.stop_on_signals()
    return ending.run(_work, has_settings=lambda: True)


def _work() -> int:
    with streams.printing_parser_output():
        given = _arguments()
    check_environment()
    check_output(given.out, [given.data, given.dev, given.recipe_file])
    data = dataset.load(given.data)
    settings = [f"max_words={data.max_words}", *given.settings, *([f"tower={given.tower}"] if given.tower else [])]
    recipe = config.recipe(given.recipe, file=given.recipe_file, settings=settings)
    dev = read_judged(given.dev) if given.dev else None
    model = train(
        data, recipe, given.out, dev=dev, device=given.device, resume=given.resume, overwrite=given.overwrite,
        about_data=given.data.name, progress=Bar(),
    )  # fmt: skip
    streams.print_summary(f"{given.out}: {headline(model)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clickvec.training", description=__doc__)
    parser.add_argument("data", type=Path, help="a data folder")
    parser.add_argument("--out", type=Path, required=True, help="the model folder to write")
    parser.add_argument("--dev", type=Path, help="a judged set, measured after each epoch")
    parser.add_argument("--recipe", default="default", help="default or paper")
    parser.add_argument("--tower", help="rnn, lstm, bilstm, dssm or clsm")
    parser.add_argument("--recipe-file", type=Path, help="a TOML file laid over the recipe")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="over the recipe"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--resume", action="store_true", help="go on with the unfinished run at --out")
    parser.add_argument("--overwrite", action="store_true", help="replace what is at --out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
