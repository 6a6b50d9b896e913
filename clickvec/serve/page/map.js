// A map of the catalogue: similar titles are close together. Zoom, pan, search; the same as a list below.

import { latest } from "./api.js";
import { button, clamp, count, el, empty, field, note, plural, put, section } from "./dom.js";
import { colours as coloursOf, repainted } from "./draw.js";
import { loaded } from "./insight.js";

const GROUPS = ["c0", "c1", "c5", "c3", "c2"], COLOURS = [...GROUPS, "ink", "soft", "paper"]; // groups stand out from the paper
const STEP = 1.6, MOST_ZOOM = 40, TITLES_FROM = 6; // from this zoom on, titles stand beside their points
const HELP = "Arrow keys go to the next title in that direction, plus and minus zoom, 0 shows everything, Enter searches for the title.";

export function show(root, params, context) {
  const page = loaded(root, "Map of the catalogue", "/map", draw, "Drawing the map. The first time, this takes some seconds …");
  page.load();
  return page.cleanup;

  function draw(map) {
    if (!map.titles.length) return put(page.body, empty("There is nothing to draw", `A map needs at least four different titles that the model can read. The index has ${plural(map.catalogue, "title")}.`));
    const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": `Map of ${plural(map.titles.length, "title")}. ${HELP}`, "aria-roledescription": "map" });
    const told = el("div.map-tip", { hidden: true });
    const status = el("p.note.map-status", { role: "status" });
    const words = field("Light titles with these words, and show where they lie as a query", { placeholder: "Light titles, or place a query", value: params.words, oninput: light });
    const tool = (label, text, action) => button(text, action, { "aria-label": label, title: label });
    const stage = el("div.map-stage", canvas, told, el("div.map-tools", tool("Zoom in", "+", () => zoom(STEP)), tool("Zoom out", "−", () => zoom(1 / STEP)), tool("Show everything", "⤢", reset)));
    const sample = map.titles.length < map.catalogue ? `A random sample of ${count(map.titles.length)} of ${plural(map.catalogue, "title")}.` : `All ${plural(map.catalogue, "title")}.`;
    put(page.body,
      note(`${sample} Titles that are close together are similar to the model. `,
        map.method === "PCA" ? ["Drawn along the two principal components. With scikit-learn, groups are clearer: ", el("code", "pip install 'clickvec[map]'"), "."] : "The axes, and distances between far groups, have no meaning."),
      el("div.row.map-search", words, status), stage, list());

    const paint = canvas.getContext("2d");
    const view = { x: map.size / 2, y: map.size / 2, zoom: 1 };
    let width = 1, height = 1, across = 1, down = 1, colours = {}, lit = null, at = -1, spot = null, frame = 0;
    const place = latest();
    page.signal.addEventListener("abort", () => { place.cancel(); cancelAnimationFrame(frame); });
    listen();
    repainted(stage, resize);
    if (words.value) light();

    // --- coordinates ---

    function resize() {
      const ratio = devicePixelRatio || 1, found = coloursOf(...COLOURS);
      colours = Object.fromEntries(COLOURS.map((name, number) => [name, found[number]]));
      ({ width, height } = stage.getBoundingClientRect());
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      down = (height - 56) / map.size; // the axes have no meaning, so a wide or a narrow screen may stretch one
      across = Math.min((width * 0.9) / map.size, down * 1.9);
      down = Math.min(down, across * 1.3);
      paint.setTransform(ratio, 0, 0, ratio, 0, 0);
      redraw();
    }
    function onScreen(x, y) {
      return [width / 2 + (x - view.x) * across * view.zoom, height / 2 + (y - view.y) * down * view.zoom];
    }
    function zoom(factor, px = width / 2, py = height / 2) {
      const before = view.zoom;
      view.zoom = clamp(view.zoom * factor, 0.7, MOST_ZOOM);
      const change = 1 / before - 1 / view.zoom;
      pan(((px - width / 2) * change) / across, ((py - height / 2) * change) / down);
    }
    function pan(dx, dy) {
      const inside = (value) => clamp(value, -map.size * 0.1, map.size * 1.1);
      show({ x: inside(view.x + dx), y: inside(view.y + dy) });
    }
    function reset() { show({ x: map.size / 2, y: map.size / 2, zoom: 1 }); }
    function fly(x, y, least = 3) { show({ x, y, zoom: Math.max(view.zoom, least) }); }
    function show(changes) {
      Object.assign(view, changes);
      redraw();
    }

    // --- drawing ---

    function redraw() {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(drawNow);
    }
    function* onStage() {
      for (let number = 0; number < map.titles.length; number += 1) {
        const [x, y] = onScreen(map.x[number], map.y[number]);
        if (x > -9 && y > -9 && x < width + 9 && y < height + 9) yield [number, x, y, lit?.has(number)];
      }
    }
    function ring(x, y, radius) {
      paint.strokeStyle = colours.ink;
      paint.lineWidth = 2;
      paint.beginPath();
      paint.arc(x, y, radius, 0, 7);
    }
    function drawNow() {
      paint.clearRect(0, 0, width, height);
      const radius = Math.min(6, 1.9 * Math.sqrt(view.zoom)) * (width < 500 ? 0.85 : 1), points = [...onStage()];
      for (const [number, x, y, is] of points.sort((a, b) => (a[3] || 0) - (b[3] || 0))) { // lit titles lie above the others
        paint.globalAlpha = lit && !is ? 0.16 : is ? 1 : 0.85;
        paint.fillStyle = colours[GROUPS[map.group[number] % GROUPS.length]];
        paint.beginPath();
        paint.arc(x, y, is ? radius + 2 : radius, 0, 7);
        paint.fill();
      }
      paint.globalAlpha = 1;
      drawNames(points);
      if (spot) {
        const [x, y] = onScreen(spot.x, spot.y);
        ring(x, y, 11);
        for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { paint.moveTo(x + dx * 7, y + dy * 7); paint.lineTo(x + dx * 17, y + dy * 17); }
        paint.stroke();
      }
      told.hidden = at < 0;
      if (at < 0) return;
      const [x, y] = onScreen(map.x[at], map.y[at]);
      ring(x, y, 7);
      paint.stroke();
      const { width: w, height: h } = told.getBoundingClientRect();
      told.style.setProperty("left", `${clamp(x - w / 2, 6, width - w - 6)}px`);
      told.style.setProperty("top", `${y - h - 14 > 4 ? y - h - 14 : y + 14}px`);
    }
    function drawNames(points) {
      const taken = [], size = width < 500 ? 12 : 13, family = getComputedStyle(document.body).fontFamily;
      const write = (text, x, y, half, colour) => { // unless it would cover another name
        const box = [x - half, y - size * 0.7, x + half, y + size * 0.7];
        if (box[0] < 2 || box[2] > width - 2 || box[1] < 2 || box[3] > height - 2 || taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) return;
        taken.push(box);
        paint.strokeStyle = colours.paper;
        paint.lineWidth = 4;
        paint.strokeText(text, x, y);
        paint.fillStyle = colour;
        paint.fillText(text, x, y);
      };
      Object.assign(paint, { textAlign: "center", textBaseline: "middle", lineJoin: "round", font: `600 ${size}px ${family}` });
      for (const group of map.groups) {
        const text = group.words.slice(0, view.zoom > 2.5 ? 3 : view.zoom > 1.4 ? 2 : 1).join(", ");
        write(text, ...onScreen(group.x, group.y), paint.measureText(text).width / 2 + 5, lit ? colours.soft : colours.ink);
      }
      if (view.zoom < TITLES_FROM) return;
      paint.font = `${size - 1}px ${family}`;
      for (const [number, x, y, is] of points) {
        if (lit && !is) continue;
        const text = map.titles[number].length > 38 ? `${map.titles[number].slice(0, 36)}…` : map.titles[number], half = paint.measureText(text).width / 2;
        write(text, x + half + 9, y, half + 2, colours.soft);
      }
    }
    function select(number, touched = false) {
      if (number === at) return;
      at = number;
      if (at >= 0) put(told, el("bdi", map.titles[at]), touched ? el("a", { href: linkOf(at) }, "Search for it") : null);
      told.classList.toggle("touched", touched);
      redraw();
    }

    // --- pointer, wheel, keys ---

    function nearest(px, py, reach) {
      let best = -1, least = reach;
      for (const [number, x, y] of onStage()) {
        const distance = Math.hypot(x - px, y - py);
        if (distance < least) [best, least] = [number, distance];
      }
      return best;
    }
    function listen() {
      const pointers = new Map();
      let moved = 0;
      const where = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, where(event)); if (pointers.size === 1) moved = 0; });
      canvas.addEventListener("pointermove", (event) => {
        const [x, y] = where(event), before = pointers.get(event.pointerId);
        if (!before) { if (event.pointerType === "mouse") select(nearest(x, y, 14)); return; }
        const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
        moved += Math.hypot(x - before[0], y - before[1]);
        pointers.set(event.pointerId, [x, y]);
        if (others.length) {
          const [ox, oy] = others[0];
          zoom(Math.hypot(x - ox, y - oy) / Math.max(1, Math.hypot(before[0] - ox, before[1] - oy)), (x + ox) / 2, (y + oy) / 2);
        } else if (moved > 4) { canvas.classList.add("dragged"); pan((before[0] - x) / (across * view.zoom), (before[1] - y) / (down * view.zoom)); }
      });
      const up = (event) => {
        if (!pointers.delete(event.pointerId)) return;
        canvas.classList.remove("dragged");
        if (pointers.size || moved > 4 || event.type !== "pointerup") return;
        const touched = event.pointerType !== "mouse", number = nearest(...where(event), touched ? 24 : 14);
        select(number, touched);
        if (!touched && number >= 0) open();
      };
      for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, up);
      canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && !pointers.size && document.activeElement !== canvas) select(-1); });
      canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-clamp(event.deltaY, -60, 60) * (event.deltaMode ? 0.05 : 0.004)), ...where(event)); }, { passive: false });
      canvas.addEventListener("keydown", onKey);
    }
    function onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const actions = {
        ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
        "+": () => zoom(STEP), "=": () => zoom(STEP), "-": () => zoom(1 / STEP), 0: reset, Escape: () => select(-1), Enter: () => at >= 0 && open(),
      };
      if (!Object.hasOwn(actions, event.key)) return;
      actions[event.key]();
      event.preventDefault();
    }
    function step(dx, dy) {
      const [x, y] = at < 0 ? [view.x, view.y] : [map.x[at], map.y[at]];
      let best = -1, least = Infinity;
      for (let number = 0; number < map.titles.length; number += 1) {
        const along = (map.x[number] - x) * dx + (map.y[number] - y) * dy, aside = Math.abs((map.x[number] - x) * dy) + Math.abs((map.y[number] - y) * dx);
        if (number !== at && along > 0 && along >= aside && along + 2 * aside < least) [best, least] = [number, along + 2 * aside];
      }
      if (best < 0) return;
      select(best);
      const [sx, sy] = onScreen(map.x[best], map.y[best]);
      if (sx < 40 || sy < 40 || sx > width - 40 || sy > height - 40) fly(map.x[best], map.y[best], 1);
      context.announce(`${map.titles[best]}. Group ${map.groups[map.group[best]].words.slice(0, 2).join(", ")}.`);
    }
    function linkOf(number) { return context.link("search", { q: map.titles[number] }); }
    function open() { location.hash = linkOf(at); }

    // --- search ---

    async function light() {
      const parts = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      context.keep({ words: words.value.trim() });
      lit = parts.length ? new Set([...map.titles.keys()].filter((number) => { const text = map.titles[number].toLowerCase(); return parts.every((word) => text.includes(word)); })) : null;
      spot = null;
      const found = lit ? `${plural(lit.size, "title")} with ${parts.length > 1 ? "these words" : "this word"}. ` : "";
      put(status, found);
      redraw();
      if (!lit) return place.cancel();
      try {
        const answer = await place("POST", "/map/place", { text: words.value.slice(0, context.service.limits.query_characters) });
        if (!answer || answer.pending) return;
        spot = answer.x === null ? null : answer;
        put(status, found, spot ? ["As a query it lies near ", button(el("bdi", map.titles[spot.near[0]]), () => { fly(spot.x, spot.y); select(spot.near[0], true); canvas.focus(); }, { class: "quiet link" }), "."] : "The model knows none of it as a query.");
        redraw();
      } catch (error) { put(status, error.message); }
    }

    // --- the list ---

    function list() {
      const groups = map.groups.map((group, number) => {
        const inside = el("ul.map-titles"), members = () => [...map.titles.keys()].filter((at) => map.group[at] === number);
        const box = el("details", { ontoggle: () => { if (!inside.childNodes.length) put(inside, members().map((at) => el("li", el("a", { href: linkOf(at), dir: "auto" }, map.titles[at])))); } },
          el("summary", el("b", group.words.slice(0, 4).join(", ") || "other titles"), " ", el("small", plural(group.titles, "title"))),
          button("Show on the map", () => { fly(group.x, group.y, 4); stage.scrollIntoView({ block: "nearest" }); canvas.focus({ preventScroll: true }); }), inside);
        return box;
      });
      return section("The same as a list", null, note(`${plural(map.groups.length, "group")}, named by their most characteristic words.`), el("div.map-groups", groups));
    }
  }
}
