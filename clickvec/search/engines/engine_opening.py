"""Open or create the index at an address."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Document
from clickvec.search.engines.address import Address, is_address, parse_address
from clickvec.search.engines.milvus_collection import MilvusCollection
from clickvec.search.engines.milvus_index import MilvusIndex, fill_milvus
from clickvec.search.engines.postgres_build import build_postgres
from clickvec.search.engines.postgres_connections import Connections, connect
from clickvec.search.engines.postgres_index import PostgresIndex
from clickvec.search.fusion import fusion_settings
from clickvec.search.live.index_folder import check_index_output, write_index
from clickvec.search.live.live_folder import LiveFolder
from clickvec.search.live.view import Settings
from clickvec.search.view_protocol import LiveDocuments


def open_address(text: str, encoder: Encoder | None = None, repair: bool = False) -> LiveDocuments:
    """Open the index at an address. With an `encoder` of the same model, the model in the index is not read."""
    address = parse_address(text)
    if address.scheme == "postgresql":
        return PostgresIndex(address, encoder)
    base = _open_words(address, encoder, repair)
    try:
        return MilvusIndex(address, base)
    except BaseException:
        base.close()
        raise


def _open_words(address: Address, encoder: Encoder | None, repair: bool) -> LiveDocuments:
    """Open the index of words of an index in Milvus."""
    if is_address(address.words):
        return open_address(address.words, encoder)
    return LiveFolder(Path(address.words), encoder, repair)


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
    if address.scheme == "postgresql":
        with closing(Connections(address)) as connections:
            build_postgres(connections, encoder, documents, overwrite, search, progress)
        return
    MilvusCollection(address, address.name).close()  # the server answers, before anything is replaced
    if is_address(address.words):
        create_at(address.words, encoder, documents, overwrite, vectors, "exact", progress)
    else:
        settings = Settings(search="exact", **fusion_settings(encoder.model))  # Milvus searches the vectors
        write_index(Path(address.words), encoder, documents, settings, overwrite, progress)
    with closing(_open_words(address, encoder if encoder.fingerprint else None, repair=False)) as base:
        fill_milvus(address, base, progress)


def check_address(text: str, overwrite: bool) -> None:
    """Raise if an index cannot be built at an address: before titles are encoded, which can take an hour."""
    address = parse_address(text)
    if address.scheme == "postgresql":
        connect(address).close()
        return
    MilvusCollection(address, address.name).close()
    if is_address(address.words):
        check_address(address.words, overwrite)
    else:
        check_index_output(Path(address.words), overwrite)
