"""A table from ids to texts: as a dict that keeps the first text of an id."""

from hypothesis import given
from hypothesis import strategies as st

from clickvec.data.layouts.id_texts import IdTexts

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)


@given(st.lists(st.lists(st.tuples(TEXTS, TEXTS), max_size=20), max_size=3), st.lists(TEXTS, max_size=9))
def test_it_is_a_dict_of_first_texts(blocks: list[list[tuple[str, str]]], unknown: list[str]) -> None:
    table, expected = IdTexts(), dict[str, str]()
    for block in blocks:
        table.add([key for key, _ in block], [text for _, text in block])
        for key, text in block:
            expected.setdefault(key, text)
        ids = [*expected, *unknown, *expected]
        assert table.get(ids) == [expected.get(key) for key in ids]
    assert len(table) == sum(map(len, blocks))


def test_ids_with_one_hash() -> None:
    class Same(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return 7

    table = IdTexts()
    table.add([Same("a"), Same("b"), Same("a")], ["A", "B", "again"])
    assert table.get([Same("b"), Same("a"), Same("c")]) == ["B", "A", None]
