"""The paper's table of cells and queries."""

from tiny import TEXTS, tiny

from clickvec.explanation.topics import detect
from clickvec.lab.claims.query_table import query_table
from clickvec.model.encoder import Encoder
from clickvec.render.terminal.screen import Screen


def test_each_row_lists_the_words_that_the_cells_detect_and_empty_rows_are_counted() -> None:
    found = detect(Encoder(tiny("bilstm")), [*TEXTS, "zzz"])
    table, note = query_table(found, range(14), Screen(1_000)).split("\n\n")
    assert note == "1 text without a detection not shown"
    rows = table.splitlines()[2:]
    for at, (text, row) in enumerate(zip(TEXTS, rows, strict=True)):
        assert row.startswith(text)
        words = [found.words[word] for word in found.word[found.text == at]]
        for entry in row.removeprefix(text).strip().split("; "):
            listed = entry.split(": ")[1].split(", ")
            assert len(set(listed)) == len(listed)
            assert set(listed) <= set(words)
    assert query_table(found, [], Screen()).startswith("9 texts")
