// The page as a whole: what is chosen, what the keys do, light and dark.
const TABS = { attention: "Attention", measures: "Measures", shares: "Shares" };
const HELP = [
  ["1 2 3", "attention, measures, shares"], ["← ↑ → ↓", "in the tiles: another head; in the map: another cell; in the graph: another token"],
  ["Home End", "to the ends of the line"], ["[ ]", "the head before, the head after"], ["m", "map or graph"], ["+ − 0", "larger, smaller, fit"], ["k", "how the colours follow the weights"],
  ["a", "one model, the other, the difference"], ["p s c", "save as PNG, SVG, CSV"], ["t", "light, dark, or as the system has it"], ["?", "these keys"], ["Esc", "close this"],
];

function choose(subject, focus = false) {
  if (state.subject) { state.subject.tile.tabIndex = -1; state.subject.tile.removeAttribute("aria-current"); }
  const same = state.subject && state.subject.high === subject.high && state.subject.wide === subject.wide;
  state.subject = subject;
  if (!same) strongestCell();
  subject.tile.tabIndex = 0;
  subject.tile.setAttribute("aria-current", "true");
  if (focus && document.activeElement !== subject.tile) subject.tile.focus();
  subject.tile.scrollIntoView({ block: "nearest", inline: "nearest" });
  drawDetail();
}

function strongestCell() {
  const found = values(state.subject), columns = state.subject.wide;
  const best = found && !state.subject.heads ? found.reduce((place, value, i) => (abs(value) > abs(found[place]) ? i : place), 0) : 0;
  state.query = floor(best / columns);
  state.key = best % columns;
}

function chooseCell(query, key, axis) {
  const { rows, columns } = state.subject;
  state.query = max(0, min(rows.length - 1, query));
  state.key = max(0, min(columns.length - 1, key));
  if (!plan) return;
  if (state.mode === "map") { markCell(); tellCell(); } else { markGraph(axis); tellToken(); }
}

function drawDetail() {
  const subject = state.subject, stage = at("stage"), map = state.mode === "map";
  at("title").textContent = subject.title;
  at("role").textContent = subject.site ? [subject.site, roleOf(subject)].filter(Boolean).join(" · ") : "";
  at("note").textContent = subject.note ?? "";
  at("note").hidden = !subject.note;
  at("zooms").hidden = !map;
  at("edges-label").hidden = map;
  for (const it of at("modes").children) it.setAttribute("aria-pressed", it.dataset.mode === state.mode);
  makeCard(subject);
  if (!ready(subject)) {
    plan = null;
    const why = state.side === BOTH && subject.grids.some(Boolean) ? "Only one of the two models has this." : "There was no room for the weights of this head in the page.";
    stage.replaceChildren(element("p", "soft empty", why));
    at("cell").textContent = "";
    return;
  }
  const room = { width: max(300, stage.clientWidth), height: max(360, min(820, innerHeight - 210)) };
  stage.replaceChildren(map ? drawMap(subject, room) : drawGraph(subject, room));
  stage.setAttribute("aria-label", `${subject.title}: ${map ? "map" : "graph"}; move with the arrow keys`);
  at("edges-count").textContent = state.edges;
  chooseCell(state.query, state.key);
}

// What is to be saved: a name, a picture, the canvas under it, and its numbers.
function showing() {
  if (state.tab === "measures") return ["measures", null, null, measureRows];
  if (state.tab === "shares") return ["shares", at("view-shares").querySelector("svg"), null, shareRows];
  const subject = state.subject, columns = subject.wide;
  const rows = () => [["", ...subject.columns], ...subject.rows.map((token, row) => [token, ...Array.from(plan.found.subarray(row * columns, (row + 1) * columns), (value) => Number(value.toPrecision(5)))])];
  return [subject.id, plan?.picture, plan?.canvas, plan ? rows : () => []];
}

