"""The page of `clickvec doctor`: every finding with its plots, its examples and what to do next."""

from pathlib import Path

from clickvec.doctor.examination import Examination
from clickvec.doctor.finding import Finding
from clickvec.render.html.markup import Html, joined, note, page, tag, text_of
from clickvec.render.html.plots import plot
from clickvec.render.labels import counted
from clickvec.storage.files import replacing_file

FIGURES = {"lines": "lines", "clicks": "clicks", "pairs": "pairs", "queries": "queries", "titles": "titles"}


def write_page(examination: Examination, path: Path) -> None:
    """Write the page atomically."""
    with replacing_file(path) as file:
        file.write(doctor_page(examination).encode())


def doctor_page(examination: Examination) -> str:
    """Return the page."""
    sections = [(finding.name, finding.heading, _section(finding)) for finding in examination.findings]
    return page(f"{examination.source} – doctor", _header(examination), sections)


def _header(examination: Examination) -> Html:
    numbers = {name: value for finding in examination.findings for name, value in finding.numbers.items()
               if finding.name in ("lines", "clicks")}  # fmt: skip
    figures = [(f"{numbers[name]:,.0f}", label) for name, label in FIGURES.items() if name in numbers]
    act = [finding for finding in examination.findings if finding.act]
    links = [joined(", " if at else None, tag("a", one.heading, href=f"#{one.name}")) for at, one in enumerate(act)]
    need = joined(f"{counted(len(act), 'finding needs', 'findings need')} attention: ", *links, ".")
    return joined(
        tag("p", "Doctor · click log", class_="eyebrow"),
        tag("h1", tag("bdi", examination.source)),
        tag("p", need if act else "No finding needs attention.", class_="lead"),
        tag("ul", (tag("li", tag("b", value), tag("span", name)) for value, name in figures), class_="figures"),
        note(f"Damaged texts, languages, shared words, spelling and unseen words are from {examination.sampled}. "
             f"All other counts are exact. Examined in {examination.seconds:.0f} s."),
    )  # fmt: skip


def _section(finding: Finding) -> Html:
    examples = tag("ul", (tag("li", text_of(example)) for example in finding.examples), class_="sample")
    return joined(
        tag("p", tag("bdi", finding.text)),
        tag("p", tag("b", "Next: "), finding.advice),
        tag("p", tag("code", finding.cure, dir="ltr"), class_="command") if finding.cure else None,
        joined(tag("h3", "Examples"), examples) if finding.examples else None,
        *map(plot, finding.plots),
    )
