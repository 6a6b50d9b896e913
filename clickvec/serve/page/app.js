// The shell: which view is shown, its link, the tabs, colours, shortcuts, the key, and whether the service answers.
//
// A view is a module with `title` and `show(root, params, context)`, which returns a function that cleans up.
// Its link is #/name?param=value; a link restores the view.

import * as api from "./api.js";
import { count, el, failure, loading, put, usesShortcuts } from "./dom.js";

const VIEWS = {
  search: { label: "Search", letter: "s", load: () => import("./search.js") },
  why: { label: "Why", letter: "w", load: () => import("./why.js") },
  try: { label: "Try it out", letter: "t", load: () => import("./try.js") },
  topics: { label: "Topics", letter: "o", load: () => import("./topics.js") },
  map: { label: "Map", letter: "a", load: () => import("./map.js") },
  queries: { label: "Queries", letter: "q", load: () => import("./queries.js") },
  model: { label: "Model", letter: "m", load: () => import("./model.js") },
};
const FIRST = Object.keys(VIEWS)[0];
const CARRIED = ["q"]; // parameters that the tabs hand on

const byId = (id) => document.getElementById(id);
const store = {
  get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* for this page only */ } },
};

// --- links -----------------------------------------------------------------------------------------------------

export function link(view, params = {}) {
  const pairs = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

function current() {
  const [name, text] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: Object.hasOwn(VIEWS, name) ? name : FIRST, params: Object.fromEntries(new URLSearchParams(text || "")) };
}

let shown = null; // {view, cleanup}
let turn = 0;

async function render() {
  const mine = (turn += 1);
  const { view, params } = current();
  shown?.cleanup?.();
  const moved = shown && shown.view !== view;
  shown = { view, cleanup: null };
  drawTabs(view, params);
  const root = byId("view");
  const wait = setTimeout(() => put(root, loading()), 150);
  try {
    const [module, service] = await Promise.all([VIEWS[view].load(), about()]);
    if (mine !== turn) return;
    clearTimeout(wait);
    document.title = `${module.title} · clickvec`;
    root.dataset.view = view;
    const cleanup = module.show(put(root), params, { ...context, service });
    if (shown?.view === view) shown.cleanup = cleanup;
    if (moved) { root.focus({ preventScroll: true }); scrollTo(0, 0); announce(module.title); }
  } catch (error) {
    clearTimeout(wait);
    if (mine === turn) put(root, failure(error, render));
  }
}

// What the service is: GET /about, asked once. A view reads it as context.service.
let known = null;
async function about() {
  known ??= api.get("/about").catch((error) => { known = null; throw error; });
  const service = await known;
  put(byId("foot"), `${count(service.titles)} titles · ${service.name} · `, el("a", { href: "/openapi.json" }, "API"));
  return service;
}

const context = {
  go: (view, params) => { location.hash = link(view, params); },
  // Change the link of the view that is shown, without showing it again.
  keep: (params) => {
    const { view } = current();
    try { history.replaceState(null, "", link(view, params)); } catch { /* Safari allows 100 in half a minute */ }
    drawTabs(view, params);
  },
  link,
  announce: (text) => announce(text),
};

function announce(text) {
  const node = byId("announce");
  node.textContent = "";
  requestAnimationFrame(() => { node.textContent = text; });
}

function drawTabs(view, params) {
  const handed = Object.fromEntries(CARRIED.filter((name) => params[name]).map((name) => [name, params[name]]));
  put(byId("tabs"), Object.entries(VIEWS).map(([name, { label }]) =>
    el("a", { href: link(name, name === view ? params : handed), "aria-current": name === view ? "page" : null, data: { tab: name } }, label)));
  const tabs = byId("tabs"), tab = tabs.querySelector("[aria-current]"); // on a phone, not all tabs fit
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}

// --- colours, shortcuts, key, connection ---------------------------------------------------------------------------

const THEMES = { system: "◐", light: "○", dark: "●" };

