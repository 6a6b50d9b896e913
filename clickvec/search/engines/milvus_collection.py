"""A collection of vectors in Milvus: sequence numbers, vectors and the fields that filters read."""

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence

import numpy as np

from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import Vectors
from clickvec.search.documents.document import Document
from clickvec.search.engines.address import Address
from clickvec.search.engines.milvus_filters import stored_fields
from clickvec.search.title_view import Positions
from clickvec.search.view_protocol import EngineError

MOST_HITS = 16_384  # of one search, by the server
_BATCH = 5_000  # vectors in one request
_SECONDS = 60.0  # for a request; without a limit, the client tries again for minutes
_CONNECT_SECONDS = 10.0
_LOAD_SECONDS = 1_800.0  # to index all vectors, or to read them into memory
_INDEX = {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 16, "efConstruction": 128}}
_LEAST_EF, _MOST_EF = 400, 32_768  # candidates of a search in the HNSW graph


class MilvusCollection:
    """A collection at an address."""

    def __init__(self, address: Address, name: str) -> None:
        """Connect to the server."""
        try:
            from pymilvus import MilvusClient
        except ImportError:
            raise missing_extra("pymilvus", "milvus") from None
        for logger in ("pymilvus", "pymilvus.milvus_client"):  # tracebacks of errors for which we have a sentence
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        self.address, self.name = address, name
        server, _, database = address.url.removeprefix("http://").partition("/")
        with self._errors():
            self._client = MilvusClient(
                uri=f"http://{server}", user=address.user, password=address.password, db_name=database,
                timeout=_CONNECT_SECONDS,
            )  # fmt: skip

    def create(self, dimensions: int, model: str) -> None:
        """Create the collection, empty and not loaded."""
        from pymilvus import DataType

        with self._errors():
            schema = self._client.create_schema(auto_id=False, description=json.dumps({"clickvec": 1, "model": model}))
            schema.add_field("seq", DataType.INT64, is_primary=True)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimensions)
            schema.add_field("fields", DataType.JSON)
            self._client.create_collection(self.name, schema=schema, consistency_level="Session", timeout=_SECONDS)

    def finish(self) -> None:
        """Index the vectors and load them into the memory of the server."""
        with self._errors():
            index = self._client.prepare_index_params()
            index.add_index("vector", **_INDEX)
            self._client.flush(self.name, timeout=_LOAD_SECONDS)
            self._client.create_index(self.name, index, timeout=_LOAD_SECONDS)
        self.load()

    def load(self) -> None:
        """Wait until the server has the vectors in memory. After a restart of the server, it may not have them."""
        with self._errors():
            self._client.load_collection(self.name, timeout=_LOAD_SECONDS)

    def check(self, dimensions: int, model: str) -> None:
        """Raise if the collection is not there, is not ours, or has vectors of another model."""
        where = self.address.shown
        with self._errors():
            if not self._client.has_collection(self.name, timeout=_SECONDS):
                raise ClickvecError(f"{where} has lost the collection {self.name}; build the index again")
            about = self._client.describe_collection(self.name, timeout=_SECONDS)
        try:
            recorded = json.loads(about["description"])["model"]
        except (ValueError, KeyError, TypeError):
            raise ClickvecError(
                f"{where}: {self.name} is not a collection of clickvec; build the index again"
            ) from None
        if recorded != model:
            raise ClickvecError(
                f"{where} has vectors of another model: {recorded} instead of {model}; build the index again"
            )
        size = next(field["params"]["dim"] for field in about["fields"] if field["name"] == "vector")
        if int(size) != dimensions:
            raise ClickvecError(f"{where} has vectors of {size} dimensions, not {dimensions}; build the index again")

    def put(self, seqs: Sequence[int], documents: Sequence[Document], vectors: Vectors, is_new: bool = False) -> None:
        """Write vectors. Replace those with the same sequence numbers, unless all are new. Leave out zero vectors."""
        rows = [
            {"seq": int(seq), "vector": vector, "fields": stored_fields(document.payload)}
            for seq, document, vector in zip(seqs, documents, vectors, strict=True)
            if vector.any()
        ]
        with self._errors(changing=True):
            for first in range(0, len(rows), _BATCH):
                write = self._client.insert if is_new else self._client.upsert
                write(self.name, rows[first : first + _BATCH], timeout=_SECONDS)

    def remove(self, seqs: Sequence[int]) -> None:
        """Delete vectors."""
        with self._errors(changing=True):
            for first in range(0, len(seqs), _BATCH):
                wanted = [int(seq) for seq in seqs[first : first + _BATCH]]
                self._client.delete(self.name, ids=wanted, timeout=_SECONDS)

    def nearest(self, query: Vectors, k: int, where: str) -> tuple[Positions, Vectors]:
        """Return the sequence numbers of the k nearest vectors and their cosines, best first."""
        limit = min(k, MOST_HITS)
        ef = min(_MOST_EF, max(_LEAST_EF, 4 * limit))
        with self._errors():
            found = self._client.search(
                self.name, [query.tolist()], filter=where, limit=limit, output_fields=[], timeout=_SECONDS,
                search_params={"params": {"ef": ef}}, consistency_level="Session",
            )[0]  # fmt: skip
        seqs = np.array([hit["id"] for hit in found], np.int64)
        return seqs, np.array([hit["distance"] for hit in found], np.float32)

    def count(self) -> int:
        """Return the number of vectors, after all changes that were made before."""
        with self._errors():
            rows = self._client.query(
                self.name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=_SECONDS
            )
        return int(rows[0]["count(*)"])

    def seqs(self, last: int) -> Iterator[int]:
        """Yield the sequence numbers of all vectors up to the last one of the index of words."""
        for first in range(0, last + 1, MOST_HITS):
            with self._errors():
                rows = self._client.query(
                    self.name, filter=f"seq >= {first} and seq < {first + MOST_HITS}", output_fields=["seq"],
                    consistency_level="Strong", timeout=_SECONDS,
                )  # fmt: skip
            yield from (int(row["seq"]) for row in rows)

    def others(self) -> list[str]:
        """Return the collections of earlier builds of this index."""
        with self._errors():
            names = self._client.list_collections(timeout=_SECONDS)
        prefix = f"{self.address.name}_clickvec_"
        return [name for name in names if name.startswith(prefix) and name != self.name]

    def drop(self, name: str) -> None:
        """Drop a collection."""
        with self._errors():
            self._client.drop_collection(name, timeout=_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @contextlib.contextmanager
    def _errors(self, changing: bool = False) -> Iterator[None]:
        """Turn errors of the server into sentences."""
        from pymilvus import MilvusException

        try:
            yield
        except (MilvusException, OSError, ValueError) as error:
            raise sentence(self.address, error, changing) from None


def sentence(address: Address, error: Exception, changing: bool = False) -> EngineError:
    """Return an error that says what happened at which address and what to do."""
    text = " ".join(str(getattr(error, "message", "") or error).split())
    # A refused password is told by the cause alone.
    is_refused = any(word in f"{text} {error.__cause__}".lower() for word in ("authentic", "auth check", "credential"))
    if address.password:
        text = text.replace(address.password, "...")
    kept = " The change may have been made or not; repeating it is safe" if changing else ""
    if is_refused:
        return EngineError(f"{address.shown} refuses the user or the password; correct the address")
    if "loaded" in text.lower():
        return EngineError(
            f"{address.shown} has not loaded its vectors into memory yet; try again in a few seconds.{kept}"
        )
    if any(word in text.lower() for word in ("connect", "unavailable", "deadline", "timeout", "retry", "channel")):
        return EngineError(f"{address.shown} does not answer; start the server or correct the address.{kept}")
    return EngineError(f"{address.shown} cannot do this: {text[:300]}")
