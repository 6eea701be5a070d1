// What the page was given: facts as JSON, and numbers as bytes that are unpacked once.
const { abs, ceil, floor, max, min, round } = Math;
const at = (id) => document.getElementById(id);
const html = document.documentElement;
const facts = JSON.parse(at("facts").textContent);
const BOTH = 2;  // the third choice where two models are compared: the second less the first
const KINDS = {
  encoder: ["Encoder", "self-attention", "source", "source"],
  decoder: ["Decoder", "self-attention", "target", "target"],
  cross: ["Cross attention", "cross attention", "target", "source"],
};
let bytes = new Uint8Array(0);
const state = { tab: "attention", mode: "map", side: facts.sides.length - 1, scale: "root", measure: "", subject: null, query: 0, key: 0, zoom: 1, edges: 200 };

async function unpack() {
  const text = atob(at("packed").textContent), packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  bytes = new Uint8Array(await new Response(stream).arrayBuffer());
}

// A subject is whatever is drawn as a table of numbers with tokens at its sides: a head, a picture of the whole text,
// heads against heads. Those of two models that stand in the same place are one subject with two grids.
function subjects() {
  const found = new Map();
  const add = (id, side, grid, rest) => {
    const known = found.get(id) || { id, grids: facts.sides.map(() => null), ...rest };
    known.grids[side] = grid;
    found.set(id, known);
  };
  for (const kind of Object.keys(KINDS)) facts.sides.forEach((side, number) => {
    for (const map of side.maps.filter((it) => it.kind === kind)) map.heads.forEach((grid, head) => {
      const [name, what, rows, columns] = KINDS[kind], asks = facts.rows[rows], answers = facts.rows[columns];
      const stack = map.site.split(".")[0];
      add(`${map.site}:${head}`, number, grid, {
        group: kind, row: map.layer, head, site: map.site, mask: map.mask, sums: true,
        title: `${stack[0].toUpperCase()}${stack.slice(1)} layer ${map.layer}, ${what}, head ${head}`,
        rows: asks.tokens, columns: answers.tokens, following: asks.following, special: [asks.special, answers.special],
      });
    });
  });
  facts.sides.forEach((side, number) => side.drawings.forEach((it, place) => add(`drawing ${it.name}`, number, it.grid, {
    group: "drawing", row: floor(place / 6), head: place % 6, title: it.name[0].toUpperCase() + it.name.slice(1), short: it.name,
    rows: it.rows, columns: it.columns, note: it.note, mask: null, sums: true,
  })));
  facts.sides.forEach((side, number) => side.likeness.forEach((it, place) => {
    const order = it.heads.map((_, head) => head).sort((a, b) => it.groups[a] - it.groups[b] || a - b);
    const names = order.map((head) => it.heads[head].replace(/^.*?(\d+)\D*:(\d+)$/, "$1:$2")), groups = [...new Set(it.groups)].map((group) => names.filter((_, i) => it.groups[order[i]] === group));
    const values = Float32Array.from(order.flatMap((row) => order.map((column) => it.distance[row][column] ?? 0)));
    const told = groups.filter((group) => group.length > 1).map((group) => group.join(", ")).join("; ");
    add(`likeness ${it.probe} ${it.kind}`, number, { values, peak: max(...values, 1e-9), names }, {
      group: "likeness", row: 0, head: place, title: `Which heads attend alike: ${KINDS[it.kind][0].toLowerCase()}`, short: it.kind,
      rows: names, columns: names, mask: null, inverse: true, heads: true,
      note: `How far apart heads are by ${it.probe}, 0 for the same attention; 1:2 is head 2 of layer 1. ${told ? `Heads that go together: ${told}.` : "No two heads go together."}`,
    });
  }));
  return [...found.values()].map((it) => ({ ...it, high: it.rows.length, wide: it.columns.length }));
}

function ready(subject, side = state.side) {
  if (side !== BOTH) return subject.grids[side] !== null;
  const [one, two] = subject.grids;
  return Boolean(one && two) && (!one.names || one.names.join() === two.names.join());
}

function decoded(grid, size) {
  if (grid.values) return grid.values;
  const known = new Float32Array(256), half = facts.steps >> 1;
  for (let level = 0; level < 256; level += 1) {
    const root = grid.signed ? (level - half) / half : level / facts.steps;
    known[level] = grid.peak * root * abs(root);
  }
  const values = new Float32Array(size);
  for (let i = 0; i < size; i += 1) values[i] = known[bytes[grid.at + i]];
  return values;
}

// Numbers of a subject, row by row; null where there are none.
function values(subject, side = state.side) {
  if (!ready(subject, side)) return null;
  const size = subject.high * subject.wide;
  if (side !== BOTH) return decoded(subject.grids[side], size);
  const before = decoded(subject.grids[0], size);
  return decoded(subject.grids[1], size).map((value, i) => value - before[i]);
}

// Sums of rows or columns, which were added up before anything was rounded.
function sums(subject, which, side = state.side) {
  if (side === BOTH) {
    const before = sums(subject, which, 0);
    return sums(subject, which, 1).map((value, i) => round((value - before[i]) * 1e4) / 1e4);
  }
  const [start, most] = subject.grids[side][which], size = subject[which].length;
  const fine = new Int16Array(bytes.slice(start, start + 2 * size).buffer);
  return Float32Array.from(fine, (value) => round(value / 32767 * most * 1e5) / 1e5);
}

function mayBeSeen(subject, query, key) {
  return subject.mask === null || bytes[subject.mask + query * subject.wide + key] === 1;
}

// What was measured of a head: value, low, high, for even attention, untrained; null where it was not.
function numbers(subject, name, side = state.side) {
  if (side !== BOTH) return facts.sides[side].cards[subject.id]?.numbers[name] ?? null;
  const before = numbers(subject, name, 0), after = numbers(subject, name, 1);
  if (before === null || after === null || before[0] === null || after[0] === null) return null;
  return [after[0] - before[0], null, null, null, null];
}

function roleOf(subject, side = state.side) {
  const roles = facts.sides.map((it) => it.cards[subject.id]?.role ?? "");
  if (side !== BOTH) return roles[side];
  return roles[0] === roles[1] ? roles[0] : `${roles[0]} → ${roles[1]}`;
}

const measures = Object.keys(facts.meanings);
const all = subjects();
const heads = all.filter((it) => it.site);

// A token as it is drawn: what cannot be seen gets a sign, what is long is cut.
function shown(token, most = 16) {
  const seen = token.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\u0000-\u001f\u007f-\u009f]/g, "·") || "∅";
  const letters = [...seen];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : seen;
}

function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = abs(value), digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3;
  return (size > 0 && size < 0.0005 ? value.toExponential(0) : value.toFixed(digits)).replace("-", "−");
}
