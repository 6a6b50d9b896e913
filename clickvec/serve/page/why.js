// Why a title has its score for a query: sums that add up, the title it beat, the words to change, and the cells.

import { get, latest } from "./api.js";
import { choice, count, el, empty, failure, fixed, litWord, loading, plural, put, scrolled, signed } from "./dom.js";
import { bar } from "./draw.js";
import { cellTopics, drawGates } from "./gates.js";
import { titlePicker } from "./picker.js";

export const title = "Why";

const CELLS = 8; // listed, of those that answered
const PARTS = {
  cosine: "how close the vectors are", words: "the words of the query that it has (BM25)", codes: "numbers and codes that match", constant: "where every title starts",
  "rarest match": "the rarest word that matched", "unknown words": "words of the query that no title has", "rarest word": "how rare the words of the query are", "query length": "how long the query is", calibration: "so that scores are real probabilities",
};
const isSame = (a, b) => String(a) === String(b);

export function show(root, params, context) {
  const { service, go, announce } = context;
  const askMain = latest(), askHits = latest(), askOther = latest();
  const q = params.q || "";
  const target = params.id !== undefined ? { id: params.id } : params.title ? { title: params.title } : {};
  const query = el("input", { type: "search", name: "q", id: "why-query", value: q, maxlength: service.limits.query_characters, "aria-label": "Query", placeholder: "Query", autocomplete: "off", spellcheck: "false" });
  const picker = titlePicker({ label: "Title: why this one, or why not", name: "title", placeholder: "Any title: type to find one", maxlength: service.limits.title_characters, onpick: (hit) => go("why", { q: query.value, ...(hit.id !== undefined ? { id: hit.id } : { title: hit.title }) }) });
  const form = el("form.pairform", { id: "why-form", onsubmit: (event) => { event.preventDefault(); if (query.value.trim()) go("why", { q: query.value, ...target }); } }, el("label.stacked", "For the query", query), el("label.stacked", "Why this title, or why not this one", picker), el("button.unseen", "Explain"));
  const content = el("div", { id: "why" });
  root.append(el("h1.unseen", title), form, content);

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
    const most = Math.max(0.05, ...[...pair.query_words, ...pair.title_words].map((word) => Math.abs(word.contribution)));
    const matched = new Set(fused.words.filter((word) => word.contribution > 0).map((word) => word.word));
    const hitsOf = new Set(fused.words.flatMap((word) => word.matched));
    const lit = (words, isMatch) => words.map((word, at) => [at ? " " : "", litWord(word.word, word.contribution, most, { title: `${signed(word.contribution)} of the cosine` }, isMatch(word.word))]);
    const comparison = el("section", { id: "comparison" });
    const gates = el("section", { id: "gates" });
    put(content,
      el("header.pair",
        el("p.eyebrow", verdict(rank, service)),
        el("h2.headline", lit(pair.title_words, (word) => [...hitsOf].some((hit) => word.includes(hit)))),
        el("p.lead", "for ", el("span.asked", lit(pair.query_words, (word) => matched.has(word)))),
        el("ul.figures", figures(answer, service)),
        el("div.row",
          service.has_cells && el("a.button", { id: "to-try", href: context.link("try", { q, ...(rank.id !== null ? { id: rank.id } : { title: answer.title }) }) }, "Try it out: edit it word by word"),
          el("a.button", { href: context.link("search", { q }) }, "All hits"), documentDetails(rank))),
      el("div.halves", scoreSection(answer), pair.links?.[0]?.length ? linksSection(pair) : null),
      wordsSection(answer, most), comparison, gates, cellsSection(pair, service.has_cells));
    drawComparison(comparison, answer);
    const marks = { query: pair.query_words.map((word) => word.keyword), title: pair.title_words.map((word) => word.keyword) };
    if (answer.trace) {
      const box = el("div");
      put(gates, el("h2", "Gate by gate"), el("p", "Each row is a word, in the order of reading; each column is a cell of the network. Keywords are bold. Query and title share the columns, so cells that answer to both line up."), box);
      drawGates(box, answer.trace, marks);
      cellTopics().then((known) => { if (gates.isConnected && known.size) drawGates(box, answer.trace, marks, known); });
    } else gates.remove();
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

  // --- the title that it beat, or that beat it -------------------------------------------------------------------

  async function drawComparison(section, answer) {
    let hits = [];
    try { hits = (await askHits("POST", "/search", { query: q, k: 30 }))?.hits || []; } catch { /* the picker is left */ }
    if (!section.isConnected) return;
    const at = hits.findIndex((hit) => isSame(hit.id, answer.rank.id));
    const others = { };
    if (answer.why_not) others.first = ["Why is it not first?", null];
    if (at > 1) others.above = ["Why not one place higher?", hits[at - 1]];
    if (at >= 0 && hits[at + 1]) others.below = ["What did it beat?", hits[at + 1]];
    const box = el("div");
    const against = titlePicker({ label: "Compare with another title", placeholder: "Compare with any title", onpick: (hit) => compare("any", hit) });
    let name = Object.keys(others)[0];
    put(section, el("h2", "Beside another title"),
      el("div.row", name && choice("Compare with", "against", Object.fromEntries(Object.entries(others).map(([key, [text]]) => [key, text])), name, (key) => compare(key, others[key][1])), against), box);
    if (name) compare(name, others[name][1]);

    async function compare(key, hit) {
      if (key === "first") return put(box, comparisonBody(answer.why_not, false));
      put(box, loading("Comparing …"));
      try {
        const mine = answer.rank.id ?? answer.title, theirs = hit.id ?? hit.title;
        // The better one is what the other is compared with.
        const isBelow = key === "below" || (hit.id !== undefined && hits.findIndex((other) => isSame(other.id, hit.id)) > at && at >= 0);
        const body = isBelow ? { ...(hit.id !== undefined ? { id: hit.id } : { title: hit.title }), compare_with: mine } : { ...(answer.rank.id !== null ? { id: answer.rank.id } : { title: answer.title }), compare_with: theirs };
        const found = await askOther("POST", "/explain", { query: q, ...body });
        if (found) put(box, comparisonBody(found.why_not, isBelow));
      } catch (error) { put(box, failure(error)); }
    }
  }

  explain();
  return () => { for (const ask of [askMain, askHits, askOther]) ask.cancel(); };
}

