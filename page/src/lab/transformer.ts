/** The drawing of the Transformer: its boxes as buttons, the lines of the tokens, and the weights in the boxes. */

import { make, svgElement } from "../dom";
import { type Box, boxesOf, type BoxKind, DETOUR, layout, type Lane, type Placed, type Row, segmentsOf, TITLE } from "./boxes";
import { cells } from "./cells";
import { type Key, say } from "./messages";
import type { Edit, LabInfo, Table, Translation } from "./model";
import type { Axes } from "./state";

const NAMES: Record<BoxKind, Key> = {
  embedding: "boxEmbedding", positions: "boxPositions", self: "boxSelf", recurrence: "boxRecurrence", cross: "boxCross", add: "boxAdd", feed: "boxFeed", norm: "boxNorm", output: "boxOutput", softmax: "boxSoftmax",
};
export const LANES: Record<Lane, Key> = { encoder: "boxEncoder", decoder: "boxDecoder" };
const SUBLAYERS: BoxKind[] = ["self", "cross", "recurrence", "feed"];
const STRIP = 26; // height of the way of the memory from the encoder to the decoder

/** Return the name of a box with its place, such as "Encoder, block 1: self-attention". */
export function nameOf({ lane, layer, kind }: Box): string {
  const values = { lane: say(LANES[lane]), layer, box: say(NAMES[kind]).replaceAll("\u00ad", "") };
  return say(layer ? "boxOfBlock" : "boxOf", values);
}

/** Return whether an edit changes what a box computes. */
export function isEdited({ kind, lane, layer }: Box, edit: Edit): boolean {
  if ("side" in edit) return kind === "positions" && (edit.side === "source") === (lane === "encoder");
  const edited = edit.kind ?? "cross";
  return (kind === "cross" ? edited === "cross" : kind === "self" && edited === lane) && (edit.layer === undefined || edit.layer === layer);
}

export interface Shown {
  translation: Translation;
  axes: Axes;
  edits: Edit[];
  /** The open array. */
  array: string;
  /** Counted from 1; 0 for all. */
  step: number;
}

export class Transformer {
  readonly element = make("div", { class: "lab-transformer", attributes: { role: "group", "aria-label": say("labNumbers") } });
  private readonly segments;
  /** What the pictures of the weights show, so that only changed ones are drawn. */
  private readonly pictures = new WeakMap<Element, string>();
  private readonly buttons = new Map<string, HTMLButtonElement>();
  private rows: Array<{ row: Row; element: HTMLElement; lines: SVGElement[]; reads: HTMLElement[]; writes: HTMLElement[] }> = [];
  private width = 0;
  private built = "";
  private focused = "";
  private shown: Shown | undefined;

