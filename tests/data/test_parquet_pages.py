"""What the headers of pages say is what pyarrow decodes, whatever wrote them; damaged headers raise ValueError."""

import contextlib
import io
import random
from typing import Any

import pytest

from clickvec.data.parsing.parquet_pages import pages

pyarrow = pytest.importorskip("pyarrow")


def written(**options: Any) -> tuple[io.BytesIO, Any]:  # noqa: ANN401
    from pyarrow import parquet

    file = io.BytesIO()
    table = pyarrow.table({"a": [f"text {n}" for n in range(5000)], "b": [[n, None] for n in range(5000)]})
    parquet.write_table(table, file, row_group_size=3000, data_page_size=4000, **options)
    return file, parquet.ParquetFile(file).metadata


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_all_values_of_a_column_are_in_its_pages(version: str, use_dictionary: bool) -> None:
    file, metadata = written(data_page_version=version, use_dictionary=use_dictionary, write_page_index=True)
    for group in range(2):
        for index in range(2):
            chunk = metadata.row_group(group).column(index)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            found = list(pages(file, start, chunk.total_compressed_size))
            assert sum(page.values for page in found) == chunk.num_values
            assert 0 < sum(page.size for page in found) <= chunk.total_uncompressed_size
            assert len(found) >= 2


def test_damaged_headers() -> None:
    file, metadata = written()
    chunk, rng = metadata.row_group(0).column(0), random.Random(1)
    for _ in range(300):
        data = bytearray(file.getvalue())
        for _ in range(20):
            data[chunk.dictionary_page_offset + rng.randrange(200)] = rng.randrange(256)
        with contextlib.suppress(ValueError):  # and no other error
            list(pages(io.BytesIO(data), chunk.dictionary_page_offset, chunk.total_compressed_size))