function stageKeys(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e6], End: [0, 1e6], PageUp: [-10, 0], PageDown: [10, 0] }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey || !plan) return;
  event.preventDefault();
  if (state.mode === "map") { chooseCell(state.query + step[0], state.key + step[1]); plan.band[2].scrollIntoView({ block: "nearest", inline: "nearest" }); return; }
  const axis = step[1] ? Number(step[1] > 0) : asking;
  chooseCell(state.query + (axis ? 0 : step[0]), state.key + (axis ? step[0] : 0), axis);
  plan.labels[axis][axis ? state.key : state.query].scrollIntoView({ block: "nearest" });
}

function markTab() {
  for (const it of at("tabs").children) { const here = it.dataset.tab === state.tab; it.setAttribute("aria-selected", here); it.tabIndex = here ? 0 : -1; }
}

function showTab(name) {
  if (!tabs().includes(name)) return;
  state.tab = name;
  markTab();
  for (const tab of Object.keys(TABS)) at(`view-${tab}`).hidden = tab !== name;
  if (name === "measures") makeMeasures();
  if (name === "shares") makeShares();
  if (name === "attention" && state.subject) drawDetail();
}

function tabs() { return ["attention", ...(measures.length ? ["measures"] : []), ...(facts.wholes.length ? ["shares"] : [])]; }

function markSide() { for (const it of at("sides").children) it.setAttribute("aria-pressed", Number(it.dataset.side) === state.side); }
function showSide(side) {
  state.side = side;
  markSide();
  redraw();
}

function redraw() { drawTiles(); showTab(state.tab); }

const THEMES = ["", "light", "dark"];
function theme(name) {
  if (name) html.dataset.theme = name;
  else delete html.dataset.theme;
  at("theme").textContent = `Theme: ${name || "system"}`;
}
function nextTheme() {
  theme(THEMES[(THEMES.indexOf(html.dataset.theme ?? "") + 1) % THEMES.length]);
  redraw();
}

function zoom(way) {
  state.zoom = way === "fit" ? 1 : max(0.25, min(16, state.zoom * (way === "in" ? 1.5 : 1 / 1.5)));
  drawDetail();
}
function mode(name) { state.mode = name; if (state.tab === "attention") drawDetail(); }
function nextScale() {
  const options = [...at("scale").options].map((it) => it.value);
  state.scale = at("scale").value = options[(options.indexOf(state.scale) + 1) % options.length];
  redraw();
}
function nextHead(step) {
  const line = lines.flat();
  choose(line[(line.indexOf(state.subject) + step + line.length) % line.length], at("tiles").contains(document.activeElement));
}

function pageKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || at("keys").open || event.target.matches?.("select, input")) return;
  const act = {
    1: () => showTab(tabs()[0]), 2: () => tabs()[1] && showTab(tabs()[1]), 3: () => tabs()[2] && showTab(tabs()[2]),
    "[": () => nextHead(-1), "]": () => nextHead(1), m: () => mode(state.mode === "map" ? "graph" : "map"),
    "+": () => zoom("in"), "=": () => zoom("in"), "-": () => zoom("out"), 0: () => zoom("fit"), k: nextScale,
    a: () => facts.sides.length > 1 && showSide((state.side + 1) % 3),
    p: () => keep("png"), s: () => keep("svg"), c: () => keep("csv"), t: nextTheme, "?": help,
  }[event.key];
  if (act) { event.preventDefault(); act(); }
}
function help() { at("keys").showModal(); }

function tabKeys(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], found = tabs();
  if (!step) return;
  event.preventDefault();
  showTab(found[(found.indexOf(state.tab) + step + found.length) % found.length]);
  at("tabs").querySelector("[aria-selected=true]").focus();
}

// The measure that tells heads apart best: the widest spread for its intervals.
function telling() {
  const worth = (name) => {
    const found = heads.map((it) => numbers(it, name));
    if (found.some((it) => it?.[0] == null)) return -1;
    const each = found.map((it) => it[0]), wide = found.reduce((sum, it) => sum + (it[2] ?? 0) - (it[1] ?? 0), 1e-6);
    return (max(...each) - min(...each)) / wide;
  };
  return measures.reduce((best, name) => (worth(name) > max(0, best ? worth(best) : 0) ? name : best), "");
}

function edges(value) { return round(10 * 10 ** (value / 100 * 2.6)); }

