// The model: how good it is beside BM25, how it was trained, how large and fast it is, and what the doctor found in its log.

import { bars, curve, intervals } from "./charts.js";
import { count, el, empty, fixed, plural, put, scrolled } from "./dom.js";
import { figures, loaded, note } from "./insight.js";

export const title = "Model";

export function show(root) {
  const view = loaded(root, title, "/model", (model) => put(view.body, lead(model), problems(model), measured(model), training(model), size(model), recipe(model), doctor(model)));
  view.load();
  return view.cleanup;
}

const section = (heading, ...children) => el("section", null, el("h2", null, heading), children);
const problems = (model) => model.problems.length ? el("div", { class: "warning", role: "note" }, model.problems.map((text) => el("p", null, text))) : null;

function lead({ facts, data, sizes, measured: result }) {
  const [ours, theirs] = result ? ownAndBaseline(rowsOf(result, metricsOf(result)[0])) : [];
  return [
    el("p", { class: "lead" }, `${facts.tower}; ${facts.towers.startsWith("one") ? "one tower, shared by queries and titles" : "two towers, for queries and titles"}. `,
      data.pairs ? `Trained on ${plural(data.pairs, "pair")} of a query and a clicked title.` : ""),
    figures([
      ours && [fixed(ours.value, 1), `${ours.metric}${theirs ? `; BM25 has ${fixed(theirs.value, 1)}` : ""}`],
      [short(facts.parameters), "parameters"], [count(facts.dimensions), "dimensions of a vector"],
      [short(sizes[0].value), "titles"], data.queries && [short(data.queries), "queries in the log"],
    ]),
  ];
}

// --- quality ---------------------------------------------------------------------------------------------------

const rowsOf = (result, metric) => result.rows.filter((row) => row.metric === metric);
const isBaseline = (row) => /^(bm25|words)/i.test(row.system);
const metricsOf = (result) => [...new Set(result.rows.map((row) => row.metric))].sort((a, b) => (b === "NDCG@10") - (a === "NDCG@10"));
const ownAndBaseline = (rows) => [rows.filter((row) => !isBaseline(row)).sort((a, b) => b.value - a.value)[0], rows.find(isBaseline)];

function measured({ measured: result }) {
  if (!result || !result.rows.length) {
    return section("Quality", el("p", null, result?.note || "Nothing was measured for this page.", " ", el("code", null, "clickvec up"), " measures the model beside BM25 on clicks that it has not seen, and so does ", el("code", null, "clickvec evaluate"), "."));
  }
  const metrics = metricsOf(result), systems = [...new Set(result.rows.map((row) => row.system))];
  const cell = (system, metric) => {
    const row = result.rows.find((entry) => entry.system === system && entry.metric === metric);
    return el("td", { class: "n" }, row ? [fixed(row.value, 1), row.low === null || row.high === null ? null : el("small", null, ` [${fixed(row.low, 1)}, ${fixed(row.high, 1)}]`)] : "–");
  };
  return section("Quality beside BM25",
    note(`Measured on ${result.data}${result.note ? "." : `: ${plural(result.queries, "query", "queries")}${result.titles ? `, ${plural(result.titles, "title")} to search` : ""}. In per cent, with 95% confidence intervals.`}`),
    result.note ? el("p", null, result.note) : null,
    el("div", { class: "charts small" }, metrics.slice(0, 4).map((metric) => intervals(metric, rowsOf(result, metric).map((row) => ({ ...row, name: row.system, baseline: isBaseline(row) }))))),
    scrolled("Measured systems", el("table", null, el("thead", null, el("tr", null, el("th", { scope: "col" }, "system"), metrics.map((metric) => el("th", { scope: "col", class: "n" }, metric)))),
      el("tbody", null, systems.map((system) => el("tr", null, el("th", { scope: "row" }, system), metrics.map((metric) => cell(system, metric))))))));
}

// --- training --------------------------------------------------------------------------------------------------

function training({ history, kept_epoch: kept }) {
  if (!history.length) return section("Training", note("The model folder has no record of its training."));
  const labels = history.map((row) => String(row.epoch)), mark = history.findIndex((row) => row.epoch === kept);
  const metrics = [...new Set(history.flatMap((row) => Object.keys(row.dev)))], main = metrics.find((name) => name === "NDCG@10") || metrics.at(-1);
  const scored = history.filter((row) => main in row.dev);
  const seconds = history.at(-1).seconds;
  return section("Training", note(`${plural(history.length, "epoch")}${seconds ? ` in ${duration(seconds)}` : ""}.${kept ? ` Epoch ${kept} was kept${scored.length ? `, by its ${main} on dev` : ""}.` : ""}`),
    el("div", { class: "charts" }, scored.length ? curve({ caption: `${main} on dev, in per cent`, labels: scored.map((row) => String(row.epoch)), values: scored.map((row) => row.dev[main]), mark: scored.findIndex((row) => row.epoch === kept), axis: "epoch" }) : null,
      curve({ caption: "Loss", labels, values: history.map((row) => row.loss), mark, axis: "epoch" })));
}

