"""Open or create the index at an address."""

from collections.abc import Iterable
from contextlib import closing

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Document
from clickvec.search.engines.address import parse_address
from clickvec.search.engines.postgres_build import build_postgres
from clickvec.search.engines.postgres_connections import Connections, connect
from clickvec.search.engines.postgres_index import PostgresIndex
from clickvec.search.view_protocol import LiveDocuments


def open_address(text: str, encoder: Encoder | None = None) -> LiveDocuments:
    """Open the index at an address. With an `encoder` of the same model, the model is not read from the database."""
    return PostgresIndex(parse_address(text), encoder)


def create_at(
    text: str,
    encoder: Encoder,
    documents: Iterable[Document],
    overwrite: bool,
    vectors: str,
    search: str,
    progress: Progress | None = None,
) -> None:
    """Make an index of documents at an address."""
    address = parse_address(text)
    if vectors != "float32":
        raise ClickvecError(f"the vectors of {address.shown} are float32; leave out --vectors {vectors}")
    with closing(Connections(address)) as connections:
        build_postgres(connections, encoder, documents, overwrite, search, progress)


def check_address(text: str) -> None:
    """Raise if the server at an address does not answer."""
    connect(parse_address(text)).close()
