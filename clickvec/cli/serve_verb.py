"""The verbs serve and retrain: an index as an HTTP service that learns from its clicks."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, Device, input_option, print_outcome
from clickvec.cli.streams import print_message, print_result
from clickvec.errors import ClickvecError, missing_extra

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]+")
READ_VARIABLE, WRITE_VARIABLE = "CLICKVEC_READ_KEY", "CLICKVEC_WRITE_KEY"


def serve(
    index_location: Annotated[
        str | None,
        typer.Argument(
            metavar="INDEX",
            parser=inputs.index_location,
            help="An index folder, that of up, or the address of an index in a database.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at. 0 takes any free port.")] = 8080,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that answer requests.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each worker that search.")] = 2,
    read_key_file: Annotated[Path | None, typer.Option(help=f"Keys for reading. Also: {READ_VARIABLE}.")] = None,
    write_key_file: Annotated[Path | None, typer.Option(help=f"Keys for writing. Also: {WRITE_VARIABLE}.")] = None,
    new_key: Annotated[Path | None, typer.Option(help="Print a new key, add its hash to this file, and exit.")] = None,
    without_keys: Annotated[bool, typer.Option("--insecure", help="Let other machines in without a key.")] = False,
    host_name: Annotated[list[str] | None, typer.Option(help="Accept this Host header. Repeatable.")] = None,
    cors: Annotated[list[str] | None, typer.Option(help="Let web pages of this origin in. Repeatable.")] = None,
    click_log: Annotated[Path | None, typer.Option(help="Where to log clicks. Default: INDEX.clicks.jsonl.")] = None,
    access_log: Annotated[Path | None, typer.Option(help="Where to log requests. Default: stderr.")] = None,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="Write queries to the access log, and count them.")
    ] = False,
    log_clicks: Annotated[
        bool, typer.Option("--log-clicks", help="Let the page log what it shows and what users click.")
    ] = False,
    about: Annotated[
        Path | None, typer.Option(help="What the page tells about the model. Default: about beside INDEX.")
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in a browser, if there is one.")] = False,
    max_body: Annotated[int, typer.Option(min=1024, help="Bytes in the body of a request.")] = 8 * 2**20,
    max_payload: Annotated[int, typer.Option(min=1, help="Bytes in the payload of a document.")] = 64 * 2**10,
    max_query: Annotated[int, typer.Option(min=1, help="Characters in a query.")] = 1_000,
    max_title: Annotated[int, typer.Option(min=1, help="Characters in a title.")] = 10_000,
    max_hits: Annotated[int, typer.Option(min=1, help="Hits of a query: offset + k.")] = 1_000,
    max_queries: Annotated[int, typer.Option(min=1, help="Queries in a request.")] = 100,
    max_documents: Annotated[int, typer.Option(min=1, help="Documents in a request.")] = 10_000,
    max_concurrent: Annotated[int, typer.Option(min=1, help="Requests that a worker runs or queues.")] = 64,
    max_connections: Annotated[int, typer.Option(min=1, help="Open connections of a worker.")] = 10_000,
    max_seconds: Annotated[float, typer.Option(min=0.001, help="Seconds for a request.")] = 10.0,
    read_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds to receive headers, and a body.")] = 10.0,
    idle_seconds: Annotated[float, typer.Option(min=1, help="Seconds that a connection may be idle.")] = 60.0,
    stop_seconds: Annotated[float, typer.Option(min=0, help="Seconds to finish requests at the end.")] = 30.0,
) -> None:
    """Serve an index over HTTP: search, explain, add and delete documents, log clicks.

    The address shows a page in a browser; /openapi.json describes the API. Without keys, only this
    machine can reach the service.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # requests run in parallel already; read when NumPy is imported
    check_installed()
    from clickvec.serve import keys

    if new_key is not None:
        print_result(keys.new_key(new_key))
        return
    if index_location is None:
        raise typer.BadParameter("give the folder of an index, or its address", param_hint="INDEX")
    from clickvec.search.engines.address import is_address, short_name, without_password
    from clickvec.search.live.index_folder import check_index

    address = index_location if is_address(index_location) else ""
    index = Path(short_name(address) if address else index_location)
    if not address:
        check_index(index)
    from clickvec.serve.about_folder import default_folder
    from clickvec.serve.click_log import default_path
    from clickvec.serve.limits import Limits, Settings, is_loopback
    from clickvec.serve.supervisor import run

    readers = keys.read_keys(read_key_file, READ_VARIABLE, os.environ.get(READ_VARIABLE))
    writers = keys.read_keys(write_key_file, WRITE_VARIABLE, os.environ.get(WRITE_VARIABLE))
    if not is_loopback(host) and not without_keys and not (readers and writers):
        raise ClickvecError(
            f"--host {host} lets other machines in, so keys for reading and writing are needed: --read-key-file and "
            "--write-key-file (make them with --new-key), or --insecure to do without"
        )
    for origin in cors or ():
        _check_origin(origin, is_safe=bool(readers) or without_keys)
    settings = Settings(
        index=index, address=address, click_log=click_log or default_path(index), host=host, port=port,
        workers=workers, threads=threads,
        read_keys=readers, write_keys=writers, cors=tuple(cors or ()), log_queries=log_queries, access_log=access_log,
        host_names=tuple(name.lower() for name in host_name or ()), stop_seconds=stop_seconds, log_clicks=log_clicks,
        about=about or (default_folder(index) if default_folder(index).is_dir() else None),
        limits=Limits(
            body_bytes=max_body, payload_bytes=max_payload, query_characters=max_query,
            title_characters=max_title, hits=max_hits, queries=max_queries, documents=max_documents,
            concurrent=max_concurrent, connections=max_connections, seconds=max_seconds, read_seconds=read_seconds,
            idle_seconds=idle_seconds,
        ),
    )  # fmt: skip

    def started(url: str) -> None:
        print_message(f"Serving {without_password(index_location)} at {url}; open it in a browser, stop with Ctrl-C")
        if opens:
            _open_browser(url)

    run(settings, started)