function makePage() {
  const names = facts.sides.map((it) => it.name), tokens = Object.entries(facts.rows).filter(([, row]) => row).map(([side, row]) => `${row.tokens.length} ${side} tokens`);
  at("run").textContent = [...names].reverse().join(" against ");
  at("about").append(element("bdi", "text", shown(facts.text.replace(/ /g, "\u00a0"), 60)), ` · ${tokens.join(", ")}${facts.written ? ", the target written by the model" : ""} · ${heads.length} heads`);
  const notes = [...facts.notes, ...facts.sides.flatMap((side) => Object.entries(side.unseen).map(([site, why]) => `${site} has no weights to show: ${why}`))];
  at("notes").replaceChildren(...[...new Set(notes)].map((note) => element("li", "", note)));
  at("notes").hidden = notes.length === 0;
  at("footer").textContent = `Kitformer ${facts.version} · row: the token that looks; column: the token it looks at · weights are rounded to the square of 1/${facts.steps} of each head's largest · nothing on this page was fetched from anywhere`;
  at("tabs").replaceChildren(...tabs().map((name) => { const made = button(TABS[name], "", () => showTab(name)); made.dataset.tab = name; made.setAttribute("role", "tab"); made.setAttribute("aria-controls", `view-${name}`); return made; }));
  at("tabs").hidden = tabs().length < 2;
  if (names.length > 1) {
    at("sides").hidden = false;
    at("sides").append(...[...names, `${names[1]} − ${names[0]}`].map((name, side) => { const made = button(name, "", () => showSide(side)); made.dataset.side = side; return made; }));
  }
  at("measure").append(new Option("none", ""), ...measures.map((name) => new Option(name, name)));
  state.measure = at("measure").value = telling();
  at("measure-label").hidden = measures.length === 0;
  at("keys-list").append(...HELP.filter(([key]) => key !== "a" || names.length > 1).flatMap(([keys, what]) => { const term = element("dt"); term.append(...keys.split(" ").map((key) => element("kbd", "", key))); return [term, element("dd", "", what)]; }));
  at("stage").tabIndex = 0;
  at("stage").setAttribute("role", "application");
}

function listen() {
  on(document, "keydown", pageKeys);
  on(at("tiles"), "keydown", tileKeys);
  on(at("stage"), "keydown", stageKeys);
  on(at("tabs"), "keydown", tabKeys);
  on(at("theme"), "click", nextTheme);
  on(at("help"), "click", help);
  on(at("scale"), "change", () => { state.scale = at("scale").value; redraw(); });
  on(at("measure"), "change", () => { state.measure = at("measure").value; drawTiles(); });
  on(at("edges"), "input", () => { state.edges = edges(Number(at("edges").value)); drawDetail(); });
  on(at("modes"), "click", (event) => event.target.dataset.mode && mode(event.target.dataset.mode));
  on(at("zooms"), "click", (event) => event.target.dataset.zoom && zoom(event.target.dataset.zoom));
  on(at("detail"), "click", (event) => event.target.dataset.save && keep(event.target.dataset.save));
  on(matchMedia("(prefers-color-scheme: dark)"), "change", redraw);
  let wait = 0, wide = innerWidth;
  on(window, "resize", () => { clearTimeout(wait); wait = setTimeout(() => { if (innerWidth !== wide) { wide = innerWidth; drawDetail(); } }, 120); });
}

async function start() {
  const began = performance.now();
  try {
    makePage();
    theme("");
    markSide();
    markTab();
    await unpack();
    makeTiles();
    listen();
    if (all.length) { state.subject = all.find((it) => ready(it)) ?? all[0]; strongestCell(); drawTiles(); choose(state.subject); }
    else { at("view-attention").hidden = true; at("problem").textContent = "No part of this model has weights to show."; at("problem").hidden = false; }
    html.dataset.drawn = (performance.now() - began).toFixed(1);
    html.dataset.ready = "true";
  } catch (error) {
    at("problem").textContent = `This page could not be drawn: ${error.message}. It needs a browser from 2023 or later.`;
    at("problem").hidden = false;
    throw error;
  }
}
start();
