// One table of numbers in detail: cells on a canvas; tokens, sums and the chosen cell above it in SVG.
const GAP = 6, BARS = 44, LARGEST = 52;
let plan = null;  // where everything is in the picture that is shown

function makePlan(subject, room) {
  const rows = subject.high, columns = subject.wide;
  const long = (tokens) => max(...tokens.map((token) => [...shown(token)].length), 1);
  const left = min(132, 14 + long(subject.rows) * 7.2), bars = subject.sums ? BARS + GAP : 8;
  const fit = min((room.width - left - bars - 14) / columns, (room.height - 150) / rows);
  const cell = max(1, round(max(1, min(LARGEST, floor(fit))) * state.zoom));
  const flat = subject.columns.map((token) => [...shown(token)].length * 8 <= cell);
  const top = flat.every(Boolean) ? 24 : 12 + min(130, long(subject.columns) * 7.2);
  return { subject, rows, columns, left, top, cell, flat, width: columns * cell, height: rows * cell, bars };
}

function drawMap(subject, room) {
  const found = values(subject);
  plan = makePlan(subject, room);
  const { left, top, cell, width, height, bars, flat } = plan;
  const lean = flat.at(-1) ? 0 : min(60, top * 0.5), wide = max(left + width + max(bars, lean), left + 350), high = top + height + (subject.sums ? BARS + GAP : 8) + 40;
  const canvas = element("canvas", "cells"), sharp = max(1, min(3, devicePixelRatio || 1));
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
  Object.assign(canvas.dataset, { x: left, y: top, width, height });
  const small = element("canvas"), image = pixels(subject, found);
  small.width = image.width;
  small.height = image.height;
  small.getContext("2d").putImageData(image, 0, 0);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  const picture = draw("svg", { width: ceil(wide), height: ceil(high), class: "over" });
  picture.append(draw("rect", { x: left - 0.5, y: top - 0.5, width: width + 1, height: height + 1, class: "frame" }), axes(subject), bands());
  if (subject.sums) picture.append(totals(subject));
  picture.append(legend(scaleOf(subject), left, high - 28, 200, subject.mask !== null));
  const box = element("div", "map");
  box.style.width = `${ceil(wide)}px`;
  box.style.height = `${ceil(high)}px`;
  box.append(canvas, picture);
  Object.assign(plan, { canvas, picture, found, rowSums: subject.sums ? sums(subject, "rows") : null, columnSums: subject.sums ? sums(subject, "columns") : null });
  on(box, "pointermove", pointed);
  on(box, "pointerdown", pointed);
  return box;
}

function axes(subject) {
  const { left, top, cell, flat } = plan, group = draw("g", { class: "tokens" });
  const every = max(1, ceil(11 / cell)), size = max(9, min(13, cell * 0.8));
  plan.labels = [[], []];
  const add = (axis, number, token, attributes) => {
    const dim = subject.special?.[axis]?.[number] ? "token special" : "token";
    const made = draw("text", { ...attributes, class: dim, "font-size": size }, shown(token));
    if (number % every) made.classList.add("thinned");
    plan.labels[axis][number] = made;
    group.append(made);
  };
  subject.rows.forEach((token, row) => add(0, row, token, { x: left - 6, y: top + (row + 0.5) * cell + size * 0.35, "text-anchor": "end" }));
  subject.columns.forEach((token, column) => {
    const x = left + (column + 0.5) * cell, y = top - 6;
    add(1, column, token, flat[column] ? { x, y, "text-anchor": "middle" } : { transform: `translate(${x + size * 0.25} ${y}) rotate(-60)`, "text-anchor": "start" });
  });
  return group;
}

function bands() {
  const group = draw("g", { class: "cursor" });
  plan.band = [draw("rect", { class: "band" }), draw("rect", { class: "band" }), draw("rect", { class: "chosen" })];
  group.append(...plan.band);
  return group;
}

function totals(subject) {
  const { left, top, cell, width, height } = plan, group = draw("g", { class: "totals" });
  const bar = (value, most) => abs(value) / (most || 1) * (BARS - 12);
  for (const which of ["rows", "columns"]) {
    const found = sums(subject, which), most = max(...found.map(abs), 1e-3), thick = max(1, cell * 0.7), pad = (cell - thick) / 2;
    const path = (sign) => Array.from(found, (value, i) => {
      const long = bar(value, most), from = i * cell + pad;
      if (Math.sign(value) !== sign) return "";
      return which === "rows" ? `M${left + width + GAP} ${top + from}h${long}v${thick}h${-long}z` : `M${left + from} ${top + height + GAP}v${long}h${thick}v${-long}z`;
    }).join("");
    group.append(draw("path", { d: path(1), class: "sum" }), draw("path", { d: path(-1), class: "sum less" }));
  }
  group.append(draw("text", { x: left + width + GAP, y: top - 6, class: "small" }, "sums"), draw("text", { x: left - 6, y: top + height + GAP + 10, "text-anchor": "end", class: "small" }, "sums"));
  return group;
}

function pointed(event) {
  const box = plan.canvas.getBoundingClientRect();
  const query = floor((event.clientY - box.top) / plan.cell), key = floor((event.clientX - box.left) / plan.cell);
  if (query >= 0 && key >= 0 && query < plan.rows && key < plan.columns) chooseCell(query, key);
}

function markCell() {
  const { left, top, cell, width, height, labels, band } = plan, { query, key } = state;
  const put = (it, x, y, w, h) => { for (const [name, value] of Object.entries({ x, y, width: w, height: h })) it.setAttribute(name, value); };
  put(band[0], left, top + query * cell, width, cell);
  put(band[1], left + key * cell, top, cell, height);
  put(band[2], left + key * cell - 1, top + query * cell - 1, cell + 2, cell + 2);
  for (const [axis, number] of [[0, query], [1, key]]) labels[axis].forEach((it, i) => it.classList.toggle("here", i === number));
}

// The chosen cell in words.
function tellCell() {
  const { query, key, subject } = state, box = at("cell"), place = query * subject.wide + key;
  const follows = subject.following?.[query], then = element("span", "soft");
  if (follows) then.append(" (writes ", element("bdi", "", shown(follows, 40)), ")");
  box.replaceChildren(named(subject.rows[query], subject.heads ? undefined : query), then, subject.heads ? " and " : " looks at ", named(subject.columns[key], subject.heads ? undefined : key));
  const value = plan.found[place], parts = mayBeSeen(subject, query, key) ? [[subject.heads ? "distance" : state.side === BOTH ? "change" : subject.site ? "weight" : "value", abs(value) >= 0.001 || value === 0 ? (facts.steps < 127 ? "≈" : "") + value.toFixed(4).replace("-", "−") : figure(value)]] : [["", "may not be seen"]];
  if (plan.rowSums) parts.push(["row sum", figure(plan.rowSums[query])], ["column sum", figure(plan.columnSums[key])]);
  for (const [what, number] of parts) { const made = element("span", "fact", what ? `${what} ` : ""); made.append(element("b", "", number)); box.append(" ", made); }
}
