"""Draw the diagrams of the docs: `python docs/diagrams.py` writes docs/images/*.svg.

The picture of an explanation shows the numbers in images/explanation.json, which this command writes:

    clickvec explain index "bath tub wont turn off" --json > docs/images/explanation.json

The script needs only the standard library. Names and symbols are those of clickvec/model/forward.py.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

INK, GREY, WHITE = "#1f2a2b", "#5c6b6a", "#ffffff"
DARK, GREEN, PALE, RED = "#216869", "#49a078", "#9cc5a1", "#b5482a"  # as in the figures of clickvec
LIGHT, BLUSH = "#eaf3ec", "#f9ece7"
SANS = "Helvetica, Arial, sans-serif"
MONO = "Menlo, Consolas, 'DejaVu Sans Mono', monospace"
DASHED, DOTTED = "9 6", "1.5 6"
IMAGES = Path(__file__).parent / "images"

Point = tuple[float, float]


class Drawing:
    """An SVG of this size. Later shapes are drawn over earlier ones."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.shapes: list[str] = []

    def add(self, name: str, content: str | None = None, **attributes: str | float | None) -> None:
        """Add an element. Write `_` for `-` in attribute names; attributes that are None are left out."""
        given = "".join(
            f' {key.replace("_", "-")}="{_number(value) if isinstance(value, float | int) else escape(value)}"'
            for key, value in attributes.items()
            if value is not None
        )
        self.shapes.append(f"<{name}{given}/>" if content is None else f"<{name}{given}>{content}</{name}>")

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = WHITE, edge: str = DARK,
        dash: str | None = None,
    ) -> None:  # fmt: skip
        """Add a rectangle around its centre."""
        self.add(
            "rect", x=x - width / 2, y=y - height / 2, width=width, height=height, rx=8, fill=fill, stroke=edge,
            stroke_width=2, stroke_dasharray=dash,
        )  # fmt: skip

    def circle(self, x: float, y: float, radius: float, fill: str = WHITE, edge: str = DARK) -> None:
        """Add a circle around its centre."""
        self.add("circle", cx=x, cy=y, r=radius, fill=fill, stroke=edge, stroke_width=2)

    def text(
        self, x: float, y: float, words: str, size: float = 18, colour: str = INK, anchor: str = "middle",
        bold: bool = False, font: str | None = None,
    ) -> None:  # fmt: skip
        """Add a line of text, centred on y. `_{…}` is a subscript, `^{…}` a superscript, and `[…]` is red."""
        self.add(
            "text", _raised(words, size), x=x, y=y + 0.36 * size, font_size=size, fill=colour,
            text_anchor=anchor, font_weight="bold" if bold else None, font_family=font,
        )  # fmt: skip

    def line(self, *points: Point, colour: str = INK, dash: str | None = None) -> None:
        """Add a line through points."""
        path = "M" + " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        width, cap = (2.6, "round") if dash == DOTTED else (2, None)
        self.add(
            "path", d=path, fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dash, stroke_linecap=cap
        )

    def arrow(self, *points: Point, colour: str = INK, dash: str | None = None) -> None:
        """Add an arrow through points, with its head at the last one."""
        (x0, y0), (x, y) = points[-2:]
        length = math.dist((x0, y0), (x, y))
        ahead, aside = ((x - x0) / length, (y - y0) / length), (-(y - y0) / length, (x - x0) / length)
        neck = (x - 10 * ahead[0], y - 10 * ahead[1])
        corners = [(x, y), *((neck[0] + side * aside[0], neck[1] + side * aside[1]) for side in (5.5, -5.5))]
        self.line(*points[:-1], neck, colour=colour, dash=dash)
        self.add("polygon", points=" ".join(f"{_number(a)},{_number(b)}" for a, b in corners), fill=colour)

    def strip(self, x: float, y: float, tints: Sequence[float], side: float = 13) -> None:
        """Add a vector as a row of squares, darker for larger numbers."""
        left = x - side * len(tints) / 2
        for place, tint in enumerate(tints):
            self.add(
                "rect", x=left + place * side, y=y - side / 2, width=side, height=side, fill=DARK,
                fill_opacity=tint, stroke=DARK, stroke_width=1,
            )  # fmt: skip

    def __str__(self) -> str:
        """The file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" font-family="{SANS}">'
        )
        back = f'<rect width="{self.width}" height="{self.height}" rx="10" fill="{WHITE}"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", back, *self.shapes, "</svg>", ""])


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _raised(words: str, size: float) -> str:
    """Return the words with sub- and superscripts as spans."""
    found, back = [], 0.0
    for way, small, bracket, plain in re.findall(r"([_^])\{([^}]*)\}|([\[\]])|([^_^\[\]]+|[_^])", words):
        if bracket:
            found.append(f'<tspan fill="{RED}">' if bracket == "[" else "</tspan>")
            continue
        shift = {"_": 0.28, "^": -0.38, "": 0.0}[way] * size
        moved = f' dy="{_number(back + shift)}"' if back + shift else ""
        smaller = f' font-size="{_number(0.72 * size)}"' if way else ""
        shown = escape(small or plain, quote=False)
        found.append(f"<tspan{moved}{smaller}>{shown}</tspan>" if moved or smaller else shown)
        back = -shift
    return "".join(found)


# --- the towers, unrolled over words -----------------------------------------------------------------------------


def towers() -> Drawing:
    """Draw query and title from words to vectors and their cosine, the title from below."""
    draw = Drawing(720, 820, "The towers, unrolled over words: words, letter trigrams, LSTM cells, vectors, cosine")
    middle = draw.height / 2
    vectors = (0.85, 0.15, 0.5, 0.05, 0.7, 0.3, 0.95, 0.2, 0.6), (0.75, 0.25, 0.6, 0.05, 0.55, 0.2, 0.9, 0.4, 0.5)
    _tower(draw, ("hotels", "in", "shanghai"), "query Q", vectors[0], top=24, down=1)
    _tower(draw, ("shanghai", "hotel", "deals"), "title D", vectors[1], top=draw.height - 24, down=-1)
    for way in (-1, 1):
        draw.arrow((632, middle + way * 110), (632, middle + way * 43), colour=DARK)
    draw.circle(632, middle, 42, fill=DARK)
    draw.text(632, middle, "cosine", 19, WHITE, bold=True)
    draw.text(24, middle - 15, "The vector of a text is the output y(T) at its last word.", 18, GREY, "start")
    draw.text(24, middle + 15, "The score of the pair is the cosine of the two vectors.", 18, GREY, "start")
    return draw


def _tower(draw: Drawing, words: Sequence[str], name: str, vector: Sequence[float], top: float, down: int) -> None:
    """Draw one tower with its words at `top` and its layers below, or above if `down` is -1."""
    centres = (196.0, 332.0, 468.0)
    word_at, trigrams_at, counts_at, cell_at = (top + down * distance for distance in (22, 110, 187, 262))

    draw.text(24, word_at, name, 20, DARK, "start", bold=True)
    for y, label in ((trigrams_at - 12, "letter"), (trigrams_at + 12, "trigrams"), (counts_at, "counts l(t)")):
        draw.text(24, y, label, 18, GREY, "start")
    draw.text(24, cell_at - 12, "LSTM", 18, GREY, "start")
    draw.text(24, cell_at + 12, "cells", 18, GREY, "start")
    for t, (x, word) in enumerate(zip(centres, words, strict=True)):
        draw.box(x, word_at, 120, 42, fill=DARK)
        draw.text(x, word_at, word, 20, WHITE, bold=True)
        draw.arrow((x, word_at + down * 22), (x, trigrams_at - down * 41), colour=GREY)
        draw.box(x, trigrams_at, 126, 80, fill=LIGHT, edge=PALE)
        lines = list(_rows(_trigrams(word), 3))
        for row, line in enumerate(lines):
            draw.text(x, trigrams_at + 22 * (row - (len(lines) - 1) / 2), line, 16, INK, font=MONO)
        draw.arrow((x, trigrams_at + down * 41), (x, counts_at - down * 8), colour=GREY)
        draw.strip(x, counts_at, _counts(word), side=12)
        draw.arrow((x, counts_at + down * 8), (x, cell_at - down * 32), colour=GREY)
        draw.box(x, cell_at, 84, 60, fill=GREEN, edge=DARK)
        draw.text(x, cell_at, f"t = {t + 1}", 19, WHITE, bold=True)
        if t < len(words) - 1:
            draw.arrow((x + 43, cell_at), (x + 93, cell_at), colour=DARK)
            draw.text(x + 67, cell_at - 16, "y, c", 17, DARK)
    draw.arrow((centres[-1] + 43, cell_at), (560, cell_at), colour=DARK)
    draw.strip(632, cell_at, vector, side=15)
    side = name[-1]
    draw.text(632, cell_at - 30 * down, f"y_{{{side}}}(T_{{{side}}})", 21, DARK, bold=True)


def _trigrams(word: str) -> list[str]:
    return [f"#{word}#"[at : at + 3] for at in range(len(word))]


def _rows(items: Sequence[str], width: int) -> Iterator[str]:
    return (" ".join(items[first : first + width]) for first in range(0, len(items), width))


def _counts(word: str) -> list[float]:
    """Return a picture of l(t): a few squares, with one filled for each trigram."""
    filled = {sum(map(ord, trigram)) % 10 for trigram in _trigrams(word)}
    return [0.75 if place in filled else 0.0 for place in range(10)]


# --- the LSTM cell -----------------------------------------------------------------------------------------------


def cell() -> Drawing:
    """Draw equation 2: gates from l(t) and y(t-1), the cell state above them, the output on the right."""
    draw = Drawing(720, 900, "The LSTM cell: input, forget and output gate, cell state and output, as in equation 2")
    _cell_state_and_output(draw)
    _peepholes(draw)
    _gates(draw)
    _equations(draw)
    return draw


LANE, PRODUCT, GATES, BUS = 64.0, 206.0, 372.0, 472.0  # heights of the cell diagram, from the cell state down
F, I, Y_G, O = 170.0, 296.0, 422.0, 568.0  # noqa: E741 - the columns of the gates
JOINED = (I + Y_G) / 2


def _cell_state_and_output(draw: Drawing) -> None:
    top = GATES - 41
    for start, end in ((90, F - 21), (F + 21, JOINED - 21), (JOINED + 21, 702)):
        draw.arrow((start, LANE), (end, LANE), colour=DARK)
    draw.arrow((I, top), (I, PRODUCT), (JOINED - 21, PRODUCT))
    draw.arrow((Y_G, top), (Y_G, PRODUCT), (JOINED + 21, PRODUCT))
    draw.arrow((JOINED, PRODUCT - 21), (JOINED, LANE + 21))
    draw.arrow((F, top), (F, LANE + 21), dash=DASHED)
    draw.arrow((O, LANE), (O, 116), colour=DARK)
    draw.arrow((O, 155), (O, PRODUCT + 13), colour=DARK)
    draw.arrow((O, top), (O, PRODUCT + 55))
    draw.arrow((O + 21, PRODUCT + 34), (702, PRODUCT + 34), colour=DARK)
    draw.circle(O, LANE, 4, fill=DARK)
    draw.box(O, 136, 72, 38, fill=LIGHT)
    draw.text(O, 136, "tanh", 18)
    for x, y, sign in ((F, LANE, "×"), (JOINED, LANE, "+"), (JOINED, PRODUCT, "×"), (O, PRODUCT + 34, "×")):
        draw.circle(x, y, 20, fill=LIGHT)
        draw.text(x, y, sign, 26, DARK, bold=True)
    draw.text(48, LANE, "c(t−1)", 21, DARK, bold=True)
    draw.text(666, LANE - 26, "c(t)", 21, DARK, bold=True)
    draw.text(666, PRODUCT + 8, "y(t)", 21, DARK, bold=True)
    draw.text(666, LANE + 24, "cell", 16, GREY, font=MONO)
    draw.text(666, PRODUCT + 58, "output", 16, GREY, font=MONO)


def _peepholes(draw: Drawing) -> None:
    """Draw lines from the old cell state to the forget and input gates, and from the new one to the output gate."""
    bend, top, old, new = GATES - 84, GATES - 41, 104.0, O - 72
    draw.arrow((old, LANE), (old, bend), (F - 30, bend), (F - 30, top), colour=RED, dash=DOTTED)
    draw.arrow((F - 30, bend), (I - 30, bend), (I - 30, top), colour=RED, dash=DOTTED)
    draw.arrow((new, LANE), (new, bend), (O - 30, bend), (O - 30, top), colour=RED, dash=DOTTED)
    draw.circle(old, LANE, 4, fill=RED, edge=RED)
    draw.circle(new, LANE, 4, fill=RED, edge=RED)
    draw.text(F - 40, bend + 23, "W_{p2}", 18, RED, "end")
    draw.text(I - 42, bend - 19, "W_{p3}", 18, RED, "end")
    draw.text(new - 10, bend - 19, "W_{p1}", 18, RED, "end")


def _gates(draw: Drawing) -> None:
    for x, symbol, name, squash, dash in (
        (F, "f(t)", "forget_gate", "σ", DASHED), (I, "i(t)", "input_gate", "σ", None),
        (Y_G, "y_{g}(t)", "cell_input", "tanh", None), (O, "o(t)", "output_gate", "σ", None),
    ):  # fmt: skip
        draw.arrow((x, BUS), (x, GATES + 42), colour=GREY, dash=dash)
        draw.box(x, GATES, 116, 82, fill=WHITE if dash else LIGHT, dash=dash)
        draw.text(x, GATES - 22, symbol, 22, DARK, bold=True)
        draw.text(x, GATES + 3, squash, 18)
        draw.text(x, GATES + 27, name, 15, GREY, font=MONO)
    draw.line((F, BUS), (O, BUS), colour=GREY)
    for x, symbol in (((F + I) / 2, "l(t)"), ((Y_G + O) / 2, "y(t−1)")):
        draw.line((x, BUS), (x, BUS + 30), colour=GREY)
        draw.box(x, BUS + 50, 100, 40, fill=DARK)
        draw.text(x, BUS + 50, symbol, 21, WHITE, bold=True)


def _equations(draw: Drawing) -> None:
    draw.line((28, 592), (76, 592), dash=DASHED)
    draw.text(88, 592, "forget gate, optional: without it f(t) = 1", 18, GREY, "start")
    draw.line((28, 624), (76, 624), colour=RED, dash=DOTTED)
    draw.text(88, 624, "[peephole connections], optional", 18, GREY, "start")
    draw.box(360, 765, 680, 236, fill=LIGHT, edge=LIGHT)
    lines = (
        ("y_{g}(t)", "tanh(W_{4} l(t) + W_{rec4} y(t−1) + b_{4})"),
        ("i(t)", "σ(W_{3} l(t) + W_{rec3} y(t−1) [+ W_{p3} c(t−1)] + b_{3})"),
        ("f(t)", "σ(W_{2} l(t) + W_{rec2} y(t−1) [+ W_{p2} c(t−1)] + b_{2})"),
        ("c(t)", "f(t) ∘ c(t−1) + i(t) ∘ y_{g}(t)"),
        ("o(t)", "σ(W_{1} l(t) + W_{rec1} y(t−1) [+ W_{p1} c(t)] + b_{1})"),
        ("y(t)", "o(t) ∘ tanh(c(t))"),
    )
    for row, (left, right) in enumerate(lines):
        y = 675 + 36 * row
        draw.text(106, y, left, 20, DARK, "end", bold=True)
        draw.text(118, y, "=", 20, INK, "start")
        draw.text(140, y, right, 20, INK, "start")


# --- training ----------------------------------------------------------------------------------------------------


def training() -> Drawing:
    """Draw a query, the clicked title and n others: cosines, softmax, loss."""
    draw = Drawing(720, 800, "Training: the cosines of a query with its clicked title and n others, softmax, loss")
    query, clicked, *others = 54.0, 176.0, 274.0, 372.0, 504.0
    _text_and_tower(draw, query, "query Q", "hotels in shanghai", "query", DARK)
    _text_and_tower(draw, clicked, "clicked title D^{+}", "shanghai hotel deals", "title", GREEN)
    texts = ("new york city guide", "paint a bathtub", "cold pizza recipes")
    for y, number, text in zip(others, "12n", texts, strict=True):
        _text_and_tower(draw, y, f"other title D_{{{number}}}^{{−}}", text, "title", PALE)

    bus, cosine, softmax = 388.0, 440.0, 568.0
    draw.text(400, query - 6, "y_{Q}", 21, DARK, "start", bold=True)
    draw.line((365, query), (bus, query), (bus, others[-1] - 50), colour=DARK)
    draw.box(softmax, (clicked + others[-1]) / 2, 100, others[-1] - clicked + 76, fill=LIGHT)
    draw.text(softmax, (others[0] + others[1]) / 2, "softmax", 19, DARK, bold=True)
    for y in (clicked, *others):
        hue = RED if y == clicked else GREY
        draw.arrow((365, y), (cosine - 29, y), colour=GREEN)
        draw.arrow((bus, y - 50), (cosine - 22, y - 19), colour=DARK)
        draw.circle(cosine, y, 28, fill=WHITE, edge=hue)
        draw.text(cosine, y, "cos", 19, hue, bold=True)
        draw.arrow((cosine + 29, y), (softmax - 51, y), colour=hue)
        draw.text((cosine + softmax - 22) / 2, y - 18, "× γ", 18, hue)
    for x in (134.0, 322.0):
        for step in (-1, 0, 1):
            draw.circle(x, (others[1] + others[2]) / 2 + 12 * step, 2.5, fill=GREY, edge=GREY)

    draw.text(662, clicked - 24, "P(D^{+}|Q)", 18, RED, bold=True)
    draw.arrow((softmax + 51, clicked), (662, clicked), (662, 603), colour=RED)
    _loss(draw, 604)
    return draw


def _text_and_tower(draw: Drawing, y: float, label: str, text: str, side: str, colour: str) -> None:
    draw.box(134, y, 232, 68, fill=WHITE if colour == PALE else LIGHT, edge=colour)
    draw.text(134, y - 16, label, 17, DARK if side == "query" or colour == GREEN else GREY)
    draw.text(134, y + 14, text, 18, INK, bold=True)
    draw.arrow((251, y), (279, y), colour=GREY)
    draw.box(322, y, 84, 60, fill=DARK if side == "query" else GREEN)
    draw.text(322, y - 11, side, 18, WHITE, bold=True)
    draw.text(322, y + 12, "tower", 18, WHITE, bold=True)


def _loss(draw: Drawing, top: float) -> None:
    draw.box(360, top + 53, 684, 106, fill=BLUSH, edge=RED)
    draw.text(40, top + 32, "[loss] = −log P(D^{+}|Q) = log(1 + Σ_{j} exp(−γ Δ_{j}))", 21, INK, "start")
    draw.text(40, top + 74, "Δ_{j} = R(Q, D^{+}) − R(Q, D_{j}^{−}), where R is the cosine", 21, INK, "start")
    for row, line in enumerate((
        "The n + 1 title towers are one. A step against the slope of the loss",
        "moves the clicked title towards the query, and the others away.",
    )):  # fmt: skip
        draw.text(24, top + 144 + 28 * row, line, 18, GREY, "start")


# --- an explanation ----------------------------------------------------------------------------------------------

CHIP, GAP, LABEL = 56.0, 7.0, 84.0  # height of a chip, space between chips, left edge of the first chip
NARROW, WIDE = "fijlrt.,'", "mw"  # letters that are narrower or wider than the others


def explanation() -> Drawing:
    """Draw the words of a query and a title on the colour of what they contribute to the score."""
    found = json.loads((IMAGES / "explanation.json").read_text(encoding="utf-8"))
    pair, rank = found["explanation"], found["rank"]
    sides = {
        name: [(word["word"], word["contribution"]) for word in pair[f"{name}_words"]] for name in ("query", "title")
    }
    largest = max(abs(value) for words in sides.values() for _, value in words)
    rows = {name: list(_lines(words, 800 - LABEL - 24)) for name, words in sides.items()}
    height = 150 + sum(len(lines) * (CHIP + 10) + 14 for lines in rows.values())
    title = f"The score {pair['score']:.3f} of a query and a title, and what each word contributes to it"
    draw = Drawing(800, int(height), title)
    draw.text(24, 44, "score", 16, GREY, "start")
    draw.text(LABEL, 42, f"{pair['score']:.3f}", 34, DARK, "start", bold=True)
    draw.text(LABEL + 116, 44, f"rank {rank['rank']:,} of {rank['of']:,} titles", 16, GREY, "start")
    y = 92.0
    for name, lines in rows.items():
        draw.text(24, y + 16, name, 16, GREY, "start")
        for line in lines:
            x = LABEL
            for word, value in line:
                _chip(draw, x, y, word, value, largest)
                x += _width(word) + GAP
            y += CHIP + 10
        y += 14
    total = sum(value for _, value in sides["title"])
    draw.line((24, y), (776, y), colour=LIGHT)
    draw.text(24, y + 28, f"Total {total:+.3f} = score, for the query and for the title", 16, INK, "start")
    for at, shade in enumerate((-0.6, -0.3, 0.12, 0.3, 0.6)):
        draw.add("rect", x=592 + 26 * at, y=y + 19, width=24, height=18, rx=4, fill=RED if shade < 0 else DARK,
                 fill_opacity=abs(shade))  # fmt: skip
    draw.text(584, y + 28, "lowers", 16, GREY, "end")
    draw.text(730, y + 28, "raises", 16, GREY, "start")
    return draw


def _lines(words: Sequence[tuple[str, float]], room: float) -> Iterator[list[tuple[str, float]]]:
    """Yield the chips of each line."""
    line: list[tuple[str, float]] = []
    used = 0.0
    for word, value in words:
        if line and used + _width(word) > room:
            yield line
            line, used = [], 0.0
        line.append((word, value))
        used += _width(word) + GAP
    yield line


def _width(word: str) -> float:
    """Return the width of a chip, estimated from the letters."""
    letters = sum(0.34 if letter in NARROW else 0.86 if letter in WIDE else 0.585 for letter in word)
    return max(62.0, 20 * letters + 26)


def _chip(draw: Drawing, x: float, y: float, word: str, value: float, largest: float) -> None:
    """Add a word over its contribution, on a colour that is stronger for a larger one."""
    text = f"{value:+.2f}" if abs(value) >= 0.005 else "0.00"
    lowers = text.startswith("-")
    width, colour = _width(word), RED if lowers else DARK
    opacity = 0.04 + 0.56 * abs(value) / largest
    draw.add("rect", x=x, y=y, width=width, height=CHIP, rx=8, fill=colour, fill_opacity=opacity)
    if lowers:
        draw.add("rect", x=x + 6, y=y + CHIP - 4, width=width - 12, height=2.5, rx=1, fill=RED)
    draw.text(x + width / 2, y + 18, word, 20, INK)
    draw.text(x + width / 2, y + 40, text.replace("-", "−"), 16, INK)


def main(images: Path = IMAGES) -> None:
    """Write all diagrams."""
    for draw in (towers, cell, training, explanation):
        (images / f"{draw.__name__}.svg").write_text(str(draw()), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
