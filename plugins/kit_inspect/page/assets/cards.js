// What was measured: of one head as a card, of all as a table and as small overviews by layer and head.
function makeCard(subject) {
  const box = at("card"), names = subject.site ? measures.filter((name) => facts.sides.some((_, side) => numbers(subject, name, side))) : [];
  box.replaceChildren();
  if (!names.length) return;
  const title = element("h3", "", "What was measured of this head"), list = element("dl", "card-list");
  title.append(element("span", "soft", ` ${`${facts.sides.at(-1).texts} ${facts.sides.at(-1).texts === 1 ? "text" : "texts"}`}; line: interval of 95 %; `));
  title.append(mark("even", "if attention were even"), element("span", "soft", " · "), mark("untrained", "untrained"));
  for (const name of names) {
    const term = element("dt", "", name), value = element("dd", "value"), where = element("dd", "where");
    term.title = facts.meanings[name];
    const found = facts.sides.map((_, side) => numbers(subject, name, side));
    value.textContent = found.map((it) => figure(it?.[0])).join(" → ");
    value.title = found.map((it) => told(it)).join("\n");
    where.append(range(name, found));
    list.append(term, value, where);
  }
  box.append(title, list);
}

function mark(name, text) {
  const made = element("span", "soft mark"), sign = draw("svg", { width: 10, height: 10, "aria-hidden": "true" });
  sign.append(glyph(name, 5, 5));
  made.append(sign, ` ${text}`);
  return made;
}

function glyph(name, x, y) {
  return name === "even" ? draw("path", { d: `M${x} ${y - 4}v8`, class: "even" }) : draw("path", { d: `M${x - 3} ${y}l3 -3l3 3l-3 3z`, class: "untrained" });
}

function told(found) {
  if (!found) return "";
  const [value, low, high, even, untrained] = found;
  return [figure(value), low === null ? "" : `from ${figure(low)} to ${figure(high)}`, even === null ? "" : `even attention ${figure(even)}`, untrained === null ? "" : `untrained ${figure(untrained)}`].filter(Boolean).join("; ");
}

// Where a head stands among all: dot and interval, with marks for even attention and the untrained model.
function range(name, found) {
  const every = heads.flatMap((it) => facts.sides.flatMap((_, side) => (numbers(it, name, side) ?? []).filter((value) => value !== null)));
  const low = min(...every), wide = max(...every) - low || 1, width = 120;
  const place = (value) => 6 + (value - low) / wide * (width - 12);
  const picture = draw("svg", { width, height: 14 * found.length, class: "range", "aria-hidden": "true" });
  found.forEach((it, side) => {
    const y = 7 + side * 14;
    picture.append(draw("path", { d: `M6 ${y}H${width - 6}`, class: "track" }));
    if (!it || it[0] === null) return;
    if (it[3] !== null) picture.append(glyph("even", place(it[3]), y));
    if (it[4] !== null) picture.append(glyph("untrained", place(it[4]), y));
    if (it[1] !== null) picture.append(draw("path", { d: `M${place(it[1])} ${y}H${place(it[2])}`, class: "interval" }));
    picture.append(draw("circle", { cx: place(it[0]), cy: y, r: 3.6, class: "dot" }));
  });
  return picture;
}

let order = ["", 1];
function makeTable() {
  const table = element("table"), head = element("tr"), body = element("tbody");
  const names = measures.filter((name) => heads.some((it) => numbers(it, name)));
  for (const name of ["head", "what it does", ...names]) {
    const cell = element("th"), sort = button(name, "plain", () => { order = [name, order[0] === name ? -order[1] : name in facts.meanings ? -1 : 1]; makeMeasures(); at("view-measures").querySelector(`[data-name="${CSS.escape(name)}"]`)?.focus(); });
    sort.dataset.name = name;
    sort.title = facts.meanings[name] ?? "";
    cell.scope = "col";
    if (order[0] === name) cell.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending");
    cell.append(sort);
    head.append(cell);
  }
  const key = (it) => (order[0] === "what it does" ? roleOf(it) : order[0] in facts.meanings ? numbers(it, order[0])?.[0] ?? null : null);
  const rows = order[0] && order[0] !== "head" ? [...heads].sort((a, b) => compared(key(a), key(b))) : order[1] > 0 || !order[0] ? heads : [...heads].reverse();
  for (const subject of rows) {
    const row = element("tr"), name = element("th");
    name.scope = "row";
    name.append(button(subject.id, "plain", () => { showTab("attention"); choose(subject, true); }));
    row.append(name, element("td", "role", roleOf(subject)));
    for (const measure of names) {
      const found = numbers(subject, measure), cell = element("td", "figure", found ? figure(found[0]) : "");
      if (found && found[1] !== null) cell.append(element("small", "", `${figure(found[1])} to ${figure(found[2])}`));
      cell.title = told(found);
      row.append(cell);
    }
    body.append(row);
  }
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  const box = element("div", "scroll");
  box.tabIndex = 0;
  box.append(table);
  return box;
}

function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return (typeof a === "string" ? a.localeCompare(b) : a - b) * order[1];
}

function measureRows() {
  const head = ["head", "role", ...measures.flatMap((name) => [name, `${name} low`, `${name} high`, `${name} even`, `${name} untrained`])];
  return [head, ...heads.map((it) => [it.id, roleOf(it), ...measures.flatMap((name) => (numbers(it, name) ?? Array(5).fill("")).map((value) => value ?? ""))])];
}
