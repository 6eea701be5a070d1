// Tokens that ask on the left, tokens that are looked at on the right, and a line for each of the strongest weights.
function drawGraph(subject, room) {
  const found = values(subject), rows = subject.high, columns = subject.wide;
  plan = { subject, rows, columns, found, rowSums: subject.sums ? sums(subject, "rows") : null, columnSums: subject.sums ? sums(subject, "columns") : null };
  const most = max(rows, columns), step = max(9, min(40, floor((room.height - 90) / most))), size = max(8, min(14, step * 0.85));
  const width = max(360, min(680, room.width - 8)), side = min(150, width * 0.28), top = 30, height = top + most * step + 46;
  const picture = draw("svg", { width, height, class: "over graph" }), wires = draw("g", { class: "wires" });
  const y = (number, count) => top + (number + 0.5 + (most - count) / 2) * step;
  picture.append(draw("text", { x: side - 10, y: 14, "text-anchor": "end", class: "small" }, subject.heads ? "heads" : "looks"), draw("text", { x: width - side + 10, y: 14, class: "small" }, subject.heads ? "heads" : "is looked at"), wires);
  const edges = strongest(subject, found, state.edges), peak = max(...edges.map(([, , value]) => abs(value)), 1e-9);
  plan.wires = edges.map(([query, key, value]) => {
    const share = abs(value) / peak, middle = width / 2;
    const line = draw("path", { d: `M${side} ${y(query, rows)}C${middle} ${y(query, rows)} ${middle} ${y(key, columns)} ${width - side} ${y(key, columns)}`, class: value < 0 ? "wire less" : "wire", "stroke-width": 0.6 + share * min(5, step * 0.45), "stroke-opacity": 0.12 + 0.78 * share });
    wires.append(line);
    return [line, query, key];
  });
  plan.labels = [[], []];
  const add = (axis, number, token, x, anchor) => {
    const made = draw("text", { x, y: y(number, axis ? columns : rows) + size * 0.35, "text-anchor": anchor, class: subject.special?.[axis]?.[number] ? "token special" : "token", "font-size": size }, shown(token));
    on(made, "pointerenter", () => chooseCell(axis ? state.query : number, axis ? number : state.key, axis));
    plan.labels[axis][number] = made;
    picture.append(made);
  };
  subject.rows.forEach((token, row) => add(0, row, token, side - 10, "end"));
  subject.columns.forEach((token, column) => add(1, column, token, width - side + 10, "start"));
  picture.append(draw("text", { x: 8, y: height - 12, class: "small" }, `The strongest ${edges.length} of ${reachable(subject)} weights, down to ${figure(edges.length ? abs(edges[edges.length - 1][2]) : 0)}${subject.heads ? "; here: the nearest" : ""}${state.side === BOTH ? "; blue for more, orange for less" : ""}`));
  plan.picture = picture;
  const box = element("div", "map");
  box.append(picture);
  return box;
}

function reachable(subject) {
  if (subject.mask === null) return subject.high * subject.wide;
  let count = 0;
  for (let i = 0; i < subject.high * subject.wide; i += 1) count += bytes[subject.mask + i];
  return count;
}

// The so many strongest; for distances the smallest between two that are not the same.
function strongest(subject, found, most) {
  const columns = subject.wide, edges = [];
  found.forEach((value, i) => {
    const query = floor(i / columns), key = i % columns;
    if (subject.heads ? query < key : value !== 0 && (subject.mask === null || bytes[subject.mask + i])) edges.push([query, key, value]);
  });
  edges.sort((a, b) => (subject.heads ? a[2] - b[2] : abs(b[2]) - abs(a[2])));
  return edges.slice(0, most);
}

let asking = 0;  // which side of the graph was chosen last: its token's lines are shown alone
function markGraph(axis = asking) {
  asking = axis;
  const here = axis ? state.key : state.query;
  plan.picture.classList.add("focused");
  for (const [line, query, key] of plan.wires) line.classList.toggle("here", (axis ? key : query) === here);
  plan.labels.forEach((labels, side) => labels.forEach((it, i) => it.classList.toggle("here", side === axis && i === here)));
}

function tellToken() {
  const { subject, query, key } = state, row = asking === 0, here = row ? query : key, box = at("cell");
  const others = row ? subject.columns : subject.rows, columns = subject.wide;
  const told = others.map((token, i) => [token, plan.found[row ? here * columns + i : i * columns + here], i]).filter(([, value, i]) => value !== 0 && !(subject.heads && i === here));
  told.sort((a, b) => (subject.heads ? a[1] - b[1] : abs(b[1]) - abs(a[1])));
  box.replaceChildren(named((row ? subject.rows : subject.columns)[here], here), subject.heads ? " is nearest to" : row ? " looks at" : " is looked at by");
  for (const [token, value, i] of told.slice(0, 4)) { const made = element("span", "fact"); made.append(named(token, i), ` ${figure(value)}`); box.append(" ", made); }
}
