"""What compare_with.py asks both trees: trainings, indexes, filters, requests, commands, calls."""

from collections.abc import Iterator
from typing import Any

# A request: the check it belongs to, the method, the path, and the body: JSON, or a text that is sent as it is.
Request = tuple[str, str, str, Any]

MODES = ("words", "vectors", "hybrid")
FACETS = ("category", "price")
ATTRIBUTES = ("fusion", "fusion_report", "precision", "recall", "unreachable")

# Options of train. A few epochs show a difference as well as many.
_SHORT = ("--set", "epochs=2")
TRAININGS = {
    **{tower: ("--tower", tower, *_SHORT) for tower in ("lstm", "rnn", "bilstm", "dssm", "clsm")},
    **{
        f"{tower}-paper": ("--tower", tower, "--recipe", "paper", *_SHORT)
        for tower in ("lstm", "rnn", "bilstm", "dssm")
    },
    "from": ("--from", "{folder_of_start}", *_SHORT),
    "teacher": ("--catalogue", "{catalogue}", "--teacher", "{teacher}", *_SHORT),
    "dev": ("--dev", "{dev}", *_SHORT),
    "all-clicks": ("--no-hold-out", *_SHORT),
}

# Options of index.
INDEXES = {
    "int8": ("--vectors", "int8"),
    "approximate": ("--search", "approximate"),
    "fusion from judged lists": ("--dev", "{dev}"),
    "fusion from clicks": ("--held-out", "{held_out}"),
}

FILTERS: dict[str, dict[str, Any] | None] = {
    "no filter": None,
    "a category": {"category": "tools"},
    "a range": {"price": {"gte": 20, "lt": 40}},
    "few titles": {"price": {"lt": 0.5}},
    "no title": {"category": "nothing"},
    "nested": {"or": [{"category": ["tools", "books"]}, {"not": {"stock": {"exists": True}}}], "price": {"lt": 90}},
}

EVALUATIONS = (
    "{model} bm25 --judged {test} --dev {dev}",
    "{model} --judged {test}",
    "{model} {shrunk} --judged {test} --catalogue {catalogue}",
    "{model} --judged {test} --run {run}",
    "{model} bm25 {run} --judged {test}",
    "{run} --judged {test}",
    "{model} {shrunk} bm25 --held-out {held_out} --catalogue {catalogue}",
    "{model} --held-out {held_out}",
    "--index {index} --judged {test}",
    "--index {index} --held-out {held_out}",
    "--index {index} {run} --judged {test}",
)

