/* The drawing functions of uwaga.results.views: elements, weights, colours and canvases. */
function make(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

function radios(name, values, chosen, change, label) {
  const group = make("fieldset", { class: "choice", "aria-label": name });
  for (const value of values) {
    const input = make("input", { type: "radio", name, value });
    input.checked = value === chosen;
    input.addEventListener("change", () => change(value));
    group.append(make("label", {}, input, label(value)));
  }
  group.hidden = values.length < 2;
  return group;
}

function rove(items, item) {
  for (const other of items) other.tabIndex = other === item ? 0 : -1;
  item.focus();
}

async function unpack(packed) {
  if (packed instanceof Uint8Array) return packed;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* A map from the English texts to those of a language; undefined for English and for missing languages. */
async function phrasesOf(packed, language) {
  const code = language.toLowerCase().split("-")[0];
  if (!packed || !code || code === "en") return undefined;
  const all = JSON.parse(new TextDecoder().decode(await unpack(packed)));
  return Object.hasOwn(all, code) ? all[code] : undefined;
}

/* Whether the page is dark, judging by its text colour. */
function isDark(place) {
  const found = getComputedStyle(place).color.match(/[\d.]+/g);
  const [red, green, blue] = found ? found.map(Number) : [0, 0, 0];
  return 0.299 * red + 0.587 * green + 0.114 * blue > 127;
}
const accentOf = (place) => (isDark(place) ? [111, 214, 198] : [11, 95, 88]);

function context(canvas, place, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext("2d");
  drawing.scale(ratio, ratio);
  drawing.fillStyle = drawing.strokeStyle = getComputedStyle(place).color;
  drawing.font = "14px system-ui, sans-serif";
  drawing.textBaseline = "middle";
  return drawing;
}

function picture(weights, columns, rows, most, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const drawing = canvas.getContext("2d");
  const pixels = drawing.createImageData(columns, rows);
  const [red, green, blue] = colour;
  for (let at = 0; at < weights.length; at++) {
    pixels.data[4 * at] = red;
    pixels.data[4 * at + 1] = green;
    pixels.data[4 * at + 2] = blue;
    pixels.data[4 * at + 3] = Math.min(255, (255 * weights[at]) / most);
  }
  drawing.putImageData(pixels, 0, 0);
  return canvas;
}

function shortened(drawing, text, width) {
  if (drawing.measureText(text).width <= width) return text;
  let letters = [...text];
  while (letters.length && drawing.measureText(letters.join("") + "…").width > width) letters.pop();
  return letters.join("") + "…";
}
