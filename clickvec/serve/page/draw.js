// Bars and heat maps. Colours come from the style sheet, so they follow the theme.

import { el, fixed, put } from "./dom.js";

// A bar from zero. `most` is the value of a full bar; with `both`, zero is in the middle.
export function bar(value, most, both = true) {
  const share = most > 0 ? Math.min(1, Math.abs(value) / most) * (both ? 50 : 100) : 0;
  const style = { width: `${share.toFixed(1)}%`, [value < 0 && both ? "right" : "left"]: both ? "50%" : "0" };
  return el("span", { class: both ? "bar both" : "bar", "aria-hidden": "true" }, el("span", { class: value < 0 ? "less" : "more", style }));
}

// --- heat maps -------------------------------------------------------------------------------------------------

// What the activations of an LSTM-RNN are. Gates are drawn around one half, the others around zero.
export const ACTIVATIONS = {
  output: ["Output", "What the network says after each word: the last row is the vector of the text.", 0],
  cell: ["Cell state", "What the cells remember after each word.", 0],
  cell_input: ["Cell input", "What each word offers to the memory.", 0],
  input_gate: ["Input gate", "How much of the word each cell lets in: above one half, it opens.", 0.5],
  forget_gate: ["Forget gate", "How much of its memory each cell keeps.", 0.5],
  output_gate: ["Output gate", "How much of its memory each cell shows.", 0.5],
};

function colour(name) {
  const probe = el("span", { style: { color: `var(${name})` } });
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return found;
}

// Rows are words, columns are cells in the order of `cells`; all groups share the columns and the scale.
// groups: [{name, words, values, marks}]; describe(cell) gives text for the readout of a cell.
export function heatMap({ groups, cells, centre = 0, describe = () => "", label }) {
  const spread = Math.max(0.02, ...groups.flatMap((group) => group.values.flatMap((row) => cells.map((cell) => Math.abs(row[cell] - centre)))));
  const readout = el("p.readout.note", { role: "status" }, "Point at a square, or use the arrow keys, to see a cell.");
  const canvases = [];
  const body = groups.map((group, number) => {
    const canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": `${label} of the ${group.name}: ${group.words.length} words by ${cells.length} cells. Arrow keys read single cells.`, data: { heat: group.name } });
    canvases.push(canvas);
    const rows = group.words.length;
    canvas.style.setProperty("aspect-ratio", "auto");
    canvas.style.height = `${rows * 1.55}rem`;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows))), Math.min(cells.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * cells.length)))];
    };
    let focus = [0, 0];
    const read = (row, column) => {
      const cell = cells[column];
      put(readout, el("b", group.words[row]), ` · cell ${cell} · ${label.toLowerCase()} `, el("b.number", fixed(group.values[row][cell])), describe(cell) ? ` · ${describe(cell)}` : "");
      canvases.forEach((other) => { other.cursor = { column, row: other === canvas ? row : -1 }; paint(); });
    };
    canvas.addEventListener("pointermove", (event) => read(...at(event)));
    canvas.addEventListener("pointerdown", (event) => { focus = at(event); read(...focus); });
    canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) read(...focus); });
    canvas.addEventListener("keydown", (event) => {
      const [by, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      focus = [Math.min(rows - 1, Math.max(0, focus[0] + by)), Math.min(cells.length - 1, Math.max(0, focus[1] + across))];
      read(...focus);
    });
    canvas.paint = (good, bad, ink) => drawCanvas(canvas, group.values, cells, centre, spread, good, bad, ink);
    return el("div.heat", { data: { group: number } },
      el("div.labels", el("h4", group.name), el("ol", group.words.map((word, row) => el("li", { class: group.marks?.[row] ? "key" : null, title: word }, word)))),
      canvas);
  });
  const figure = el("figure.heatmap", body,
    el("div.row.spread.scale",
      readout, el("span.note.number.ramp", fixed(centre - spread, 2), el("span.gradient", { "aria-hidden": "true" }), fixed(centre + spread, 2))));
  function paint() {
    const [good, bad, ink] = ["--good", "--bad", "--ink"].map(colour);
    for (const canvas of canvases) canvas.paint(good, bad, ink);
  }
  const observer = new ResizeObserver(() => { if (figure.isConnected) paint(); });
  observer.observe(figure);
  const onTheme = () => { if (figure.isConnected) paint(); else removeEventListener("themechange", onTheme); };
  addEventListener("themechange", onTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onTheme);
  return figure;
}

function drawCanvas(canvas, values, cells, centre, spread, good, bad, ink) {
  const ratio = devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (!width || !height) return;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  const edge = (at, count, size) => Math.round((at * size) / count);
  const gap = width / cells.length > 6 * ratio ? Math.round(ratio) : 0;
  values.forEach((row, y) => cells.forEach((cell, x) => {
    const value = (row[cell] - centre) / spread;
    const [r, g, b] = value >= 0 ? good : bad;
    pen.fillStyle = `rgb(${r} ${g} ${b} / ${(0.04 + 0.96 * Math.min(1, Math.abs(value)) ** 0.8).toFixed(3)})`;
    const left = edge(x, cells.length, width), top = edge(y, values.length, height);
    pen.fillRect(left, top, edge(x + 1, cells.length, width) - left - gap, edge(y + 1, values.length, height) - top - Math.round(2 * ratio));
  }));
  if (canvas.cursor) {
    const { row, column } = canvas.cursor;
    pen.strokeStyle = `rgb(${ink.slice(0, 3).join(" ")} / ${row < 0 ? 0.35 : 1})`;
    pen.lineWidth = Math.max(1, Math.round(1.5 * ratio));
    const left = edge(column, cells.length, width), right = edge(column + 1, cells.length, width);
    const top = row < 0 ? 0 : edge(row, values.length, height), bottom = row < 0 ? height : edge(row + 1, values.length, height) - Math.round(2 * ratio);
    pen.strokeRect(left + 0.5, top + 0.5, right - left - gap, bottom - top - 1);
  }
}

// The order of the cells: those first that answer both texts, that are most active, or by number.
export const ORDERS = { agree: "that agree first", active: "most active first", number: "by number" };
export function orderCells(query, title, order, most) {
  const worth = { agree: (cell) => -(query[cell] * title[cell]), active: (cell) => -Math.max(Math.abs(query[cell]), Math.abs(title[cell])), number: (cell) => cell }[order];
  return query.map((_, cell) => cell).sort((a, b) => worth(a) - worth(b) || a - b).slice(0, most);
}
