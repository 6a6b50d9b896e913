// Results as you type: words, hybrid and vectors, each word lit by what it contributes, with filters and pages.

import { latest, post } from "./api.js";
import { arrange, button, choice, count, el, empty, failure, field as textField, fixed, largest, listed, litWord, loading, note, plural, put, scoreText, usesShortcuts } from "./dom.js";
import { drawFilters, filterBox, filterOf, offeredFields } from "./filters.js";

const PAGE = 10; // hits
const PAUSE = 120; // ms without a key press, before the words are lit and the other columns are asked for
const DEPTH = 100; // hits by words and by vectors that a hybrid search fuses
const SLOW = 200; // ms, after which the page shows that it waits
const MODES = { words: "Words", hybrid: "Hybrid", vectors: "Vectors" };
const ALONE = ["words", "vectors"]; // what a hybrid search fuses
const ABOUT = {
  words: "BM25: titles with the words of the query",
  hybrid: "both, fused",
  vectors: "the LSTM-RNN: titles with the same meaning",
};
const wide = matchMedia("(min-width: 68rem)");
let opened = null; // the id of the hit that was opened last: it gets the focus when the user comes back
let shownTo = ""; // the search whose hits were last logged as shown

export function show(root, params, context) {
  const { service, keep, announce } = context;
  const asks = Object.fromEntries([...Object.keys(MODES), "ranks", "facets"].map((name) => [name, latest()]));
  let state = { q: params.q || "", mode: params.mode || "", page: Math.max(1, Math.floor(Number(params.page)) || 1), where: filterOf(params.where) };
  let answers = {}; // by mode, of this search
  let ranks = {}; // by mode, the place of each id
  const drawn = {}; // by mode, the column and its hits by their ids
  let turn = 0, timer = 0, busy = 0, released = null;

  const offered = offeredFields(service.fields);
  const label = `Search ${plural(service.titles, "title")}`;
  const field = textField(label, { id: "query", name: "q", value: state.q, maxlength: service.limits.query_characters, enterkeyhint: "search", placeholder: label, "aria-controls": "hits", "aria-keyshortcuts": "/", oninput: () => ask(field.value) });
  const switches = el("div.row.spread");
  const notes = el("div", { id: "notes" });
  const filters = el("div", { id: "filters" });
  const hits = el("div.columns", { id: "hits", onpointerdown: hold });
  const pages = el("nav.row.pages", { "aria-label": "Pages of results" });
  root.append(
    el("h1.unseen", "Search"),
    el("search.searchbox", field, el("kbd", { "aria-hidden": "true" }, "/")),
    switches, filters, notes, hits, pages);

  const sideBySide = () => wide.matches && !state.mode;
  const primary = () => state.mode || "hybrid";
  const columns = () => (sideBySide() ? Object.keys(MODES) : [primary()]);
  const offset = () => (state.page - 1) * PAGE;
  const deep = () => Math.min(service.limits.hits, Math.max(DEPTH, offset() + PAGE));
  const isFiltered = () => Object.keys(state.where).length > 0;
  const hitsOf = (mode) => (answers[mode]?.hits || []).slice(0, PAGE);

  function change(changes) {
    state = { ...state, page: 1, ...changes };
    search(); // the request leaves before the link is changed
    keep({ q: state.q, mode: state.mode, page: state.page > 1 ? state.page : "", where: isFiltered() ? JSON.stringify(state.where) : "" });
  }
  function ask(q) { field.value = q; change({ q }); }

  // Hits do not change while one is pressed: a press and its release must meet the same element to be a click.
  function hold() {
    released = new Promise((resolve) => { for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, () => setTimeout(resolve), { once: true }); });
  }

  // The answer of one mode; nothing if it is outdated.
  async function find(name, mode, more) {
    const mine = turn;
    const answer = await asks[name]("POST", "/search", { query: state.q, mode, ...(isFiltered() ? { where: state.where } : {}), ...more });
    await released;
    return mine === turn ? answer : undefined;
  }

  async function search() {
    const mine = (turn += 1);
    clearTimeout(timer);
    clearTimeout(busy);
    hits.dataset.query = ""; // the query of the hits that are shown
    if (!state.q.trim()) return drawStart();
    // Their place is kept from the start, so that hits do not move when the values are counted.
    if (offered.length && !filters.hasChildNodes()) put(filters, filterBox(0));
    busy = setTimeout(() => { hits.setAttribute("aria-busy", "true"); if (!hits.hasChildNodes()) put(hits, loading("Searching …")); }, SLOW);
    try {
      const answer = await find(primary(), primary(), { k: PAGE + 1, offset: offset() });
      if (!answer) return;
      answers = { ...(isCurrent(answers) ? answers : {}), [primary()]: answer, key: searchKey() };
      draw();
      hits.dataset.query = state.q;
      const number = hitsOf(primary()).length;
      announce(number ? `${plural(number, "hit")} on page ${state.page}. The first is ${answer.hits[0].title}` : "Nothing found");
      timer = setTimeout(searchRest, PAUSE);
    } catch (error) {
      if (mine === turn) { put(hits, failure(error, search)); put(pages); put(notes); }
    } finally {
      if (mine === turn) { clearTimeout(busy); hits.removeAttribute("aria-busy"); }
    }
  }

  const searchKey = () => JSON.stringify([state.q, state.where, state.page]);
  const isCurrent = (found) => found.key === searchKey();

  // What is not needed at once: the words of the hits, what the other modes find, and the place of each hit in them.
  async function searchRest() {
    const key = searchKey();
    try {
      await Promise.all([
        ...columns().map(async (mode) => {
          const answer = await find(mode, mode, { k: PAGE + (mode !== primary()), offset: offset(), highlight: true });
          if (!answer) return;
          const words = new Map(answer.hits.map((hit) => [String(hit.id), hit.words]));
          if (mode !== primary()) answers[mode] = answer;
          else for (const hit of hitsOf(mode)) hit.words = words.get(String(hit.id)); // the index may have changed meanwhile
          draw();
        }),
        offered.length && drawFilters(filters, offered, state.where, (facets, where) => find("facets", primary(), { k: 1, facets, where }), (where) => change({ where })),
      ]);
      for (const mode of ALONE) {
        const answer = await find("ranks", mode, { k: deep() });
        if (!answer) return;
        ranks[mode] = new Map(answer.hits.map((hit, at) => [String(hit.id), at + 1]));
      }
      ranks.key = key;
      draw();
    } catch { /* the hits are there; the next search tells */ }
  }

  // --- drawing ---

  function drawSwitches() {
    const options = wide.matches ? { "": "Side by side", ...MODES } : { hybrid: MODES.hybrid, words: MODES.words, vectors: MODES.vectors };
    put(switches, choice("What to search by", "mode", options, wide.matches ? state.mode : primary(), (mode) => change({ mode: mode === "hybrid" && !wide.matches ? "" : mode, page: state.page })),
      el("p.legend.note", "Shade: what a word adds to the match. ", el("u", "Underlined"), ": a word of the query."));
  }

  function drawStart() {
    answers = {};
    for (const name of Object.keys(asks)) asks[name].cancel();
    for (const node of [pages, notes, filters]) put(node);
    hits.className = "columns";
    put(hits, service.titles ? empty("What are you looking for?",
      "Results appear as you type. Three searches run side by side: by words, by the vectors of an LSTM-RNN that learned from clicks, and by both.",
      service.examples.length ? el("p.row.examples", "For example:", service.examples.map((text) => button(text, () => { ask(text); field.focus(); }, { class: "chip" }))) : "")
      : empty("The index is empty", "Add documents with POST /documents or clickvec index add."));
  }

  function draw() {
    const shown = columns(), { corrected = {}, notes: told = [] } = answers[primary()];
    put(notes, Object.entries(corrected).map(correction), told.map((text) => note(text)));
    hits.className = `columns n${shown.length}`;
    if (shown.some((mode) => hitsOf(mode).length)) arrange(hits, shown.map(drawColumn));
    else put(hits, empty("Nothing found", isFiltered() ? el("p", "No document matches the query and the filters. ", button("Remove the filters", () => change({ where: {} }))) : state.page > 1 ? "There are no more hits." : "No title has these words, and the model knows none of their letters. Try other words."));
    drawPages();
    drawn[primary()]?.hits.get(opened)?.link.focus();
    opened = null;
  }

  // Columns and hits are made once and then updated in place, so that none loses the focus.
  function drawColumn(mode) {
    const column = (drawn[mode] ??= { node: el("section.column", { data: { mode }, "aria-label": MODES[mode] }), list: el("ol"), hits: new Map() });
    const all = hitsOf(mode), share = (word) => (mode === "words" ? word.bm25 : word.cosine);
    const most = largest(all.flatMap((hit) => (hit.words || []).map(share)), 0.1); // one scale for the words of all hits
    column.hits = new Map(all.map((hit) => [String(hit.id), column.hits.get(String(hit.id)) || makeHit(hit.id, mode)]));
    all.forEach((hit, at) => {
      const { place, link, payload, tags, score, trial } = column.hits.get(String(hit.id));
      put(place, offset() + at + 1);
      put(link, hit.words?.map((word, number) => [number ? " " : "", litWord(word.text, share(word), most, { title: `cosine ${fixed(word.cosine)} · BM25 ${fixed(word.bm25, 2)}`, data: { cosine: word.cosine, bm25: word.bm25 } }, word.bm25 > 0)]) || hit.title);
      put(payload, drawPayload(hit.payload));
      put(tags, drawTags(hit, mode));
      put(score, mode === "words" ? fixed(hit.parts.bm25, 2) : mode === "vectors" ? fixed(hit.parts.cosine) : scoreText(hit.score, service));
      link.href = context.link("why", { q: state.q, id: hit.id });
      trial.href = context.link("try", { q: state.q, id: hit.id });
    });
    column.list.start = offset() + 1;
    arrange(column.list, [...column.hits.values()].map((hit) => hit.node));
    arrange(column.node, [
      sideBySide() && el("h2", MODES[mode], " ", el("small", ABOUT[mode], mode === "hybrid" && service.fusion === "clicks" ? ": the chance of a click" : "")),
      !answers[mode] ? loading("") : all.length ? column.list : note(mode === "words" ? "No title has a word of the query." : "Nothing found.")].filter(Boolean));
    return column.node;
  }

  function makeHit(id, mode) {
    const open = () => { opened = String(id); logClick(id, mode); };
    const [place, payload, tags, score] = [el("span.place", { "aria-hidden": "true" }), el("div"), el("div.row.tags"), el("b")];
    const link = el("a.title", { onclick: open });
    const trial = el("a.try", { tabindex: -1, title: "Edit the query and this title word by word (t)", onclick: open }, "try");
    const node = el("li.hit", { data: { id, mode } }, place, el("div.about", link, payload, tags), el("div.worth", score, service.has_cells && trial));
    return { node, place, link, payload, tags, score, trial };
  }

  // Where the other searches have the hit. A hit that only one of them found is marked.
  function drawTags(hit, mode) {
    if (!isCurrent(ranks)) return [];
    const place = (name) => ranks[name].get(String(hit.id));
    const placed = (name) => el("span.tag", `${name} ${place(name)}`);
    const only = (name, more = "") => el("span.tag.only", { title: `Not among the first ${deep()} by ${name === "words" ? "vectors" : "words"}`, data: { only: name } }, `only by ${name}${more}`);
    if (mode === "words") return place("vectors") ? placed("vectors") : only("words");
    if (mode === "vectors") return place("words") ? placed("words") : only("vectors", hit.parts.bm25 > 0 ? "" : ": no word in common");
    const found = ALONE.filter(place);
    return found.length ? [...found.map(placed), found.length === 1 && only(found[0])] : el("span.tag", `beyond ${deep()} in both`);
  }

  function drawPages() {
    const more = columns().some((mode) => answers[mode]?.hits.length > PAGE) && offset() + 2 * PAGE <= service.limits.hits;
    put(pages, state.page > 1 || more ? [
      button("Previous", () => turnPage(-1), { id: "previous", disabled: state.page === 1 }),
      el("span.note", `Hits ${count(offset() + 1)} to ${count(offset() + Math.max(1, ...columns().map((mode) => hitsOf(mode).length)))}`),
      button("Next", () => turnPage(1), { id: "next", disabled: !more })] : []);
  }

  function turnPage(by) {
    const control = document.getElementById(by > 0 ? "next" : "previous");
    if (!control || control.disabled) return;
    change({ page: state.page + by });
    scrollTo({ top: 0 });
  }

  // --- clicks and keys ---

  function logClick(id, mode) {
    if (!service.logs_clicks) return;
    const key = JSON.stringify([searchKey(), mode]);
    const shown = hitsOf(mode).map((hit, at) => ({ id: hit.id, position: offset() + at + 1 }));
    post("/click", { query: state.q, clicked: [id], client: client(), ...(key === shownTo ? {} : { shown }) }).catch(() => {});
    shownTo = key;
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { key, target } = event, inField = target === field, hit = target.closest?.(".hit");
    const move = (node) => { if (node) { event.preventDefault(); node.focus(); } };
    const first = () => hits.querySelector(`.column[data-mode="${primary()}"] .title`) || hits.querySelector(".title");
    if (inField && key === "ArrowDown") move(first());
    else if (inField && key === "Enter") { if (state.q !== field.value) ask(field.value); else move(first()); }
    else if (key === "Escape" && (inField || hit)) {
      event.preventDefault();
      if (inField && field.value) ask(""); else field.focus();
    } else if (hit) {
      const links = (column) => [...(column?.querySelectorAll(".title") || [])];
      const column = hit.closest(".column"), rows = links(column), at = rows.indexOf(hit.querySelector(".title"));
      const beside = links({ ArrowLeft: column.previousElementSibling, ArrowRight: column.nextElementSibling }[key]);
      if (key === "ArrowDown") move(rows[at + 1]);
      else if (key === "ArrowUp") move(at ? rows[at - 1] : field);
      else move(beside[Math.min(at, beside.length - 1)]);
    }
    if (!usesShortcuts() || target.closest?.("input:not([type=radio], [type=checkbox])")) return;
    if (key === "/") { move(field); field.select(); }
    else if (key === "t") hit?.querySelector(".try")?.click();
    else if (key === "n" || key === "p") turnPage(key === "n" ? 1 : -1);
  }

  const onWidth = () => {
    drawSwitches();
    if (!state.q.trim()) return;
    if (!isCurrent(answers) || !answers[primary()]) return search();
    draw();
    searchRest();
  };
  addEventListener("keydown", onKey);
  wide.addEventListener("change", onWidth);
  if (opened === null && matchMedia("(hover: hover)").matches) { field.focus(); field.setSelectionRange(field.value.length, field.value.length); }
  drawSwitches();
  search();
  return () => {
    removeEventListener("keydown", onKey);
    wide.removeEventListener("change", onWidth);
    clearTimeout(timer); clearTimeout(busy);
    turn += 1;
    for (const name of Object.keys(asks)) asks[name].cancel();
  };
}

const correction = ([word, similar]) => note("No title has ", el("q", word), similar.length ? [": searched ", listed(similar.map((text) => el("b", text)), " and "), " instead"] : "", ".");

// A few fields of the payload, as text.
function drawPayload(payload, most = 4) {
  if (payload === null || typeof payload !== "object" || Array.isArray(payload)) return null;
  const scalar = (value) => ["string", "number", "boolean"].includes(typeof value);
  const entries = Object.entries(payload).filter(([, value]) => scalar(value) || (Array.isArray(value) && value.length && value.every(scalar))).slice(0, most);
  return entries.length ? el("dl.payload", entries.map(([name, value]) => el("div", el("dt", name), el("dd", [value].flat().map(String).join(", ").slice(0, 120))))) : null;
}

// A pseudonym of this tab, for the click log.
function client() {
  try {
    const known = sessionStorage.getItem("clickvec-client") || crypto.randomUUID();
    sessionStorage.setItem("clickvec-client", known);
    return known;
  } catch { return "page"; }
}
