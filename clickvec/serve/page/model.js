// The model: how good it is beside BM25, how it was trained, how large and fast it is, and what the doctor found in its log.

import { bars, curve, figure } from "./charts.js";
import { count, el, empty, figures, fixed, note, plural, put, section, table } from "./dom.js";
import { loaded } from "./insight.js";

export function show(root) {
  const view = loaded(root, "Model", "/model", (model) => put(view.body, lead(model), problems(model), measured(model), training(model), size(model), recipe(model), doctor(model)));
  view.load();
  return view.cleanup;
}

const facts = (pairs) => el("dl.facts", pairs.map(([name, value]) => [el("dt", name), el("dd", value)]));
const problems = (model) => model.problems.length ? el("div.warning", { role: "note" }, model.problems.map((text) => el("p", text))) : null;

function lead({ facts: model, data, sizes, measured: result }) {
  const rows = result ? result.rows.filter((row) => row.metric === metricsOf(result)[0]) : [];
  const ours = rows.filter((row) => !isBaseline(row)).sort((a, b) => b.value - a.value)[0], theirs = rows.find(isBaseline);
  return [
    el("p.lead", `${model.tower}; ${model.towers.startsWith("one") ? "one tower, shared by queries and titles" : "two towers, for queries and titles"}. `,
      data.pairs ? `Trained on ${plural(data.pairs, "pair")} of a query and a clicked title.` : ""),
    figures([
      ours && [fixed(ours.value, 1), `${ours.metric}${theirs ? `; BM25 has ${fixed(theirs.value, 1)}` : ""}`],
      [short(model.parameters), "parameters"], [count(model.dimensions), "dimensions of a vector"],
      [short(sizes[0].value), "titles"], data.queries && [short(data.queries), "queries in the log"],
    ]),
  ];
}

// --- quality ---

const isBaseline = (row) => /^(bm25|words)/i.test(row.system);
const metricsOf = (result) => [...new Set(result.rows.map((row) => row.metric))].sort((a, b) => (b === "NDCG@10") - (a === "NDCG@10"));

function measured({ measured: result }) {
  if (!result || !result.rows.length) {
    return section("Quality", null, el("p", result?.note || "Nothing was measured for this page.", " ", el("code", "clickvec up"), " measures the model beside BM25 on clicks that it has not seen, and so does ", el("code", "clickvec evaluate"), "."));
  }
  const metrics = metricsOf(result), systems = [...new Set(result.rows.map((row) => row.system))];
  const cell = (system, metric) => {
    const row = result.rows.find((entry) => entry.system === system && entry.metric === metric);
    return row ? [fixed(row.value, 1), row.low !== null && row.high !== null && el("small", ` [${fixed(row.low, 1)}, ${fixed(row.high, 1)}]`)] : "–";
  };
  return section("Quality beside BM25", null,
    note(`Measured on ${result.data}${result.note ? "." : `: ${plural(result.queries, "query", "queries")}${result.titles ? `, ${plural(result.titles, "title")} to search` : ""}. In per cent, with 95% confidence intervals.`}`),
    result.note ? el("p", result.note) : null,
    table("Measured systems", [["system"], ...metrics.map((metric) => [metric, "n"])], systems.map((system) => [system, ...metrics.map((metric) => cell(system, metric))]), { caption: false }));
}

// --- training ---

function training({ history, kept_epoch: kept }) {
  if (!history.length) return section("Training", null, note("The model folder has no record of its training."));
  const labels = history.map((row) => String(row.epoch)), mark = history.findIndex((row) => row.epoch === kept);
  const metrics = [...new Set(history.flatMap((row) => Object.keys(row.dev)))], main = metrics.find((name) => name === "NDCG@10") || metrics.at(-1);
  const scored = history.filter((row) => main in row.dev);
  const seconds = history.at(-1).seconds;
  return section("Training", null, note(`${plural(history.length, "epoch")}${seconds ? ` in ${duration(seconds)}` : ""}.${kept ? ` Epoch ${kept} was kept${scored.length ? `, by its ${main} on dev` : ""}.` : ""}`),
    el("div.charts", scored.length ? curve({ caption: `${main} on dev, in per cent`, labels: scored.map((row) => String(row.epoch)), values: scored.map((row) => row.dev[main]), mark: scored.findIndex((row) => row.epoch === kept), axis: "epoch" }) : null,
      curve({ caption: "Loss", labels, values: history.map((row) => row.loss), mark, axis: "epoch" })));
}

