// What people searched since the service started: most frequent, without results, without clicks.

import { button, count, el, empty, figures, note, plural, put, section } from "./dom.js";
import { loaded, texts } from "./insight.js";

const FEW = 20; // queries of a list that are shown first

export function show(root, params, context) {
  const view = loaded(root, "Queries", "/queries", draw, undefined, { elevate: true });
  if (context.service.keeps_queries) view.load();
  else put(view.body, empty("Queries are not kept", "To see here what is searched most, what finds nothing and what nobody clicks, start the service with:",
    el("pre", "clickvec serve INDEX --log-queries"),
    note("If other machines can reach the service, this also needs a key for writing.")));
  return view.cleanup;

  function draw(answer, { body, load }) {
    const again = button("Refresh", load);
    const since = new Date(answer.since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
    if (!answer.searches) return put(body, empty("Nothing was searched yet", `The service runs since ${since}. Queries appear here some seconds after they are searched.`, el("p", again)));
    const missed = answer.without_results.reduce((sum, row) => sum + row.nothing + row.no_words, 0);
    const unclicked = ["Without clicks", "Searched, but nobody clicked a hit."];
    put(body,
      figures([[count(answer.searches), "searches"], [count(answer.different), "different queries"], [count(missed), "without a result"], [count(answer.clicks), "clicks"]]),
      el("div.row", note(`Since ${since}. Kept in memory, until the service stops.`, answer.dropped ? ` Dropped: ${plural(answer.dropped, "rare query", "rare queries")}.` : ""), again),
      el("div.query-lists",
        list("Most frequent", "How often each query was searched.", answer.frequent, (row) => row.searches, ""),
        list("Without results", "Nothing was found, or no title has one of the words.", answer.without_results, (row) => row.nothing + row.no_words, "Every query found a title with one of its words.",
          (row) => (row.nothing ? null : el("span.chip", "vectors only"))),
        answer.clicks ? list(...unclicked, answer.without_clicks, (row) => row.searches, "Every query has a click.")
          : list(...unclicked, [], null, "No click was sent to the service. Start it with --log-clicks to log those of this page, or send yours to POST /click.")));
  }

  function list(heading, about, rows, value, none, mark = () => null) {
    const items = texts(rows.map((row) => ({ text: row.query, value: value(row), more: mark(row) })), context);
    const shown = el("ol.bar-list", items.slice(0, FEW));
    const more = items.length > FEW && button(`Show all ${items.length}`, () => { shown.append(...items.slice(FEW)); items[FEW].querySelector("a").focus(); more.remove(); }, { class: "quiet" });
    return section(heading, { class: "query-list" }, note(rows.length ? about : none), shown, more);
  }
}
