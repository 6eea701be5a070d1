// Elements, pictures in SVG, and files to keep. Whatever a token says goes in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function draw(tag, attributes = {}, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function on(it, event, act) { it.addEventListener(event, act); }

function button(text, name, act) {
  const made = element("button", name, text);
  made.type = "button";
  on(made, "click", act);
  return made;
}

// A token in a sentence, with its place.
function named(token, place) {
  const made = element("b");
  made.append(element("bdi", "", shown(token, 40)));
  if (place !== undefined) made.append(element("sub", "", place));
  return made;
}

// A legend in SVG: the colours from end to end with their numbers below.
function legend(scale, x, y, width, hiddenToo) {
  const group = draw("g", { transform: `translate(${x} ${y})`, class: "scale" }), steps = 64;
  for (let step = 0; step < steps; step += 1) group.append(draw("rect", { x: step * width / steps, width: width / steps + 0.5, height: 10, fill: colourAt(scale.name, step / (steps - 1)) }));
  group.append(draw("rect", { width, height: 10, class: "frame" }));
  let last = -99;
  const places = scale.ticks.map((value) => [scale.place(value) * width, value]).sort((a, b) => a[0] - b[0]);
  for (const [place, value] of places) {
    if (place - last < (last < 4 ? 38 : 26) || (place > width - 50 && place < width - 4)) continue;
    group.append(draw("text", { x: place, y: 22, "text-anchor": place < 4 ? "start" : place > width - 4 ? "end" : "middle", class: "small" }, figure(value)));
    last = place;
  }
  if (hiddenToo) {
    group.append(draw("rect", { x: width + 18, width: 14, height: 10, fill: `rgb(${hiddenColour()})` }), draw("rect", { x: width + 18, width: 14, height: 10, class: "frame" }));
    group.append(draw("text", { x: width + 37, y: 9, class: "small" }, "may not be seen"));
  }
  return group;
}

const COPIED = ["fill", "stroke", "stroke-width", "stroke-opacity", "fill-opacity", "opacity", "font-size", "font-family", "font-weight", "font-style", "text-anchor", "visibility", "paint-order"];

// A picture by itself: styles as attributes, the canvas under it as an image, the page's colour behind it.
function alone(picture, canvas, title) {
  const copy = picture.cloneNode(true), from = [picture, ...picture.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((it, i) => {
    const style = getComputedStyle(it);
    for (const name of COPIED) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
    to[i].removeAttribute("tabindex");
  });
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("viewBox", `0 0 ${picture.getAttribute("width")} ${picture.getAttribute("height")}`);
  if (canvas) copy.prepend(draw("image", { x: canvas.dataset.x, y: canvas.dataset.y, width: canvas.dataset.width, height: canvas.dataset.height, href: canvas.toDataURL(), "image-rendering": "pixelated" }));
  copy.prepend(draw("title", {}, title), draw("rect", { width: "100%", height: "100%", fill: isDark() ? "#1d2226" : "#ffffff" }));
  return new XMLSerializer().serializeToString(copy);
}

function save(name, kind, data) {
  const link = element("a"), safe = `${facts.sides.at(-1).name} ${name}`.replace(/[^\p{L}\p{N}.]+/gu, "-").slice(0, 90);
  link.href = URL.createObjectURL(data);
  link.download = `${safe}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function png(text, width, height) {
  const image = new Image(), url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  image.src = url;
  await image.decode();
  URL.revokeObjectURL(url);
  const canvas = element("canvas"), by = max(1, min(2, 8000 / max(width, height)));
  canvas.width = width * by;
  canvas.height = height * by;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function csv(rows) {
  const cell = (value) => (/[",\r\n]|^\s|\s$/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value));
  return new Blob([rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n"], { type: "text/csv;charset=utf-8" });
}

// Keep what is shown: the picture of a view, or its numbers.
async function keep(kind) {
  const [name, picture, canvas, rows] = showing();
  if (kind === "csv") { save(name, kind, csv(rows())); return; }
  if (!picture) return;
  const text = alone(picture, canvas, name);
  if (kind === "svg") save(name, kind, new Blob([text], { type: "image/svg+xml" }));
  else save(name, kind, await png(text, Number(picture.getAttribute("width")), Number(picture.getAttribute("height"))));
}
