// Colours for numbers: one hue that only gets darker (or, in the dark, lighter), and blue against orange for signs;
// both can be told apart without red and green, and in grey.
const RAMPS = {
  light: { plain: ["fcfbf8", "d3e5ef", "86bcd8", "3584b4", "154c76", "08223a"], signs: ["8a3c00", "d98a3a", "f3d9b8", "fbfaf7", "b9d7e8", "3f8bba", "0d3f66"], hidden: "e9e5dc" },
  dark: { plain: ["15191c", "163448", "1e6586", "4da6c2", "aedcd8", "fdf7cf"], signs: ["ffb866", "c0752a", "5a3a1a", "191d20", "1b4258", "3d93bf", "a9dcf5"], hidden: "2a3035" },
};
const PARTS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
const LEVELS = 256;

function isDark() {
  const chosen = html.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const ramps = new Map();
function ramp(name) {
  const theme = isDark() ? "dark" : "light", key = theme + name;
  if (!ramps.has(key)) {
    const stops = RAMPS[theme][name].map(rgb), made = new Uint8ClampedArray(LEVELS * 3);
    for (let level = 0; level < LEVELS; level += 1) {
      const place = level / (LEVELS - 1) * (stops.length - 1), from = min(floor(place), stops.length - 2);
      for (let part = 0; part < 3; part += 1) made[level * 3 + part] = round(stops[from][part] + (stops[from + 1][part] - stops[from][part]) * (place - from));
    }
    ramps.set(key, made);
  }
  return ramps.get(key);
}

function rgb(hex) { return [0, 2, 4].map((start) => parseInt(hex.slice(start, start + 2), 16)); }

function hiddenColour() { return rgb(RAMPS[isDark() ? "dark" : "light"].hidden); }

// How numbers become colours: where each stands between 0 and 1, and the ticks to print beside it.
function scaleOf(subject, side = state.side) {
  const grids = subject.grids.filter(Boolean), signed = side === BOTH || grids.some((grid) => grid.signed);
  const peak = max(...grids.map((grid) => grid.peak), 1e-9);
  const own = state.scale === "own" || peak > 1.0001 || subject.inverse;
  const high = own ? peak : 1, root = state.scale === "root" && !subject.inverse;
  const bend = (share) => (root ? Math.sqrt(share) : share);
  const place = signed
    ? (value) => 0.5 + 0.5 * Math.sign(value) * bend(min(1, abs(value) / high))
    : (value) => { const share = bend(min(1, max(0, value / high))); return subject.inverse ? 1 - share : share; };
  const shares = root ? [0, 0.01, 0.1, 0.25, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const ticks = signed ? [...shares.slice(1).reverse().map((share) => -share), ...shares] : shares;
  return { place, name: signed ? "signs" : "plain", ticks: ticks.map((share) => share * high), root };
}

function colourAt(name, place) {
  const colours = ramp(name), level = round(min(1, max(0, place)) * (LEVELS - 1)) * 3;
  return `rgb(${colours[level]},${colours[level + 1]},${colours[level + 2]})`;
}

// Numbers as pixels, one each; several where there are more than `most`, the strongest of which is seen.
function pixels(subject, found, most = Infinity) {
  const { high, wide, mask } = subject, by = max(1, ceil(max(high, wide) / most));
  const width = ceil(wide / by), height = ceil(high / by), made = new ImageData(width, height), whole = new Uint32Array(made.data.buffer);
  const scale = scaleOf(subject), colours = ramp(scale.name), hidden = pixel(hiddenColour());
  const table = Uint32Array.from({ length: LEVELS }, (_, level) => pixel(colours.subarray(level * 3)));
  for (let y = 0, to = 0; y < height; y += 1) for (let x = 0; x < width; x += 1, to += 1) {
    const bottom = min(high, (y + 1) * by), right = min(wide, (x + 1) * by);
    let strongest = 0, size = -1;
    for (let row = y * by; row < bottom; row += 1) for (let i = row * wide + x * by; i < row * wide + right; i += 1) {
      if (mask !== null && bytes[mask + i] === 0) continue;
      const value = found[i], far = value < 0 ? -value : value;
      if (far > size) { strongest = value; size = far; }
    }
    whole[to] = size < 0 ? hidden : table[(scale.place(strongest) * (LEVELS - 1) + 0.5) | 0];
  }
  return made;
}

function pixel([red, green, blue]) { return (255 << 24 | blue << 16 | green << 8 | red) >>> 0; }
