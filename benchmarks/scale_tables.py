"""The tables of docs/scale.md: what the laws of scale_model.py say about 10^11 clicks and 10^10 titles."""

import math
from typing import NamedTuple

from log_axes import power_of_ten
from scale_model import CURVES, Law, Measurements, cost, fit, size_at, validate

Laws = dict[str, Law]


class Machine(NamedTuple):
    """The machine that the tables count."""

    cores: int = 32
    memory_gb: float = 256
    disk_gb: float = 8_000


MACHINE = Machine()
BUSY = 0.7  # the share of cores, memory and disk that a plan may use
EPOCHS = 5  # of the recipe default
QUERIES_PER_SECOND = 1_000
SHARD = 10**8  # titles of the largest index in one piece
# From docs/speed.md, which names the commands: benchmarks/train.py --threads 8, benchmarks/growth.py --device cuda.
EIGHT_CORES = 43_535  # pairs/s
H200_EPOCH = ((1e5, 0.5), (1e6, 2.1), (1e7, 16.0))  # pairs, seconds
H200_MINING = ((1e5, 0.3), (1e6, 1.1))
H200_MEMORY = 139 * 2**30
INT32 = 2**31
BUILD_MB = 3_288 / 10e6  # memory of building for each title, in the run of 10^7: more than the law says from there on
# Larger runs that other pages report: curve, size, measured, page.
BEYOND = (
    ("prepare on disk cpu_s", 50e6, 226, "logs.md; 2 GB, queries held out, clients limited"),
    ("train cpu_s", 10e6, 742, "speed.md; twice as many words"),
    ("encode cpu_s", 10e6, 79, "speed.md; nine words, one of them new"),
    ("build approximate cpu_s", 10e6, 498.63, "speed.md; longer titles, wall-clock time"),
    ("build approximate peak_mb", 10e6, 3_288, "speed.md"),
    ("build approximate disk_mb", 10e6, 2_487, "speed.md"),
    ("search approximate hybrid_ms", 10e6, 1000 / 142.88, "speed.md, wall-clock time"),
)  # fmt: skip


def table(head: str, rows: list[list[str]]) -> str:
    """Return a table in Markdown. The head has its columns divided by |."""
    names = [name.strip() for name in head.split("|")]
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows))


def figure(number: float) -> str:
    """Return a number with two figures."""
    if number <= 0 or math.isinf(number):
        return "0" if number <= 0 else "∞"
    digits = 1 - math.floor(math.log10(number))
    rounded = round(number, digits)
    if rounded >= 1e6:
        return f"{rounded / 10.0 ** math.floor(math.log10(rounded)):.2g} × {power_of_ten(rounded)}"
    return f"{rounded:,.{max(0, digits)}f}"


