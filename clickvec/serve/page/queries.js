// What people searched since the service started: most frequent, without results, without clicks.

import { count, el, empty, plural, put } from "./dom.js";
import { figures, loaded, note, texts } from "./insight.js";

export const title = "Queries";

const FEW = 20; // queries of a list that are shown first

export function show(root, params, context) {
  const view = loaded(root, title, "/queries", draw, undefined, { elevate: true });
  if (context.service.keeps_queries) view.load();
  else put(view.body, empty("Queries are not kept", "This service was started without a log of queries, so that nothing of what people type is kept.",
    "To see here what is searched most, what finds nothing and what nobody clicks, start it with:",
    el("pre", { class: "command" }, "clickvec serve INDEX --log-queries"),
    note("If other machines can reach the service, this also needs a key for writing.")));
  return view.cleanup;

  function draw(answer, { body, load }) {
    const again = el("button", { type: "button", onclick: load }, "Refresh");
    const since = new Date(answer.since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
    if (!answer.searches) return put(body, empty("Nothing was searched yet", `The service runs since ${since}. Queries appear here some seconds after they are searched.`, el("p", null, again)));
    const missed = answer.without_results.reduce((sum, row) => sum + row.nothing + row.no_words, 0);
    const unclicked = ["Without clicks", "Searched, but nobody clicked a hit."];
    put(body,
      figures([[count(answer.searches), "searches"], [count(answer.different), "different queries"], [count(missed), "without a result"], [count(answer.clicks), "clicks"]]),
      el("div", { class: "row" }, note(`Since ${since}. Kept in memory, until the service stops.`, answer.dropped ? ` Dropped: ${plural(answer.dropped, "rare query", "rare queries")}.` : ""), again),
      el("div", { class: "query-lists" },
        list("Most frequent", "How often each query was searched.", answer.frequent, (row) => row.searches, ""),
        list("Without results", "Nothing was found, or no title has one of the words.", answer.without_results, (row) => row.nothing + row.no_words, "Every query found a title with one of its words.",
          (row) => (row.nothing ? null : el("span", { class: "chip" }, "vectors only"))),
        answer.clicks ? list(...unclicked, answer.without_clicks, (row) => row.searches, "Every query has a click.")
          : list(...unclicked, [], null, "No click was sent to the service. Start it with --log-clicks to log those of this page, or send yours to POST /click.")));
  }

  function list(heading, about, rows, value, none, mark = () => null) {
    const items = texts(rows.map((row) => ({ text: row.query, value: value(row), more: mark(row) })), context);
    const shown = el("ol", { class: "bar-list" }, items.slice(0, FEW));
    const more = items.length > FEW && el("button", { type: "button", class: "quiet", onclick: () => { shown.append(...items.slice(FEW)); items[FEW].querySelector("a").focus(); more.remove(); } }, `Show all ${items.length}`);
    return el("section", { class: "query-list" }, el("h2", null, heading), note(rows.length ? about : none), shown, more);
  }
}
