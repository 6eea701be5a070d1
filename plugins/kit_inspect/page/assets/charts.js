// Overviews of all heads: every measure by layer and head, and shares of a whole as stacked bars.
function makeMeasures() {
  const view = at("view-measures"), small = element("div", "card overviews"), whole = element("div", "card");
  const names = measures.filter((name) => heads.some((it) => numbers(it, name)));
  const title = element("div", "bar"), below = element("div", "bar");
  title.append(element("h2", "", "By layer and head"), element("span", "soft", "a row for each layer, a column for each head; choose one to see it"));
  below.append(element("h2", "", "All heads"), element("span", "soft", "choose a column to sort by it; small: the interval that 95 % of draws of texts lie in"), saving(["csv"]));
  const grid = element("div", "overview-grid");
  grid.append(...names.map(overview));
  small.append(title, grid);
  whole.append(below, makeTable());
  view.replaceChildren(small, whole);
}

function overview(name) {
  const box = element("figure"), spread = spreadOf(name), caption = element("figcaption", "", name), picture = draw("svg", { class: "over" });
  caption.title = facts.meanings[name];
  const cell = max(9, min(18, 200 / max(...heads.map((it) => it.head + 1)))), groups = Object.keys(KINDS).filter((kind) => heads.some((it) => it.group === kind && numbers(it, name)));
  let x = 0, high = 0;
  for (const kind of groups) {
    const found = heads.filter((it) => it.group === kind), wide = (max(...found.map((it) => it.head)) + 1) * cell;
    picture.append(draw("text", { x, y: 10, class: "small" }, kind));
    for (const subject of found) {
      const number = numbers(subject, name)?.[0] ?? null, y = 16 + subject.row * cell;
      const square = draw("rect", { x: x + subject.head * cell, y, width: cell - 1, height: cell - 1, rx: 1.5, fill: number === null ? "none" : colourAt(spread.name, spread.place(number)), class: "pick" });
      square.append(draw("title", {}, `${subject.id}: ${number === null ? "not measured" : figure(number)}`));
      on(square, "click", () => { showTab("attention"); choose(subject, true); });
      picture.append(square);
      high = max(high, y + cell);
    }
    x += max(wide, 48) + 14;
  }
  picture.setAttribute("width", max(x, 120));
  picture.setAttribute("height", high + 34);
  picture.append(legend({ ...spread, ticks: [spread.low, spread.high] }, 0, high + 6, min(110, max(x - 14, 80)), false));
  box.append(caption, picture);
  return box;
}

function saving(kinds) {
  const box = element("div", "switch");
  box.append(...kinds.map((kind) => button(kind.toUpperCase(), "", () => keep(kind))));
  return box;
}

function makeShares() {
  const view = at("view-shares"), box = element("div", "card"), title = element("div", "bar");
  const sides = state.side === BOTH ? [0, 1] : [state.side];
  title.append(element("h2", "", "Shares of a whole"), element("span", "soft", "what a head's attention goes by; choose a bar to see the head"), saving(["png", "svg", "csv"]));
  const picture = draw("svg", { class: "over shares" });
  let y = 8;
  for (const names of facts.wholes) {
    let x = 0;
    names.forEach((name, part) => {
      picture.append(draw("rect", { x, y, width: 12, height: 12, rx: 2, fill: PARTS[part % PARTS.length] }), draw("text", { x: x + 17, y: y + 10 }, name));
      x += 36 + name.length * 7.5;
    });
    y += 24;
    names.forEach((name) => { picture.append(draw("text", { x: 0, y: y + 10, class: "small" }, `${name}: ${facts.meanings[name]}`)); y += 15; });
    y += 8;
    let group = "";
    for (const subject of heads) for (const side of sides) {
      const found = names.map((name) => numbers(subject, name, side)?.[0] ?? null);
      if (found.some((value) => value === null)) continue;
      if (subject.site !== group) { y += group ? 8 : 0; group = subject.site; }
      y = bar(picture, subject, names, found, y, side);
    }
    y += 26;
  }
  picture.setAttribute("width", 860);
  picture.setAttribute("height", y);
  box.append(title, element("div", "scroll"));
  box.lastChild.append(picture);
  view.replaceChildren(box);
}

function bar(picture, subject, names, found, y, side) {
  const row = draw("g", { class: "pick" }), whole = found.reduce((sum, value) => sum + max(0, value), 0) || 1;
  row.append(draw("text", { x: 230, y: y + 11, "text-anchor": "end", class: "small" }, subject.id + (state.side === BOTH ? ` · ${facts.sides[side].name}` : "")));
  let x = 240;
  found.forEach((value, part) => {
    const wide = max(0, value) / whole * 420;
    const piece = draw("rect", { x, y, width: wide, height: 14, fill: PARTS[part % PARTS.length] });
    piece.append(draw("title", {}, `${names[part]} ${figure(value)}`));
    row.append(piece);
    x += wide;
  });
  row.append(draw("text", { x: 670, y: y + 11, class: "small" }, roleOf(subject, side)));
  on(row, "click", () => { showTab("attention"); choose(subject, true); });
  picture.append(row);
  return y + 17;
}

function shareRows() {
  const names = facts.wholes.flat();
  return [["head", ...names], ...heads.map((it) => [it.id, ...names.map((name) => numbers(it, name)?.[0] ?? "")])];
}
