"""The verb export: an index for OpenSearch or Elasticsearch."""

from pathlib import Path
from typing import Annotated

import typer

from clickvec.cli.bar import Bar
from clickvec.cli.inputs import IndexLocation, Out
from clickvec.cli.streams import print_summary
from clickvec.render.labels import counted


def export(
    index: IndexLocation,
    cluster: Annotated[str, typer.Option("--for", help="opensearch or elasticsearch.")],
    out: Out,
    name: Annotated[str, typer.Option(help="The name of the index in the cluster.")] = "clickvec",
) -> None:
    """Write the titles and vectors of an index for OpenSearch or Elasticsearch.

    The folder has mapping.json, bulk-*.ndjson and query.json, a hybrid query with {{query}} and {{vector}}
    to fill in; for OpenSearch also pipeline.json. docs/engines.md shows how to load them. Not tried on a server.
    """
    from clickvec.search.engines.cluster_export import export as export_index
    from clickvec.search.index import Index

    with Index.open(index) as opened:
        files, titles = export_index(opened.view(), cluster, Path(out), name, Bar())
        print_summary(f"{out}: {counted(titles, 'title')} for {cluster}, {counted(len(files), 'file')}")
