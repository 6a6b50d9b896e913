// Edit the query or a title word by word, and see score, rank and gates change with each key.

import { get, latest, post } from "./api.js";
import { count, el, empty, failure, fixed, loading, plural, put, signed } from "./dom.js";
import { heatMap, orderCells } from "./draw.js";
import { cellTopics, drawGates, finalOutput, kept } from "./gates.js";
import { titlePicker } from "./picker.js";

export const title = "Try it out";

const NEIGHBOURS = 5; // hits listed beside the title
const wordsOf = (text) => text.split(/\s+/).filter(Boolean).map((word) => ({ text: word, off: false }));
const textOf = (words) => words.filter((word) => !word.off).map((word) => word.text).join(" ");

export function show(root, params, context) {
  const { service, keep, announce } = context;
  const ask = latest(), askHits = latest();
  const side = { query: [], title: [] };
  const chips = { query: [], title: [] };
  const rows = Object.fromEntries(["query", "title"].map((name) => [name, el("ol.chips", { data: { side: name }, "aria-label": `Words of the ${name}` })]));
  let before = null; // {query, title, answer}: where the changes started
  let now = null;
  let id, known = new Map(), hits = [], hitsFor = null, isOver = false, speaking = 0;

  const figures = el("ul.figures", { id: "trial" });
  const state = el("div", { id: "try-state" }, loading());
  const ranking = el("ol.ranking");
  const vectors = el("div", { id: "vectors" });
  const gates = el("div", { id: "gates" });
  const picker = titlePicker({ label: "Take another title", placeholder: "Take another title: type to find one", maxlength: service.limits.title_characters, onpick: (hit) => start(textOf(side.query), hit.id, hit.title) });
  const action = (text, act, about) => el("button", { type: "button", title: about, onclick: act }, text);
  const experiments = el("ul.experiments");
  const body = el("div", { hidden: true },
    el("section.sticky", { "aria-label": "Score and rank" }, figures),
    el("div.bench", sideBox("query", "Query"), sideBox("title", "Title")),
    el("p.note", { id: "chip-help" }, "Type over a word; space splits it, Enter adds one, Backspace in an empty word removes it. ", el("kbd", "Alt"), " with ", el("kbd", "←"), el("kbd", "→"), " moves a word, ", el("kbd", "Alt"), " with ", el("kbd", "↓"), " switches it off or on. Drag ⠿ to move."),
    el("div.row", action("Start over", () => start(before.query, id, before.title), "Back to the words at the start"), action("Compare from here", () => { before = { query: textOf(side.query), title: textOf(side.title), answer: now }; draw(); }, "Later changes are compared with the words as they are now"), picker),
    el("div.halves",
      el("section", el("h2", "Where it would rank"), ranking),
      el("section", el("h2", "Experiments"), el("p.note", "Each changes the title once more. Start over brings it back."), experiments)),
    el("section", el("h2", "What the change did to the vector"), vectors),
    el("section", el("h2", "Gate by gate"), gates));
  root.append(el("h1", title), el("p.lead", "The network reads one word after the other. The bars show the cosine of query and title after each word; the shade shows what a word adds in the end. Change a word, and watch."), state, body);

  function sideBox(name, label, ...more) {
    const add = () => { side[name].push({ text: "", off: false }); drawSide(name, side[name].length - 1); };
    return el("div.side", el("div.row.spread", el("h2", label), el("div.row", ...more, action("Add a word", add))), rows[name]);
  }

  // Changes of the title that show what the network attends to.
  function drawExperiments() {
    const words = side.title.filter((word) => !word.off && word.text);
    const worth = words.map((word, at) => ({ word, adds: now.title[Math.min(at, now.title.length - 1)]?.contribution ?? 0 })).sort((a, b) => b.adds - a.adds);
    const best = worth[0]?.word, least = [...worth].sort((a, b) => Math.abs(a.adds) - Math.abs(b.adds))[0]?.word;
    const missing = side.query.find((word) => !word.off && word.text && !words.some((other) => other.text.toLowerCase() === word.text.toLowerCase()));
    const middle = best ? Math.floor(best.text.length / 2) : 0;
    const without = (gone) => side.title.filter((word) => word !== gone);
    const offer = (text, about, change) => el("li", el("button", { type: "button", onclick: () => { side.title = change(); drawSide("title"); changed(); } }, text), el("span.note", about));
    put(experiments,
      words.length > 1 && offer(`Leave out ${best.text}`, "the word that adds most", () => without(best)),
      words.length > 1 && least !== best && offer(`Leave out ${least.text}`, "the word that adds least: it should hardly matter", () => without(least)),
      best?.text.length > 3 && offer(`Misspell ${best.text}`, "letter trigrams should still recognise it", () => side.title.map((word) => (word === best ? { text: word.text.slice(0, middle - 1) + word.text[middle] + word.text[middle - 1] + word.text.slice(middle + 1), off: false } : word))),
      missing && offer(`Add ${missing.text}`, "a word of the query that the title lacks", () => [...side.title, { text: missing.text, off: false }]),
      words.length > 1 && offer("Reverse the words", "an LSTM-RNN reads in order: does order matter here?", () => [...side.title].reverse()),
      words.length > 2 && offer("Shuffle the words", "again and again, to see how much is order", () => side.title.map((word) => [Math.random(), word]).sort((a, b) => a[0] - b[0]).map((pair) => pair[1])));
  }

  // --- words -------------------------------------------------------------------------------------------------------

  // Draw the words of a side. With `at`, that word gets the focus, and the caret is put at its start or its end.
  function drawSide(name, at = null, caret = "end") {
    const words = side[name];
    chips[name] = words.map((word, index) => drawChip(name, word, index));
    put(rows[name], chips[name].map((chip) => chip.node));
    const field = at === null ? null : chips[name][Math.max(0, Math.min(at, words.length - 1))]?.field;
    if (field) { field.focus(); const place = caret === "start" ? 0 : field.value.length; field.setSelectionRange(place, place); }
    decorate();
  }

  function drawChip(name, word, index) {
    const level = el("span.filled"), value = el("small.number"), adds = el("small.adds.number");
    const field = el("input", { type: "text", class: "text", value: word.text, size: Math.max(2, word.text.length), "aria-label": `Word ${index + 1} of the ${name}`, "aria-describedby": "chip-help", autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: service.limits.query_characters,
      oninput: () => typed(name, index, field), onkeydown: (event) => onKey(event, name, index, field) });
    const button = (text, label, act, pressed) => el("button", { type: "button", class: "quiet", tabindex: -1, "aria-label": `${label} ${word.text}`, "aria-pressed": pressed, title: label, onclick: act }, text);
    const node = el("li", { class: word.off ? "chipword off" : "chipword", data: { word: word.text, off: word.off } },
      el("div.reading", { "aria-hidden": "true" }, value, el("div.shaft", level)), field, adds,
      el("div.tools", el("span.handle", { "aria-hidden": "true", title: "Drag to move", onpointerdown: (event) => drag(event, name, word) }, "⠿"),
        button(word.off ? "○" : "●", "Switch off or on:", () => toggle(name, index), String(word.off)), button("×", "Remove", () => remove(name, index))));
    return { node, field, level, value, adds };
  }

  function typed(name, index, field) {
    const parts = field.value.split(/\s+/);
    if (parts.length > 1) { // a space: more words than one
      const found = parts.filter(Boolean);
      const isOpen = /\s$/.test(field.value);
      side[name].splice(index, 1, ...found.map((text) => ({ text, off: false })), ...(isOpen ? [{ text: "", off: false }] : []));
      drawSide(name, index + found.length - (isOpen ? 0 : 1), isOpen ? "start" : "end");
    } else { side[name][index].text = field.value; field.size = Math.max(2, field.value.length); }
    changed();
  }

  function remove(name, index, focusAt = index) {
    side[name].splice(index, 1);
    drawSide(name, focusAt);
    changed();
  }

  function toggle(name, index) {
    side[name][index].off = !side[name][index].off;
    drawSide(name, index);
    changed();
  }

  function move(name, from, to) {
    if (to < 0 || to >= side[name].length) return;
    side[name].splice(to, 0, ...side[name].splice(from, 1));
    drawSide(name, to);
    changed();
    announce(`Word ${to + 1} of ${side[name].length}`);
  }

  function onKey(event, name, index, field) {
    const last = side[name].length - 1, isEmpty = !field.value;
    const act = {
      ArrowLeft: () => (event.altKey ? () => move(name, index, index - 1) : field.selectionEnd === 0 && index && (() => focus(name, index - 1, "end"))),
      ArrowRight: () => (event.altKey ? () => move(name, index, index + 1) : field.selectionStart === field.value.length && index < last && (() => focus(name, index + 1, "start"))),
      ArrowDown: () => event.altKey && (() => toggle(name, index)),
      Backspace: () => (isEmpty || event.altKey) && last > 0 && (() => remove(name, index, index - 1)),
      Delete: () => isEmpty && last > 0 && (() => remove(name, index)),
      Enter: () => () => { side[name].splice(index + 1, 0, { text: "", off: false }); drawSide(name, index + 1); },
    }[event.key]?.();
    if (act) { event.preventDefault(); event.stopPropagation(); act(); }
  }

  function focus(name, at, caret) {
    const { field } = chips[name][at];
    field.focus();
    field.setSelectionRange(...(caret === "start" ? [0, 0] : [field.value.length, field.value.length]));
  }

  // Drag a word with the pointer, on touch screens too: it takes the place of the word that it is over.
  function drag(event, name, word) {
    event.preventDefault();
    const over = (moved) => {
      const target = document.elementFromPoint(moved.clientX, moved.clientY)?.closest?.(".chipword");
      const to = chips[name].findIndex((chip) => chip.node === target), from = side[name].indexOf(word);
      if (to < 0 || to === from) return;
      side[name].splice(to, 0, ...side[name].splice(from, 1));
      drawSide(name);
      chips[name][to].node.classList.add("dragged");
      changed();
    };
    const end = () => { removeEventListener("pointermove", over); removeEventListener("pointerup", end); removeEventListener("pointercancel", end); for (const { node } of chips[name]) node.classList.remove("dragged"); };
    addEventListener("pointermove", over);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  // --- questions ---------------------------------------------------------------------------------------------------

  async function start(q, newId, text) {
    id = newId;
    side.query = wordsOf(q);
    side.title = wordsOf(text);
    before = now = null;
    drawSide("query");
    drawSide("title");
    await changed();
  }

  async function changed() {
    const q = textOf(side.query), text = textOf(side.title);
    keep({ q, id, title: text });
    try {
      const answer = await ask("POST", "/try", { query: q, title: text, ...(id !== undefined ? { id } : {}), trace: service.has_cells });
      if (!answer || isOver) return;
      now = answer;
      before ??= { query: q, title: text, answer };
      put(state);
      body.hidden = false;
      draw();
      if (hitsFor !== q) {
        const found = await askHits("POST", "/search", { query: q, k: NEIGHBOURS + 1 });
        if (found && !isOver) { hits = found.hits; hitsFor = q; drawRanking(); }
      }
      clearTimeout(speaking);
      speaking = setTimeout(() => announce(`Cosine ${fixed(now.cosine, 2)}, ${rankText(now.rank)}`), 700);
    } catch (error) { if (!isOver) put(state, failure(error, changed)); }
  }

  // --- answers -----------------------------------------------------------------------------------------------------

  function decorate() {
    if (!now) return;
    const most = Math.max(0.05, ...[...now.query, ...now.title].map((word) => Math.abs(word.contribution)));
    for (const name of ["query", "title"]) {
      let read = 0;
      chips[name].forEach((chip, index) => {
        const word = side[name][index], tokens = now[name];
        const isRead = !word.off && word.text.trim() && tokens.length > 0;
        const token = isRead ? tokens[Math.min(read, tokens.length - 1)] : null;
        const share = token ? token.contribution / most : 0;
        if (isRead) read += 1;
        chip.level.style.height = `${Math.max(0, Math.min(1, Math.abs(token?.cosine ?? 0))) * 100}%`;
        chip.level.className = token?.cosine < 0 ? "filled less" : "filled more";
        put(chip.value, token ? fixed(token.cosine, 2) : "");
        put(chip.adds, word.off ? "off" : !token ? "" : token.known ? signed(token.contribution, 2) : "unknown");
        chip.field.style.setProperty("--a", Math.min(1, Math.abs(share)).toFixed(2));
        chip.field.className = `text ${token?.keyword ? "key " : ""}${share > 0.06 ? "p" : share < -0.12 ? "m" : ""}`;
      });
    }
  }

  function draw() {
    decorate();
    const old = before.answer;
    const isSame = before.query === textOf(side.query) && before.title === textOf(side.title);
    const percent = service.fusion === "clicks";
    const score = (answer) => (percent ? `${(100 * answer.score).toFixed(1)}%` : fixed(answer.score));
    const figure = (name, value, label, was, by, better) => el("li", { data: { figure: name } }, el("b", value), el("span", label),
      el("span", { class: `delta ${isSame || !by ? "" : better ? "up" : "down"}` }, isSame ? "as at the start" : !by ? `as before: ${was}` : `${by} from ${was}`));
    const place = (answer) => (answer.rank.rank ? count(answer.rank.rank) : "–");
    const climbed = (old.rank.rank ?? Infinity) - (now.rank.rank ?? Infinity);
    const change = now.cosine - old.cosine, risen = now.score - old.score;
    put(figures,
      figure("rank", place(now), rankText(now.rank, false), place(old), climbed === climbed && climbed ? (Number.isFinite(climbed) ? `${climbed > 0 ? "▲" : "▼"} ${plural(Math.abs(climbed), "place")}` : climbed > 0 ? "▲" : "▼") : "", climbed > 0),
      figure("score", score(now), percent ? "chance of a click" : "score", score(old), Math.abs(risen) > 5e-5 ? `${risen > 0 ? "▲" : "▼"} ${percent ? `${signed(100 * risen, 1)} points` : signed(risen)}` : "", risen > 0),
      figure("cosine", fixed(now.cosine), "cosine", fixed(old.cosine), Math.abs(change) > 5e-4 ? `${change > 0 ? "▲" : "▼"} ${signed(change)}` : "", change > 0),
      figure("bm25", fixed(now.fused.bm25, 2), "BM25", fixed(old.fused.bm25, 2), Math.abs(now.fused.bm25 - old.fused.bm25) > 5e-3 ? `${now.fused.bm25 > old.fused.bm25 ? "▲" : "▼"} ${signed(now.fused.bm25 - old.fused.bm25, 2)}` : "", now.fused.bm25 > old.fused.bm25));
    drawRanking();
    drawExperiments();
    drawVectors(old);
    if (service.has_cells) drawGates(gates, now.trace, { query: now.query.map((word) => word.keyword), title: now.title.map((word) => word.keyword) }, known);
    else put(gates, el("p.note", "This model does not read word by word, so it has no gates."));
  }

  function drawRanking() {
    const others = hits.filter((hit) => String(hit.id) !== String(id)).slice(0, NEIGHBOURS).map((hit, at) => ({ text: hit.title, place: at + 1 }));
    const place = now.rank.rank;
    const mine = { text: textOf(side.title) || "(no words)", mine: true, place: place ?? "–" };
    const listed = others.map((other) => ({ ...other, place: place && other.place >= place ? other.place + 1 : other.place }));
    listed.splice(place ? Math.min(place - 1, listed.length) : listed.length, 0, mine);
    put(ranking, listed.map((row) => el("li", { class: row.mine ? "mine" : null }, el("span.place.number", typeof row.place === "number" ? count(row.place) : row.place), row.text)));
  }

  // The vector of the title before and now, and what has changed, beside that of the query.
  function drawVectors(old) {
    const way = Math.min(kept.way, (now.trace?.query.length || 1) - 1);
    const ends = [now.trace?.query[way], old.trace?.title[way], now.trace?.title[way]].map((trace) => trace && finalOutput(trace));
    if (ends.some((row) => !row?.length)) return put(vectors, el("p.note", "There is no vector to draw."));
    const [query, was, is] = ends;
    const cells = orderCells(query, was, "agree", matchMedia("(max-width: 44rem)").matches ? 32 : query.length);
    put(vectors, el("p.note", "Each column is a cell, the same in all rows. Where a column has one colour in query and title, the cell adds to the cosine."),
      heatMap({ groups: [{ name: "query", words: ["now"], values: [query] }, { name: "title", words: ["before", "now", "change"], values: [was, is, is.map((value, cell) => value - was[cell])] }], cells, label: "Output", describe: (cell) => (known.get(`${cell}${is[cell] < 0 ? "-" : "+"}`) || []).join(", ") }));
  }

  function rankText(rank, hasNumber = true) {
    if (rank.rank) return `${hasNumber ? `hit ${count(rank.rank)} ` : "place "}of ${count(rank.of)}`;
    return rank.depth ? `not among the best ${count(rank.depth)}` : "not found";
  }

  // --- the first words ---------------------------------------------------------------------------------------------

  async function open() {
    try {
      const q = params.q?.trim() ? params.q : service.examples[0] || "";
      if (params.title !== undefined || params.id !== undefined) {
        const stored = params.id === undefined ? null : await get(`/documents/${encodeURIComponent(params.id)}`).catch((error) => { if (error.status === 404 && params.title) return null; throw error; });
        await start(q, stored ? params.id : undefined, stored ? stored.title : params.title);
        if (stored && params.title !== undefined && textOf(wordsOf(params.title)) !== textOf(side.title)) { side.title = wordsOf(params.title); drawSide("title"); await changed(); }
      } else {
        const found = await post("/search", { query: q, k: 1 });
        if (!found.hits.length) return put(state, empty("Nothing to try yet", "The index finds nothing for this query. Search for something first."));
        await start(q, found.hits[0].id, found.hits[0].title);
      }
      if (service.has_cells) cellTopics().then((topics) => { known = topics; });
    } catch (error) { if (!isOver) put(state, failure(error, open)); }
  }

  open();
  return () => { isOver = true; clearTimeout(speaking); ask.cancel(); askHits.cancel(); };
}