// --- parts of the page -------------------------------------------------------------------------------------------

function verdict(rank, service) {
  if (rank.rank === 1) return rank.id === null ? "It would be the first hit" : "The first hit";
  if (rank.rank) return `${rank.id === null ? "It would be hit" : "Hit"} ${count(rank.rank)} of ${count(rank.of)}`;
  return rank.depth ? `Beyond the best ${count(rank.depth)} of ${plural(service.titles, "title")} by words and by vectors` : "This query does not find it";
}

function figures({ fused, rank }, service) {
  const all = [
    [service.fusion === "clicks" ? `${(100 * fused.score).toFixed(1)}%` : fixed(fused.score), service.fusion === "clicks" ? "score: chance of a click" : "score"],
    [fixed(fused.cosine), rank.by_vectors ? `cosine · ${count(rank.by_vectors)}. by vectors` : "cosine"],
    [fixed(fused.bm25, 2), rank.by_words ? `BM25 · ${count(rank.by_words)}. by words` : "BM25 · not found by words"],
  ];
  return all.map(([value, text]) => el("li", el("b", value), el("span", text)));
}

function sumTable(caption, heads, rows, total) {
  return scrolled(caption, el("table.sum", el("caption", el("span", caption)),
    el("thead", el("tr", heads.map((text, at) => el("th", { scope: "col", class: at === 1 ? "n" : ["without it", "query", "title"].includes(text) ? "n optional" : null }, text)))),
    el("tbody", rows), el("tfoot", el("tr", el("th", { scope: "row" }, "Total"), el("td.n", total[0]), el("td", { colspan: heads.length - 2 }, total[1])))));
}

function scoreSection({ fused }) {
  const most = Math.max(...fused.parts.map((part) => Math.abs(part.contribution)), 1e-9);
  const rows = fused.parts.filter((part) => part.contribution || ["words", "cosine"].includes(part.name)).map((part) => el("tr", el("th", { scope: "row" }, part.name), el("td.n", signed(part.contribution)), el("td", bar(part.contribution, most)), el("td.soft.optional", PARTS[part.name] || "")));
  const end = fused.is_probability ? `= log odds of ${(100 * fused.score).toFixed(1)}%, the score` : "= score";
  return el("section", { id: "score" }, el("h2", "The score is a sum"),
    sumTable({ clicks: "A logistic model of clicks weighs what words and vectors say.", mixture: "A weighted sum of what words and vectors say.", ranks: "The places by words and by vectors (reciprocal rank fusion)." }[fused.method] || fused.method, ["part", "adds", "", ""], rows, [signed(fused.total), end]));
}