function drawTheme() {
  const theme = document.documentElement.dataset.theme || "system";
  const button = byId("theme");
  button.textContent = THEMES[theme];
  button.title = `Colours: ${theme === "system" ? "like the system" : theme}`;
  button.setAttribute("aria-label", button.title);
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme || "system") + 1) % names.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  store.set("clickvec-theme", next);
  drawTheme();
  announce(byId("theme").title);
  dispatchEvent(new Event("themechange")); // drawings read their colours again
}

export function dialog(label, ...children) {
  const box = el("dialog", { "aria-label": label, onclose: () => box.remove() }, children);
  document.body.append(box);
  box.showModal();
  return box;
}

const SHORTCUTS = [
  ["/", "Go to the search field"], ["↓ ↑", "Next or previous hit"], ["← →", "Between words, hybrid and vectors"], ["Enter", "Open the explanation of a hit"], ["t", "Try the hit out"],
  ["Esc", "Back to the search field; again: empty it"], ["n p", "Next or previous page"], ["g", "Then a letter, to go to a view: s search, w why, t try it out, o topics, a map, q queries, m model"], ["?", "This list"],
];

function showShortcuts() {
  if (document.querySelector("dialog")) return;
  const on = el("input", { type: "checkbox", checked: usesShortcuts(), onchange: () => store.set("clickvec-shortcuts", on.checked ? "on" : "off") });
  dialog("Keyboard shortcuts", el("form", { method: "dialog" }, el("h2", "Keyboard shortcuts"),
    el("dl.shortcuts", SHORTCUTS.map(([keys, text]) => [el("dt", keys.split(" ").map((part) => (part.length < 6 ? el("kbd", part) : ` ${part} `))), el("dd", text)])),
    el("label.check", on, "Use shortcuts of a single character"), el("button", "Close")));
}

let going = 0;
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]") || !usesShortcuts()) return;
  const name = Date.now() - going < 1500 && Object.keys(VIEWS).find((view) => VIEWS[view].letter === event.key);
  going = event.key === "g" ? Date.now() : 0;
  if (name) { event.preventDefault(); event.stopImmediatePropagation(); byId("tabs").querySelector(`[data-tab="${name}"]`).click(); }
  else if (event.key === "?") showShortcuts();
  else if (event.key === "/" && current().view !== FIRST) { event.preventDefault(); location.hash = link(FIRST); }
}

let asking = null;
function askForKey(message) {
  asking ??= new Promise((resolve) => {
    const field = el("input", { type: "password", name: "key", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "key-about" });
    const box = dialog("API key", el("form", { method: "dialog", id: "key-form", onsubmit: () => { api.keepKey(field.value.trim()); box.returnValue = "kept"; } },
      el("h2", "This service needs a key"),
      el("p", { id: "key-about" }, message ? [el("strong", message), " "] : null, "Paste an API key. It stays in this tab until you close it."),
      el("label.stacked", "Key", field),
      el("div.row", el("button.main", "Use the key"), el("button", { type: "button", onclick: () => box.close() }, "Cancel"))));
    let kept = false;
    box.addEventListener("submit", () => { kept = Boolean(field.value.trim()); });
    box.addEventListener("close", () => { asking = null; resolve(kept); });
    field.focus();
  });
  return asking;
}

api.setKeyDialog(askForKey);
api.onState((offline) => {
  const banner = byId("banner");
  banner.hidden = !offline;
  put(banner, offline ? ["The service does not answer. Trying again … ", el("button", { type: "button", class: "quiet", onclick: api.probe }, "Try now")] : []);
  if (!offline) { announce("The service answers again."); known = null; render(); }
});
addEventListener("offline", () => api.get("/healthz").catch(() => {}));
addEventListener("hashchange", render);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("view").focus(); });
addEventListener("keydown", onKey);
byId("theme").addEventListener("click", nextTheme);
byId("keys").addEventListener("click", showShortcuts);
drawTheme();
render();
