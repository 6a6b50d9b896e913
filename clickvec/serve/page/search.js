// Results as you type.

import { latest } from "./api.js";
import { count, el, empty, failure, fixed, put } from "./dom.js";

export const title = "Search";

export function show(root, params, { service, keep, link, announce }) {
  const ask = latest();
  const list = el("ol", { class: "hits", id: "hits" });
  const field = el("input", { type: "search", id: "query", value: params.q || "", "aria-label": `Search ${count(service.titles)} titles`, placeholder: `Search ${count(service.titles)} titles`, autocomplete: "off", spellcheck: "false", oninput: search });
  async function search() {
    const q = field.value;
    keep({ ...params, q });
    list.dataset.query = ""; // the query of the hits that are shown, for benchmarks/page.py
    if (!q.trim()) { ask.cancel(); return put(list); }
    try {
      const answer = await ask("POST", "/search", { query: q, k: 10 });
      if (!answer) return;
      put(list, answer.hits.length ? answer.hits.map((hit) => el("li", { class: "hit" }, el("a", { href: link("why", { q, id: hit.id }) }, hit.title), " ", el("small", null, fixed(hit.score)))) : empty("Nothing found"));
      list.dataset.query = q;
      announce(`${answer.hits.length} hits`);
    } catch (error) { put(list, failure(error, search)); }
  }
  root.append(el("h1", { class: "unseen" }, title), el("search", null, field), list);
  field.focus();
  search();
  return ask.cancel;
}
