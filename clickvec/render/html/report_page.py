"""`clickvec report`: one page about a model."""

from collections.abc import Mapping
from typing import Any

from clickvec.explanation.ranking import BASELINE, BINS, MEASURE, Ranking
from clickvec.explanation.report import Report
from clickvec.explanation.trust import Trust
from clickvec.render.html import svg
from clickvec.render.html.markup import Html, counted, details, facts, joined, note, page, section, table, tag
from clickvec.render.html.model_sections import map_section, near_section, topics_section, words_section
from clickvec.render.html.worst_queries import worst_section

LOSS = "training loss"
_DETAILS = {"data": "What it was trained on", "kept": "The epoch that was kept", "recipe": "Recipe"}


def report_page(report: Report) -> str:
    """The page."""
    sections = [
        ("ranking", "Ranking", _ranking(report.ranking)),
        ("worst", "Worst queries", worst_section(report.ranking, report.path)),
        ("keywords", "Keywords", words_section(report)),
        ("trust", "How far to trust it", _trust(report.trust)),
        ("topics", "Topics of cells", topics_section(report)),
        ("near", "Near words", near_section(report)),
        ("map", "Map of titles", map_section(report)),
        ("training", "Training", _training(report)),
        ("model", "The model", _model(report.about)),
    ]
    drawn = [section(name, heading, content) for name, heading, content in sections]
    contents = [(name, heading) for name, heading, _ in sections]
    return page(f"{report.name} – report", _header(report), contents, *drawn)


def _header(report: Report) -> Html:
    evaluation = report.ranking.evaluation
    figures = [(f"{mean:.1f}", measure) for measure, mean in zip(evaluation.measures, evaluation.means[0], strict=True)]
    if report.ranking.baseline:
        figures.append((f"{evaluation.mean(BASELINE, MEASURE):.1f}", f"{MEASURE} of {BASELINE}"))
    queries = len(evaluation.query_ids)
    figures.append((f"{queries:,}", "judged query" if queries == 1 else "judged queries"))
    return joined(
        tag("p", "Report · ", tag("bdi", report.judged), class_="eyebrow"),
        tag("h1", tag("bdi", report.name)),
        tag("p", str(report.about["tower"]), class_="lead"),
        tag("ul", (tag("li", tag("b", value), tag("span", name)) for value, name in figures), class_="figures"),
    )


