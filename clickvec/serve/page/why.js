// Why a title has its score for a query: sums that add up, the title it beat, the words to change, and the cells.

import { get, latest } from "./api.js";
import { choice, count, el, empty, failure, field, figures, fixed, largest, listed, litWord, loading, note, plural, put, scoreText, scrolled, section, signed, table } from "./dom.js";
import { bar } from "./draw.js";
import { cellTopics, drawGates } from "./gates.js";
import { titlePicker } from "./picker.js";

const CELLS = 8; // listed, of those that answered
// The words of the query that explain parts of the score, such as BM25.
const matches = (fused) => fused.parts.flatMap((part) => part.words || []);
// A title by its id or, if it has none, by its text.
const named = ({ id, title: text }) => (id === undefined || id === null ? { title: text } : { id });

export function show(root, params, context) {
  const { service, go, announce } = context;
  const askMain = latest(), askHits = latest(), askOther = latest();
  const q = params.q || "";
  const target = params.id !== undefined || params.title ? named(params) : {};
  const query = field("Query", { name: "q", value: q, maxlength: service.limits.query_characters, placeholder: "Query" });
  const picker = titlePicker({ label: "Title: why this one, or why not", name: "title", placeholder: "Any title: type to find one", maxlength: service.limits.title_characters, onpick: (hit) => go("why", { q: query.value, ...named(hit) }) });
  const form = el("form.pairform", { onsubmit: (event) => { event.preventDefault(); if (query.value.trim()) go("why", { q: query.value, ...target }); } }, el("label.stacked", "For the query", query), el("label.stacked", "Why this title, or why not this one", picker), el("button.unseen", "Explain"));
  const content = el("div");
  root.append(el("h1.unseen", "Why"), form, content);

  async function explain() {
    if (!q.trim()) return put(content, empty("Pick a query and a title", "The page then shows which words, and which cells of the network, make the score, and what would have to change."));
    put(content, loading("Explaining …"));
    try {
      const answer = await askMain("POST", "/explain", { query: q, ...target, trace: true });
      if (!answer) return;
      picker.querySelector("input").value = answer.title;
      drawAll(answer);
      announce(`Explained: ${answer.title}`);
    } catch (error) {
      const isNothing = error.status === 422 && /finds nothing/.test(error.message);
      put(content, isNothing ? empty("Nothing found", "The index finds nothing for this query. Pick a title, and the page tells why.") : failure(error, explain));
    }
  }

  function drawAll(answer) {
    const { explanation: pair, fused, rank } = answer;
    const most = largest([...pair.query_words, ...pair.title_words].map((word) => word.contribution), 0.05);
    const matched = new Set(matches(fused).filter((word) => word.contribution > 0).map((word) => word.word));
    const hitsOf = new Set(matches(fused).flatMap((word) => word.matched));
    const lit = (words, isMatch) => words.map((word) => [litWord(word.word, word.contribution, most, { title: `${signed(word.contribution)} of the cosine` }, isMatch(word.word)), " "]);
    const self = named({ id: rank.id, title: answer.title });
    const comparison = section("Beside another title", { id: "comparison" });
    put(content,
      el("header.pair",
        el("p.eyebrow", verdict(rank, service)),
        el("h2.headline", lit(pair.title_words, (word) => [...hitsOf].some((hit) => word.includes(hit)))),
        el("p.lead", "for ", el("span.asked", lit(pair.query_words, (word) => matched.has(word)))),
        figures([[scoreText(fused.score, service), service.fusion === "clicks" ? "score: chance of a click" : "score"],
          ...fused.parts.map(({ name, label, value, words }) => [fixed(value, words ? 2 : 3), `${label}${place(rank.by, name, words)}`])]),
        el("div.row",
          service.has_cells && el("a.button", { href: context.link("try", { q, ...self }) }, "Try it out: edit it word by word"),
          el("a.button", { href: context.link("search", { q }) }, "All hits"), documentDetails(rank))),
      el("div.halves", scoreSection(answer), pair.links?.[0]?.length ? linksSection(pair) : null),
      wordsSection(answer, most), comparison, answer.trace && gatesSection(answer.trace, pair), cellsSection(pair, service.has_cells));
    drawComparison(comparison, answer, self);
  }

  // The document as it is stored, on demand.
  function documentDetails(rank) {
    if (rank.id === null) return el("span.note", "This title is not in the index.");
    const box = el("details.document", { ontoggle: async () => {
      if (!box.open || box.dataset.loaded) return;
      box.dataset.loaded = "yes";
      try {
        const found = await get(`/documents/${encodeURIComponent(rank.id)}`);
        box.append(el("pre", JSON.stringify(found, null, 2)));
      } catch (error) { box.append(failure(error)); }
    } }, el("summary", "Document"));
    return box;
  }

  // --- the title that it beat, or that beat it ---

  async function drawComparison(box, answer, self) {
    let hits = [];
    try { hits = (await askHits("POST", "/search", { query: q, k: 30 }))?.hits || []; } catch { /* what is left can be compared */ }
    const at = hits.findIndex((hit) => String(hit.id) === String(answer.rank.id)), below = at >= 0 && hits[at + 1], found = el("div");
    if (!box.isConnected) return;
    const others = { ...(answer.why_not && { first: "Why is it not first?" }), ...(below && { below: "What did it beat?" }) }, name = Object.keys(others)[0];
    if (!name) return box.remove();
    box.append(choice("Compare with", "against", others, name, compare), found);
    compare(name);

    async function compare(key) {
      if (key === "first") return put(found, comparisonBody(answer.why_not, false));
      put(found, loading("Comparing …"));
      try {
        const told = await askOther("POST", "/explain", { query: q, id: below.id, compare_with: self.id });
        if (told) put(found, comparisonBody(told.why_not, true));
      } catch (error) { put(found, failure(error)); }
    }
  }

  explain();
  return () => { for (const ask of [askMain, askHits, askOther]) ask.cancel(); };
}

