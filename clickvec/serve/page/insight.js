// What the views about the model and the catalogue share: a heading, an answer that is loaded once, and lists.

import { patiently } from "./api.js";
import { count, el, failure, largest, loading, put } from "./dom.js";

// Show a heading, then load an answer and draw it. Return the body, a signal that ends with the view, and `load`.
export function loaded(root, heading, path, draw, waiting = "Loading …", options = {}) {
  const stop = new AbortController(), body = el("div");
  root.append(el("h1", heading), body);
  const self = { body, load, signal: stop.signal, cleanup: () => stop.abort() };
  return self;

  async function load() {
    put(body, loading(waiting));
    try {
      const answer = await patiently(path, { ...options, signal: stop.signal });
      draw(answer, self);
    } catch (error) {
      if (!stop.signal.aborted) put(body, failure(error, load));
    }
  }
}

// Texts that open the search, each with a line as long as its value. rows: [{text, value, shown, more}]
export function texts(rows, context) {
  const most = largest(rows.map((row) => row.value));
  return rows.map(({ text, value, shown = count(value), more }) => el("li", { style: { "--a": (value / most).toFixed(3) } },
    el("a", { href: context.link("search", { q: text }), dir: "auto" }, text), more, el("small", shown)));
}
