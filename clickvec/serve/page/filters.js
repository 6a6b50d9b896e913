// Filters by payload fields: the most frequent values as chips with counts, numbers as a range.

import { count, el, put } from "./dom.js";

const FIELDS = 8; // offered at most
const MANY = 2000; // a field with more different texts is an identifier rather than a facet

export function filterOf(text) {
  try {
    const where = JSON.parse(text || "{}");
    return where && typeof where === "object" && !Array.isArray(where) ? where : {};
  } catch { return {}; }
}

const isRange = (field) => field.kind === "number" && field.values > 6;
// A field may be called like an operator; its path then starts with a backslash.
const pathOf = (name) => (["and", "or", "not"].includes(name) ? `\\${name}` : name);

let isOpen = null; // the user's choice holds for the whole visit

// Draw the filters into `root`. `ask(names, where)` gives the answer of a search with facets; `change(where)` is called with a new filter.
export async function drawFilters(root, fields, where, ask, change) {
  // Fields that can divide the hits come first.
  const usable = fields.filter((field) => isRange(field) || field.kind !== "text" || field.values <= MANY);
  const offered = [...usable.filter((field) => field.values > 1), ...usable.filter((field) => field.values <= 1)].slice(0, FIELDS);
  if (!offered.length) return;
  const chips = offered.filter((field) => !isRange(field));
  const counts = {};
  // A field that is filtered shows the other values too: they are counted without its own condition.
  const [filtered, free] = [true, false].map((has) => chips.filter((field) => pathOf(field.name) in where === has).map((field) => pathOf(field.name)));
  for (const [names, condition] of [[free, where], ...filtered.map((name) => [[name], withField(where, name, null)])]) {
    const answer = names.length ? await ask(names, condition) : {};
    if (!answer) return;
    Object.assign(counts, answer.facets);
  }
  if (root.contains(document.activeElement) && document.activeElement.type === "number") return; // do not disturb typing
  const focus = document.activeElement?.dataset?.facet;
  const active = Object.keys(where).length;
  const box = el("details.filters", { open: isOpen ?? Boolean(active), ontoggle: () => { isOpen = box.open; } },
    el("summary", "Filters", active ? el("span.tag.only", active) : null, active ? el("button", { type: "button", class: "quiet", onclick: (event) => { event.preventDefault(); change({}); } }, "Remove all") : null),
    el("div.facets", offered.filter((field) => isRange(field) || counts[pathOf(field.name)]?.length || pathOf(field.name) in where).map((field) => el("fieldset", { data: { field: field.name } }, el("legend", field.name),
      isRange(field) ? drawRange(field, where, change) : drawChips(field, counts[pathOf(field.name)] || [], where, change)))));
  put(root, box);
  if (focus) [...root.querySelectorAll("[data-facet]")].find((chip) => chip.dataset.facet === focus)?.focus();
}

function withField(where, path, condition) {
  const { [path]: _, ...rest } = where;
  return condition === null ? rest : { ...rest, [path]: condition };
}

function drawChips(field, counts, where, change) {
  const path = pathOf(field.name);
  const chosen = Array.isArray(where[path]) ? where[path] : [];
  const all = [...counts, ...chosen.filter((value) => !counts.some((entry) => entry.value === value)).map((value) => ({ value, count: 0 }))];
  return el("div.row", all.map(({ value, count: number }) => {
    const isChosen = chosen.includes(value);
    const next = isChosen ? chosen.filter((other) => other !== value) : [...chosen, value];
    return el("button", { type: "button", class: "chip facet", "aria-pressed": String(isChosen), data: { facet: JSON.stringify([field.name, value]), value }, onclick: () => change(withField(where, path, next.length ? next : null)) },
      el("span.cut", value === "" ? "(blank)" : String(value)), " ", el("small", count(number)));
  }));
}

function drawRange(field, where, change) {
  const path = pathOf(field.name);
  const range = where[path] && typeof where[path] === "object" ? where[path] : {};
  const bound = (key, label, hint) => el("label", label, " ", el("input", { type: "number", step: "any", value: range[key] ?? "", placeholder: hint ?? "", "aria-label": `${field.name} ${label}`, data: { bound: key },
    onchange: (event) => {
      const { [key]: _, ...rest } = range;
      const value = event.target.value === "" ? {} : { [key]: Number(event.target.value) };
      const next = { ...rest, ...value };
      event.target.blur();
      change(withField(where, path, Object.keys(next).length ? next : null));
    } }));
  return el("div.row.range", bound("gte", "from", field.minimum), bound("lte", "to", field.maximum));
}