_DOCUMENTS = [
    {"id": f"new{number}", "title": f"{title} {number}", "payload": {"price": number, "category": "new"}}
    for number, title in enumerate(("hotels in shanghai", "bath tub repair", "zebra crossing lights", "cheap flights"))
]
REQUESTS: list[Request] = [
    *(
        ("descriptions", "GET", path, None)
        for path in ("/about", "/model", "/readyz", "/healthz", "/metrics", "/v1/models", "/openapi.json")
    ),
    *(("studies", "GET", path, None) for path in ("/topics", "/topics/0", "/topics/5", "/map")),
    ("studies", "POST", "/map/place", {"text": "hotels in shanghai", "side": "query"}),
    ("studies", "POST", "/map/place", {"text": "hotels in shanghai", "side": "title"}),
    *(("documents", "GET", f"/documents/{doc_id}", None) for doc_id in ("t00000", "t00417", "t06000", "none", "%ff")),
    ("vectors", "POST", "/v1/embeddings", {"model": "clickvec-query", "input": ["hotels in shanghai", "zzxq"]}),
    ("vectors", "POST", "/v1/embeddings", {"model": "clickvec-title", "input": "cheap flights"}),
    *(
        ("wrong requests", method, path, body)
        for method, path, body in (
            ("POST", "/search", "{"),
            ("POST", "/search", ""),
            ("POST", "/search", "[]"),
            ("POST", "/search", {}),
            ("POST", "/search", {"query": 7}),
            ("POST", "/search", {"query": "a", "queries": ["b"]}),
            ("POST", "/search", {"query": "hotels", "k": 0}),
            ("POST", "/search", {"query": "hotels", "k": 100000}),
            ("POST", "/search", {"query": "hotels", "mode": "best"}),
            ("POST", "/search", {"query": "hotels", "wher": {}}),
            ("POST", "/search", {"query": "hotels", "where": {"colour": "red"}}),
            ("POST", "/search", {"query": "hotels", "where": {"price": {"below": 3}}}),
            ("POST", "/search", {"query": "hotels", "where": {"price": {"lt": "a"}}}),
            ("POST", "/search", {"query": "hotels", "facets": ["colour"]}),
            ("POST", "/search", {"query": "hotels " * 1000}),
            ("POST", "/search", {"queries": ["hotels"] * 1000}),
            ("POST", "/search", {"query": "hotels", "min_score": "a"}),
            ("POST", "/explain", {"query": "hotels", "id": "none"}),
            ("POST", "/explain", {"query": "hotels", "id": "t00000", "title": "a"}),
            ("POST", "/explain", {"query": "zzxqvw"}),
            ("POST", "/documents", {"documents": [{"id": "a", "title": " "}]}),
            ("POST", "/documents", {"documents": [{"title": "a"}]}),
            ("POST", "/documents", {"documents": [{"id": 1, "title": "a"}, {"id": "1", "title": "b"}]}),
            ("PATCH", "/documents", {"documents": [{"id": "none", "title": "a"}]}),
            ("DELETE", "/documents/none", None),
            ("GET", "/search", None),
            ("GET", "/nothing", None),
            ("GET", "/topics/100000", None),
            ("POST", "/click", {"clicked": ["a"]}),
            ("POST", "/v1/embeddings", {"model": "ada", "input": "a"}),
            ("POST", "/rerank", {"query": "a", "documents": [{"title": "a", "score": 1}, {"title": "b"}]}),
        )
    ),
    ("changes", "POST", "/documents", {"documents": _DOCUMENTS}),
    ("changes", "PATCH", "/documents", {"documents": [{"id": "new1", "payload": {"price": 77, "category": None}}]}),
    ("changes", "PATCH", "/documents", {"documents": [{"id": "new0", "title": "hostels in shanghai"}]}),
    ("changes", "DELETE", "/documents/new2", None),
    *(("changes", "GET", f"/documents/new{number}", None) for number in range(4)),
    *(
        ("changes", "POST", "/search", {"query": query, "where": where, "k": 5})
        for query in ("hotels in shanghai", "hostels", "zebra crossing", "bath tub")
        for where in ({}, {"price": {"lt": 100}})
    ),
    ("changes", "DELETE", "/documents/new0", None),
    ("changes", "DELETE", "/documents/new1", None),
    ("changes", "DELETE", "/documents/new3", None),
    ("clicks", "POST", "/click", {"query": "hotels", "shown": ["t00001", "t00002"], "clicked": ["t00002"]}),
    ("clicks", "POST", "/click", {"query": "a b", "clicked": ["t00003", "none"], "client": "c1"}),
    ("clicks", "POST", "/click", {"query": "c", "shown": [{"id": "t00001", "position": 4}]}),
]


def searches(queries: list[str]) -> Iterator[Request]:
    """Yield requests that search queries of the log."""
    for number, query in enumerate(queries[:100]):
        yield "search", "POST", "/search", {"query": query, "highlight": True}
        yield "search", "POST", "/search", {"query": query, "facets": list(FACETS), "offset": 3, "k": 4}
        mode = MODES[number % 3]
        yield "search", "POST", "/search", {"query": query, "mode": mode, "where": {"price": {"lt": 50}}}
        if number < 30:
            yield "search, explained", "POST", "/search", {"query": query, "explain": True, "k": 3}
            yield "explain", "POST", "/explain", {"query": query}
            yield "explain", "POST", "/explain", {"query": query, "id": "t00417", "trace": number < 5}
            yield "explain", "POST", "/explain", {"query": query, "title": "cheap hotels", "compare_with": "t00417"}
            yield "try", "POST", "/try", {"query": query, "title": f"{query} online", "id": "t00417"}
            texts = ["hotels", query, {"title": "bath tub"}]
            yield "rerank", "POST", "/rerank", {"query": query, "documents": texts}
            scored = [{"title": text, "score": score, "id": score} for score, text in enumerate(queries[number:][:9])]
            yield "rerank", "POST", "/rerank", {"query": query, "documents": scored, "weight": 0.3}
    yield "search", "POST", "/search", {"queries": queries[:50], "k": 3}
    yield "descriptions", "GET", "/queries", None


