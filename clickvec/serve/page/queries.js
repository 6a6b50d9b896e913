// What people searched since the service started: most frequent, without results, without clicks.

import { request } from "./api.js";
import { count, el, empty, failure, loading, plural, put } from "./dom.js";

export const title = "Queries";

const FEW = 20; // queries of a list that are shown first

export function show(root, params, context) {
  const stop = new AbortController();
  const body = el("div");
  root.append(el("h1", null, title), body);
  if (context.service.keeps_queries) load();
  else put(body, empty("Queries are not kept", "This service was started without a log of queries, so that nothing of what people type is kept.",
    el("p", null, "To see here what is searched most, what finds nothing and what nobody clicks, start it with:"),
    el("pre", { class: "command" }, "clickvec serve INDEX --log-queries"),
    el("p", { class: "note" }, "If other machines can reach the service, this also needs a key for writing.")));
  return () => stop.abort();

  async function load() {
    put(body, loading());
    try {
      draw(await request("GET", "/queries", undefined, { signal: stop.signal, elevate: true }));
    } catch (error) {
      if (!stop.signal.aborted) put(body, failure(error, load));
    }
  }

  function draw(answer) {
    const again = el("button", { type: "button", onclick: load }, "Refresh");
    const since = new Date(answer.since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
    if (!answer.searches) return put(body, empty("Nothing was searched yet", `The service runs since ${since}. Queries appear here some seconds after they are searched.`, el("p", null, again)));
    const missed = answer.without_results.reduce((sum, row) => sum + row.nothing + row.no_words, 0);
    put(body,
      el("ul", { class: "figures" }, [[answer.searches, "searches"], [answer.different, "different queries"], [missed, "without a result"], [answer.clicks, "clicks"]].map(([value, name]) => el("li", null, el("b", null, count(value)), el("span", null, name)))),
      el("div", { class: "row" }, el("p", { class: "note" }, `Since ${since}. Kept in memory, until the service stops.${answer.dropped ? ` ${plural(answer.dropped, "rare query").replace("querys", "queries")} were dropped.` : ""}`), again),
      el("div", { class: "query-lists" },
        list("Most frequent", "How often each query was searched.", answer.frequent, (row) => row.searches, ""),
        list("Without results", "Nothing was found, or no title has one of the words.", answer.without_results, (row) => row.nothing + row.no_words, "Every query found a title with one of its words.",
          (row) => (row.nothing ? null : el("span", { class: "chip" }, "vectors only"))),
        answer.clicks ? list("Without clicks", "Searched, but nobody clicked a hit.", answer.without_clicks, (row) => row.searches, "Every query has a click.")
          : list("Without clicks", "Searched, but nobody clicked a hit.", [], null, "No click was sent to the service. Start it with --log-clicks to log those of this page, or send yours to POST /click.")));
  }

  function list(heading, about, rows, value, none, mark = () => null) {
    const most = Math.max(...rows.map((row) => value(row)), 1);
    const items = rows.map((row) => el("li", { style: { "--a": (value(row) / most).toFixed(3) } },
      el("a", { href: context.link("search", { q: row.query }), dir: "auto" }, row.query), mark(row), el("small", null, count(value(row)))));
    const shown = el("ol", null, items.slice(0, FEW));
    const more = items.length > FEW && el("button", { type: "button", class: "quiet", onclick: () => { shown.append(...items.slice(FEW)); items[FEW].querySelector("a").focus(); more.remove(); } }, `Show all ${items.length}`);
    return el("section", { class: "query-list" }, el("h2", null, heading), el("p", { class: "note" }, rows.length ? about : none), shown, more);
  }
}
