// What the views about the model and the catalogue share: a heading, an answer that is loaded once, and lists.

import { patiently } from "./api.js";
import { count, el, failure, loading, put } from "./dom.js";

// Show a heading, then load an answer and draw it. Return the body, a signal that ends with the view, and `load`.
export function loaded(root, heading, path, draw, waiting = "Loading …", options = {}) {
  const stop = new AbortController(), body = el("div");
  root.append(el("h1", null, heading), body);
  const self = { body, load, signal: stop.signal, cleanup: () => stop.abort() };
  return self;

  async function load() {
    put(body, loading(waiting));
    try {
      const answer = await patiently(path, { ...options, signal: stop.signal }, () => put(body, loading(`${waiting} The first time, this takes some seconds.`)));
      draw(answer, self);
    } catch (error) {
      if (!stop.signal.aborted) put(body, failure(error, load));
    }
  }
}

export const note = (...children) => el("p", { class: "note" }, children);
export const field = (label, placeholder, value, oninput) => el("input", { type: "search", "aria-label": label, placeholder, value: value || "", autocomplete: "off", spellcheck: "false", oninput });
export const figures = (pairs) => el("ul", { class: "figures" }, pairs.filter(Boolean).map(([value, name]) => el("li", null, el("b", null, value), el("span", null, name))));

// Texts that open the search, each with a line as long as its value. rows: [{text, value, shown, more}]
export function texts(rows, context) {
  const most = Math.max(...rows.map((row) => row.value), 1e-9);
  return rows.map(({ text, value, shown = count(value), more }) => el("li", { style: { "--a": (value / most).toFixed(3) } },
    el("a", { href: context.link("search", { q: text }), dir: "auto" }, text), more, el("small", null, shown)));
}
