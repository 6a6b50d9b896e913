"""Put the output of a benchmark into a page: it replaces what is between two marks.

    python benchmarks/word_order.py questions ... | python benchmarks/page_part.py docs/word-order.md "questions"

The marks are the lines `<!-- questions -->` and `<!-- end of questions -->`. The last line of the output is left out if
it is JSON. An empty output, or a page without the marks, is an error, and the page stays as it was.
"""

import argparse
import json
import sys
from pathlib import Path

from clickvec.storage.files import replacing_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("part")
    options = parser.parse_args()
    lines = sys.stdin.read().strip().splitlines()
    if lines and is_json(lines[-1]):
        lines.pop()
    text = "\n".join(line.rstrip() for line in lines).strip()
    page = options.page.read_text(encoding="utf-8")
    first, last = f"<!-- {options.part} -->\n", f"<!-- end of {options.part} -->\n"
    if not text:
        sys.exit(f"there is no output for {options.page}")
    if first not in page or last not in page:
        sys.exit(f"{options.page} has no lines {first.strip()} and {last.strip()}")
    before, after = page.split(first)[0], page.split(last)[1]
    with replacing_file(options.page) as file:
        file.write(f"{before}{first}{text if text.startswith('| ') else fenced(text)}\n{last}{after}".encode())


def fenced(text: str) -> str:
    """Return text as it is printed. A Markdown table needs no fence."""
    return f"```\n{text}\n```"


def is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except ValueError:
        return False


if __name__ == "__main__":
    main()