  /** `panel` shows the open box, below its row; `open` and `goTo` are called with a box or step that the reader chose. */
  constructor(
    private readonly info: LabInfo,
    private readonly panel: HTMLElement,
    private readonly open: (box: Box) => void,
    private readonly goTo: (step: number) => void,
  ) {
    this.segments = segmentsOf(info);
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => {
      this.width = this.element.clientWidth;
      if (this.shown && this.width) this.show(this.shown);
    }).observe(this.element);
  }

  /** Return the open boxes: several if they compute one array together. */
  boxesOf(array: string): Box[] {
    return boxesOf(this.segments, array);
  }

  show(shown: Shown): void {
    this.shown = shown;
    const { axes } = shown;
    const tokens = { encoder: axes.source.length, decoder: axes.rows.length };
    this.width ||= this.element.clientWidth; // later from the observer, since reading it costs a layout
    const width = this.width || 320;
    const key = JSON.stringify([width, tokens]);
    if (key !== this.built) this.build(layout(this.segments, tokens, width), width);
    this.built = key;
    for (const { row, element, lines, reads, writes } of this.rows) {
      const isDecoder = row.lane === "decoder";
      const stateOf = (index: number): string => (!shown.step ? "" : isDecoder ? (index + 1 === shown.step ? "now" : index < shown.step ? "cached" : "later") : shown.step === 1 ? "now" : "cached");
      element.dataset.state = shown.step ? (isDecoder || shown.step === 1 ? "computes" : "cached") : "";
      lines.forEach((line, index) => {
        const className = `lab-line ${stateOf(index)}`;
        if (line.getAttribute("class") !== className) line.setAttribute("class", className);
      });
      reads.forEach((name, index) => this.setToken(name, (isDecoder ? axes.inputs : axes.source)[index], stateOf(index)));
      writes.forEach((name, index) => this.setToken(name, axes.predicted[index], stateOf(index)));
      for (const box of row.boxes) this.showBox(box, shown);
    }
    this.placePanel(shown.array);
  }

  /** Bring the open box and its panel into view: below the whole drawing, the panel sticks to the edge of the screen. */
  reveal(): void {
    const [box] = this.boxesOf(this.shown?.array ?? "");
    if (!box) return;
    this.panel.classList.toggle("sticky", this.rows.length === 2);
    const isCovered = this.panel.getBoundingClientRect().top < this.element.getBoundingClientRect().bottom - this.panel.offsetHeight - 20;
    if (this.rows.length === 2 && isCovered) this.element.scrollIntoView({ block: "start" });
    else this.panel.scrollIntoView({ block: "nearest" });
    this.buttons.get(box.id)?.scrollIntoView({ block: "nearest" });
  }

  focusBox(): void {
    this.buttons.get(this.focused)?.focus();
  }

  private setToken(element: HTMLElement, text: string | undefined, state: string): void {
    if (element.textContent !== text) element.textContent = element.title = text ?? "";
    if (element.dataset.state !== state) element.dataset.state = state;
  }

  private showBox(box: Placed, { translation, axes, edits, array, step }: Shown): void {
    const button = this.buttons.get(box.id) as HTMLButtonElement;
    const isOpen = this.boxesOf(array).some(({ id }) => id === box.id);
    const edited = edits.some((edit) => isEdited(box, edit));
    button.setAttribute("aria-expanded", String(isOpen));
    button.setAttribute("aria-label", edited ? say("boxEdited", { box: nameOf(box) }) : nameOf(box));
    button.classList.toggle("edited", edited);
    const picture = button.querySelector(".lab-cells");
    if (!picture) return;
    const weights = meanOfHeads(translation.attention?.[box.kind === "cross" ? "cross" : box.lane], box.layer);
    if (weights.length !== (box.lane === "encoder" ? axes.source : axes.rows).length) return;
    const row = box.lane === "decoder" && step ? step - 1 : undefined;
    const key = `${row} ${weights.map((values) => Array.from(values, (value) => Math.round(100 * value)).join()).join(";")}`;
    if (key === this.pictures.get(picture)) return;
    const changed = cells(weights, { largest: 1, row });
    this.pictures.set(changed, key);
    picture.replaceWith(changed);
  }

  private placePanel(array: string): void {
    const ids = this.boxesOf(array).map(({ id }) => id);
    this.panel.hidden = !ids.length;
    const isWide = this.rows.length === 2;
    const owner = isWide ? this.rows[1] : this.rows.find(({ row }) => row.boxes.some(({ id }) => ids.includes(id)));
    if (!isWide) this.panel.classList.remove("sticky");
    this.panel.style.setProperty("--beside", isWide ? `${this.rows.reduce((sum, { row }) => sum + row.height, 158)}px` : "0px");
    if (owner && owner.element.nextSibling !== this.panel) owner.element.after(this.panel);
  }

  private build(rows: Row[], width: number): void {
    const hadFocus = document.activeElement instanceof HTMLElement && this.element.contains(document.activeElement) && !this.panel.contains(document.activeElement);
    this.buttons.clear();
    const isWide = rows.length === 2;
    this.rows = rows.map((row) => this.buildRow(row, width, isWide));
    const elements: HTMLElement[] = this.rows.map(({ element }) => element);
    if (isWide) elements.splice(1, 0, this.memory(rows as [Row, Row], width));
    this.element.replaceChildren(...elements);
    if (!this.buttons.has(this.focused)) this.focused = this.buttons.keys().next().value as string;
    this.buttons.forEach((button, id) => (button.tabIndex = id === this.focused ? 0 : -1));
    if (hadFocus) this.focusBox();
  }

  private buildRow(row: Row, width: number, isWide: boolean): (typeof this.rows)[number] {
    const { lane, pitch, first, height } = row;
    const count = Math.round((height - first) / pitch);
    const yOf = (index: number): number => first + pitch * index;
    const svg = svgElement("svg", { width, height, "aria-hidden": "true" });
    const lines = Array.from({ length: count }, (_, index) => svgElement("path", { d: `M${row.from - (row.isFirst ? 4 : 10)} ${yOf(index)}H${row.to + (row.isLast && lane === "encoder" ? 12 : 8)}` }));
    svg.append(...row.frames.map((frame) => svgElement("rect", { class: "lab-frame", x: frame.x, y: 1, width: frame.width, height: height - 2, rx: 8 })), ...lines, ...this.sublayerArrows(row));
    const element = make("div", { class: `lab-row ${lane}`, attributes: { role: "group", "aria-label": say(LANES[lane]) } });
    element.style.height = `${height}px`;
    const name = (className: string, index: number, x: number, size: number): HTMLElement => {
      const item = make("span", { class: `lab-token ${className}` });
      Object.assign(item.style, { left: `${x}px`, width: `${size}px`, top: `${yOf(index) - pitch / 2}px`, lineHeight: `${pitch}px` });
      if (lane === "decoder") item.addEventListener("click", () => this.goTo(index + 1));
      return item;
    };
    const text = (className: string, x: number, y: number, content: string): HTMLElement => {
      const item = make("span", { class: className }, content);
      Object.assign(item.style, { left: `${x}px`, top: `${y}px` });
      return item;
    };
    const reads = row.isFirst ? lines.map((_, index) => name("reads", index, 0, row.from - 8)) : [];
    const writes = row.isLast && lane === "decoder" ? lines.map((_, index) => name("writes", index, row.to + 10, width - row.to - 10)) : [];
    const titles = row.frames.map(({ layer, x }) => text("lab-title", x + 8, 1, say("boxBlock", { layer })));
    if (!isWide) titles.push(...row.boxes.filter(({ kind }) => kind === "cross").map((box) => text("lab-title lab-from", box.x + box.width / 2 + 6, 1, say("boxMemoryShort"))));
    if (row.isFirst) titles.push(text("lab-title lab-lane", 0, 1, say(LANES[lane])), text("lab-title", 0, first - pitch / 2 - 20, say("boxReads")));
    if (writes.length) titles.push(text("lab-title", row.to + 10, first - pitch / 2 - 20, say("boxWrites")));
    element.append(svg, ...titles, ...reads, ...writes, ...row.boxes.map((box) => this.buildBox(box, row)));
    return { row, element, lines, reads, writes };
  }

  private buildBox(box: Placed, { first, pitch, height }: Row): HTMLButtonElement {
    const { kind, id } = box;
    const hasNorm = this.info.norm === "pre" && SUBLAYERS.includes(kind);
    const button = make("button", { class: `lab-box ${kind}`, attributes: { type: "button", "aria-controls": this.panel.id, "data-array": box.array }, on: { click: () => this.choose(box) } },
      // By the style sheet: the accessible name is another, without hyphens and with the place.
      make("span", { class: "lab-name", attributes: { "data-name": kind === "add" ? "+" : say(NAMES[kind]), ...(hasNorm ? { "data-norm": say("boxNorm") } : {}) } }));
    const top = TITLE + DETOUR;
    Object.assign(button.style, { left: `${box.x}px`, width: `${box.width}px`, top: `${top}px`, height: `${height - top - 6}px` });
    button.style.setProperty("--top", `${first - pitch / 2 - top}px`);
    if (kind === "self" || kind === "cross") button.append(cells([]));
    this.buttons.set(id, button);
    return button;
  }

  /** Return the arrows of the residual connections, and of the memory into cross-attention. */
  private sublayerArrows(row: Row): SVGElement[] {
    const paths: SVGElement[] = [];
    const top = TITLE + DETOUR;
    row.boxes.forEach((box, index) => {
      const next = row.boxes[index + 1];
      if (box.kind === "cross") {
        const middle = box.x + box.width / 2;
        paths.push(svgElement("path", { class: "lab-memory-line", d: `M${middle} 0V${top - 1}` }), svgElement("path", { class: "lab-memory-head", d: `M${middle - 5} ${top - 8}h10l-5 8z` }));
      }
      if (next?.kind !== "add") return;
      const [start, end, y] = [box.x - 4, next.x + next.width / 2, TITLE + 4];
      const arc = `M${start} ${row.first}V${y + 5}q0 -5 5 -5H${end - 5}q5 0 5 5V${top}`;
      paths.push(svgElement("path", { class: "lab-detour", d: arc }));
    });
    return paths;
  }

  /** Draw the arrow from the encoder's result to every cross-attention. */
  private memory([encoder, decoder]: [Row, Row], width: number): HTMLElement {
    const svg = svgElement("svg", { width, height: STRIP, "aria-hidden": "true" });
    const crosses = decoder.boxes.filter(({ kind }) => kind === "cross").map((box) => box.x + box.width / 2);
    const right = encoder.to + 12;
    svg.append(svgElement("path", { class: "lab-memory-line", d: `M${right} 0V4q0 8 -8 8H${(crosses[0] ?? 0) + 8}q-8 0 -8 8V${STRIP}${crosses.slice(1).map((x) => `M${x} 12V${STRIP}`).join("")}` }));
    const up = svgElement("svg", { width: 4, height: encoder.height, class: "lab-memory-up", "aria-hidden": "true" });
    up.append(svgElement("path", { class: "lab-memory-line", d: `M2 ${encoder.first}V${encoder.height}` }));
    up.style.left = `${right - 2}px`;
    up.style.top = `${-encoder.height}px`;
    const element = make("div", { class: "lab-memory" }, make("span", { class: "lab-title" }, say("boxMemory")));
    element.style.height = `${STRIP}px`;
    element.append(svg, up);
    return element;
  }

  private choose(box: Box): void {
    this.focus(box.id);
    this.open(box);
  }

  private focus(id: string): void {
    const button = this.buttons.get(id);
    if (!button) return;
    const before = this.buttons.get(this.focused);
    if (before) before.tabIndex = -1;
    this.focused = id;
    button.tabIndex = 0;
  }

  /** Move between boxes: left and right along the computation, up and down to the nearest box of another row. */
  private onKey(event: KeyboardEvent): void {
    const ids = [...this.buttons.keys()];
    const here = ids.findIndex((id) => this.buttons.get(id) === event.target);
    if (here < 0) return;
    const target = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: ids.length - 1, ArrowUp: this.nearestInRow(here, -1), ArrowDown: this.nearestInRow(here, 1) }[event.key];
    const id = target === undefined ? undefined : ids[target];
    if (id === undefined) return;
    event.preventDefault();
    this.focus(id);
    this.focusBox();
  }

  private nearestInRow(index: number, by: number): number {
    const all = this.rows.flatMap(({ row }, line) => row.boxes.map((box) => ({ line, middle: box.x + box.width / 2 })));
    const here = all[index] as { line: number; middle: number };
    const others = all.map((box, index) => ({ ...box, index })).filter(({ line }) => line === here.line + by);
    others.sort((first, second) => Math.abs(first.middle - here.middle) - Math.abs(second.middle - here.middle));
    return others[0]?.index ?? -1;
  }
}

/** Return the mean weights of a layer's heads. */
function meanOfHeads(table: Table | undefined, layer: number): Float32Array[] {
  if (!table) return [];
  const [, heads, rows, columns] = table.shape as [number, number, number, number];
  return Array.from({ length: rows }, (_, row) => {
    const sum = new Float32Array(columns);
    for (let head = 0; head < heads; ++head) {
      const from = (((layer - 1) * heads + head) * rows + row) * columns;
      for (let column = 0; column < columns; ++column) sum[column] = (sum[column] as number) + (table.data[from + column] as number) / heads;
    }
    return sum;
  });
}
