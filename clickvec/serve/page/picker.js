// A text field that suggests titles of the index while the user types: a combobox, as ARIA describes it.

import { latest } from "./api.js";
import { el, field as textField, put } from "./dom.js";

const SUGGESTIONS = 7;
let number = 0;

// onpick({id, title}) for a suggestion, or ({title}) for any other text.
export function titlePicker({ label, value = "", placeholder = "", name, onpick, maxlength }) {
  const ask = latest();
  const listId = `titles-${(number += 1)}`;
  let hits = [], active = -1;
  const list = el("ul.suggestions", { role: "listbox", id: listId, "aria-label": "Titles", hidden: true });
  const field = textField(label, {
    type: "text", role: "combobox", name, value, placeholder, maxlength, "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list",
    oninput: suggest, onkeydown: onKey, onblur: () => setTimeout(close, 150), onfocus: (event) => event.target.select(),
  });

  async function suggest() {
    active = -1;
    if (!field.value.trim()) return close();
    try {
      const answer = await ask("POST", "/search", { query: field.value, k: SUGGESTIONS });
      if (!answer || document.activeElement !== field) return;
      hits = answer.hits;
      draw();
    } catch { close(); }
  }

  function draw() {
    put(list, hits.map((hit, at) => el("li", { role: "option", id: `${listId}-${at}`, "aria-selected": String(at === active), data: { id: hit.id }, onpointerdown: (event) => { event.preventDefault(); pick(hit); } }, hit.title)));
    list.hidden = !hits.length;
    field.setAttribute("aria-expanded", String(!list.hidden));
    if (active >= 0) field.setAttribute("aria-activedescendant", `${listId}-${active}`);
    else field.removeAttribute("aria-activedescendant");
  }

  function close() { hits = []; active = -1; draw(); }

  function pick(hit) {
    field.value = hit.title;
    close();
    onpick(hit);
  }

  function onKey(event) {
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && hits.length) {
      event.preventDefault();
      active = (active + (event.key === "ArrowDown" ? 1 : -1) + hits.length + 1) % (hits.length + 1);
      if (active === hits.length) active = -1;
      draw();
    } else if (event.key === "Enter") {
      event.preventDefault();
      ask.cancel();
      if (active >= 0) pick(hits[active]);
      else if (field.value.trim()) { close(); onpick({ title: field.value.trim() }); }
    } else if (event.key === "Escape" && !list.hidden) { event.stopPropagation(); close(); }
  }

  return el("div.picker", field, list);
}