# Files for the commands below, in their working folder.
FILES = {
    "empty.tsv": b"",
    "header.tsv": b"query\ttitle\tclicks\n",
    "columns.tsv": b"one\ttwo\n1\t2\n",
    "bad-lines.tsv": b"query\ttitle\tclicks\n" + b"a\tb\t1\nc\n\tx\t1\nd\te\tmany\n" * 20,
    "binary.tsv": bytes(range(256)) * 20,
    "latin.tsv": "query\ttitle\tclicks\ncaf\xe9\tcaf\xe9 cr\xe8me\t2\n".encode("latin-1") * 30,
    "twice.tsv": b"doc_id\ttitle\na\tone\na\ttwo\n",
    "no-ids.tsv": b"title\tprice\none\t1\ntwo\t2\n",
    "more.tsv": b"doc_id\ttitle\tprice\tcategory\nn1\thotels in shanghai today\t7\tnew\nt00001\tbath tub\t8\tnew\n",
    "prices.tsv": b"doc_id\tprice\nn1\t70\nt00002\t80\n",
    "unknown.tsv": b"doc_id\tprice\nnone\t70\n",
    "filters.json": b"{}",
    "settings.toml": b"epochs = 1\nspeed = 3\n",
    "judged.tsv": b"query_id\tquery\tdoc_id\ttitle\tgrade\nq\thotels\tt00417\thotels in shanghai\tgood\n",
    "dropped.txt": b"hotels in shanghai\n",
}

# Commands: {name} is a file of the comparison, words in single quotes may hold spaces, and stdin stands behind <.
COMMANDS = {
    "help": (
        "--help", "up --help", "demo --help", "doctor --help", "prepare --help", "train --help", "evaluate --help",
        "index --help", "search --help", "rerank --help", "encode --help", "shrink --help", "explain --help",
        "nearest --help", "topics --help", "report --help", "info --help", "serve --help", "retrain --help",
        "export --help", "cluster --help", "lab --help", "index add --help", "index update --help",
    ),
    "wrong usage": (
        "", "sarch", "--verison", "train", "train {log}", "search", "index", "serve {index} --port 99999",
        "train {log} --out m --tower gru", "train {log} --out m --set epochs", "train {log} --out m --set speed=1",
        "train {log} --out m --set epochs=none", "train {log} --out m --recipe best",
        "train {log} --epochs 3 --out m", "train {log} --out m --recipe-file settings.toml",
        "train {log} --out m --max-bad 7", "search {index} hotels -k 0", "search {index} hotels --mode best",
        "search {index} hotels --where {", "search {index} hotels --where 7", "index {model} {catalogue}",
        "index {model} {catalogue} --out i --vectors int4",
        "index {model} {catalogue} --out i --to postgresql://localhost/x", "evaluate {model}",
        "evaluate --judged {test}", "evaluate {model} --judged {test} --held-out {held_out}", "explain {model}",
        "export {index} --out e --for solr", "shrink {model} --out s --weights int4",
        "topics {model} {log} --cells a", "index delete {index}", "prepare {log} --out d --memory much",
    ),
    "wrong files": (
        "train nothing.tsv --out m", "train empty.tsv --out m", "train header.tsv --out m",
        "train columns.tsv --out m", "train bad-lines.tsv --out m", "train binary.tsv --out m",
        "train latin.tsv --out m", "train {model} --out m", "train {log} --out {model}",
        "train {log} --out m --resume", "train {log} --out m --from nothing", "train {log} --out m --dev judged.tsv",
        "train {log} --out m --catalogue twice.tsv", "train {log} --out m --teacher nothing.npy",
        "train {log} --columns query=q --out m", "doctor nothing.tsv", "doctor columns.tsv",
        "prepare columns.tsv --out d", "prepare nothing.tsv --out d", "evaluate nothing --judged {test}",
        "evaluate {model} --judged judged.tsv", "evaluate {model} --judged {log}",
        "evaluate {model} --held-out columns.tsv", "search nothing hotels", "search {model} hotels",
        "search {index} hotels --where '{\"colour\": \"red\"}'",
        "search {index} hotels --where '{\"price\": {\"below\": 3}}'", "search {index} hotels --facets colour",
        "index nothing {catalogue} --out i", "index {model} nothing.tsv --out i", "index {model} twice.tsv --out i",
        "index {model} columns.tsv --out i", "index {model} {catalogue} --out {index}",
        "index {model} {catalogue} --out i --dev judged.tsv", "index {model} {catalogue} --to ftp://host/x",
        "index {model} {catalogue} --to postgresql://bob:secret@127.0.0.1:1/shop", "index add {index} no-ids.tsv",
        "index add {index} twice.tsv", "index update {index} unknown.tsv", "index delete {index} none",
        "explain {index} hotels none-such", "explain nothing hotels", "explain {index} zzxqvw", "nearest {index} ''",
        "nearest nothing hotels", "info nothing", "info empty.tsv", "serve nothing", "serve {model}",
        "encode {model} columns.tsv --out v.npy", "encode {model} {catalogue} --out v.txt", "rerank {model} < one",
        "retrain {index}", "shrink {model} --out {model}", "topics {model} columns.tsv",
        "report {model} --out r.html",
    ),
    "outputs": (
        "search {index} 'hotels in shanghai'", "search {index} 'hotels in shanghai' --parts -k 3",
        "search {index} 'hotels in shanghai' 'bath tub wont turn off' --json -k 4",
        "search {index} 'hotles in shangai'", "search {index} hotels --mode words",
        "search {index} hotels --mode vectors --offset 5", "search {index} hotels --facets category",
        "search {index} zzxqvw", "search {index} < hotels",
        "search {index} hotels --where '{\"category\": \"tools\"}'", "search {index} hotels --min-score 0.5",
        "explain {index} 'hotels in shanghai'", "explain {index} 'hotels in shanghai' t00417 --all",
        "explain {index} 'hotels in shanghai' --json", "explain {model} 'hotels in shanghai' 'cheap hotels'",
        "explain {model} 'hotels in shanghai' 'cheap hotels' --method leave-one-out", "nearest {index} hotels",
        "nearest {index} hotels --unlike -k 3", "topics {model} {log} --cells 1,2 --words 3", "info {model}",
        "info {index}", "info {index} --json", "info {model} --json --verify",
        "rerank {model} < hotels\ta\tcheap hotels\nhotels\tb\tbath tub\n", "doctor {log}", "doctor {log} --json",
        "doctor bad-lines.tsv", "prepare {log} --out data --hold-out", "info data",
        "prepare {log} --out data --append", "prepare {log} --out data --drop-queries dropped.txt --overwrite --json",
        "train data --out from-data --set epochs=1 --json", "encode {model} {catalogue} --out vectors.npy",
        "shrink {model} --out small", "index add {index} more.tsv", "index update {index} prices.tsv",
        "search {index} 'hotels in shanghai today' -k 2", "index delete {index} n1 t00001",
        "export {index} --out e --for opensearch", "export {index} --out es --for elasticsearch",
        "up {log} --catalogue {catalogue} --out up --no-serve --set epochs=1", "search up hotels -k 3",
    ),
}  # fmt: skip

