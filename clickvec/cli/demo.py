"""The demo: every verb on a simulated click log, each printed as the command that a user would type."""

import shlex
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from clickvec.cli.streams import print_summary
from clickvec.errors import ClickvecError, missing_extra
from clickvec.storage.files import replacing_file
from clickvec.storage.outputs import check_output

IMPRESSIONS = 600_000
MARKER = ".clickvec-demo"  # marks the folder of an earlier demo, which may be overwritten
SEARCHES = ("hotels in shanghai", "ear infecton medicine", "bath tub wont turn off")


def run(run_verb: Callable[[list[str]], None], out: Path) -> None:
    """Run each verb on a simulated click log and print its command first."""
    _check(out)
    started = time.monotonic()
    names = ("site", "model", "index", "report", "gates.png", "about")
    site, model, index, report, gates, about = (shlex.quote(str(out / name)) for name in names)
    for story, *commands in (
        ("Simulate the click log of a small web search engine.",
         f"lab simulate {site} --impressions {IMPRESSIONS} --overwrite"),
        ("Train a model on the clicks. The judged queries in dev.tsv.gz select the best epoch.",
         f"train {site}/clicks.tsv.gz --dev {site}/dev.tsv.gz --out {model} --overwrite"),
        ("Measure the model and BM25, tuned on dev.tsv.gz, on judged queries that training did not see.",
         f"evaluate {model} bm25 --judged {site}/test.tsv.gz --dev {site}/dev.tsv.gz --about {about}"),
        ("Index the titles, for search by words and vectors. dev.tsv.gz decides how the two make a score.",
         f"index {model} {site}/titles.tsv.gz --dev {site}/dev.tsv.gz --out {index} --overwrite"),
        ("Search. The second query is misspelled, and good titles often share no word with the query.",
         *(f'search {index} -k 3 "{query}"' for query in SEARCHES)),
        ("Explain the first hit: the parts of the score, and what each word contributes. Draw the cells at each word.",
         f'explain {index} "{SEARCHES[0]}" --png {gates} --overwrite'),
        ("Write a report about the model: ranking, worst queries, keywords, topics, a map of titles.",
         f"report {model} --judged {site}/test.tsv.gz --out {report} --overwrite"),
    ):  # fmt: skip
        print_summary(f"\n# {story}")
        for command in commands:
            print_summary(f"$ clickvec {command}")
            run_verb(shlex.split(command))
    _write_doctor(out)
    print_summary(
        f"\nDone in {time.monotonic() - started:.0f} s. Try next:\n"
        f"  clickvec serve {index} --open    (the page: search, explanations, topics; in this repository: make serve)\n"
        f"  open {out / 'report' / 'index.html'} in a browser\n"
        f'  clickvec search {index} "your query"\n'
        f'  clickvec explain {index} "{SEARCHES[2]}"\n'
        f"  clickvec nearest {index} pizza\n"
        "  clickvec up YOUR_LOG    (a file with the columns query, title and optionally clicks)"
    )


def _write_doctor(out: Path) -> None:
    """Write what the doctor finds in the log, for the page. The cost of training is known, so it is not measured."""
    from clickvec import config
    from clickvec.cli.doctor_verb import examine_log
    from clickvec.cli.up_measures import write_doctor
    from clickvec.data import Columns

    log, titles = out / "site" / "clicks.tsv.gz", out / "site" / "titles.tsv.gz"
    write_doctor(out / "about", examine_log([log], Columns(), config.recipe(), catalogue=titles, cost=False))


def _check(out: Path) -> None:
    """Check that all packages are installed. Refuse to overwrite anything but an earlier demo."""
    for module in ("torch", "matplotlib"):
        if find_spec(module) is None:
            raise missing_extra(module, "all")
    check_output(out)
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise ClickvecError(f"{out} holds files that are not from an earlier demo; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    with replacing_file(out / MARKER):
        pass