function wordsSection({ explanation: pair, fused }, most) {
  const side = (name, words) => sumTable(`Words of the ${name}`, ["word", "adds", "", "without it", ""], words.map((word) => el("tr", null,
    el("th", { scope: "row" }, word.word), el("td.n", signed(word.contribution)), el("td", bar(word.contribution, most)), el("td.n.soft.optional", fixed(word.without)),
    el("td", word.keyword && el("span.chip.k", { title: "Many of the most active cells detect it" }, "keyword"), word.unimportant && el("span.chip", { title: "The vector hardly changes without it" }, "unimportant"), word.known < 1 && el("span.chip", { title: "Letter trigrams of the word that the model knows" }, `${Math.round(100 * word.known)}% known`)))),
  [signed(words.reduce((sum, word) => sum + word.contribution, 0)), "= cosine"]);
  const found = fused.words;
  const bmMost = Math.max(...found.map((word) => word.contribution), 1e-9);
  return el("section", { id: "words" }, el("h2", "Every word adds its part"),
    el("div.pairs",
      el("div", el("h3", `By meaning: cosine ${fixed(pair.score)}`), side("title", pair.title_words)),
      el("div", el("h3.level", { "aria-hidden": "true" }, "\u00a0"), side("query", pair.query_words),
        Math.abs(fused.rounding) > 0.0005 && el("p.note", `The index stores rounded vectors: they change the cosine by ${signed(fused.rounding, 4)}.`)),
      el("div", el("h3", `By words: BM25 ${fixed(fused.bm25, 2)}`),
        found.length ? sumTable("Words of the query", ["word", "adds", "", "in the title"], found.map((word) => el("tr", el("th", { scope: "row" }, word.word), el("td.n", signed(word.contribution, 2)), el("td", bar(word.contribution, bmMost, false)), el("td.soft", word.matched.join(", ") || (word.is_known ? "–" : word.similar.length ? `– (stands for ${word.similar.join(", ")})` : "– (no title has it)")))), [signed(fused.bm25, 2), "= BM25"]) : el("p.note", "The query has no words."))));
}

function linksSection(pair) {
  const most = Math.max(...pair.links.flat().map(Math.abs), 1e-9);
  return el("section", { id: "links" }, el("h2", "Which words answer each other"),
    el("p", "Each square is the part of the cosine that a word of the query and a word of the title make together, through the cells that respond to both. All squares add up to the cosine."),
    scrolled("Links between words", el("table.grid", el("thead", el("tr", el("td", el("span.unseen", "query \\ title")), pair.title_words.map((word) => el("th", { scope: "col" }, word.word)))),
      el("tbody", pair.links.map((row, at) => el("tr", el("th", { scope: "row" }, pair.query_words[at].word), row.map((value) => el("td", { class: value < 0 ? "m" : "p", style: { "--a": (Math.abs(value) / most).toFixed(2) } }, fixed(value, 2)))))))));
}

function cellsSection(pair, hasTopics) {
  const dimensions = pair.cells.map((cell, at) => ({ ...cell, at })).sort((a, b) => b.contribution - a.contribution);
  const best = dimensions.slice(0, CELLS).filter((cell) => cell.contribution > 0);
  if (!best.length) return null;
  const rest = dimensions.slice(best.length).reduce((sum, cell) => sum + cell.contribution, 0);
  const most = best[0].contribution;
  const topics = best.map(() => el("td.soft"));
  if (hasTopics) cellTopics().then((known) => best.forEach((cell, at) => put(topics[at], (known.get(`${cell.at}${cell.title < 0 ? "-" : "+"}`) || []).join(", "))));
  const rows = best.map((cell, at) => el("tr", el("th", { scope: "row" }, hasTopics ? el("a", { href: `#/topics?cell=${cell.at}` }, cell.cell) : cell.cell, cell.way === "right to left" ? " ←" : ""), el("td.n", signed(cell.contribution)), el("td", bar(cell.contribution, most, false)), el("td.n.soft.optional", fixed(cell.query)), el("td.n.soft.optional", fixed(cell.title)), topics[at]));
  if (dimensions.length > best.length) rows.push(el("tr", el("th", { scope: "row" }, `${dimensions.length - best.length} others`), el("td.n", signed(rest)), el("td"), el("td.optional"), el("td.optional"), el("td")));
  return el("section", { id: "cells" }, el("h2", hasTopics ? "The cells that answered" : "The dimensions that answered"),
    sumTable("A cell adds the product of its outputs for the query and for the title.", ["cell", "adds", "", "query", "title", "responds in titles to"], rows, [signed(pair.score), "= cosine"]));
}

