// Filters by payload fields: the most frequent values as chips with counts, numbers as a range.

import { button, count, el, put } from "./dom.js";

const FIELDS = 8; // offered at most
const MANY = 2000; // a field with more different texts is an identifier rather than a facet

export function filterOf(text) {
  try {
    const where = JSON.parse(text || "{}");
    return where && typeof where === "object" && !Array.isArray(where) ? where : {};
  } catch { return {}; }
}

// A field may be called like an operator; its path then starts with a backslash.
const withPath = (field) => ({ ...field, path: ["and", "or", "not"].includes(field.name) ? `\\${field.name}` : field.name, isRange: field.kind === "number" && field.values > 6 });

let isOpen = null; // the user's choice holds for the whole visit

// The fields to filter by. Those that can divide the hits come first.
export function offeredFields(fields) {
  const usable = fields.map(withPath).filter((field) => field.kind !== "text" || field.values <= MANY);
  return [...usable.filter((field) => field.values > 1), ...usable.filter((field) => field.values <= 1)].slice(0, FIELDS);
}

export function filterBox(active, summary, content) {
  const box = el("details.filters", { open: isOpen ?? active > 0, ontoggle: () => { isOpen = box.open; } }, el("summary", "Filters", summary), content);
  return box;
}

// Draw the filters into `root`. `ask(names, where)` gives the answer of a search with facets; `change(where)` is called with a new filter.
export async function drawFilters(root, offered, where, ask, change) {
  const chips = offered.filter((field) => !field.isRange);
  const counts = {};
  // A field that is filtered shows the other values too: they are counted without its own condition.
  const [filtered, free] = [true, false].map((has) => chips.map((field) => field.path).filter((path) => path in where === has));
  for (const [names, condition] of [[free, where], ...filtered.map((name) => [[name], withField(where, name, null)])]) {
    const answer = names.length ? await ask(names, condition) : {};
    if (!answer) return;
    Object.assign(counts, answer.facets);
  }
  if (root.contains(document.activeElement) && document.activeElement.type === "number") return; // do not disturb typing
  const focus = document.activeElement?.dataset?.facet;
  const active = Object.keys(where).length;
  put(root, filterBox(active,
    active > 0 && [el("span.tag.only", active), button("Remove all", (event) => { event.preventDefault(); change({}); }, { class: "quiet" })],
    el("div.facets", offered.filter((field) => field.isRange || counts[field.path]?.length || field.path in where).map((field) => el("fieldset", el("legend", field.name),
      field.isRange ? drawRange(field, where, change) : drawChips(field, counts[field.path] || [], where, change))))));
  if (focus) [...root.querySelectorAll("[data-facet]")].find((chip) => chip.dataset.facet === focus)?.focus();
}

function withField(where, path, condition) {
  const { [path]: _, ...rest } = where;
  return condition === null ? rest : { ...rest, [path]: condition };
}

function drawChips(field, counts, where, change) {
  const { path } = field;
  const chosen = Array.isArray(where[path]) ? where[path] : [];
  const all = [...counts, ...chosen.filter((value) => !counts.some((entry) => entry.value === value)).map((value) => ({ value, count: 0 }))];
  return el("div.row", all.map(({ value, count: number }) => {
    const isChosen = chosen.includes(value);
    const next = isChosen ? chosen.filter((other) => other !== value) : [...chosen, value];
    return button([el("span.cut", value === "" ? "(blank)" : String(value)), " ", el("small", count(number))], () => change(withField(where, path, next.length ? next : null)),
      { class: "chip facet", "aria-pressed": String(isChosen), data: { facet: JSON.stringify([field.name, value]) } });
  }));
}

function drawRange(field, where, change) {
  const { path } = field;
  const range = where[path] && typeof where[path] === "object" ? where[path] : {};
  const bound = (key, label, hint) => el("label", label, " ", el("input", { type: "number", step: "any", value: range[key] ?? "", placeholder: hint ?? "", "aria-label": `${field.name} ${label}`,
    onchange: (event) => {
      const { [key]: _, ...rest } = range;
      const next = event.target.value === "" ? rest : { ...rest, [key]: Number(event.target.value) };
      event.target.blur();
      change(withField(where, path, Object.keys(next).length ? next : null));
    } }));
  return el("div.row.range", bound("gte", "from", field.minimum), bound("lte", "to", field.maximum));
}