// --- size, speed, recipe ------------------------------------------------------------------------------------------

function size({ sizes, speed, facts }) {
  const stored = sizes.filter((figure) => figure.unit === "bytes");
  return section("Size and speed",
    el("div", { class: "charts" },
      stored.length ? bars(`The index on disk: ${bytes(stored.reduce((sum, part) => sum + part.value, 0))}`, stored.map((part) => part.name), stored.map((part) => part.value), bytes) : null,
      el("figure", { class: "chart" }, el("figcaption", null, "Speed"), el("dl", { class: "facts" },
        [...speed.filter((figure) => figure.unit !== "MB").map((figure) => [figure.name, `${number(figure.value)}${figure.unit ? ` ${figure.unit}` : ""}`]), ["encodes with", facts["encodes with"]]].map(([name, value]) => [el("dt", null, name), el("dd", null, value)])))));
}

function recipe({ facts, data, recipe: settings }) {
  const rows = (object) => el("dl", { class: "facts" }, Object.entries(object).map(([name, value]) => [el("dt", null, name.replaceAll("_", " ")), el("dd", null, shown(value, name))]));
  return section("Recipe and data", el("div", { class: "charts" },
    el("figure", { class: "chart" }, el("figcaption", null, "Data"), Object.keys(data).length ? rows(data) : note("The model does not tell on what it was trained.")),
    el("figure", { class: "chart" }, el("figcaption", null, "Model"), rows(Object.fromEntries(Object.entries(facts).filter(([name]) => !/paper|encodes/.test(name)))))),
    Object.keys(settings).length ? el("details", null, el("summary", null, "All settings of the recipe"), el("div", { class: "columns" }, rows(settings))) : null);
}

// --- the doctor ------------------------------------------------------------------------------------------------

function doctor({ doctor: examined }) {
  if (!examined) {
    return section("The click log", empty("The log was not examined", "The doctor reads a click log before training: how much it has, how clean it is, what training on it brings. clickvec up writes its findings for this page."));
  }
  const act = examined.findings.filter((finding) => finding.act);
  return section("The click log, by the doctor",
    note(el("bdi", null, examined.source.split("/").pop()), `: ${act.length ? `${plural(act.length, "finding")} ${act.length === 1 ? "needs" : "need"} attention.` : "no finding needs attention."}`, examined.sample ? ` Some counts are from a sample: ${examined.sample}.` : ""),
    el("div", { class: "findings" }, [...act, ...examined.findings.filter((finding) => !finding.act)].map(findingOf)));
}

function findingOf(finding) {
  return el("details", { class: finding.act ? "finding act" : "finding", open: finding.act },
    el("summary", null, el("b", null, finding.heading || finding.name.replaceAll("_", " ")), finding.act ? el("span", { class: "chip" }, "needs attention") : null, " ", el("span", { class: "soft" }, finding.text.split(/(?<=[.!?])\s/)[0])),
    el("p", null, finding.text), finding.advice && finding.advice !== "Nothing to do." ? el("p", null, el("b", null, "Next: "), finding.advice) : null,
    finding.examples.length ? [el("h3", null, "Examples"), el("ul", { class: "examples" }, finding.examples.slice(0, 8).map((text) => el("li", null, el("bdi", null, text))))] : null,
    el("div", { class: "charts" }, finding.plots.filter((plot) => plot.values.length && plot.labels.length === plot.values.length).map((plot) => (plot.kind === "bars" ? bars(plot.caption, plot.labels, plot.values, (value) => `${plot.unit ? number(value) : count(Math.round(value))}${plot.unit}`)
      : curve({ caption: plot.caption, labels: plot.labels, values: plot.values, unit: plot.unit, level: plot.level, band: plot.low.length === plot.values.length && plot.high.length === plot.values.length ? [plot.low, plot.high] : null, zero: true })))));
}

// --- numbers ---------------------------------------------------------------------------------------------------

const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0 });
const short = (value) => (value < 10_000 ? count(value) : value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 }));
const duration = (seconds) => (seconds < 100 ? `${number(seconds)} s` : seconds < 6000 ? `${number(seconds / 60)} min` : `${number(seconds / 3600)} h`);
const shown = (value, name) => (typeof value === "number" ? (name.startsWith("share") ? `${number(100 * value)}%` : Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)))) : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value === "string" ? value : JSON.stringify(value));
function bytes(value) {
  const at = Math.min(4, Math.max(0, Math.floor(Math.log(value || 1) / Math.log(1024))));
  return `${number(value / 1024 ** at)} ${["bytes", "KiB", "MiB", "GiB", "TiB"][at]}`;
}
