// The gates, states and outputs of the cells as heat maps, with a choice of what is drawn. Why and Try it out show it.

import { get } from "./api.js";
import { choice, el, fixed, put, scrolled } from "./dom.js";
import { ACTIVATIONS, heatMap, ORDERS, orderCells } from "./draw.js";

const FEW = 32; // cells on a narrow screen
export const kept = { name: "output", order: "agree", way: 0 }; // what the user chose, for the whole visit

// The topics of the cells, once they are known. Computing them takes the service a second.
let topics = null;
export async function cellTopics() {
  topics ??= get("/topics").then((answer) => {
    const found = new Map();
    for (const topic of answer.topics) found.set(`${topic.dimension}${topic.sign}`, topic.words.slice(0, 5).map((word) => word.word));
    return found;
  }).catch(() => { topics = null; return new Map(); });
  return topics;
}

export const finalOutput = (activations) => { const rows = activations.values.output; return (activations.way === "right to left" ? rows[0] : rows.at(-1)) || []; };

// Draw into `root`. traces: {query: [...], title: [...]}; marks: which words are keywords.
export function drawGates(root, traces, marks = {}, known = new Map()) {
  if (!traces?.query?.length || !traces.title?.length) {
    put(root, el("p.note", "There is nothing to draw: this model does not read word by word, or one of the texts is empty."));
    return;
  }
  const again = () => { const focus = document.activeElement?.name; drawGates(root, traces, marks, known); if (focus) root.querySelector(`input[name="${focus}"]:checked`)?.focus(); };
  const way = Math.min(kept.way, traces.query.length - 1);
  const [query, title] = [traces.query[way], traces.title[way]];
  const names = Object.keys(ACTIVATIONS).filter((name) => query.values[name] && !isConstant(name, query, title));
  if (!names.includes(kept.name)) kept.name = names[0];
  const [label, about, centre] = ACTIVATIONS[kept.name];
  const [q, t] = [finalOutput(query), finalOutput(title)];
  const cells = orderCells(q, t, kept.order, matchMedia("(max-width: 44rem)").matches ? FEW : q.length);
  const first = traces.query.slice(0, way).reduce((sum, other) => sum + finalOutput(other).length, 0);
  const describe = (cell) => { const words = known.get(`${first + cell}${t[cell] < 0 ? "-" : "+"}`); return words ? `responds to ${words.join(", ")}` : ""; };
  put(root,
    el("div.row.spread",
      choice("What to draw", "activation", Object.fromEntries(names.map((name) => [name, ACTIVATIONS[name][0]])), kept.name, (name) => { kept.name = name; again(); }),
      el("div.row",
        traces.query.length > 1 && choice("Direction of reading", "way", Object.fromEntries(traces.query.map((other, at) => [String(at), other.way])), String(way), (at) => { kept.way = Number(at); again(); }),
        el("label.note", "Cells ", el("select", { name: "order", onchange: (event) => { kept.order = event.target.value; again(); } }, Object.entries(ORDERS).map(([name, text]) => el("option", { value: name, selected: name === kept.order }, text)))))),
    el("p.note", about, cells.length < q.length ? ` The first ${cells.length} of ${q.length} cells.` : ""),
    heatMap({ groups: [{ name: "query", words: query.words, values: query.values[kept.name], marks: marks.query }, { name: "title", words: title.words, values: title.values[kept.name], marks: marks.title }], cells, centre, describe, label }),
    el("details", el("summary", "The same as a table: each word and its strongest cells"), strongestTable(query, title, centre)));
}

// A gate that is switched off is 1 everywhere.
const isConstant = (name, ...sides) => name === "forget_gate" && sides.every((side) => side.values[name].every((row) => row.every((value) => value === 1)));

function strongestTable(query, title, centre) {
  const rows = [["query", query], ["title", title]].flatMap(([side, { words, values }]) => words.map((word, at) => {
    const row = values[kept.name][at];
    const best = row.map((_, cell) => cell).sort((a, b) => Math.abs(row[b] - centre) - Math.abs(row[a] - centre)).slice(0, 3);
    const mean = row.reduce((sum, value) => sum + (centre ? value : Math.abs(value)), 0) / row.length;
    return el("tr", el("td", side), el("th", { scope: "row" }, word), el("td.n", fixed(mean)), el("td", best.map((cell) => `cell ${cell}: ${fixed(row[cell])}`).join(", ")));
  }));
  return scrolled("Activations", el("table", el("thead", el("tr", ["side", "word", centre ? "mean" : "mean size", "strongest cells"].map((text, at) => el("th", { scope: "col", class: at === 2 ? "n" : null }, text)))), el("tbody", rows)));
}