// --- parts of the page ---

function verdict(rank, service) {
  if (rank.rank === 1) return rank.id === null ? "It would be the first hit" : "The first hit";
  if (rank.rank) return `${rank.id === null ? "It would be hit" : "Hit"} ${count(rank.rank)} of ${count(rank.of)}`;
  return rank.depth ? `Beyond the best ${count(rank.depth)} of ${plural(service.titles, "title")} by words and by vectors` : "This query does not find it";
}

// Where a part alone has the title.
function place(by, name, words) {
  if (!(name in by)) return "";
  return by[name] ? ` · ${count(by[name])}. by ${name}` : words ? ` · not found by ${name}` : "";
}

const METHODS = {
  clicks: "A logistic model of clicks weighs what words and vectors say.", mixture: "A weighted sum of what words and vectors say.", ranks: "The places by words and by vectors (reciprocal rank fusion).",
};

function scoreSection({ fused }) {
  const terms = fused.terms.filter((term) => term.contribution || ["words", "cosine"].includes(term.name)), most = largest(terms.map((term) => term.contribution));
  const end = fused.is_probability ? `= log odds of ${(100 * fused.score).toFixed(1)}%, the score` : "= score";
  return section("The score is a sum", { id: "score" },
    table(METHODS[fused.method] || fused.method, [["part"], ["adds", "n"], [""], ["", "soft optional"]],
      terms.map((term) => [term.name, signed(term.contribution), bar(term.contribution, most), term.meaning]), { total: [signed(fused.total), end] }));
}

function wordsSection({ explanation: pair, fused }, most) {
  const chip = (text, about, kind = "") => el(`span.chip${kind}`, { title: about }, text);
  const side = (name, words) => table(`Words of the ${name}`, [["word"], ["adds", "n"], [""], ["without it", "n soft optional"], [""]],
    words.map((word) => [word.word, signed(word.contribution), bar(word.contribution, most), fixed(word.without), [
      word.keyword && chip("keyword", "Many of the most active cells detect it", ".k"), word.unimportant && chip("unimportant", "The vector hardly changes without it"),
      word.known < 1 && chip(`${Math.round(100 * word.known)}% known`, "Letter trigrams of the word that the model knows")]]),
    { total: [signed(words.reduce((sum, word) => sum + word.contribution, 0)), "= cosine"] });
  const inTitle = (word) => word.matched.join(", ") || (word.is_known ? "–" : word.similar.length ? `– (stands for ${word.similar.join(", ")})` : "– (no title has it)");
  return section("Every word adds its part", { id: "words" },
    el("h3", `By meaning: cosine ${fixed(pair.score)}`),
    el("div.pairs", side("title", pair.title_words), side("query", pair.query_words)),
    fused.parts.map((part) => Math.abs(part.rounding) > 0.0005 && note(`The index stores rounded vectors: they change the ${part.label} by ${signed(part.rounding, 4)}.`)),
    fused.parts.filter((part) => part.words).map(matchesOf));

  // What each word of the query adds to a part of the score.
  function matchesOf({ name, label, value, words: found }) {
    const longest = largest(found.map((word) => word.contribution));
    return [el("h3", `By ${name}: ${label} ${fixed(value, 2)}`),
      found.length ? table("Words of the query", [["word"], ["adds", "n"], [""], ["in the title", "soft"]],
        found.map((word) => [word.word, signed(word.contribution, 2), bar(word.contribution, longest, false), inTitle(word)]), { total: [signed(value, 2), `= ${label}`] }) : note("The query has no words.")];
  }
}

function linksSection(pair) {
  const most = largest(pair.links.flat());
  return section("Which words answer each other", null,
    el("p", "What a word of the query and a word of the title add to the cosine together, through the cells that respond to both. All squares add up to the cosine."),
    scrolled("Links between words", el("table.grid", el("thead", el("tr", el("td", el("span.unseen", "query \\ title")), pair.title_words.map((word) => el("th", { scope: "col" }, word.word)))),
      el("tbody", pair.links.map((row, at) => el("tr", el("th", { scope: "row" }, pair.query_words[at].word), row.map((value) => el("td", { class: value < 0 ? "m" : "p", style: { "--a": (Math.abs(value) / most).toFixed(2) } }, fixed(value, 2)))))))));
}