def check_installed() -> None:
    """Refuse to serve if a package is missing, and on Windows."""
    try:
        import msgspec  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise missing_extra(str(error.name), "serve") from None
    if os.name == "nt":
        raise ClickvecError("the service needs Linux or macOS; on Windows, run it in WSL or in a container")


def _open_browser(address: str) -> None:
    """Open a page in a browser with a window. Do nothing where there is none, as on a server."""
    import threading
    import webbrowser

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return  # webbrowser would start a text browser in this terminal
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _check_origin(origin: str, is_safe: bool) -> None:
    """Refuse what is not an origin. Refuse those that every web page has, unless keys are needed."""
    if not _ORIGIN.fullmatch(origin):
        raise ClickvecError(f"--cors {origin} is not an origin; give scheme and host, such as https://shop.example")
    if origin in ("*", "null") and not is_safe:
        raise ClickvecError(
            f"--cors {origin} lets every web page in that someone opens on this machine, so a key for reading is "
            "needed: --read-key-file (make it with --new-key), or --insecure to do without"
        )


def retrain(
    index: Annotated[
        Path,
        typer.Argument(
            metavar="INDEX",
            parser=lambda text: Path(inputs.index_location(text)),
            help="A folder of an index, or of `clickvec up`.",
        ),
    ],
    clicks: Annotated[
        list[Path] | None, input_option("A further click log, besides that of the service. Repeatable.")
    ] = None,
    click_log: Annotated[Path | None, typer.Option(help="The log of the service. Default: INDEX.clicks.jsonl.")] = None,
    old_clicks: Annotated[
        Path | None, input_option("The log that the model was trained on, to measure it on old days too.")
    ] = None,
    catalogue: inputs.LogCatalogue = None,
    queries: inputs.LogQueries = None,
    k_anonymous: inputs.KAnonymous = None,
    merge_minutes: inputs.MergeMinutes = 30,
    max_per_hour: inputs.MaxPerHour = 0,
    max_per_client: inputs.MaxPerClient = 0,
    drop_queries: inputs.DropQueries = None,
    drop_clients: inputs.DropClients = None,
    max_query_words: inputs.MaxQueryWords = 0,
    min_clicks: inputs.MinClicks = 0,
    keep_secrets: inputs.KeepSecrets = False,
    device: Device = "auto",
    column_names: inputs.ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: inputs.NoHeader = False,
    max_bad: inputs.MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Train the model of an index further on the clicks of its service, and swap it in.

    Part of the clicks is held out. If the new model is significantly worse on it, or if there are too few clicks to
    tell, the old model stays, and the clicks are used again the next time. The exit status is 0 in both cases. A
    service of the index goes on answering; it takes the new model within a second.

    Options about columns, ids and headers are for --clicks and --old-clicks; those about cleaning are for all logs.
    """
    try:
        import msgspec  # noqa: F401
    except ImportError:
        raise missing_extra("msgspec", "serve") from None
    if find_spec("torch") is None:
        raise missing_extra("torch", "train")
    from clickvec.serve.click_log import default_path
    from clickvec.serve.retraining import Reading
    from clickvec.serve.retraining import retrain as retrain_index
    from clickvec.training.process_settings import tuned_for_training

    named = (*(clicks or ()), old_clicks, catalogue, queries)
    cleaning = inputs.read_cleaning(
        drop_queries, drop_clients, k_anonymous=k_anonymous, merge_minutes=merge_minutes, max_per_hour=max_per_hour,
        max_per_client=max_per_client, max_query_words=max_query_words, min_clicks=min_clicks,
        keep_secrets=keep_secrets,
    )  # fmt: skip
    columns = inputs.read_columns(column_names, no_header, (*named, drop_queries, drop_clients), delimiter, encoding)
    reading = Reading(columns, catalogue, queries, max_bad, cleaning)
    with tuned_for_training():
        outcome = retrain_index(
            index, click_log or default_path(index), clicks or (), old_clicks, reading=reading, device=device,
            progress=Bar(),
        )  # fmt: skip
    print_outcome(f"{index}: {outcome.reason}", {"index": str(index), **outcome._asdict()}, as_json)
