// Charts: curves as SVG, and bars.

import { el, fixed, largest, svg } from "./dom.js";
import { bar } from "./draw.js";

const SIZE = [340, 190]; // on a phone, about the size on the screen
const EDGE = { left: 44, right: 14, top: 14, bottom: 26 };

// Four or five round numbers from below `low` to above `high`.
function ticks(low, high) {
  const span = high - low || Math.abs(high) || 1;
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * 10 ** Math.floor(Math.log10(span / 4))).find((size) => span / size <= 5);
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: Math.max(last - first, 1) + 1 }, (_, number) => Number(((first + number) * step).toPrecision(12)));
}

export const figure = (caption, drawing) => el("figure.chart", el("figcaption", caption), drawing);
const line = (kind, x1, x2, y1, y2) => svg("line", { class: kind, x1, x2, y1, y2 });
const text = (kind, x, y, content) => svg("text", { class: kind, x, y }, content);

// Points at equal distances. `band` is [low, high]; `level` is [name, value]; `mark` is the number of a point to point out.
export function curve({ caption, labels, values, unit = "", band = null, level = null, mark = -1, axis = "", zero = false }) {
  const all = [...values, ...(band ? band.flat() : []), ...(level ? [level[1]] : []), ...(zero ? [0] : [])];
  const lines = ticks(Math.min(...all), Math.max(...all)), low = lines[0], high = lines.at(-1);
  const [width, height] = SIZE, { left, top } = EDGE, right = width - EDGE.right, bottom = height - EDGE.bottom;
  const x = (at) => left + (right - left) * (labels.length > 1 ? at / (labels.length - 1) : 0.5);
  const y = (value) => bottom - (bottom - top) * ((value - low) / (high - low));
  const points = (numbers) => numbers.map((value, at) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
  const told = labels.map((label, at) => `${axis} ${label}: ${fixed(values[at], 2)}${unit}`);
  let free = -1e9;
  return figure(caption, svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${caption}: ${told.join(", ")}` },
    lines.map((value) => [line("grid", left, right, y(value), y(value)), text("end", left - 7, y(value) + 4, `${String(value).replace("-", "−")}${unit}`)]),
    labels.map((label, at) => {
      const half = 3.6 * String(label).length, spot = Math.min(right - half + 8, x(at));
      if (spot - half < free) return null;
      free = spot + half + 8;
      return text("middle", spot, height - 8, at || !axis ? label : `${axis} ${label}`);
    }),
    band && svg("path", { class: "band", d: `M${[...points(band[1]), ...points(band[0]).reverse()].join("L")}z` }),
    level && [line("level", left, right, y(level[1]), y(level[1])), text("end", right, y(level[1]) - 5, level[0])],
    svg("path", { class: "curve", d: `M${points(values).join("L")}` }),
    values.map((value, at) => svg("circle", { class: at === mark ? "dot kept" : "dot", cx: x(at), cy: y(value), r: at === mark ? 5.5 : 3.2 }, svg("title", null, told[at])))));
}

// Bars beside their labels, as a list: it reads well without colours and wraps on a phone.
export function bars(caption, labels, values, shown) {
  const most = largest(values);
  return figure(caption, el("dl.bars", labels.map((label, at) => [
    el("dt", label), el("dd", bar(values[at], most, false), el("small", shown(values[at])))])));
}