def _ranking(ranking: Ranking) -> Html:
    evaluation = ranking.evaluation
    head, *rows = evaluation.as_table()
    best = [max(column) for column in zip(*(map(float, row[1:]) for row in rows), strict=True)]
    cells = [
        [row[0], *(tag("td", value, class_="n best") if len(rows) > 1 and float(value) == top else value
                   for value, top in zip(row[1:], best, strict=True))]
        for row in rows
    ]  # fmt: skip
    more = counted(evaluation.left_out, "more has no relevant title and is", "more have no relevant title and are")
    left_out = f"; {more} left out" if evaluation.left_out else ""
    said = f"On {counted(len(evaluation.query_ids), 'judged query', 'judged queries')}, in per cent{left_out}"
    drawing = svg.histogram(
        ranking.distribution, [str(100 // BINS * at) for at in range(BINS + 1)],
        f"How many queries have which {MEASURE}", f"{MEASURE} of a query, in per cent",
    )  # fmt: skip
    picture = tag(
        "figure", tag("figcaption", f"How many queries have which {MEASURE}"), svg.key(ranking.distribution), drawing
    )
    return joined(
        table(said, head, cells, numeric=range(1, len(head))),
        _beside_baseline(ranking),
        picture,
        _every_bin(ranking),
    )


def _beside_baseline(ranking: Ranking) -> Html:
    if not ranking.baseline:
        return note(
            f"{BASELINE} is not measured: it comes with ", tag("code", "pip install 'clickvec[baselines]'"), "."
        )
    higher, same, lower = ranking.against_baseline
    counts = f"on {counted(higher, 'query', 'queries')}, behind on {lower:,}, and equal on {same:,}"
    whose = "the judged ones and those of the catalogue" if ranking.catalogue else "the judged ones and no others"
    titles = counted(ranking.counted, "title", "different titles")
    return joined(
        tag("p", f"By {MEASURE} the model is ahead of {BASELINE} {counts}."),
        note(
            f"{BASELINE} weighs a word by how rare it is among {titles}, {whose}. It has its usual settings and is "
            "not tuned: tuned on other judged queries, it may do better."
        ),
    )


def _every_bin(ranking: Ranking) -> Html:
    """The numbers of the drawing, for those who do not see it."""
    step = 100 // BINS
    rows = [
        [f"{step * at} to {step * (at + 1)}", *(f"{counts[at]:,}" for counts in ranking.distribution.values())]
        for at in range(BINS)
    ]
    names = list(ranking.distribution)
    return details(
        "The same in numbers",
        table(f"Queries by {MEASURE}", [MEASURE, *names], rows, numeric=range(1, len(names) + 1)),
    )


def _trust(trust: Trust) -> Html:
    """Whether keywords and contributions mean something in this model."""
    said = []
    if trust.keywords:
        one = trust.keywords
        said.append(
            f"Keywords are what the ranking rests on when {MEASURE} falls without them. "
            f"{_drawn(one.drawn, trust.queries)}, on the {one.queries:,} that "
            f"{'has' if one.queries == 1 else 'have'} keywords and other words it is {one.whole:.1f}; without keywords "
            f"{one.without_keywords:.1f}; without as many other words {one.without_others:.1f}."
        )
    if trust.deletion:
        two = trust.deletion
        said.append(
            "Contributions mean something when the score falls faster as words are left out in their order. "
            f"{_drawn(two.drawn, trust.queries)}, each with its best title, over the {two.pairs:,} whose title has two "
            f"words or more: title words left out one by one take {two.most_first:.2f} off the score on average; in a "
            f"random order {two.random:.2f}."
        )
    if not said:
        return note("There is nothing to check: no query has keywords and other words, no title two words.")
    return joined(*(tag("p", sentence) for sentence in said))


def _drawn(drawn: int, there: int) -> str:
    if drawn < there:
        return f"Of {counted(drawn, 'query', 'queries')} drawn at random from {there:,}"
    return f"Of {counted(there, 'judged query', 'judged queries')}"


# --- training ----------------------------------------------------------------------------------------------------


def _training(report: Report) -> Html:
    rows = report.history
    if not rows:
        return note("The model folder does not say how training went: its metrics.jsonl has no epoch with a loss.")
    epochs = [float(row["epoch"]) for row in rows]
    charts = [_chart(LOSS, {"loss": [float(row["loss"]) for row in rows]}, epochs)]
    measures = _dev_measures(rows)
    if measures:
        values = {name: [float(row["dev"][name]) for row in rows] for name in measures}
        charts.append(_chart("NDCG on dev, in per cent", values, epochs))
    without = None if measures else note("Nothing was measured on a dev set while it was trained.")
    head = ["epoch", "loss", *(f"dev {name}" for name in measures)]
    cells = [
        [f"{row['epoch']}", f"{row['loss']:.3f}", *(f"{row['dev'][name]:.1f}" for name in measures)] for row in rows
    ]
    numbers = details("The same in numbers", table("By epoch", head, cells, numeric=range(1, len(head))))
    return joined(tag("div", charts, class_="pair"), without, numbers)


def _dev_measures(rows: tuple[dict[str, Any], ...]) -> list[str]:
    """The measures that every row has."""
    found = [row.get("dev") for row in rows]
    if not all(isinstance(dev, Mapping) for dev in found):
        return []
    return [name for name in rows[0]["dev"] if all(isinstance(row["dev"].get(name), int | float) for row in rows)]


def _chart(name: str, series: dict[str, list[float]], epochs: list[float]) -> Html:
    label = f"{name} by epoch"
    return tag("figure", tag("figcaption", name.capitalize() if name == LOSS else name),
               svg.line_chart(series, epochs, label, "epoch"))  # fmt: skip


# --- the model ---------------------------------------------------------------------------------------------------


def _model(about: Mapping[str, Any]) -> Html:
    plain = [(name, _said(value)) for name, value in about.items() if not isinstance(value, Mapping)]
    nested = {name: value for name, value in about.items() if isinstance(value, Mapping) and value}
    more = (details(_DETAILS.get(name, _capital(name)), facts(_flat(value))) for name, value in nested.items())
    return joined(facts((_capital(name), value) for name, value in plain), more)


def _flat(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, value in values.items():
        named = name.replace("_", " ")
        found += [(f"{named}: {inner}", said) for inner, said in _flat(value)] if isinstance(value, Mapping) else [
            (named, _said(value))
        ]  # fmt: skip
    return found


def _said(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