# Wrong calls in Python.
CALLS = (
    "clickvec.Index.open('nothing')",
    "clickvec.Index.open(7)",
    "clickvec.Encoder.load('nothing')",
    "clickvec.read_clicks('nothing.tsv')",
    "clickvec.read_clicks('columns.tsv')",
    "clickvec.read_clicks('bad-lines.tsv')",
    "clickvec.read_clicks([('a', 'b', 'c')])",
    "clickvec.train('header.tsv', 'm')",
    "clickvec.train('nothing.tsv', 'm')",
    "clickvec.train([], 'm')",
    "clickvec.evaluate(encoder, 'judged.tsv')",
    "clickvec.evaluate(encoder, 'nothing.tsv')",
    "clickvec.explain(index, 'hotels', 'none', 'none')",
    "clickvec.explain(index, 7)",
    "clickvec.explain(encoder, 'hotels')",
    "clickvec.explain('index', 'hotels', 'a')",
    "clickvec.explain(encoder, 'hotels', 'inns', method='magic')",
    "index.search(7)",
    "index.search('hotels', k=0)",
    "index.search('hotels', mode='best')",
    "index.search('hotels', where={'price': {'below': 3}})",
    "index.search('hotels', where=[1])",
    "index.search('hotels', offset=-1)",
    "index.search('hotels', min_score='a')",
    "index.add('hotels')",
    "index.add(ids=['a'], titles=['b', 'c'])",
    "index.add(ids=['a', 'a'], titles=['b', 'c'])",
    "index.add(ids=['a'], titles=[' '])",
    "index.add(ids=[1, '1'], titles=['b', 'c'])",
    "index.add(ids=['a'], titles=['b'], payloads=[{1: object()}])",
    "index.update([{'id': 'none', 'price': 1}])",
    "index.delete('t00001')",
    "index.facets('hotels', ['colour'])",
    "index.facets('hotels', [])",
    "index.get('none')",
    "index.rank('hotels', 'hotels', 'best')",
    "encoder.encode_query(7)",
    "encoder.encode_document([7])",
    "encoder.encode_query('')",
)