def exact(number: float) -> str:
    """Return a measured number: with four figures, or as a whole number."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def duration(seconds: float) -> str:
    """Return a time in the unit in which it is a small number."""
    for unit, length in (("years", 365 * 86_400), ("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{figure(seconds / length)} {unit}"
    return f"{figure(seconds)} s"


def size(megabytes: float) -> str:
    """Return an amount of memory or disk."""
    for unit, many in (("PB", 1e9), ("TB", 1e6), ("GB", 1e3)):
        if megabytes >= many:
            return f"{figure(megabytes / many)} {unit}"
    return f"{figure(megabytes)} MB"


def basis(number: float, measured: float, checked: float) -> str:
    """Tell what an entry of a table rests on."""
    return "measured" if number <= measured else "checked" if number <= checked else "extrapolated"


def clicks_row(laws: Laws, found: Measurements, clicks: float) -> list[str]:
    """Return what a log of so many lines costs."""
    pairs = cost(laws, "prepare on disk pairs", clicks)
    cpu, text = cost(laws, "prepare on disk cpu_s", clicks), line_bytes(found) * clicks / 1e6
    cpu_epoch = pairs / EIGHT_CORES + cost(laws, "train mine_cpu_s", pairs) / 8
    gpu_epoch = h200_epoch()(pairs)
    in_memory = cost(laws, "prepare in memory peak_mb", clicks)
    machines = math.ceil(max(cpu / (BUSY * MACHINE.cores * 86_400), 2 * text / 1e3 / (BUSY * MACHINE.disk_gb)))
    gpu = duration(EPOCHS * gpu_epoch) if pairs <= h200_pairs(laws) else "does not fit"
    return [
        power_of_ten(clicks), figure(pairs), size(text), duration(cpu), f"{machines:,}", size(in_memory),
        size(cost(laws, "train disk_mb", pairs)), duration(EPOCHS * cpu_epoch), gpu,
        basis(clicks, max(found["parts"]["prepare on disk"]["size"]), 5e7),
    ]  # fmt: skip


def h200_epoch() -> Law:
    """Return the seconds of an epoch on an H200, with its mining."""
    epoch, mining = (fit("line", *zip(*points, strict=True)) for points in (H200_EPOCH, H200_MINING))
    return Law("line", epoch.a + mining.a, epoch.b + mining.b)


def h200_pairs(laws: Laws) -> float:
    """Return how many pairs fit into the memory of an H200."""
    return H200_MEMORY / (1e6 * laws["train disk_mb"].b)


def line_bytes(found: Measurements) -> float:
    """Return the length of a line of the log."""
    rows = found["parts"]["prepare on disk"]
    return float(rows["log_mb"][-1] * 1e6 / rows["size"][-1])


def clicks_table(laws: Laws, found: Measurements) -> str:
    """Return the table of logs."""
    head = (
        "clicks | distinct pairs | log, and temporary files | prepare, one process | machines to prepare in a day | "
        f"memory without DuckDB | data folder | {EPOCHS} epochs on 8 cores | {EPOCHS} epochs on one H200 | basis"
    )
    return table(head, [clicks_row(laws, found, 10.0**n) for n in range(6, 12)])


def titles_row(laws: Laws, found: Measurements, titles: float) -> list[str]:
    """Return what a catalogue of so many titles costs."""
    shards = max(1, math.ceil(titles / SHARD))
    each = titles / shards
    disk, request = (
        shards * cost(laws, "build approximate disk_mb", each),
        shards * cost(laws, "serve request_ms", each),
    )
    cores = QUERIES_PER_SECOND * request / 1000
    machines = max(cores / MACHINE.cores, disk / 1e3 / MACHINE.memory_gb) / BUSY
    return [
        power_of_ten(titles), duration(cost(laws, "encode cpu_s", titles)), f"{shards:,}",
        duration(cost(laws, "build approximate cpu_s", each)),
        size(max(cost(laws, "build approximate peak_mb", each), BUILD_MB * each)), size(disk),
        figure(cost(laws, "search exact vectors_ms", titles)), figure(cost(laws, "search approximate hybrid_ms", each)),
        figure(request), f"{math.ceil(machines):,}",
        basis(titles, max(found["parts"]["build approximate"]["size"]), 1e7),
    ]  # fmt: skip


def titles_table(laws: Laws, found: Measurements) -> str:
    """Return the table of catalogues."""
    head = (
        "titles | encode, one core | indexes | build one, one core | memory to build one | disk, all | exact: ms | "
        "approximate hybrid in one: ms | service, all: CPU ms per request | "
        f"machines for {QUERIES_PER_SECOND:,} requests/s | basis"
    )
    return table(head, [titles_row(laws, found, 10.0**n) for n in range(6, 11)])


def check_table(found: Measurements) -> str:
    """Return the predictions of the largest sizes."""
    head = "what | unit, and that of x | from the two smaller sizes | x | predicted | measured | error"
    rows = []
    for one in validate(found):
        values = [exact(number) for number in (one.predicted, one.measured)]
        about = [CURVES[one.name].short, CURVES[one.name].unit, str(one.law), f"{one.size:,.0f}"]
        rows.append([*about, *values, f"{one.error:+.0%}"])
    return table(head, rows)


def beyond_table(laws: Laws) -> str:
    """Return what the laws say about larger runs that other pages report."""
    rows = []
    for name, number, measured, page in BEYOND:
        says, curve = cost(laws, name, number), CURVES[name]
        values = [f"{number:,.0f}", exact(says), exact(measured), f"{says / measured - 1:+.0%}"]
        rows.append([curve.short, curve.unit, *values, page])
    (*smaller, (number, measured)) = H200_EPOCH
    says = fit("line", *zip(*smaller, strict=True))(number)
    values = [f"{number:,.0f}", exact(says), exact(measured), f"{says / measured - 1:+.0%}"]
    rows.append(["train one epoch on an H200", "s, pairs", *values, "speed.md; from 10⁵ and 10⁶ pairs there"])
    return table("what | unit, and that of x | x | the model says | measured | error | where", rows)


def walls_table(laws: Laws, found: Measurements) -> str:
    """Return where each part stops on one machine."""
    memory, half_disk, line = 1e3 * MACHINE.memory_gb, 1e9 * MACHINE.disk_gb / 2, line_bytes(found)
    gigabytes, terabytes = f"{MACHINE.memory_gb:g} GB of memory", f"{MACHINE.disk_gb / 1e3:g} TB of disk"
    in_a_day = (86_400 / EPOCHS - h200_epoch().a) / h200_epoch().b
    shards = "several indexes, or Milvus"

    def reached(name: str, limit: float) -> float:
        return size_at(laws, name, limit)

    walls = (
        ("prepare in memory", gigabytes, reached("prepare in memory peak_mb", memory), "lines", "DuckDB, on disk"),
        ("prepare on disk", "one process, a day", reached("prepare on disk cpu_s", 86_400), "lines", "Ray"),
        ("prepare on disk", f"{terabytes}, half of it for the log", half_disk / line, "lines", "Ray, shared storage"),
        ("data folder", "ids are int32", INT32, "queries, titles or words", "a sample, or one model for each language"),
        ("train on a GPU", "data in 139 GiB", h200_pairs(laws), "pairs", "a sample"),
        ("train on a GPU", f"{EPOCHS} epochs in a day", in_a_day, "pairs", "a sample, or fewer epochs"),
        ("build an index", "one core, a day", reached("build approximate cpu_s", 86_400), "titles", shards),
        ("build an index", gigabytes, memory / BUILD_MB, "titles", shards),
        ("search exactly", "100 ms of a core", reached("search exact vectors_ms", 100), "titles", "approximate search"),
        ("search approximately", "100 ms of a core", reached("search approximate hybrid_ms", 100), "titles", shards),
        ("serve", f"mapped files in {gigabytes}", reached("build approximate disk_mb", memory), "titles", shards),
        ("serve", "positions are int32", INT32, "titles in one index", shards),
    )
    rows = [[part, limit, f"{figure(number)} {unit}", then] for part, limit, number, unit, then in walls]
    return table("part | limit | reached at | then", rows)


def constants_table(laws: Laws) -> str:
    """Return the laws through all points."""
    rows = [[curve.short, str(laws[name]), curve.unit] for name, curve in CURVES.items()]
    return table("what | law | units of value and x", rows)


def words_times(found: Measurements) -> str:
    """Return the times of searches by words, which follow no law."""
    rows = found["parts"]["search approximate"]
    times = [
        f"{ms:.2f} ms with {titles:,.0f} titles" for ms, titles in zip(rows["words_ms"], rows["size"], strict=True)
    ]
    return f"Search by words: {', '.join(times)} (CPU time)."


def about_the_run(found: Measurements) -> str:
    """Return where the measurements were made, and whether one run made all of them."""
    about = found["machine"]
    where = (
        f"{about['cores']} cores of {about['cpu']}, {about['memory_gb']} GB, commit {about['commit']}; "
        f"texts: {found['texts']}. "
    )
    if "predicted" not in found:
        return where + "**Made in several runs, while laws were still being changed; a whole run is to be made.**"
    return where + (
        f"One run of {about['minutes']:.0f} minutes made all measurements; the load at its start was "
        f"{about['load']:.1f}. It stored its predictions before it measured the largest sizes."
    )


def parts_of_page(found: Measurements, laws: Laws) -> dict[str, str]:
    """Return all drawn parts of the page."""
    return {
        "machine": about_the_run(found),
        "constants": constants_table(laws),
        "words": words_times(found),
        "checks": check_table(found),
        "beyond": beyond_table(laws),
        "clicks": clicks_table(laws, found),
        "titles": titles_table(laws, found),
        "walls": walls_table(laws, found),
    }
