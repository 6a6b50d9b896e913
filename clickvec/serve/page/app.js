// The shell: which view is shown, its link, the tabs, colours, shortcuts, the key, and whether the service answers.
//
// A view is a module with `show(root, params, context)`, which returns a function that cleans up.
// Its link is #/name?param=value; a link restores the view.

import * as api from "./api.js";
import { button, count, el, failure, loading, put, usesShortcuts } from "./dom.js";

const VIEWS = { search: "Search", why: "Why", try: "Try it out", topics: "Topics", map: "Map", queries: "Queries", model: "Model" };
const FIRST = "search";

const byId = (id) => document.getElementById(id);
const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* for this page only */ } };

// --- links ---

function link(view, params = {}) {
  const pairs = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

function current() {
  const [name, text] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: Object.hasOwn(VIEWS, name) ? name : FIRST, params: Object.fromEntries(new URLSearchParams(text || "")) };
}

let shown = null; // {view, cleanup}
let turn = 0, wait = 0;

async function render() {
  const mine = (turn += 1);
  const { view, params } = current();
  shown?.cleanup?.();
  const moved = shown && shown.view !== view;
  shown = { view, cleanup: null };
  drawTabs(view, params);
  const main = byId("view");
  clearTimeout(wait); // of a view that was left before it was loaded
  wait = setTimeout(() => put(main, loading()), 150);
  try {
    const [module, service] = await Promise.all([import(`./${view}.js`), about()]);
    if (mine !== turn) return;
    clearTimeout(wait);
    document.title = `${VIEWS[view]} · clickvec`;
    main.dataset.view = view;
    const cleanup = module.show(put(main), params, { ...context, service });
    if (shown?.view === view) shown.cleanup = cleanup;
    if (moved) { main.focus({ preventScroll: true }); scrollTo(0, 0); announce(VIEWS[view]); }
  } catch (error) {
    if (mine !== turn) return;
    clearTimeout(wait);
    put(main, failure(error, render));
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
  announce,
};

function announce(text) {
  const node = byId("announce");
  node.textContent = "";
  requestAnimationFrame(() => { node.textContent = text; });
}

function drawTabs(view, params) {
  const tabs = put(byId("tabs"), Object.entries(VIEWS).map(([name, label]) => // the query is handed on
    el("a", { href: link(name, name === view ? params : { q: params.q }), "aria-current": name === view ? "page" : null }, label)));
  const tab = tabs.querySelector("[aria-current]"); // on a phone, not all tabs fit
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}

// --- colours, shortcuts, key, connection ---

const root = document.documentElement;
const THEMES = { system: "◐", light: "○", dark: "●" };

function drawTheme() {
  const theme = root.dataset.theme || "system", node = put(byId("theme"), THEMES[theme]);
  node.title = node.ariaLabel = `Colours: ${theme === "system" ? "like the system" : theme}`;
}

function nextTheme() {
  const next = { undefined: "light", light: "dark", dark: "system" }[root.dataset.theme];
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  remember("clickvec-theme", next);
  drawTheme();
  announce(byId("theme").title);
  dispatchEvent(new Event("themechange")); // drawings read their colours again
}

function dialog(label, ...children) {
  const box = el("dialog", { "aria-label": label, onclose: () => box.remove() }, children);
  document.body.append(box);
  box.showModal();
  return box;
}

const SHORTCUTS = [
  ["/", "Go to the search field"], ["↓ ↑", "Next or previous hit"], ["← →", "Between words, hybrid and vectors"], ["Enter", "Open the explanation of a hit"], ["t", "Try the hit out"],
  ["Esc", "Back to the search field; again: empty it"], ["n p", "Next or previous page"], ["?", "This list"],
];

function showShortcuts() {
  if (document.querySelector("dialog")) return;
  const on = el("input", { type: "checkbox", checked: usesShortcuts(), onchange: () => remember("clickvec-shortcuts", on.checked ? "on" : "off") });
  dialog("Keyboard shortcuts", el("form", { method: "dialog" }, el("h2", "Keyboard shortcuts"),
    el("dl.shortcuts", SHORTCUTS.map(([keys, text]) => [el("dt", keys.split(" ").map((part) => (part.length < 6 ? el("kbd", part) : ` ${part} `))), el("dd", text)])),
    el("label.row", on, "Use shortcuts of a single character"), el("button", "Close")));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("input") || !usesShortcuts()) return;
  if (event.key === "?") showShortcuts();
  else if (event.key === "/" && current().view !== FIRST) { event.preventDefault(); location.hash = link(FIRST); }
}

let asking = null;
function askForKey(message) {
  asking ??= new Promise((resolve) => {
    let kept = false;
    const field = el("input", { type: "password", name: "key", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "key-about" });
    const box = dialog("API key", el("form", { method: "dialog", onsubmit: () => { kept = Boolean(field.value.trim()); api.keepKey(field.value.trim()); } },
      el("h2", "This service needs a key"),
      el("p", { id: "key-about" }, message ? [el("strong", message), " "] : null, "Paste an API key. It stays in this tab until you close it."),
      el("label.stacked", "Key", field),
      el("div.row", el("button.main", "Use the key"), button("Cancel", () => box.close()))));
    box.addEventListener("close", () => { asking = null; resolve(kept); });
    field.focus();
  });
  return asking;
}

api.setKeyDialog(askForKey);
api.onState((offline) => {
  const banner = byId("banner");
  banner.hidden = !offline;
  put(banner, offline ? ["The service does not answer. Trying again … ", button("Try now", api.probe, { class: "quiet" })] : []);
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
