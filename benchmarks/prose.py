"""Collect English prose for Skip-Thought from Debian packages: one sentence per line, two blank lines at a break.

    python benchmarks/prose.py OUT.txt [--debs FOLDER]

Needs Debian or Ubuntu with `apt-get` and `dpkg-deb`, but not root: the packages are downloaded into a temporary
folder (or taken from FOLDER), unpacked and cleaned. Nothing is installed.

    r-cran-janeaustenr  the six novels of Jane Austen, closest to the paper's BookCorpus
    anarchism           An Anarchist FAQ: essays, without the bracketed titles of cited works
    debian-handbook     The Debian Administrator's Handbook, in English
    jargon-text         The Jargon File, its longer entries

bible-kjv-text is not used: its text is in a format of its own, and the English of 1611 shares few words with queries.
None of this text is part of clickvec.
"""

import argparse
import gzip
import re
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

from clickvec.lab.other_systems.prose import split_sentences

Chapter = list[str]  # paragraphs that follow each other


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_BLOCKS = _tags("p div blockquote li ul ol dl dt dd table tr td h1 h2 h3 h4 h5 h6 br hr")
_HEADINGS = _tags("h1 h2 h3 h4")
_SKIPPED = _tags("script style pre head h1 h2 h3 h4 h5 h6 dt table")


class Paragraphs(HTMLParser):
    """Collects the paragraphs of an HTML page, in chapters that start at headings."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.chapters: list[Chapter] = [[]]
        self._text: list[str] = []
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Start a block, which ends the paragraph before it."""
        if tag in _BLOCKS:
            self.end_paragraph()
        if tag in _HEADINGS:
            self.chapters.append([])
        self._skipping += tag in _SKIPPED

    def handle_endtag(self, tag: str) -> None:
        """End a block, and the paragraph."""
        if tag in _BLOCKS:
            self.end_paragraph()
        self._skipping = max(0, self._skipping - (tag in _SKIPPED))

    def handle_data(self, data: str) -> None:
        """Add text to the paragraph."""
        if not self._skipping:
            self._text.append(data)

    def end_paragraph(self) -> None:
        """Store the paragraph."""
        self.chapters[-1].append("".join(self._text))
        self._text = []


def html_chapters(pages: Iterable[Path]) -> Iterator[Chapter]:
    for page in pages:
        parser = Paragraphs()
        parser.feed(page.read_text(encoding="utf-8", errors="replace"))
        parser.close()
        parser.end_paragraph()
        yield from parser.chapters


def austen(folder: Path) -> Iterator[Chapter]:
    """Read the novels: R stores each as its length and a zlib block of strings, one per line of the book."""
    packed = (folder / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    while packed:
        block = zlib.decompressobj()
        text = "\n".join(r_strings(block.decompress(packed[4:])))
        packed = block.unused_data
        for chapter in re.split(r"\n(?:CHAPTER|Chapter|VOLUME|Volume) .*\n", text)[1:]:
            yield chapter.replace("_", "").replace("--", " -- ").split("\n\n")


def r_strings(serialised: bytes) -> Iterator[str]:
    """Yield the strings of a character vector in R's binary format: CHARSXP mark, length, text."""
    at = serialised.index(b"\x00\x00\x00\x10") + 8
    while at + 8 <= len(serialised):
        length = int.from_bytes(serialised[at + 4 : at + 8], "big")
        yield serialised[at + 8 : at + 8 + length].decode("utf-8")
        at += 8 + length


def anarchism(folder: Path) -> Iterator[Chapter]:
    pages = sorted((folder / "usr/share/doc/anarchism/html").glob("*.html"))
    for chapter in html_chapters(page for page in pages if page.name.startswith(("sec", "append", "vol"))):
        yield [re.sub(r"\s*\[[^\]]*\]", "", paragraph) for paragraph in chapter]


def handbook(folder: Path) -> Iterator[Chapter]:
    yield from html_chapters(sorted((folder / "usr/share/doc/debian-handbook/html/en-US").glob("*.html")))


def jargon(folder: Path) -> Iterator[Chapter]:
    packed = (folder / "usr/share/doc/jargon-text/jargon.txt.gz").read_bytes()
    for entry in re.split(r"\n +:[^\n:]+:.*\n", gzip.decompress(packed).decode("utf-8", errors="replace")):
        yield re.sub(r"[{}]", "", entry).split("\n\n")


SOURCES: dict[str, Callable[[Path], Iterator[Chapter]]] = {
    "r-cran-janeaustenr": austen, "anarchism": anarchism, "debian-handbook": handbook, "jargon-text": jargon,
}  # fmt: skip


def is_prose(sentence: str) -> bool:
    """Return whether a sentence is complete, has at least three words and is mostly letters."""
    letters = sum(character.isalpha() or character == " " for character in sentence)
    whole = sentence[-1:] in tuple(".!?…\"”’')")
    return whole and len(sentence.split()) >= 3 and letters > 0.8 * len(sentence)


def fetch(package: str, debs: Path | None, place: Path) -> Path:
    """Unpack a package under `place` and return its files."""
    found = sorted((debs or place).glob(f"{package}_*.deb"))
    if not found:
        subprocess.run(["apt-get", "download", package], cwd=place, check=True, capture_output=True)
        found = sorted(place.glob(f"{package}_*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(found[-1]), str(place / package)], check=True)
    return place / package


def main() -> None:
    parser = argparse.ArgumentParser(description="Contiguous English prose from Debian packages.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--debs", type=Path, help="a folder of packages that were downloaded before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, options.out.open("w", encoding="utf-8") as out:
        for package, chapters in SOURCES.items():
            sentences = words = 0
            for chapter in chapters(fetch(package, options.debs, Path(temporary))):
                kept = [text for paragraph in chapter for text in split_sentences(paragraph) if is_prose(text)]
                if len(kept) >= 3:  # fewer have no sentence between two others
                    out.write("\n".join(kept) + "\n\n\n")
                    sentences, words = sentences + len(kept), words + sum(len(text.split()) for text in kept)
            print(f"{package}: {sentences:,} sentences, {words:,} words")


if __name__ == "__main__":
    main()
