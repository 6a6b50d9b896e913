// Charts as SVG: curves, bars, and values with their confidence intervals.

import { el, fixed, svg } from "./dom.js";

const SIZE = [340, 190], WIDE = 300; // a curve, and values with intervals; on a phone, about their size on the screen
const EDGE = { left: 44, right: 14, top: 14, bottom: 26 };

// Four or five round numbers from below `low` to above `high`.
function ticks(low, high) {
  const span = high - low || Math.abs(high) || 1;
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * 10 ** Math.floor(Math.log10(span / 4))).find((size) => span / size <= 5);
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: Math.max(last - first, 1) + 1 }, (_, number) => Number(((first + number) * step).toPrecision(12)));
}

const figure = (caption, drawing) => el("figure", { class: "chart" }, el("figcaption", null, caption), drawing);
const drawing = (caption, width, height, ...children) => svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": caption }, children);

// Points at equal distances. `band` is [low, high]; `level` is [name, value]; `mark` is the number of a point to point out.
export function curve({ caption, labels, values, unit = "", band = null, level = null, mark = -1, axis = "", zero = false }) {
  const all = [...values, ...(band ? band.flat() : []), ...(level ? [level[1]] : []), ...(zero ? [0] : [])];
  const lines = ticks(Math.min(...all), Math.max(...all));
  const [low, high] = [lines[0], lines.at(-1)];
  const x = (at) => EDGE.left + ((SIZE[0] - EDGE.left - EDGE.right) * (labels.length > 1 ? at / (labels.length - 1) : 0.5));
  const y = (value) => SIZE[1] - EDGE.bottom - (SIZE[1] - EDGE.top - EDGE.bottom) * ((value - low) / (high - low));
  const path = (numbers) => numbers.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const right = SIZE[0] - EDGE.right;
  let free = -1e9;
  return figure(caption, drawing(`${caption}: ${labels.map((label, at) => `${axis} ${label} ${fixed(values[at], 2)}${unit}`).join(", ")}`, ...SIZE,
    lines.map((value) => [svg("line", { x1: EDGE.left, x2: right, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: EDGE.left - 7, y: y(value) + 4, class: "end" }, `${String(value).replace("-", "−")}${unit}`)]),
    labels.map((label, at) => {
      const half = 3.6 * String(label).length, spot = Math.min(right - half + 8, x(at));
      if (spot - half < free) return null;
      free = spot + half + 8;
      return svg("text", { x: spot, y: SIZE[1] - 8, class: "middle" }, at || !axis ? label : `${axis} ${label}`);
    }),
    band ? svg("path", { class: "band", d: `${path(band[1])}${band[0].map((value, at) => `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`).reverse().join("")}z` }) : null,
    level ? [svg("line", { x1: EDGE.left, x2: right, y1: y(level[1]), y2: y(level[1]), class: "level" }), svg("text", { x: right, y: y(level[1]) - 5, class: "end" }, level[0])] : null,
    svg("path", { class: "curve", d: path(values) }),
    values.map((value, at) => svg("circle", { cx: x(at), cy: y(value), r: at === mark ? 5.5 : 3.2, class: at === mark ? "dot kept" : "dot" }, svg("title", null, `${axis} ${labels[at]}: ${fixed(value, 2)}${unit}`)))));
}

// Values of systems with their intervals, one line each. rows: [{name, value, low, high, baseline}]
export function intervals(caption, rows, unit = "") {
  const ends = rows.flatMap((row) => [row.value, row.low ?? row.value, row.high ?? row.value]);
  const lines = ticks(Math.min(...ends), Math.max(...ends));
  const [low, high] = [lines[0], lines.at(-1)];
  const row = 40, top = 6, bottom = top + row * rows.length;
  const x = (value) => 12 + (WIDE - 62) * ((value - low) / (high - low));
  return figure(caption, drawing(`${caption}: ${rows.map((entry) => `${entry.name} ${fixed(entry.value, 1)}`).join(", ")}`, WIDE, bottom + 22,
    lines.map((value) => [svg("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: "grid" }), svg("text", { x: x(value), y: bottom + 16, class: "middle" }, `${value}${unit}`)]),
    rows.map((entry, at) => {
      const y = top + row * at + 27;
      return [svg("text", { x: 12, y: y - 11, class: "name" }, entry.name.length > 38 ? `${entry.name.slice(0, 37)}…` : entry.name),
        entry.low === null || entry.high === null ? null : svg("line", { x1: x(entry.low), x2: x(entry.high), y1: y, y2: y, class: entry.baseline ? "whisker other" : "whisker" }),
        svg("circle", { cx: x(entry.value), cy: y, r: 5, class: entry.baseline ? "dot other" : "dot" }, svg("title", null, `${entry.name}: ${fixed(entry.value, 1)}`)),
        svg("text", { x: x(entry.high ?? entry.value) + 9, y: y + 4, class: "value" }, fixed(entry.value, 1))];
    })));
}

// Bars beside their labels, as a list: it reads well without colours and wraps on a phone.
export function bars(caption, labels, values, text) {
  const most = Math.max(...values.map(Math.abs), 1e-9);
  return el("figure", { class: "chart" }, el("figcaption", null, caption), el("dl", { class: "bars" }, labels.map((label, at) => [
    el("dt", null, label), el("dd", { style: { "--a": (Math.abs(values[at]) / most).toFixed(3) } }, el("span", { class: "length", "aria-hidden": "true" }), el("small", null, text(values[at])))])));
}
