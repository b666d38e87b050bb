/* The interactive part of uwaga.results.views: root contains the static heat map, and data is what Python made:
   {style, kinds: [{kind, layers, heads, rows, columns, weights}]}. The weights are bytes (layers, heads, rows, columns), with 255
   for a weight of 1, either as they are or compressed by zlib and encoded in base64. Rows are queries, and columns are keys.
   phrases maps the English texts to those of another language; without it, data.phrases contains the texts of all languages,
   packed like the weights, and data.language or the document states the language. */
function attentionView(root, data, phrases) {
  "use strict";
  const began = performance.now();
  const STEP = 28; // height of a token, as in the style sheet
  const FAINTEST = 8; // of 255: lines of lower weights can hardly be seen
  const TOGETHER = 64; // number of lines in a path
  const live = document.createElement("div");
  const shadow = live.attachShadow({ mode: "open" });
  const state = { kind: data.kinds[0], view: "heads", layer: 0, heads: new Set(), token: null, pinned: null };
  const unpacked = new Map();

  function phrase(english, values = {}) {
    return (phrases?.[english] ?? english).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  }

  const kindName = () => phrase(state.kind.kind);

  /* --- numbers --- */

  function matrix(layer, head) {
    const { heads, rows, columns } = state.kind;
    const size = rows.length * columns.length;
    const start = (layer * heads + head) * size;
    return unpacked.get(state.kind).subarray(start, start + size);
  }

  function meanMatrix() {
    const { rows, columns } = state.kind;
    const mean = new Float32Array(rows.length * columns.length);
    for (const head of state.heads) {
      const weights = matrix(state.layer, head);
      for (let at = 0; at < mean.length; at++) mean[at] += weights[at];
    }
    if (state.heads.size) for (let at = 0; at < mean.length; at++) mean[at] /= state.heads.size;
    return mean;
  }

  const number = (weight) => (weight / 255).toFixed(2);

  function whichHeads() {
    const heads = [...state.heads].sort((one, other) => one - other).map((head) => head + 1);
    const layer = state.layer + 1;
    if (!heads.length) return phrase("layer {layer}, no head chosen", { layer });
    if (heads.length === 1) return phrase("layer {layer}, head {head}", { layer, head: heads[0] });
    if (heads.length === state.kind.heads) return phrase("layer {layer}, mean of all heads", { layer });
    return phrase("layer {layer}, mean of heads {heads}", { layer, heads: heads.join(", ") });
  }

  /* --- colours --- */

  const accent = () => accentOf(live);
  const headColour = (head, alpha) =>
    `hsla(${Math.round((360 * head) / state.kind.heads + 212) % 360}, 75%, ${isDark(live) ? 68 : 42}%, ${alpha})`;

  /* --- the head view: lines between tokens --- */

  function headsView() {
    const canvas = make("canvas", { "aria-hidden": "true" });
    canvas.style.width = "100%";
    const lists = [0, 1].map((side) => tokenList(side));
    const element = make("div", { class: "lines" }, lists[0], canvas, lists[1]);
    return { element, draw: () => drawLines(canvas, lists) };
  }

  function tokenList(side) {
    const tokens = side ? state.kind.columns : state.kind.rows;
    const label = side ? phrase("{kind} attention, keys", { kind: kindName() }) : phrase("{kind} attention, queries", { kind: kindName() });
    const list = make("ul", { role: "listbox", "aria-label": label });
    tokens.forEach((token, index) => {
      const item = make("li", { role: "option", tabindex: index ? -1 : 0, "aria-selected": "false" }, token);
      item.addEventListener("mouseenter", () => look(side, index));
      item.addEventListener("mouseleave", () => look());
      item.addEventListener("focus", () => look(side, index));
      item.addEventListener("blur", () => look());
      item.addEventListener("click", () => pin(side, index));
      list.append(item);
    });
    list.addEventListener("keydown", (event) => {
      const items = [...list.children];
      const here = items.indexOf(shadow.activeElement);
      const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: items.length - 1 }[event.key];
      if (to !== undefined && items[to]) rove(items, items[to]);
      else if (event.key === "Enter" || event.key === " ") pin(side, here);
      else if (event.key === "Escape") pin();
      else return;
      event.preventDefault();
    });
    return list;
  }

  function look(side, index) {
    state.token = side === undefined ? state.pinned : { side, index };
    current.draw();
  }

  function pin(side, index) {
    const again = state.pinned && state.pinned.side === side && state.pinned.index === index;
    state.pinned = side === undefined || again ? null : { side, index };
    state.token = state.pinned;
    current.draw();
  }

  function drawLines(canvas, lists) {
    const { rows, columns } = state.kind;
    const width = canvas.clientWidth || 200;
    const drawing = context(canvas, live, width, STEP * Math.max(rows.length, columns.length));
    canvas.style.width = "100%";
    drawing.lineWidth = state.token ? 3 : 2;
    // The lines of the heads are side by side, so that no head hides another that looks at the same token.
    const heads = [...state.heads].sort((first, second) => first - second);
    const apart = Math.min(3, 12 / Math.max(heads.length, 1));
    heads.forEach((head, index) => drawHead(drawing, head, width, apart * (index - (heads.length - 1) / 2)));
    const mean = meanMatrix();
    const [red, green, blue] = accent();
    lists.forEach((list, side) => {
      [...list.children].forEach((item, index) => {
        const chosen = state.token && state.token.side === side && state.token.index === index;
        const pinned = state.pinned && state.pinned.side === side && state.pinned.index === index;
        const facing = state.token && state.token.side !== side ? weightOf(mean, side, index) / 255 : 0;
        item.setAttribute("aria-selected", String(Boolean(pinned)));
        const alpha = chosen ? 0.25 : facing;
        item.style.background = alpha > 0.004 ? `rgba(${red}, ${green}, ${blue}, ${alpha.toFixed(3)})` : "";
      });
    });
    sayToken(mean);
  }

  function weightOf(mean, side, index) {
    const width = state.kind.columns.length;
    return side ? mean[state.token.index * width + index] : mean[index * width + state.token.index];
  }

  function drawHead(drawing, head, width, shift) {
    const { rows, columns } = state.kind;
    const weights = matrix(state.layer, head);
    const levels = Array.from({ length: 16 }, () => []);
    for (let row = 0; row < rows.length; row++) {
      if (state.token && !state.token.side && state.token.index !== row) continue;
      for (let column = 0; column < columns.length; column++) {
        if (state.token && state.token.side && state.token.index !== column) continue;
        const weight = weights[row * columns.length + column];
        if (weight >= FAINTEST) levels[weight >> 4].push(row, column);
      }
    }
    // A path of many crossing lines is slow to draw, and so is one path per line: a few dozen lines per path are fastest.
    levels.forEach((places, level) => {
      drawing.strokeStyle = headColour(head, ((level + 0.5) / 16).toFixed(2));
      for (let from = 0; from < places.length; from += 2 * TOGETHER) {
        drawing.beginPath();
        for (let at = from; at < Math.min(places.length, from + 2 * TOGETHER); at += 2) {
          drawing.moveTo(0, (places[at] + 0.5) * STEP + shift);
          drawing.lineTo(width, (places[at + 1] + 0.5) * STEP + shift);
        }
        drawing.stroke();
      }
    });
  }

  function sayToken(mean) {
    if (!state.token) {
      const several = phrase("layer {layer}, each head in its own colour", { layer: state.layer + 1 });
      const values = { kind: kindName(), where: state.heads.size > 1 ? several : whichHeads() };
      say(phrase("{kind} attention, {where}. Point at a token, or move to it with Tab and the arrow keys.", values));
      return;
    }
    const { side, index } = state.token;
    const others = side ? state.kind.rows : state.kind.columns;
    const found = others.map((text, at) => [weightOf(mean, 1 - side, at), text]);
    found.sort((one, other) => other[0] - one[0]);
    const most = found.slice(0, 4).map(([weight, text]) => `${text} ${number(weight)}`).join(", ");
    const token = (side ? state.kind.columns : state.kind.rows)[index];
    const values = { token, most, where: whichHeads() };
    say(side ? phrase("“{token}” is looked at most by: {most} ({where})", values)
      : phrase("“{token}” looks most at: {most} ({where})", values));
  }

  /* --- the matrix view: a heat map --- */

  function matrixView() {
    const canvas = make("canvas", { tabindex: 0, role: "img" });
    let shape = null;
    let cell = null;
    const inside = (row, column) =>
      row >= 0 && column >= 0 && row < state.kind.rows.length && column < state.kind.columns.length;
    canvas.addEventListener("mousemove", (event) => {
      const column = Math.floor((event.offsetX - shape.left) / shape.cell);
      const row = Math.floor((event.offsetY - shape.top) / shape.cell);
      if (inside(row, column) && !(cell && cell.row === row && cell.column === column)) {
        cell = { row, column };
        draw();
      }
    });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!by) return;
      event.preventDefault();
      const to = cell ? { row: cell.row + by[0], column: cell.column + by[1] } : { row: 0, column: 0 };
      if (inside(to.row, to.column)) cell = to;
      draw();
    });
    function draw() {
      const mean = meanMatrix();
      shape = drawMatrix(canvas, mean, cell);
      const { rows, columns } = state.kind;
      const where = { kind: kindName(), where: whichHeads() };
      canvas.setAttribute("aria-label", phrase("Heat map of {kind} attention, {where}: rows are queries, columns are keys", where));
      if (!cell) {
        say(phrase("{kind} attention, {where}: rows are queries, columns are keys. Point at a cell, or use the arrow keys.", where));
        return;
      }
      const weight = number(mean[cell.row * columns.length + cell.column]);
      const values = { row: rows[cell.row], column: columns[cell.column], weight, ...where };
      say(phrase("“{row}” looks at “{column}”: {weight} ({where})", values));
    }
    return { element: make("div", {}, canvas), draw };
  }

  function drawMatrix(canvas, mean, chosen) {
    const { rows, columns } = state.kind;
    const room = stage.clientWidth || 700;
    const measured = context(canvas, live, 1, 1);
    const longest = (tokens) => Math.min(140, Math.max(...tokens.map((one) => measured.measureText(one).width)));
    const left = longest(rows) + 8;
    const top = longest(columns) + 8;
    const cell = Math.max(6, Math.min(44, Math.floor((room - left - 2) / columns.length)));
    const drawing = context(canvas, live, left + cell * columns.length + 2, top + cell * rows.length + 2);
    const every = Math.ceil(14 / cell); // labels are drawn where there is room, and for the chosen row and column
    drawing.textAlign = "right";
    rows.forEach((text, row) => {
      if (row % every && !(chosen && chosen.row === row)) return;
      drawing.font = `${chosen && chosen.row === row ? "bold " : ""}14px system-ui, sans-serif`;
      drawing.fillText(shortened(drawing, text, 140), left - 5, top + (row + 0.5) * cell);
    });
    drawing.textAlign = "left";
    columns.forEach((text, column) => {
      if (column % every && !(chosen && chosen.column === column)) return;
      drawing.save();
      drawing.font = `${chosen && chosen.column === column ? "bold " : ""}14px system-ui, sans-serif`;
      drawing.translate(left + (column + 0.5) * cell, top - 5);
      drawing.rotate(-Math.PI / 2);
      drawing.fillText(shortened(drawing, text, 140), 0, 0);
      drawing.restore();
    });
    drawing.imageSmoothingEnabled = false;
    const size = [cell * columns.length, cell * rows.length];
    drawing.drawImage(picture(mean, columns.length, rows.length, 255, accent()), left, top, ...size);
    drawing.globalAlpha = 0.35;
    drawing.strokeRect(left - 0.5, top - 0.5, size[0] + 1, size[1] + 1);
    drawing.globalAlpha = 1;
    drawing.lineWidth = 2;
    if (chosen) drawing.strokeRect(left + chosen.column * cell, top + chosen.row * cell, cell, cell);
    return { left, top, cell };
  }

  /* --- the model view: every head of every layer --- */

  function modelView() {
    const canvas = make("canvas", { tabindex: 0, role: "img" });
    const { layers, heads } = state.kind;
    const label = "{kind} attention of every head: rows are layers, columns are heads; arrow keys move, Enter opens";
    canvas.setAttribute("aria-label", phrase(label, { kind: kindName() }));
    const chosen = { layer: state.layer, head: Math.min(...state.heads, heads - 1) };
    let shape = null;
    const find = (event) => ({
      layer: Math.floor((event.offsetY - shape.edge) / shape.pitch),
      head: Math.floor((event.offsetX - shape.edge) / shape.pitch),
    });
    const move = (to) => {
      if (to.layer < 0 || to.head < 0 || to.layer >= layers || to.head >= heads) return false;
      if (to.layer !== chosen.layer || to.head !== chosen.head) draw(Object.assign(chosen, to));
      return true;
    };
    const open = () => {
      state.layer = chosen.layer;
      state.heads = new Set([chosen.head]);
      show("matrix");
    };
    canvas.addEventListener("mousemove", (event) => move(find(event)));
    canvas.addEventListener("click", (event) => move(find(event)) && open());
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (by) move({ layer: chosen.layer + by[0], head: chosen.head + by[1] });
      else if (event.key === "Enter" || event.key === " ") open();
      else return;
      event.preventDefault();
    });
    function draw() {
      shape = drawModel(canvas, chosen);
      const values = { kind: kindName(), layer: chosen.layer + 1, head: chosen.head + 1 };
      say(phrase("{kind} attention, layer {layer}, head {head}: click or press Enter to open it. Each head has its own scale.", values));
    }
    return { element: make("div", {}, canvas), draw };
  }

  function drawModel(canvas, chosen) {
    const { layers, heads, rows, columns } = state.kind;
    const edge = 22;
    const room = (stage.clientWidth || 700) - edge - 2;
    const pitch = Math.max(30, Math.min(160, Math.floor(room / heads)));
    const drawing = context(canvas, live, edge + pitch * heads + 2, edge + pitch * layers + 2);
    drawing.textAlign = "center";
    for (let head = 0; head < heads; head++) drawing.fillText(head + 1, edge + (head + 0.5) * pitch, edge / 2);
    const scale = (pitch - 6) / Math.max(rows.length, columns.length);
    for (let layer = 0; layer < layers; layer++) {
      drawing.fillText(layer + 1, edge / 2, edge + (layer + 0.5) * pitch);
      for (let head = 0; head < heads; head++) {
        const weights = matrix(layer, head);
        const [x, y] = [edge + head * pitch + 3, edge + layer * pitch + 3];
        const most = weights.reduce((one, other) => Math.max(one, other), 1);
        const map = picture(weights, columns.length, rows.length, most, accent());
        drawing.imageSmoothingEnabled = scale < 1;
        drawing.drawImage(map, x, y, scale * columns.length, scale * rows.length);
        const here = layer === chosen.layer && head === chosen.head;
        drawing.globalAlpha = here ? 1 : 0.25;
        drawing.lineWidth = here ? 2 : 1;
        drawing.strokeRect(x - 1, y - 1, pitch - 4, pitch - 4);
        drawing.globalAlpha = 1;
      }
    }
    return { edge, pitch };
  }

  /* --- the controls --- */

  const said = make("output", { class: "said", "aria-live": "polite" });
  const stage = make("div", { class: "stage" });
  const heads = make("span", { class: "heads", role: "group", "aria-label": phrase("heads") });
  const layer = make("select", { "aria-label": phrase("layer") });
  const layers = make("label", {}, `${phrase("layer")} `, layer);
  const makers = { heads: headsView, matrix: matrixView, model: modelView };
  let current = null;

  const say = (text) => {
    said.textContent = text;
  };

  function fillHeads() {
    heads.replaceChildren();
    if (state.kind.heads < 2) return;
    for (let head = 0; head < state.kind.heads; head++) {
      const button = make("button", { type: "button", class: "head", "aria-label": phrase("head {head}", { head: head + 1 }),
        title: phrase("click: show or hide; double-click, or Shift and Enter: show only this head") }, String(head + 1));
      button.tabIndex = head ? -1 : 0;
      button.addEventListener("click", () => toggle(head));
      button.addEventListener("dblclick", () => choose([head]));
      button.addEventListener("keydown", (event) => {
        const buttons = [...heads.querySelectorAll(".head")];
        const to = { ArrowRight: head + 1, ArrowLeft: head - 1 }[event.key];
        if (buttons[to]) rove(buttons, buttons[to]);
        else if (event.key === "Enter" && event.shiftKey) choose([head]);
        else return;
        event.preventDefault();
      });
      heads.append(button);
    }
    const every = [...Array(state.kind.heads).keys()];
    for (const [name, label, chosen] of [[phrase("all"), phrase("all heads"), every], [phrase("none"), phrase("none of the heads"), []]]) {
      const button = make("button", { type: "button", "aria-label": label }, name);
      button.addEventListener("click", () => choose(chosen));
      heads.append(button);
    }
  }

  function toggle(head) {
    if (!state.heads.delete(head)) state.heads.add(head);
    refresh();
  }

  function choose(chosen) {
    state.heads = new Set(chosen);
    refresh();
  }

  function refresh() {
    const [red, green, blue] = accent();
    live.style.setProperty("--accent", `rgb(${red}, ${green}, ${blue})`);
    live.style.setProperty("--on-head", isDark(live) ? "#000" : "#fff");
    heads.querySelectorAll(".head").forEach((button, head) => {
      button.style.setProperty("--head", headColour(head, 1));
      button.setAttribute("aria-pressed", String(state.heads.has(head)));
    });
    layer.value = String(state.layer);
    for (const input of shadow.querySelectorAll("input[name=view]")) input.checked = input.value === state.view;
    heads.hidden = layers.hidden = state.view === "model";
    heads.style.display = heads.hidden ? "none" : "";
    layers.style.display = layers.hidden || state.kind.layers < 2 ? "none" : "";
    if (current) current.draw();
  }

  function show(view) {
    state.view = view;
    state.token = state.pinned = null;
    current = makers[view]();
    stage.replaceChildren(current.element);
    refresh();
  }

  async function showKind(kind) {
    if (!unpacked.has(kind)) unpacked.set(kind, await unpack(kind.weights));
    state.kind = kind;
    state.layer = kind.layers - 1;
    state.heads = new Set(Array(kind.heads).keys());
    layer.replaceChildren(...Array.from({ length: kind.layers }, (_, at) => make("option", { value: at }, String(at + 1))));
    fillHeads();
    show(kind.layers * kind.heads > 1 ? state.view : state.view === "model" ? "matrix" : state.view);
  }

  function build() {
    const names = data.kinds.map((kind) => kind.kind);
    const several = data.kinds.some((kind) => kind.layers * kind.heads > 1);
    const kinds = radios("attention", names, names[0], (name) => showKind(data.kinds[names.indexOf(name)]), phrase);
    const views = radios("view", several ? ["heads", "matrix", "model"] : ["heads", "matrix"], state.view, show, phrase);
    layer.addEventListener("change", () => {
      state.layer = Number(layer.value);
      refresh();
    });
    if (shadow.adoptedStyleSheets && window.CSSStyleSheet && CSSStyleSheet.prototype.replaceSync) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(data.style);
      shadow.adoptedStyleSheets = [sheet];
    } else {
      shadow.append(make("style", {}, data.style));
    }
    shadow.append(make("div", { class: "bar" }, kinds, views, layers, heads), stage, said);
  }

  /* --- start when the view becomes visible; follow the page's width and colours --- */

  async function start() {
    const still = root.querySelector("[data-still]");
    phrases ??= await phrasesOf(data.phrases, data.language ?? document.documentElement.lang).catch(() => undefined);
    build();
    root.append(live);
    try {
      await showKind(data.kinds[0]);
    } catch (error) {
      live.remove(); // the static heat map stays
      return;
    }
    still.style.display = "none";
    current.draw();
    live.dataset.milliseconds = (performance.now() - began).toFixed(1);
    let width = stage.clientWidth;
    if (window.ResizeObserver) {
      new ResizeObserver(() => {
        if (stage.clientWidth === width) return;
        width = stage.clientWidth;
        current.draw();
      }).observe(stage);
    }
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
    const watcher = new MutationObserver(() => {
      if (live.isConnected) requestAnimationFrame(refresh);
      else watcher.disconnect(); // a notebook has replaced this output with another
    });
    for (const element of [document.documentElement, document.body]) watcher.observe(element, { attributes: true });
  }

  /* Show other matrices of the same model; the choices of the user are kept. */
  async function update(kinds) {
    data = { ...data, kinds };
    const kind = kinds.find((one) => one.kind === state.kind.kind) ?? kinds[0];
    unpacked.clear();
    unpacked.set(kind, await unpack(kind.weights));
    state.kind = kind;
    if (current) show(state.view);
  }

  if (!window.IntersectionObserver) {
    start();
    return { update };
  }
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    start();
  }, { rootMargin: "200px" });
  seen.observe(root);
  return { update };
}
