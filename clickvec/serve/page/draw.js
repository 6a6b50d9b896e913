// Bars and heat maps. Colours come from the style sheet, so they follow the theme.

import { clamp, el, fixed, largest, put } from "./dom.js";

// A bar from zero. `most` is the value of a full bar; with `both`, zero is in the middle.
export function bar(value, most, both = true) {
  const share = most > 0 ? Math.min(1, Math.abs(value) / most) : 0;
  const style = { width: `${(share * (both ? 50 : 100)).toFixed(1)}%`, [value < 0 && both ? "right" : "left"]: both ? "50%" : "0" };
  return el("span", { class: both ? "bar both" : "bar", "aria-hidden": "true" }, el("span", { class: value < 0 ? "less" : "more", style }));
}

// The colours of the style sheet by name, as `rgb(...)`.
export function colours(...names) {
  const probe = el("span.unseen");
  document.body.append(probe);
  const found = names.map((name) => { probe.style.setProperty("color", `var(--${name})`); return getComputedStyle(probe).color; });
  probe.remove();
  return found;
}

// Paint a drawing when its size or the theme changes, as long as it is on the page.
export function repainted(node, paint) {
  const observer = new ResizeObserver(again), scheme = matchMedia("(prefers-color-scheme: dark)"), stop = new AbortController();
  let wasThere = false;
  function again() {
    if (node.isConnected) { wasThere = true; paint(); } else if (wasThere) { observer.disconnect(); stop.abort(); }
  }
  observer.observe(node);
  for (const [target, name] of [[window, "themechange"], [scheme, "change"]]) target.addEventListener(name, again, stop);
}

// --- heat maps ---

// What the activations of an LSTM-RNN are. Gates are drawn around one half, the others around zero.
export const ACTIVATIONS = {
  output: ["Output", "What the network says after each word: the last row is the vector of the text.", 0],
  cell: ["Cell state", "What the cells remember after each word.", 0],
  cell_input: ["Cell input", "What each word offers to the memory.", 0],
  input_gate: ["Input gate", "How much of the word each cell lets in: above one half, it opens.", 0.5],
  forget_gate: ["Forget gate", "How much of its memory each cell keeps.", 0.5],
  output_gate: ["Output gate", "How much of its memory each cell shows.", 0.5],
};

// Rows are words, columns are cells in the order of `cells`; all groups share the columns and the scale.
// groups: [{name, words, values, marks}]; describe(cell) gives text for the readout of a cell.
export function heatMap({ groups, cells, centre = 0, describe = () => "", label }) {
  const spread = largest(groups.flatMap((group) => group.values.flatMap((row) => cells.map((cell) => row[cell] - centre))), 0.02);
  const readout = el("p.readout.note", { role: "status" }, "Point at a square, or use the arrow keys, to see a cell.");
  let cursor = null; // {group, row, column}: what is pointed at
  const canvases = groups.map((group) => {
    const rows = group.words.length;
    const at = (row, column) => [clamp(row, 0, rows - 1), clamp(column, 0, cells.length - 1)];
    const under = (event) => {
      const box = canvas.getBoundingClientRect();
      return at(Math.floor(((event.clientY - box.top) / box.height) * rows), Math.floor(((event.clientX - box.left) / box.width) * cells.length));
    };
    let focus = [0, 0];
    const read = (row, column) => {
      const cell = cells[column], about = describe(cell);
      put(readout, el("b", group.words[row]), ` · cell ${cell} · ${label.toLowerCase()} `, el("b", fixed(group.values[row][cell])), about && ` · ${about}`);
      cursor = { group, row, column };
      paint();
    };
    const canvas = el("canvas", {
      role: "img", tabindex: 0, "aria-label": `${label} of the ${group.name}: ${rows} words by ${cells.length} cells. Arrow keys read single cells.`, style: { height: `${rows * 1.55}rem` },
      onpointermove: (event) => read(...under(event)),
      onpointerdown: (event) => { focus = under(event); read(...focus); },
      onfocus: () => { if (canvas.matches(":focus-visible")) read(...focus); },
      onkeydown: (event) => {
        const [by, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [];
        if (by === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        focus = at(focus[0] + by, focus[1] + across);
        read(...focus);
      },
    });
    return canvas;
  });
  const figure = el("figure.heatmap",
    groups.map((group, at) => el("div.heat",
      el("div", el("h4", group.name), el("ol", group.words.map((word, row) => el("li", { class: group.marks?.[row] ? "key" : null, title: word }, word)))),
      canvases[at])),
    el("div.row.spread.scale",
      readout, el("span.note.ramp", fixed(centre - spread, 2), el("span.gradient", { "aria-hidden": "true" }), fixed(centre + spread, 2))));
  function paint() {
    const [good, bad, ink] = colours("good", "bad", "ink");
    const strength = (row, cell) => (row[cell] - centre) / spread;
    groups.forEach((group, at) => {
      const mark = cursor && { column: cursor.column, row: cursor.group === group ? cursor.row : -1 };
      drawCanvas(canvases[at], group.values.map((row) => cells.map((cell) => strength(row, cell))), mark, (value) => withAlpha(value >= 0 ? good : bad, 0.04 + 0.96 * Math.min(1, Math.abs(value)) ** 0.8), ink);
    });
  }
  repainted(figure, paint);
  return figure;
}

const withAlpha = (colour, alpha) => `rgb(${colour.match(/[\d.]+/g).slice(0, 3).join(" ")} / ${alpha.toFixed(3)})`;

// Draw rows of squares. `mark` is {row, column} of a square to outline, or of a whole column if its row is below 0.
function drawCanvas(canvas, rows, mark, colourOf, ink) {
  const ratio = devicePixelRatio || 1, columns = rows[0]?.length;
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (!width || !height) return;
  Object.assign(canvas, { width, height }); // this clears it too
  const pen = canvas.getContext("2d");
  const x = (column) => Math.round((column * width) / columns), y = (row) => Math.round((row * height) / rows.length);
  const gap = width / columns > 6 * ratio ? Math.round(ratio) : 0, below = Math.round(2 * ratio);
  rows.forEach((row, at) => row.forEach((value, column) => {
    pen.fillStyle = colourOf(value);
    pen.fillRect(x(column), y(at), x(column + 1) - x(column) - gap, y(at + 1) - y(at) - below);
  }));
  if (!mark) return;
  const { row, column } = mark;
  pen.strokeStyle = withAlpha(ink, row < 0 ? 0.35 : 1);
  pen.lineWidth = Math.max(1, Math.round(1.5 * ratio));
  const top = row < 0 ? 0 : y(row), bottom = row < 0 ? height : y(row + 1) - below;
  pen.strokeRect(x(column) + 0.5, top + 0.5, x(column + 1) - x(column) - gap, bottom - top - 1);
}

// The order of the cells: those first that answer both texts.
export const orderCells = (query, title, most) => query.map((_, cell) => cell).sort((a, b) => query[b] * title[b] - query[a] * title[a] || a - b).slice(0, most);