// --- size, speed, recipe ---

function size({ sizes, speed, facts: model }) {
  const stored = sizes.filter((part) => part.unit === "bytes");
  const speeds = speed.filter(({ unit }) => unit !== "MB").map(({ name, value, unit }) => [name, `${number(value)}${unit ? ` ${unit}` : ""}`]);
  return section("Size and speed", null,
    el("div.charts",
      stored.length ? bars(`The index on disk: ${bytes(stored.reduce((sum, part) => sum + part.value, 0))}`, stored.map((part) => part.name), stored.map((part) => part.value), bytes) : null,
      figure("Speed", facts([...speeds, ["encodes with", model["encodes with"]]]))));
}

function recipe({ facts: model, data, recipe: settings }) {
  const rows = (object, isShown = () => true) => facts(Object.entries(object).filter(([name]) => isShown(name)).map(([name, value]) => [name.replaceAll("_", " "), shown(value, name)]));
  return section("Recipe and data", null, el("div.charts",
    figure("Data", Object.keys(data).length ? rows(data) : note("The model does not tell on what it was trained.")),
    figure("Model", rows(model, (name) => !/paper|encodes/.test(name)))),
    Object.keys(settings).length ? el("details", el("summary", "All settings of the recipe"), el("div.columns", rows(settings))) : null);
}

// --- the doctor ---

function doctor({ doctor: examined }) {
  if (!examined) {
    return section("The click log", null, empty("The log was not examined", "clickvec up examines the log before training, and writes its findings for this page."));
  }
  const act = examined.findings.filter((finding) => finding.act);
  return section("The click log, by the doctor", null,
    note(el("bdi", examined.source.split("/").pop()), `: ${act.length ? `${plural(act.length, "finding")} ${act.length === 1 ? "needs" : "need"} attention.` : "no finding needs attention."}`, examined.sample ? ` Some counts are from a sample: ${examined.sample}.` : ""),
    el("div.findings", [...act, ...examined.findings.filter((finding) => !finding.act)].map(findingOf)));
}

function findingOf(finding) {
  return el("details", { class: finding.act ? "finding act" : "finding", open: finding.act },
    el("summary", el("b", finding.heading || finding.name.replaceAll("_", " ")), finding.act ? el("span.chip", "needs attention") : null, " ", el("span.soft", finding.text.split(/(?<=[.!?])\s/)[0])),
    el("p", finding.text), finding.advice && finding.advice !== "Nothing to do." ? el("p", el("b", "Next: "), finding.advice) : null,
    finding.examples.length ? [el("h3", "Examples"), el("ul.examples", finding.examples.slice(0, 8).map((text) => el("li", el("bdi", text))))] : null,
    el("div.charts", finding.plots.filter((plot) => plot.values.length && plot.labels.length === plot.values.length).map((plot) => (plot.kind === "bars" ? bars(plot.caption, plot.labels, plot.values, (value) => `${plot.unit ? number(value) : count(Math.round(value))}${plot.unit}`)
      : curve({ caption: plot.caption, labels: plot.labels, values: plot.values, unit: plot.unit, level: plot.level, band: plot.low.length === plot.values.length && plot.high.length === plot.values.length ? [plot.low, plot.high] : null, zero: true })))));
}

// --- numbers ---

const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0 });
const short = (value) => (value < 10_000 ? count(value) : value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 }));
const duration = (seconds) => (seconds < 100 ? `${number(seconds)} s` : `${number(seconds / 60)} min`);
const shown = (value, name) => (typeof value === "number" ? (name.startsWith("share") ? `${number(100 * value)}%` : Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)))) : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value === "string" ? value : JSON.stringify(value));
const bytes = (value) => `${number(value / 1e6)} MB`;