function gatesSection(trace, pair) {
  const marks = { query: pair.query_words.map((word) => word.keyword), title: pair.title_words.map((word) => word.keyword) };
  const box = el("div");
  drawGates(box, trace, marks);
  cellTopics().then((known) => { if (box.isConnected && known.size) drawGates(box, trace, marks, known); });
  return section("Gate by gate", { id: "gates" }, el("p", "Each row is a word, each column a cell of the network. Keywords are bold. Query and title share the columns, so cells that answer to both line up."), box);
}

function cellsSection(pair, hasTopics) {
  const dimensions = pair.cells.map((cell, at) => ({ ...cell, at })).sort((a, b) => b.contribution - a.contribution);
  const best = dimensions.slice(0, CELLS).filter((cell) => cell.contribution > 0), rest = dimensions.slice(best.length);
  if (!best.length) return null;
  const topics = best.map(() => el("span"));
  if (hasTopics) cellTopics().then((known) => best.forEach((cell, at) => put(topics[at], (known.get(`${cell.at}${cell.title < 0 ? "-" : "+"}`) || []).join(", "))));
  const rows = best.map((cell, at) => [[hasTopics ? el("a", { href: `#/topics?cell=${cell.at}` }, cell.cell) : cell.cell, cell.way === "right to left" ? " ←" : ""],
    signed(cell.contribution), bar(cell.contribution, best[0].contribution, false), fixed(cell.query), fixed(cell.title), topics[at]]);
  if (rest.length) rows.push([`${rest.length} others`, signed(rest.reduce((sum, cell) => sum + cell.contribution, 0)), "", "", "", ""]);
  return section(hasTopics ? "The cells that answered" : "The dimensions that answered", { id: "cells" },
    table("A cell adds the product of its outputs for the query and for the title.", [["cell"], ["adds", "n"], [""], ["query", "n soft optional"], ["title", "n soft optional"], ["responds in titles to", "soft"]], rows, { total: [signed(pair.score), "= cosine"] }));
}

// Beside another title. In `isMirrored`, the explanation is that of the other title, which this one beats.
function comparisonBody(why, isMirrored) {
  const [mine, other, sign] = isMirrored ? ["first", "title", 1] : ["title", "first", -1];
  const ahead = sign * why.gap;
  const rows = (shares) => shares.map((share) => ({ name: share.word, mine: share[mine], other: share[other], by: sign * share.difference }));
  const parts = rows(why.terms);
  const reasons = parts.filter((part) => part.by * ahead > 0).sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, 2).map((part) => `${part.name} (${signed(part.by)})`);
  return el("div",
    el("p.lead", ahead >= 0 ? "It beats " : "It loses to ", el("q.other", why[other].title), Math.abs(ahead) < 5e-4 ? " by a hair" : ` by ${fixed(Math.abs(ahead))} of the score`, reasons.length ? `, mostly by ${reasons.join(" and ")}.` : "."),
    el("div.pairs",
      differences("Parts of the score", parts),
      el("div", differences("Words of the query: cosine", rows(why.words)), Object.entries(why.part_words).filter(([, words]) => words.some((share) => share.title || share.first)).map(([label, words]) => differences(`Words of the query: ${label}`, rows(words), 2)))),
    !isMirrored && ahead < 0 && changes(why));
}

function differences(caption, rows, digits = 3) {
  const most = largest(rows.map((row) => row.by));
  return table(caption, [[""], ["this", "n soft"], ["other", "n soft"], ["difference", "n"], [""]],
    rows.filter((row) => largest([row.mine, row.other]) > 5e-4).map((row) => [row.name, fixed(row.mine, digits), fixed(row.other, digits), signed(row.by, digits), bar(row.by, most)]));
}

const EDITS = { add: (edit) => ["Add ", el("b", edit.put)], "leave out": (edit) => ["Leave out ", el("b", edit.out)], replace: (edit) => ["Write ", el("b", edit.put), " in place of ", el("b", edit.out)] };

function changes(why) {
  const step = (edit) => el("li", EDITS[edit.kind]?.(edit) || edit.kind, `: ${signed(edit.change)}, then `, el("span", fixed(edit.score)), el("div.note", edit.title));
  const words = (about, list) => list.length > 0 && el("p", about, listed(list.slice(0, 6).map((word) => [el("b", word.word), ` (${signed(word.contribution, 2)})`])), ".");
  return el("div", { id: "change" }, el("h3", "What would have to change"),
    words("Words that help the other title and are missing here: ", why.missing),
    words("Words of this title that lower its score: ", why.burdens),
    why.path.length ? [el("p", why.reached ? `${why.path.length === 1 ? "One edit" : `${why.path.length} edits`} would put it ahead:` : "These edits bring it closest, but not ahead:"), el("ol.path", why.path.map(step))] : el("p", "No edit of a word raises its score."),
    el("p", el("a", { href: `#/try?${new URLSearchParams({ q: why.title.query, title: why.path.at(-1)?.title || why.title.title })}` }, "Try these edits out")));
}
