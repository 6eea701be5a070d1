// All heads at a glance: a small map each, layer by layer, with a number that is measured of it.
const GROUPS = { ...Object.fromEntries(Object.entries(KINDS).map(([kind, [name, , rows, columns]]) => [kind, [name, `${rows} tokens look at ${columns} tokens`]])), drawing: ["The whole model", "pictures of this text"], likeness: ["Heads against heads", "which attend alike"] };
const MOST = 96;  // pixels of a tile; of a longer text the strongest weight of several is seen
const lines = [];  // subjects by row, for the arrow keys

function makeTiles() {
  const groups = Object.keys(GROUPS).map((group) => [group, all.filter((it) => it.group === group)]).filter(([, found]) => found.length);
  at("tiles").replaceChildren(...groups.map(([group, found]) => {
    const box = element("section"), title = element("h3", "", GROUPS[group][0]), grid = element("div", "tiles");
    title.append(element("span", "soft", ` ${GROUPS[group][1]}`));
    const wide = max(...found.map((it) => it.head)) + 1, layers = group in KINDS;
    grid.style.setProperty("--wide", wide);
    grid.classList.toggle("layers", layers);
    grid.dataset.many = wide > 8;
    if (layers) grid.append(element("span"), ...Array.from({ length: wide }, (_, head) => element("span", "axis", head)));
    for (const row of [...new Set(found.map((it) => it.row))].sort((a, b) => a - b)) {
      const line = found.filter((it) => it.row === row).sort((a, b) => a.head - b.head);
      lines.push(line);
      if (layers) grid.append(element("span", "axis layer", row));
      let next = 0;
      for (const subject of line) {
        while (next < subject.head) { grid.append(element("span")); next += 1; }
        grid.append(tile(subject));
        next += 1;
      }
      while (next < wide) { grid.append(element("span")); next += 1; }
    }
    box.append(title, grid);
    return box;
  }));
}

function tile(subject) {
  const made = button(undefined, "tile", () => choose(subject));
  subject.tile = made;
  made.dataset.id = subject.id;
  made.tabIndex = -1;
  subject.canvas = element("canvas");
  subject.label = element("span", "number", subject.short ?? "");
  made.append(subject.canvas, subject.label);
  on(made, "focus", () => { if (state.subject !== subject && made.matches(":focus-visible")) choose(subject); });
  return made;
}

function drawTiles() {
  const spread = state.measure ? spreadOf(state.measure) : null;
  for (const subject of all) {
    const found = values(subject), canvas = subject.canvas;
    subject.tile.classList.toggle("missing", found === null);
    canvas.hidden = found === null;
    if (found) {
      const image = pixels(subject, found, MOST);
      canvas.width = image.width;
      canvas.height = image.height;
      canvas.getContext("2d").putImageData(image, 0, 0);
    }
    label(subject, spread);
  }
  tileLegend(spread);
}

function label(subject, spread) {
  if (!subject.site) { subject.tile.setAttribute("aria-label", subject.title); return; }
  const number = state.measure ? numbers(subject, state.measure)?.[0] ?? null : null;
  subject.label.hidden = !state.measure;
  subject.label.textContent = figure(number);
  const place = number === null ? null : spread.place(number);
  subject.label.style.background = place === null ? "none" : colourAt(spread.name, place);
  subject.label.style.color = place === null ? "" : inkOn(spread.name, place);
  const told = [subject.title, roleOf(subject), state.measure && number !== null ? `${state.measure} ${figure(number)}` : "", ready(subject) ? "" : "not in this page"];
  subject.tile.setAttribute("aria-label", told.filter(Boolean).join("; "));
  subject.tile.title = told.filter(Boolean).join("\n");
}

function inkOn(name, place) {
  const [red, green, blue] = colourAt(name, place).match(/\d+/g).map(Number);
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#10171c" : "#ffffff";
}

// From the least to the most that a measure is in any head; around zero where two models are compared.
function spreadOf(name) {
  const found = heads.map((it) => numbers(it, name)?.[0] ?? null).filter((value) => value !== null);
  let low = min(...found), high = max(...found);
  if (state.side === BOTH) { high = max(abs(low), abs(high), 1e-9); low = -high; }
  const wide = high - low || 1;
  return { place: (value) => (value - low) / wide, name: state.side === BOTH ? "signs" : "plain", ticks: found.length ? [low, (low + high) / 2, high] : [], low, high };
}

function tileLegend(spread) {
  const add = (name, scale, hiddenToo) => {
    const box = element("span", "pair", name), picture = draw("svg", { width: hiddenToo ? 330 : 202, height: 26, viewBox: `0 0 ${hiddenToo ? 330 : 202} 26`, role: "img", "aria-label": `Colours: ${name}` });
    picture.append(legend(scale, 1, 1, 200, hiddenToo));
    box.append(picture);
    return box;
  };
  at("tile-legend").replaceChildren(add(state.side === BOTH ? "change" : "weight", scaleOf({ grids: [{ peak: 1 }] }), all.some((it) => it.mask !== null)), ...(spread?.ticks.length ? [add(state.measure, spread, false)] : []));
}

function tileKeys(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -999], End: [0, 999] }[event.key];
  if (!step) return;
  event.preventDefault();
  const row = lines.findIndex((line) => line.includes(state.subject)), column = lines[row].indexOf(state.subject);
  const line = lines[max(0, min(lines.length - 1, row + step[0]))];
  choose(line[max(0, min(line.length - 1, column + step[1]))], true);
}
