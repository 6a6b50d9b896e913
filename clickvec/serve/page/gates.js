// The gates, states and outputs of the cells as heat maps, with a choice of what is drawn. Why and Try it out show it.

import { get } from "./api.js";
import { choice, el, note, put } from "./dom.js";
import { ACTIVATIONS, heatMap, orderCells } from "./draw.js";

// On a narrow screen, only so many cells are drawn.
export const mostCells = (cells) => (matchMedia("(max-width: 44rem)").matches ? 32 : cells);
export const kept = { name: "output", way: 0 }; // what the user chose, for the whole visit

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
    put(root, note("There is nothing to draw: this model does not read word by word, or one of the texts is empty."));
    return;
  }
  const choose = (changes) => {
    const focus = document.activeElement?.name;
    Object.assign(kept, changes);
    drawGates(root, traces, marks, known);
    if (focus) root.querySelector(`input[name="${focus}"]:checked`)?.focus();
  };
  const way = Math.min(kept.way, traces.query.length - 1);
  const [query, title] = [traces.query[way], traces.title[way]];
  const names = Object.keys(ACTIVATIONS).filter((name) => query.values[name] && !isConstant(name, query, title));
  if (!names.includes(kept.name)) kept.name = names[0];
  const [label, about, centre] = ACTIVATIONS[kept.name];
  const [q, t] = [finalOutput(query), finalOutput(title)];
  const cells = orderCells(q, t, mostCells(q.length));
  const first = traces.query.slice(0, way).reduce((sum, other) => sum + finalOutput(other).length, 0);
  const describe = (cell) => { const words = known.get(`${first + cell}${t[cell] < 0 ? "-" : "+"}`); return words ? `responds to ${words.join(", ")}` : ""; };
  put(root,
    el("div.row.spread",
      choice("What to draw", "activation", Object.fromEntries(names.map((name) => [name, ACTIVATIONS[name][0]])), kept.name, (name) => choose({ name })),
      traces.query.length > 1 && choice("Direction of reading", "way", Object.fromEntries(traces.query.map((other, at) => [String(at), other.way])), String(way), (at) => choose({ way: Number(at) }))),
    note(about, cells.length < q.length ? ` The first ${cells.length} of ${q.length} cells.` : "", " Cells that agree come first."),
    heatMap({ groups: Object.entries({ query, title }).map(([name, { words, values }]) => ({ name, words, values: values[kept.name], marks: marks[name] })), cells, centre, describe, label }));
}

// A gate that is switched off is 1 everywhere.
const isConstant = (name, ...sides) => name === "forget_gate" && sides.every((side) => side.values[name].every((row) => row.every((value) => value === 1)));
