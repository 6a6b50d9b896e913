// Build the page from elements and text nodes. No text is ever parsed as HTML, so titles, queries and payloads are inert.

const SVG = "http://www.w3.org/2000/svg";

const isNothing = (value) => value === null || value === undefined || value === false;

function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (isNothing(value)) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...flat(children));
  return node;
}

const flat = (children) => children.flat(Infinity).filter((child) => !isNothing(child)).map((child) => (child instanceof Node ? child : String(child)));

// el("p", {class: "note", onclick: f, style: {"--a": 0.5}, data: {id: 7}}, "text", el("b", "more"))
// el("p.note.wide", "text"): classes behind the tag, and no attributes.
export function el(name, ...rest) {
  const [tag, ...classes] = name.split("."), node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  const isAttrs = rest[0] === null || rest[0]?.constructor === Object;
  return fill(node, isAttrs ? rest[0] : null, isAttrs ? rest.slice(1) : rest);
}
export const svg = (tag, attrs, ...children) => fill(document.createElementNS(SVG, tag), attrs, children);
export const put = (node, ...children) => { node.replaceChildren(...flat(children)); return node; };

// Make `nodes` the children of a node. Those that were there stay in the document, and keep the focus.
export function arrange(parent, nodes) {
  const focus = document.activeElement;
  for (const child of [...parent.childNodes]) if (!nodes.includes(child)) child.remove();
  nodes.forEach((node, at) => { if (parent.childNodes[at] !== node) parent.insertBefore(node, parent.childNodes[at]); });
  if (focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}

// Whether shortcuts of a single character are on. The list of shortcuts has a switch for people who dictate.
export const usesShortcuts = () => { try { return localStorage.getItem("clickvec-shortcuts") !== "off"; } catch { return true; } };

// --- numbers ---

export const count = (number) => Number(number).toLocaleString("en-US");
export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;
export const fixed = (number, digits = 3) => (Number.isFinite(number) ? number.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−") : "–");
export const signed = (number, digits = 3) => { const text = fixed(number, digits); return text.startsWith("−") || text === "–" ? text : `+${text}`; };
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
// The largest size of some numbers, and at least `least`: the scale of bars and shades.
export const largest = (numbers, least = 1e-9) => Math.max(least, ...numbers.map(Math.abs));
// A fused score is the chance of a click if the fusion was fitted on clicks.
export const scoreText = (score, service) => (service.fusion === "clicks" ? `${(100 * score).toFixed(1)}%` : fixed(score));

// --- states ---

export const loading = (text = "Loading …") => el("div.state", { role: "status" }, el("span.spinner", { "aria-hidden": "true" }), text);
export const empty = (title, ...more) => el("div.state", el("h2", title), more.map((text) => (text instanceof Node ? text : el("p", text))));
export function failure(error, again) {
  const offline = error.code === "offline";
  return el("div.state.bad", { role: "alert" },
    el("h2", offline ? "The service does not answer" : "That did not work"),
    el("p", error.message),
    again && button("Try again", again));
}

// --- small parts that several views use ---

export const note = (...children) => el("p.note", ...children);
export const button = (label, onclick, attrs) => el("button", { type: "button", onclick, ...attrs }, label);
export const field = (label, attrs) => el("input", { type: "search", "aria-label": label, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attrs });
export const section = (heading, attrs, ...children) => el("section", attrs, el("h2", heading), children);
export const figures = (pairs) => el("ul.figures", pairs.filter(Boolean).map(([value, name]) => el("li", el("b", value), el("span", name))));
// Names of some things with commas between them, and `last` before the last one.
export const listed = (items, last = ", ") => items.map((item, at) => [at ? (at === items.length - 1 ? last : ", ") : "", item]);

// A switch between a few choices: radio buttons in a row.
export function choice(label, name, options, value, onchange) {
  return el("fieldset.switch", el("legend.unseen", label),
    Object.entries(options).map(([key, text]) =>
      el("label", el("input", { type: "radio", name, value: key, checked: key === value, onchange: () => onchange(key) }), el("span", text))));
}

// How a word is shaded that makes this share of the largest contribution.
export const shadeOf = (share) => (share > 0.06 ? "p" : share < -0.12 ? "m" : "");

// A word on a background whose strength is its contribution, relative to the largest one.
export function litWord(word, contribution, most, attrs, isMatch = false) {
  const share = most > 0 ? clamp(contribution / most, -1, 1) : 0;
  return el("span", { ...attrs, class: `w ${shadeOf(share)}${isMatch ? " match" : ""}`, style: { "--a": Math.abs(share).toFixed(2) } }, word);
}

// A wide table scrolls by itself, also by keyboard.
export const scrolled = (label, table) => el("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, table);

// columns: [[heading, classes]]; rows: lists of cells, of which the first is a heading; total: a last row.
export function table(label, columns, rows, { caption = true, total } = {}) {
  const head = (scope, text, classes) => el("th", { scope, class: classes }, text);
  return scrolled(label, el("table", { class: total && "sum" }, caption && el("caption", el("span", label)),
    el("thead", el("tr", columns.map(([text, classes]) => head("col", text, classes)))),
    el("tbody", rows.map(([first, ...cells]) => el("tr", head("row", first), cells.map((cell, at) => el("td", { class: columns[at + 1][1] }, cell))))),
    total && el("tfoot", el("tr", head("row", "Total"), el("td.n", total[0]), el("td", { colspan: columns.length - 2 }, total[1])))));
}