// Beside another title. In `isMirrored`, the explanation is that of the other title, which this one beats.
function comparisonBody(why, isMirrored) {
  const [mine, other] = isMirrored ? [why.first, why.title] : [why.title, why.first];
  const ahead = isMirrored ? why.gap : -why.gap;
  const rows = (shares) => shares.map((share) => ({ name: share.word, mine: isMirrored ? share.first : share.title, other: isMirrored ? share.title : share.first, by: isMirrored ? share.difference : -share.difference }));
  const parts = rows(why.parts);
  const reasons = parts.filter((part) => part.by * ahead > 0).sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, 2).map((part) => `${part.name} (${signed(part.by)})`);
  return el("div.beside",
    el("p.lead", ahead >= 0 ? "It beats " : "It loses to ", el("q.other", other.title), Math.abs(ahead) < 5e-4 ? " by a hair" : ` by ${fixed(Math.abs(ahead))} of the score`, reasons.length ? `, mostly by ${reasons.join(" and ")}.` : "."),
    el("div.pairs",
      differences("Parts of the score", parts),
      el("div", differences("Words of the query: cosine", rows(why.words)), why.bm25_words.some((share) => share.title || share.first) && differences("Words of the query: BM25", rows(why.bm25_words), 2))),
    !isMirrored && ahead < 0 && changes(why, mine));
}

function differences(caption, rows, digits = 3) {
  const most = Math.max(...rows.map((row) => Math.abs(row.by)), 1e-9);
  const shown = rows.filter((row) => Math.abs(row.mine) > 5e-4 || Math.abs(row.other) > 5e-4);
  return scrolled(caption, el("table", el("caption", el("span", caption)), el("thead", el("tr", ["", "this", "other", "difference", ""].map((text, at) => el("th", { scope: "col", class: at && at < 4 ? "n" : null }, text)))),
    el("tbody", shown.map((row) => el("tr", el("th", { scope: "row" }, row.name), el("td.n.soft", fixed(row.mine, digits)), el("td.n.soft", fixed(row.other, digits)), el("td.n", signed(row.by, digits)), el("td", bar(row.by, most)))))));
}

const EDITS = { add: (edit) => ["Add ", el("b", edit.put)], "leave out": (edit) => ["Leave out ", el("b", edit.out)], replace: (edit) => ["Write ", el("b", edit.put), " in place of ", el("b", edit.out)] };

function changes(why, mine) {
  const step = (edit) => el("li", (EDITS[edit.kind] || (() => edit.kind))(edit), `: ${signed(edit.change)}, then `, el("span.number", fixed(edit.score)), el("div.note", edit.title));
  const words = (list) => list.slice(0, 6).map((word, at) => [at ? ", " : "", el("b", word.word), ` (${signed(word.contribution, 2)})`]);
  return el("div.change", { id: "change" }, el("h3", "What would have to change"),
    why.missing.length ? el("p", "Words that help the other title and are missing here: ", words(why.missing), ".") : null,
    why.burdens.length ? el("p", "Words of this title that lower its score: ", words(why.burdens), ".") : null,
    why.path.length ? [el("p", why.reached ? `${why.path.length === 1 ? "One edit" : `${why.path.length} edits`} would put it ahead:` : "These edits bring it closest, but not ahead:"), el("ol.path", why.path.map(step))] : el("p", "No edit of a word raises its score."),
    el("p", el("a", { href: `#/try?${new URLSearchParams({ q: mine.query, title: why.path.at(-1)?.title || mine.title })}` }, "Try these edits out")));
}
