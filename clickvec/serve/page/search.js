// Results as you type: words, hybrid and vectors, each word lit by what it contributes, with filters and pages.

import { latest, post } from "./api.js";
import { choice, count, el, empty, failure, fixed, litWord, loading, plural, put, usesShortcuts } from "./dom.js";
import { drawFilters, filterOf } from "./filters.js";

export const title = "Search";

const PAGE = 10; // hits
const PAUSE = 120; // ms without a key press, before the words are lit and the other columns are asked for
const DEPTH = 100; // hits by words and by vectors that a hybrid search fuses
const SLOW = 200; // ms, after which the page shows that it waits
const MODES = { words: "Words", hybrid: "Hybrid", vectors: "Vectors" };
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
  const asks = Object.fromEntries(Object.keys(MODES).map((mode) => [mode, latest()]));
  const askRanks = latest(), askFacets = latest();
  let state = { q: params.q || "", mode: params.mode || "", page: Math.max(1, Math.floor(Number(params.page)) || 1), where: filterOf(params.where) };
  let answers = {}; // by mode, of this search
  let ranks = {}; // by mode, the place of each id
  const drawn = {}; // by mode, the column and the answer that it shows
  let turn = 0, timer = 0, busy = 0;

  const field = el("input", {
    type: "search", id: "query", name: "q", value: state.q, maxlength: service.limits.query_characters, autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search",
    "aria-label": `Search ${plural(service.titles, "title")}`, placeholder: `Search ${plural(service.titles, "title")}`, "aria-controls": "hits", "aria-keyshortcuts": "/",
    oninput: () => change({ q: field.value, page: 1 }),
  });
  const switches = el("div.row.spread");
  const notes = el("div", { id: "notes" });
  const filters = el("div", { id: "filters" });
  const hits = el("div", { id: "hits", class: "columns" });
  const pages = el("nav.row.pages", { "aria-label": "Pages of results" });
  root.append(
    el("h1.unseen", title),
    el("search.searchbox", field, el("kbd", { "aria-hidden": "true" }, "/")),
    switches, filters, notes, hits, pages);

  const sideBySide = () => wide.matches && !state.mode;
  const primary = () => state.mode || "hybrid";
  const columns = () => (sideBySide() ? Object.keys(MODES) : [primary()]);
  const offset = () => (state.page - 1) * PAGE;
  const deep = () => Math.min(service.limits.hits, Math.max(DEPTH, offset() + PAGE));

  function change(changes) {
    state = { ...state, ...changes };
    search(); // the request leaves before the link is changed
    keep({ q: state.q, mode: state.mode, page: state.page > 1 ? state.page : "", where: Object.keys(state.where).length ? JSON.stringify(state.where) : "" });
  }

  const body = (mode, more) => ({ query: state.q, mode, ...(Object.keys(state.where).length ? { where: state.where } : {}), ...more });

  async function search() {
    const mine = (turn += 1);
    clearTimeout(timer);
    hits.dataset.query = ""; // the query of the hits that are shown
    drawSwitches();
    if (!state.q.trim()) return drawStart();
    clearTimeout(busy);
    busy = setTimeout(() => { hits.setAttribute("aria-busy", "true"); if (!hits.hasChildNodes()) put(hits, loading("Searching …")); }, SLOW);
    try {
      const answer = await asks[primary()]("POST", "/search", body(primary(), { k: PAGE + 1, offset: offset() }));
      if (!answer || mine !== turn) return;
      answers = { ...(sameSearch(answers) ? answers : {}), [primary()]: answer };
      answers.key = searchKey();
      draw();
      hits.dataset.query = state.q;
      const number = Math.min(answer.hits.length, PAGE);
      announce(number ? `${plural(number, "hit")} on page ${state.page}. The first is ${answer.hits[0].title}` : "Nothing found");
      timer = setTimeout(() => searchRest(mine), PAUSE);
    } catch (error) {
      if (mine === turn) { put(hits, failure(error, search)); put(pages); put(notes); }
    } finally {
      if (mine === turn) { clearTimeout(busy); hits.removeAttribute("aria-busy"); }
    }
  }

  const searchKey = () => JSON.stringify([state.q, state.where, state.page]);
  const sameSearch = (found) => found.key === searchKey();

  // What is not needed at once: the words of the hits, what the other modes find, and the place of each hit in them.
  async function searchRest(mine) {
    const key = searchKey();
    const others = Object.keys(MODES).filter((mode) => mode !== primary());
    try {
      await Promise.all([
        (async () => {
          const lit = await asks[primary()]("POST", "/search", body(primary(), { k: PAGE, offset: offset(), highlight: true }));
          if (!lit || mine !== turn) return;
          const words = new Map(lit.hits.map((hit) => [String(hit.id), hit.words]));
          for (const hit of answers[primary()].hits) hit.words = words.get(String(hit.id));
          lightUp(primary());
        })(),
        ...others.map(async (mode) => {
          if (!columns().includes(mode)) return;
          const answer = await asks[mode]("POST", "/search", body(mode, { k: PAGE + 1, offset: offset(), highlight: true }));
          if (!answer || mine !== turn) return;
          answers[mode] = answer;
          draw();
        }),
        askFacetCounts(),
      ]);
      for (const mode of ["words", "vectors"]) {
        const answer = await askRanks("POST", "/search", body(mode, { k: deep() }));
        if (!answer || mine !== turn) return;
        ranks[mode] = new Map(answer.hits.map((hit, at) => [String(hit.id), at + 1]));
      }
      ranks.key = key;
      draw();
    } catch { /* the hits are there; the next search tells */ }
  }


  async function askFacetCounts() {
    if (!service.fields.length) return;
    await drawFilters(filters, service.fields, state.where, (names, where) => askFacets("POST", "/search", { ...body(primary(), { k: 1, facets: names }), where }), (where) => change({ where, page: 1 }));
  }

  // --- drawing -------------------------------------------------------------------------------------------------

  function drawSwitches() {
    const options = wide.matches ? { "": "Side by side", ...MODES } : { hybrid: MODES.hybrid, words: MODES.words, vectors: MODES.vectors };
    const value = wide.matches ? state.mode : primary();
    const key = JSON.stringify([wide.matches, value]);
    if (switches.dataset.key === key) return;
    switches.dataset.key = key;
    const focused = switches.contains(document.activeElement);
    put(switches, choice("What to search by", "mode", options, value, (mode) => change({ mode: mode === "hybrid" && !wide.matches ? "" : mode })),
      el("p.legend.note", "Shade: what a word adds to the match. ", el("u", "Underlined"), ": a word of the query."));
    if (focused) switches.querySelector("input:checked")?.focus();
  }

  function drawStart() {
    answers = {};
    for (const ask of Object.values(asks)) ask.cancel();
    clearTimeout(busy);
    put(pages); put(notes); put(filters);
    hits.className = "columns";
    put(hits, service.titles ? empty("What are you looking for?",
      el("p", "Results appear as you type. Three searches run side by side: by words, by the vectors of an LSTM-RNN that learned from clicks, and by both."),
      service.examples?.length ? el("p.row.examples", "For example:", service.examples.map((text) => el("button", { type: "button", class: "chip", onclick: () => { field.value = text; change({ q: text, page: 1 }); field.focus(); } }, text))) : null)
      : empty("The index is empty", "Add documents with POST /documents or clickvec index add."));
  }

  function draw() {
    const focus = document.activeElement?.closest?.(".hit")?.dataset;
    const found = columns();
    put(notes, corrections(answers[primary()]), answers[primary()].notes?.map((note) => el("p.note", note)));
    hits.className = `columns n${found.length}`;
    const others = found.filter((mode) => answers[mode]?.hits.length);
    if (others.length) {
      const nodes = found.map(columnOf);
      if (hits.children.length !== nodes.length) put(hits, nodes);
      else nodes.forEach((node, at) => { if (hits.children[at] !== node) hits.children[at].replaceWith(node); });
    } else put(hits, empty("Nothing found", Object.keys(state.where).length ? el("p", "No document matches the query and the filters. ", el("button", { type: "button", onclick: () => change({ where: {}, page: 1 }) }, "Remove the filters")) : state.page > 1 ? "There are no more hits." : "No title has these words, and the model knows none of their letters. Try other words."));
    drawPages();
    const again = focus || (opened !== null ? { id: opened, mode: primary() } : null);
    if (again) hits.querySelector(`.hit[data-id="${CSS.escape(again.id)}"][data-mode="${CSS.escape(again.mode)}"] .title`)?.focus({ preventScroll: Boolean(focus) });
    opened = null;
  }

  // A column is drawn once for each answer: a hit must not be replaced under the pointer. Tags come later.
  function columnOf(mode) {
    const known = drawn[mode];
    if (known && known.answer === answers[mode] && known.isBeside === sideBySide()) {
      for (const [hit, tags] of known.tags) put(tags, drawTags(hit, mode));
      return known.node;
    }
    drawn[mode] = { answer: answers[mode], isBeside: sideBySide(), tags: [], links: [] };
    drawn[mode].node = drawColumn(mode);
    lightUp(mode);
    return drawn[mode].node;
  }

  function drawColumn(mode) {
    const answer = answers[mode];
    const all = answer ? answer.hits.slice(0, PAGE) : [];
    return el("section.column", { data: { mode }, "aria-label": MODES[mode] },
      sideBySide() && el("h2", MODES[mode], " ", el("small", ABOUT[mode], mode === "hybrid" && service.fusion === "clicks" ? ": the chance of a click" : "")),
      !answer ? loading("") : all.length ? el("ol", { start: offset() + 1 }, all.map((hit, at) => drawHit(hit, at, mode))) : el("p.note", mode === "words" ? "No title has a word of the query." : "Nothing found."));
  }

  // Shade the words of all hits of a column, on one scale.
  function lightUp(mode) {
    const share = mode === "words" ? (word) => word.bm25 : (word) => word.cosine;
    const most = Math.max(0.1, ...drawn[mode].links.flatMap(([hit]) => (hit.words || []).map((word) => Math.abs(share(word)))));
    for (const [hit, link] of drawn[mode].links) {
      put(link, hit.words?.map((word, at) => [at ? " " : "", litWord(word.text, share(word), most, { title: `cosine ${fixed(word.cosine)} · BM25 ${fixed(word.bm25, 2)}`, data: { cosine: word.cosine, bm25: word.bm25 } }, word.bm25 > 0)]) || hit.title);
    }
  }

  function drawHit(hit, at, mode) {
    const place = offset() + at + 1;
    const open = () => { opened = String(hit.id); logClick(hit, mode); };
    const tags = el("div.row.tags", drawTags(hit, mode));
    const link = el("a.title", { href: context.link("why", { q: state.q, id: hit.id }), onclick: open });
    drawn[mode].tags.push([hit, tags]);
    drawn[mode].links.push([hit, link]);
    return el("li.hit", { data: { id: hit.id, mode } },
      el("span.place.number", { "aria-hidden": "true" }, place),
      el("div.about",
        link,
        drawPayload(hit.payload),
        tags),
      el("div.worth.number", el("b", scoreText(hit, mode, service)),
        service.has_cells !== false && el("a.try", { href: context.link("try", { q: state.q, id: hit.id }), tabindex: -1, title: "Edit the query and this title word by word (t)", onclick: open }, "try")));
  }

  // Where the other searches have the hit. A hit that only one of them found is marked.
  function drawTags(hit, mode) {
    if (ranks.key !== searchKey()) return [];
    const place = (name) => ranks[name]?.get(String(hit.id));
    const only = (name, text) => el("span.tag.only", { title: `Not among the first ${deep()} by ${name === "words" ? "vectors" : "words"}`, data: { only: name } }, text);
    if (mode === "words") return place("vectors") ? el("span.tag", `vectors ${place("vectors")}`) : only("words", "only by words");
    if (mode === "vectors") return place("words") ? el("span.tag", `words ${place("words")}`) : only("vectors", hit.parts.bm25 > 0 ? "only by vectors" : "only by vectors: no word in common");
    const found = ["words", "vectors"].filter(place);
    if (found.length === 1) return [el("span.tag", `${found[0]} ${place(found[0])}`), only(found[0], `only by ${found[0]}`)];
    return found.length ? found.map((name) => el("span.tag", `${name} ${place(name)}`)) : el("span.tag", `beyond ${deep()} in both`);
  }

  function drawPages() {
    const more = columns().some((mode) => answers[mode]?.hits.length > PAGE) && offset() + 2 * PAGE <= service.limits.hits;
    put(pages, state.page > 1 || more ? [
      el("button", { type: "button", id: "previous", disabled: state.page === 1, onclick: () => turnPage(-1) }, "Previous"),
      el("span.note.number", `Hits ${count(offset() + 1)} to ${count(offset() + Math.max(1, ...columns().map((mode) => Math.min(PAGE, answers[mode]?.hits.length || 0))))}`),
      el("button", { type: "button", id: "next", disabled: !more, onclick: () => turnPage(1) }, "Next")] : []);
  }

  function turnPage(by) {
    const button = document.getElementById(by > 0 ? "next" : "previous");
    if (!button || button.disabled) return;
    change({ page: state.page + by });
    scrollTo({ top: 0 });
  }

  // --- clicks and keys -------------------------------------------------------------------------------------------

  function logClick(hit, mode) {
    if (!service.logs_clicks) return;
    const key = JSON.stringify([searchKey(), mode]);
    const all = answers[mode].hits.slice(0, PAGE).map(({ id }, at) => ({ id, position: offset() + at + 1 }));
    post("/click", { query: state.q, clicked: [hit.id], client: client(), ...(key === shownTo ? {} : { shown: all }) }).catch(() => {});
    shownTo = key;
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const hit = event.target.closest?.(".hit");
    const inField = event.target === field;
    const links = (column) => [...column.querySelectorAll(".hit > .about > .title")];
    const move = (link) => { if (link) { event.preventDefault(); link.focus(); } };
    if (event.key === "/" && !isTyping(event.target) && usesShortcuts()) { event.preventDefault(); field.focus(); field.select(); }
    else if (inField && event.key === "ArrowDown") move(hits.querySelector(`.column[data-mode="${primary()}"] .title`) || hits.querySelector(".title"));
    else if (inField && event.key === "Enter") { if (state.q !== field.value) change({ q: field.value, page: 1 }); else move(hits.querySelector(`.column[data-mode="${primary()}"] .title`)); }
    else if (event.key === "Escape" && (inField || hit)) {
      event.preventDefault();
      if (inField && field.value) { field.value = ""; change({ q: "", page: 1 }); } else field.focus();
    } else if (hit) {
      const column = hit.closest(".column"), rows = links(column), at = rows.indexOf(hit.querySelector(".title"));
      if (event.key === "ArrowDown") move(rows[at + 1]);
      else if (event.key === "ArrowUp") move(at ? rows[at - 1] : field);
      else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const other = event.key === "ArrowLeft" ? column.previousElementSibling : column.nextElementSibling;
        if (other) { const beside = links(other); move(beside[Math.min(at, beside.length - 1)]); }
      } else if (event.key === "t" && usesShortcuts()) hit.querySelector(".try")?.click();
    }
    if (!isTyping(event.target) && usesShortcuts() && (event.key === "n" || event.key === "p")) turnPage(event.key === "n" ? 1 : -1);
  }

  const onWidth = () => {
    drawSwitches();
    if (!state.q.trim()) return;
    if (!sameSearch(answers) || !answers[primary()]) return search();
    draw();
    searchRest(turn);
  };
  addEventListener("keydown", onKey);
  wide.addEventListener("change", onWidth);
  if (opened === null && matchMedia("(hover: hover)").matches) { field.focus(); field.setSelectionRange(field.value.length, field.value.length); }
  search();
  return () => {
    removeEventListener("keydown", onKey);
    wide.removeEventListener("change", onWidth);
    clearTimeout(timer); clearTimeout(busy);
    turn += 1;
    for (const ask of [...Object.values(asks), askRanks, askFacets]) ask.cancel();
  };
}

const isTyping = (target) => Boolean(target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select"));

export function scoreText(hit, mode, service) {
  if (mode === "words") return fixed(hit.parts.bm25, 2);
  if (mode === "vectors") return fixed(hit.parts.cosine);
  return service.fusion === "clicks" ? `${(100 * hit.score).toFixed(1)}%` : fixed(hit.score);
}

function corrections(answer) {
  const all = Object.entries(answer?.corrected || {});
  return all.map(([word, similar]) => el("p.note.correction", { data: { word } }, "No title has ", el("q", word), ": searched ", similar.map((text, at) => [at ? (at === similar.length - 1 ? " and " : ", ") : "", el("b", text)]), " instead."));
}

// A few fields of the payload, as text.
export function drawPayload(payload, most = 4) {
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
