"""Measure filters and facets over the payload fields of a million documents, on one core.

    python benchmarks/filters.py [--documents 1000000]

Each document has a country (8 values), a price (a million), a brand (3,000, in a nested object; a tenth of the
documents have none), three tags (of 50) and a URL (all different). The table shows the share of documents that a filter
matches, and its time: the median of 15 runs, CPU time. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from clickvec.evaluation.result import text_table
from clickvec.search.payload.facets import count_values
from clickvec.search.payload.fields import Fields
from clickvec.search.payload.filters import parse_filter

FILTERS: dict[str, dict[str, Any]] = {
    "country is a": {"country": "a"},
    "price from 10 to 20": {"price": {"gte": 10, "lt": 20}},
    "price at most 5,000": {"price": {"lte": 5000}},
    "one of two brands": {"brand.name": ["b1", "b2"]},
    "one of 100 brands": {"brand.name": [f"b{number}" for number in range(100)]},
    "no brand": {"brand": {"exists": False}},
    "tag is t3": {"tags": "t3"},
    "one of 10 tags": {"tags": [f"t{number}" for number in range(10)]},
    "tag is not t3": {"tags": {"ne": "t3"}},
    "one URL": {"url": "https://example.org/77"},
    "country, price and tag": {"country": ["a", "b"], "price": {"lt": 5000}, "not": {"tags": "t3"}},
}


def payloads(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    prices, brands = (rng.integers(1, most, count).tolist() for most in (10**6, 3000))
    tags, countries = rng.integers(0, 50, (count, 3)).tolist(), rng.integers(0, 8, count).tolist()
    made = [
        {"country": "abcdefgh"[country], "price": price / 100, "tags": [f"t{tag}" for tag in own]}
        for country, price, own in zip(countries, prices, tags, strict=True)
    ]
    for number, (payload, brand) in enumerate(zip(made, brands, strict=True)):
        payload["url"] = f"https://example.org/{number}"
        if number % 10:
            payload["brand"] = {"name": f"b{brand}"}
    return made


def milliseconds(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(15):
        started = time.thread_time()
        run()
        times.append(time.thread_time() - started)
    return round(1000 * float(np.median(times)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    count = parser.parse_args().documents
    documents = payloads(count)
    started = time.thread_time()
    arrays = Fields.build(documents).arrays()
    seconds, size = time.thread_time() - started, sum(array.nbytes for array in arrays.values())
    opening = milliseconds(lambda: Fields.from_arrays(arrays))
    fields = Fields.from_arrays(arrays)
    rows: list[dict[str, Any]] = []
    for name, where in FILTERS.items():
        condition = parse_filter(where)
        assert condition is not None
        share = float(condition.mask(fields).mean())
        rows.append({"filter": name, "matches": f"{share:.2%}", "ms": milliseconds(lambda c=condition: c.mask(fields))})  # type: ignore[misc]
    few, everything = np.arange(0, count, max(1, count // 1000)), np.arange(count)
    for name, positions in (("1,000 documents", few), ("all documents", everything)):
        for path in ("country", "tags", "url"):
            taken = milliseconds(lambda p=path, at=positions: count_values([fields], p, at))  # type: ignore[misc]
            rows.append({"filter": f"facet {path}, {name}", "matches": "", "ms": taken})
    print(f"{count:,} documents: fields built in {seconds:.1f} s, {size / 1e6:.0f} MB, opened in {opening} ms")
    print(text_table([["filter", "matches", "ms"], *[list(row.values()) for row in rows]]))
    print(
        json.dumps({"documents": count, "build seconds": round(seconds, 1), "MB": round(size / 1e6), "filters": rows})
    )


if __name__ == "__main__":
    main()
