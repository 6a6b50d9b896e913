// Edit the query or a title word by word, and see score, rank and gates change with each key.

import { get, latest, post } from "./api.js";
import { button, clamp, count, el, empty, failure, field as textField, fixed, largest, loading, note, plural, put, scoreText, section, shadeOf, signed } from "./dom.js";
import { heatMap, orderCells } from "./draw.js";
import { cellTopics, drawGates, finalOutput, kept, mostCells } from "./gates.js";
import { titlePicker } from "./picker.js";

const SIDES = ["query", "title"];
const wordOf = (text) => ({ text, off: false });
const wordsOf = (text) => text.split(/\s+/).filter(Boolean).map(wordOf);
const textOf = (words) => words.filter((word) => !word.off).map((word) => word.text).join(" ");

export function show(root, params, context) {
  const { service, keep, announce } = context;
  const ask = latest();
  const side = { query: [], title: [] };
  const chips = { query: [], title: [] };
  const rows = Object.fromEntries(SIDES.map((name) => [name, el("ol.chips", { data: { side: name }, "aria-label": `Words of the ${name}` })]));
  let before = null; // {query, title, answer}: where the changes started
  let now = null;
  let id, known = new Map(), isOver = false, speaking = 0;

  const figures = el("ul.figures");
  const state = el("div", loading());
  const vectors = el("div", { id: "vectors" });
  const gates = el("div", { id: "gates" });
  const picker = titlePicker({ label: "Take another title", placeholder: "Take another title: type to find one", maxlength: service.limits.title_characters, onpick: (hit) => start(textOf(side.query), hit.id, hit.title) });
  const experiments = el("ul.experiments", { "aria-label": "Experiments" });
  const body = el("div", { hidden: true },
    el("section.sticky", { "aria-label": "Score and rank" }, figures),
    el("div.bench", sideBox("query", "Query"), sideBox("title", "Title")),
    note({ id: "chip-help" }, "Type over a word; space splits it, Enter adds one, Backspace in an empty word removes it. Alt with ← or → moves a word, Alt with ↓ switches it off or on."),
    el("div.row", button("Start over", () => start(before.query, id, before.title)), picker),
    experiments,
    section("What the change did to the vector", null, vectors),
    section("Gate by gate", null, gates));
  root.append(el("h1", "Try it out"), el("p.lead", "The network reads one word after the other. Bars show the cosine of query and title after each word, shades what a word adds in the end. Change a word, and watch."), state, body);

  function sideBox(name, label) {
    const add = () => { side[name].push(wordOf("")); drawSide(name, side[name].length - 1); };
    return el("div.side", el("div.row.spread", el("h2", label), button("Add a word", add)), rows[name]);
  }

  // Changes of the title that show what the network attends to, and that are tedious to type.
  function drawExperiments() {
    const words = side.title.filter((word) => !word.off && word.text);
    const adds = (word) => now.title[Math.min(words.indexOf(word), now.title.length - 1)]?.contribution ?? 0;
    const best = [...words].sort((a, b) => adds(b) - adds(a))[0], middle = best ? Math.floor(best.text.length / 2) : 0;
    const misspelt = (text) => text.slice(0, middle - 1) + text[middle] + text[middle - 1] + text.slice(middle + 1);
    const offer = (text, about, change) => el("li", button(text, () => { side.title = change(side.title); redraw("title"); }), el("span.note", about));
    put(experiments,
      middle > 1 && offer(`Misspell ${best.text}`, "the word that adds most: letter trigrams should still recognise it", (all) => all.map((word) => (word === best ? wordOf(misspelt(word.text)) : word))),
      words.length > 1 && offer("Reverse the words", "an LSTM-RNN reads in order: does order matter here?", (all) => [...all].reverse()));
  }

  // --- words ---

  // Draw the words of a side. With `at`, that word gets the focus, and the caret is put at its start or its end.
  function drawSide(name, at = null, caret = "end") {
    chips[name] = side[name].map((word, index) => drawChip(name, word, index));
    put(rows[name], chips[name].map((chip) => chip.node));
    if (at !== null && side[name].length) focus(name, clamp(at, 0, side[name].length - 1), caret);
    decorate();
  }
  function redraw(name, at, caret) { drawSide(name, at, caret); changed(); }

  function drawChip(name, word, index) {
    const level = el("span.filled"), value = el("small"), adds = el("small.adds");
    const field = textField(`Word ${index + 1} of the ${name}`, { type: "text", class: "text", value: word.text, size: Math.max(2, word.text.length), "aria-describedby": "chip-help", maxlength: service.limits.query_characters,
      oninput: () => typed(name, index, field), onkeydown: (event) => onKey(event, name, index, field) });
    const tool = (text, label, act, pressed) => button(text, act, { class: "quiet", tabindex: -1, "aria-label": `${label} ${word.text}`, "aria-pressed": pressed, title: label });
    const node = el("li", { class: word.off ? "chipword off" : "chipword" },
      el("div.reading", { "aria-hidden": "true" }, value, el("div.shaft", level)), field, adds,
      el("div.tools",
        tool(word.off ? "○" : "●", "Switch off or on:", () => toggle(name, index), String(word.off)), tool("×", "Remove", () => remove(name, index)), tool("›", "Move right:", () => move(name, index, index + 1))));
    return { node, field, level, value, adds };
  }

  function typed(name, index, field) {
    if (/\s/.test(field.value)) { // more words than one
      const found = wordsOf(field.value), isOpen = /\s$/.test(field.value);
      side[name].splice(index, 1, ...found, ...(isOpen ? [wordOf("")] : []));
      drawSide(name, index + found.length - (isOpen ? 0 : 1));
    } else { side[name][index].text = field.value; field.size = Math.max(2, field.value.length); }
    changed();
  }

  function remove(name, index, focusAt = index) { side[name].splice(index, 1); redraw(name, focusAt); }
  function toggle(name, index) { side[name][index].off = !side[name][index].off; redraw(name, index); }
  function move(name, from, to) {
    if (to < 0 || to >= side[name].length) return;
    side[name].splice(to, 0, ...side[name].splice(from, 1));
    redraw(name, to);
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
      Enter: () => () => { side[name].splice(index + 1, 0, wordOf("")); drawSide(name, index + 1); },
    }[event.key]?.();
    if (act) { event.preventDefault(); event.stopPropagation(); act(); }
  }

  function focus(name, at, caret) {
    const { field } = chips[name][at], place = caret === "start" ? 0 : field.value.length;
    field.focus();
    field.setSelectionRange(place, place);
  }

  // --- questions ---

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
      clearTimeout(speaking);
      speaking = setTimeout(() => announce(`Cosine ${fixed(answer.cosine, 2)}, ${rankText(answer.rank)}`), 700);
    } catch (error) { if (!isOver) put(state, failure(error, changed)); }
  }

  // --- answers ---

  function decorate() {
    if (!now) return;
    const most = largest([...now.query, ...now.title].map((word) => word.contribution), 0.05);
    for (const name of SIDES) {
      let read = 0;
      chips[name].forEach((chip, index) => {
        const word = side[name][index], tokens = now[name];
        const isRead = !word.off && word.text.trim() && tokens.length > 0;
        const token = isRead ? tokens[Math.min(read, tokens.length - 1)] : null;
        const share = token ? token.contribution / most : 0;
        if (isRead) read += 1;
        chip.level.style.height = `${Math.min(1, Math.abs(token?.cosine ?? 0)) * 100}%`;
        chip.level.className = token?.cosine < 0 ? "filled less" : "filled more";
        put(chip.value, token && fixed(token.cosine, 2));
        put(chip.adds, word.off ? "off" : token && (token.known ? signed(token.contribution, 2) : "unknown"));
        chip.field.style.setProperty("--a", Math.min(1, Math.abs(share)).toFixed(2));
        chip.field.className = `text ${token?.keyword ? "key " : ""}${shadeOf(share)}`;
      });
    }
  }

  function draw() {
    decorate();
    const old = before.answer, isSame = SIDES.every((name) => before[name] === textOf(side[name]));
    const percent = service.fusion === "clicks";
    // A figure now, how it changed, and what it was. `change` is above 0 if it is better than before.
    const figure = (name, label, shown, change, changeText) => el("li", { data: { figure: name } }, el("b", shown(now)), el("span", label),
      el("span", { class: `delta ${isSame || !change ? "" : change > 0 ? "up" : "down"}` }, isSame ? "as at the start" : !change ? `as before: ${shown(old)}` : `${change > 0 ? "▲" : "▼"} ${changeText} from ${shown(old)}`));
    const beyond = (number, least) => (Math.abs(number) > least ? number : 0);
    const place = ({ rank }) => rank.rank ?? 1e12;
    const climbed = place(old) - place(now), risen = beyond(now.score - old.score, 5e-5), closer = beyond(now.cosine - old.cosine, 5e-4), bm25 = ({ fused }) => fused.parts.find((part) => part.name === "words").value, matched = beyond(bm25(now) - bm25(old), 5e-3);
    put(figures,
      figure("rank", rankText(now.rank, false), ({ rank }) => (rank.rank ? count(rank.rank) : "–"), climbed, Math.abs(climbed) < 1e11 ? plural(Math.abs(climbed), "place") : ""),
      figure("score", percent ? "chance of a click" : "score", ({ score }) => scoreText(score, service), risen, percent ? `${signed(100 * risen, 1)} points` : signed(risen)),
      figure("cosine", "cosine", ({ cosine }) => fixed(cosine), closer, signed(closer)),
      figure("bm25", "BM25", (answer) => fixed(bm25(answer), 2), matched, signed(matched, 2)));
    drawExperiments();
    drawVectors(old);
    if (service.has_cells) drawGates(gates, now.trace, { query: now.query.map((word) => word.keyword), title: now.title.map((word) => word.keyword) }, known);
    else put(gates, note("This model does not read word by word, so it has no gates."));
  }

  // The vector of the title before and now, and what has changed, beside that of the query.
  function drawVectors(old) {
    const way = Math.min(kept.way, (now.trace?.query.length || 1) - 1);
    const ends = [now.trace?.query[way], old.trace?.title[way], now.trace?.title[way]].map((trace) => trace && finalOutput(trace));
    if (ends.some((row) => !row?.length)) return put(vectors, note("There is no vector to draw."));
    const [query, was, is] = ends;
    const cells = orderCells(query, was, mostCells(query.length));
    put(vectors, note("Each column is a cell, the same in all rows. Where a column has one colour in query and title, the cell adds to the cosine."),
      heatMap({ groups: [{ name: "query", words: ["now"], values: [query] }, { name: "title", words: ["before", "now", "change"], values: [was, is, is.map((value, cell) => value - was[cell])] }], cells, label: "Output", describe: (cell) => (known.get(`${cell}${is[cell] < 0 ? "-" : "+"}`) || []).join(", ") }));
  }

  function rankText(rank, hasNumber = true) {
    if (rank.rank) return `${hasNumber ? `hit ${count(rank.rank)} ` : "place "}of ${count(rank.of)}`;
    return rank.depth ? `not among the best ${count(rank.depth)}` : "not found";
  }

  // --- the first words ---

  async function open() {
    try {
      const q = params.q?.trim() ? params.q : service.examples[0] || "";
      let text = params.title, stored = null;
      if (params.id !== undefined) stored = await get(`/documents/${encodeURIComponent(params.id)}`).catch((error) => { if (error.status !== 404 || !text) throw error; });
      else if (text === undefined) {
        [stored] = (await post("/search", { query: q, k: 1 })).hits;
        if (!stored) return put(state, empty("Nothing to try yet", "The index finds nothing for this query. Search for something first."));
      }
      await start(q, stored?.id, stored ? stored.title : text);
      if (stored && text !== undefined && textOf(wordsOf(text)) !== textOf(side.title)) { side.title = wordsOf(text); drawSide("title"); await changed(); }
      if (service.has_cells) cellTopics().then((topics) => { known = topics; });
    } catch (error) { if (!isOver) put(state, failure(error, open)); }
  }

  open();
  return () => { isOver = true; clearTimeout(speaking); ask.cancel(); };
}
