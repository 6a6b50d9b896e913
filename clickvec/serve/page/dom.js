// Build the page from elements and text nodes. No text is ever parsed as HTML, so titles, queries and payloads are inert.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...flat(children));
  return node;
}

const flat = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child)));

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

// Whether shortcuts of a single character are on. The list of shortcuts has a switch for people who dictate.
export const usesShortcuts = () => { try { return localStorage.getItem("clickvec-shortcuts") !== "off"; } catch { return true; } };

// --- numbers ---------------------------------------------------------------------------------------------------

export const count = (number) => Number(number).toLocaleString("en-US");
export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;
export const fixed = (number, digits = 3) => (Number.isFinite(number) ? number.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−") : "–");
export const signed = (number, digits = 3) => { const text = fixed(number, digits); return text.startsWith("−") || text === "–" ? text : `+${text}`; };

// --- states ----------------------------------------------------------------------------------------------------

export const loading = (text = "Loading …") => el("div.state", { role: "status", data: { state: "loading" } }, el("span.spinner", { "aria-hidden": "true" }), text);
export const empty = (title, ...more) => el("div.state", { data: { state: "empty" } }, el("h2", title), more.map((text) => (text instanceof Node ? text : el("p", text))));
export function failure(error, again) {
  const offline = error.code === "offline";
  return el("div.state.bad", { role: "alert", data: { state: offline ? "offline" : "error", code: error.code || "error" } },
    el("h2", offline ? "The service does not answer" : "That did not work"),
    el("p", error.message),
    again && el("button", { type: "button", onclick: again }, "Try again"));
}

// --- small parts that several views use -------------------------------------------------------------------------

// A switch between a few choices: radio buttons in a row.
export function choice(label, name, options, value, onchange) {
  return el("fieldset.switch", { data: { switch: name } }, el("legend.unseen", label),
    Object.entries(options).map(([key, text]) =>
      el("label", el("input", { type: "radio", name, value: key, checked: key === value, onchange: () => onchange(key) }), el("span", text))));
}

// A word on a background whose strength is its contribution, relative to the largest one.
export function litWord(word, contribution, most, attrs, isMatch = false) {
  const strength = most > 0 ? Math.min(1, Math.abs(contribution) / most) : 0;
  const kind = contribution > 0 && strength > 0.06 ? "w p" : contribution < 0 && strength > 0.12 ? "w m" : "w";
  return el("span", { ...attrs, class: isMatch ? `${kind} match` : kind, style: { "--a": strength.toFixed(2) } }, word);
}

// A wide table scrolls by itself, also by keyboard.
export const scrolled = (label, table) => el("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, table);
