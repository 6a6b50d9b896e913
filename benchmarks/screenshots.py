"""Take the screenshots of the documentation: docs/images/page-*.png.

    python benchmarks/screenshots.py INDEX [--out docs/images] [--only search,phone]

INDEX is that of `make demo` (out/demo/index). Every picture has at most 256 colours, which keeps it below 200 kB.
"""

import argparse
import io
from pathlib import Path
from typing import Any, NamedTuple

from page import CHROMIUM, serving

QUERY = "bath tub wont turn off"


class Shot(NamedTuple):
    """One picture: a link, what must be on the screen, and the window."""

    link: str
    ready: str
    width: int = 1280
    height: int = 800
    scheme: str = "light"
    scale: int = 1
    edit: tuple[str, str] | None = None  # the label of a field, and what to type into it


TAGS = ".column[data-mode=hybrid] .tags > *"  # the last part of a search that arrives
FIRST = "t00147"  # the id of the first hit
SHOTS = {
    "search": Shot(f"/search?q={QUERY}", TAGS),
    "why": Shot(f"/why?q={QUERY}", "#gates canvas"),
    "try": Shot(f"/try?q={QUERY}&id={FIRST}", "#gates canvas", height=860, edit=("Word 2 of the title", "vavle")),
    "topics": Shot("/topics", ".topic", scheme="dark"),
    "map": Shot("/map", "canvas", scheme="dark"),
    "phone": Shot(f"/search?q={QUERY}", TAGS, 390, 780, scale=2),
}


def take(browser: Any, address: str, shot: Shot) -> bytes:  # noqa: ANN401
    """Open a view and return its picture as PNG."""
    from PIL import Image

    page = browser.new_page(
        viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme,
        device_scale_factor=shot.scale, reduced_motion="reduce", is_mobile=shot.width < 500, has_touch=shot.width < 500,
    )  # fmt: skip
    page.goto(f"{address}/#{shot.link}")
    page.locator(shot.ready).first.wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle")
    if shot.edit is not None:
        page.get_by_label(shot.edit[0], exact=True).fill(shot.edit[1])
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(1000)  # until the answer is drawn
    page.evaluate("() => document.activeElement.blur()")  # no caret
    picture = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    small = io.BytesIO()
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", metavar="INDEX", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    parser.add_argument("--only", default=",".join(SHOTS), help="Names of pictures, separated by commas.")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with serving(arguments.index) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in arguments.only.split(","):
            path = arguments.out / f"page-{name}.png"
            path.write_bytes(take(browser, address, SHOTS[name]))
            print(f"{path}: {path.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
