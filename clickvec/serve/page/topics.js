// The cells of the model as cards: the words that each responds to, and how sharp it is. A card opens to its titles and queries.

import { patiently } from "./api.js";
import { button, choice, count, el, empty, failure, field, fixed, largest, listed, loading, note, plural, put } from "./dom.js";
import { bar } from "./draw.js";
import { loaded, texts } from "./insight.js";

const SORTS = { sharp: "Sharpest", number: "By number", busy: "Most active" };
const SIGNS = { "+": "Above zero", "-": "Below zero" };

export function show(root, params, context) {
  const state = { sort: Object.hasOwn(SORTS, params.sort) ? params.sort : "sharp", words: params.words || "", cell: params.cell };
  const view = loaded(root, "Topics", "/topics", draw, "Reading titles. The first time, this takes some seconds …");
  if (context.service.has_cells) view.load();
  else put(view.body, empty("This model has no cells", "Topics need a model that reads word by word, such as an LSTM-RNN."));
  return view.cleanup;

  function draw(answer) {
    if (!answer.topics.length) return put(view.body, empty("There are no topics yet", "The model knows no word of the titles, or the index has none."));
    const cells = gather(answer);
    const most = largest(cells.map((cell) => cell.sharp));
    const list = el("div.topic-cards");
    const told = el("p.note", { role: "status" });
    const words = field("Show cells with these words", { placeholder: `Words, such as ${cells[0].all[0]}`, value: state.words, oninput: () => { state.words = words.value; update(); } });
    put(view.body,
      el("p.lead", "Each cell of the model responds to some words and ignores the others."),
      note(`Measured on ${plural(answer.titles, "title")}. A cell that ends a title above zero (+) and one that ends it below (−) stand for two topics. `,
        "Sharpness is 1 if a cell always responds to the same word, and 0 if it responds to no word twice."),
      el("div.row.topic-tools", words, choice("Order", "topic-sort", SORTS, state.sort, (key) => { state.sort = key; update(); })),
      told, list);
    update();
    if (state.cell !== undefined) list.querySelector(`[data-cell="${CSS.escape(state.cell)}"]`)?.scrollIntoView({ block: "start" });

    function update() {
      const wanted = state.words.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = cells.filter((cell) => wanted.every((word) => cell.all.some((known) => known.includes(word))));
      const orders = { sharp: (a, b) => a.dead - b.dead || b.sharp - a.sharp, number: (a, b) => a.dimension - b.dimension, busy: (a, b) => b.detections - a.detections };
      shown.sort(orders[state.sort]);
      put(told, `${shown.length === cells.length ? plural(cells.length, "cell") : `${count(shown.length)} of ${plural(cells.length, "cell")}`}, ${answer.dead.length ? plural(answer.dead.length, "dead cell") : "none of them dead"}.`);
      put(list, shown.length ? shown.map((cell) => card(cell, most, wanted)) : empty("No cell responds to these words", "Words that are in few titles are not listed."));
      keep();
    }
  }

  function keep() {
    context.keep({ cell: state.cell, words: state.words, sort: state.sort === "sharp" ? "" : state.sort });
  }

  function card(cell, most, wanted) {
    const name = `Cell ${cell.cell}${cell.way && cell.way !== "left to right" ? `, ${cell.way}` : ""}`;
    const inside = el("div.topic-open", { id: `cell-${cell.dimension}`, hidden: true });
    const head = button([el("span.topic-name", name), meter(cell, most), el("span.topic-more", { "aria-hidden": "true" }, "+")], toggle, { class: "topic-head", "aria-expanded": "false", "aria-controls": inside.id });
    const node = el("article", { class: cell.dead ? "topic dead" : "topic", data: { cell: cell.dimension } }, el("h2", head),
      el("div.topic-words", cell.dead ? note("Dead: its value hardly depends on the title.") : null,
        cell.sides.map((side) => el("p", sign(side.sign), listed(side.words.slice(0, 8).map(({ word }) => el("bdi", { class: wanted.some((part) => word.includes(part)) ? "hit-word" : null }, word)))))),
      inside);
    if (String(cell.dimension) === state.cell) toggle();
    return node;

    function toggle() {
      const open = inside.hidden;
      if (open) for (const other of node.parentNode?.querySelectorAll(".topic.open .topic-head") || []) other.click();
      inside.hidden = !open;
      node.classList.toggle("open", open);
      head.setAttribute("aria-expanded", open);
      state.cell = open ? String(cell.dimension) : undefined;
      if (node.parentNode) keep();
      if (open) fill();
    }

    async function fill() {
      put(inside, loading());
      try {
        put(inside, details(await patiently(`/topics/${cell.dimension}`, view)));
        if (node.getBoundingClientRect().top < 0) node.scrollIntoView({ block: "nearest" });
      } catch (error) {
        if (!view.signal.aborted) put(inside, failure(error, fill));
      }
    }
  }

  function details(cell) {
    return [
      note(`Among the most active cells in ${count(cell.times_active)} of ${plural(cell.titles, "title")}. Spread of its value: ${fixed(cell.spread, 3)}.`),
      el("div.topic-sides", cell.sides.map((side) => el("section", { "aria-label": SIGNS[side.sign] },
        el("h3", sign(side.sign), SIGNS[side.sign], " ", el("small", `sharpness ${fixed(side.specificity, 2)}`)),
        side.words.length ? el("ul.words", side.words.map((word) => el("li", el("a.chip", { href: context.link("search", { q: word.word }), title: `${plural(word.count, "time")}, ${fixed(word.lift, 1)} times as often as all cells` }, el("bdi", word.word))))) : note("It responds to no word in this way."),
        examples("Titles", side.titles),
        cell.queries ? examples("Queries", side.queries) : null))),
      cell.queries ? null : note("Queries are listed if the folder about has a file queries.txt; clickvec up writes it."),
    ];
  }

  function examples(heading, found) {
    return found.length ? [el("h4", heading), el("ol.bar-list", texts(found.map(({ text, activation }) => ({ text, value: activation, shown: fixed(activation, 2) })), context))] : null;
  }
}

const sign = (text) => el("b", { class: `sign ${text === "+" ? "plus" : "minus"}` }, el("span.unseen", text === "+" ? "plus: " : "minus: "), el("span", { "aria-hidden": "true" }, text.replace("-", "−")));

const meter = (cell, most) => el("span.meter", { title: `Sharpness ${fixed(cell.sharp, 2)}` },
  el("span.unseen", "sharpness "), bar(cell.sharp, most, false), el("small", fixed(cell.sharp, 2)));

// One entry for each cell, with its one or two topics.
function gather(answer) {
  const cells = new Map();
  const entry = (dimension, cell = dimension, way = "") => {
    if (!cells.has(dimension)) cells.set(dimension, { dimension, cell, way, sides: [], sharp: 0, detections: 0, all: [], dead: answer.dead.includes(dimension) });
    return cells.get(dimension);
  };
  for (const topic of answer.topics) {
    const cell = entry(topic.dimension, topic.cell, topic.way);
    cell.sides.push(topic);
    cell.detections += topic.detections;
    if (topic.detections >= 20) cell.sharp = Math.max(cell.sharp, topic.specificity); // of few words it says little
    cell.all.push(...topic.words.map(({ word }) => word));
  }
  for (const dimension of answer.dead) entry(dimension);
  for (const cell of cells.values()) cell.sides.sort((a, b) => a.sign.codePointAt() - b.sign.codePointAt());
  return [...cells.values()];
}
