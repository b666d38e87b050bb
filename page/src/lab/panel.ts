/** What an open box computes: its matrices in order with their shapes, its heads side by side, and the numbers of one matrix. */

import { make } from "../dom";
import type { Box } from "./boxes";
import { cells } from "./cells";
import type { Grid } from "./edit_grid";
import { headGrid, type ShownHeads } from "./head_grid";
import type { Lab } from "./lab";
import { editOf, isVisibleIn, type Kind, maskOf, tableSize } from "./matrix_edits";
import { type Key, say } from "./messages";
import type { HeadsEdit, Table, Translation } from "./model";
import { type Axes, label, labelsOf } from "./state";
import { candidateBar } from "./steps_tab";
import { numberTable } from "./tables";
import { isEdited, nameOf } from "./transformer";

const ARRAYS: Record<string, [name: Key, colour: string, sign: string]> = {
  query: ["arrayQuery", "query", ""], key: ["arrayKey", "key", "·"], scores: ["arrayScores", "accent", "→"], weights: ["arrayWeights", "accent", "→"],
  value: ["arrayValue", "value", "·"], context: ["arrayContext", "value", "="],
};
const TEXTS: Record<Box["kind"], Key> = {
  embedding: "boxTextEmbedding", positions: "boxTextEmbedding", self: "boxTextSelf", recurrence: "boxTextRecurrence", cross: "boxTextCross", add: "boxTextAdd", feed: "boxTextFeed", norm: "boxTextNorm", output: "boxTextOutput", softmax: "boxTextOutput",
};
export const CANDIDATES = 6;
let panelCount = 0;

export class Panel {
  readonly element = make("section", { class: "lab-panel", id: `lab-panel-${++panelCount}`, attributes: { hidden: "" } });
  private readonly top = make("div");
  private readonly body = make("div");
  private readonly grid: Grid;
  private readonly modes: HTMLElement;
  private readonly drawn = new Map<string, { values: Float32Array[]; svg: SVGSVGElement }>();
  private heads: ShownHeads | undefined;

  constructor(private readonly lab: Lab, private readonly close: () => void) {
    const { grid, modes } = headGrid(lab, () => this.heads as ShownHeads);
    this.grid = grid;
    this.grid.element.querySelector("table")?.classList.add("lab-numbers");
    this.modes = make("div", { class: "lab-hint" }, modes, make("span", { class: "lab-shape" }, say("panelHint")));
    this.element.append(this.top, this.body);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  /** Show a box; the focus stays on the same control. */
  show(box: Box | undefined, translation: Translation, axes: Axes, step: number): void {
    const { activeElement } = document;
    const key = activeElement instanceof HTMLElement && this.element.contains(activeElement) ? activeElement.dataset.key : undefined;
    const scrolled = [...this.body.querySelectorAll(".lab-scroll")].map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop] as const);
    const [top, body] = box ? this.content(box, translation, axes, step) : [[], []];
    this.top.replaceChildren(...top);
    const isEdited = body[0] === this.grid.element;
    this.element.classList.toggle("beside", isEdited);
    if (!isEdited || this.body.firstChild !== this.grid.element) { // else it may have the focus, or be in a drag
      this.body.replaceChildren(...body);
      this.body.querySelectorAll(".lab-scroll").forEach((element, index) => element.scrollTo(...(scrolled[index] ?? [0, 0])));
    }
    if (key !== undefined) this.element.querySelector<HTMLElement>(`[data-key="${key}"]`)?.focus();
  }

  /** Return what stands at the top, and the numbers below it. */
  private content(box: Box, translation: Translation, axes: Axes, step: number): [HTMLElement[], HTMLElement[]] {
    this.element.setAttribute("aria-label", nameOf(box));
    const close = make("button", { class: "lab-button lab-close", label: "panelClose", title: "panelClose", attributes: { type: "button", "data-key": "close" }, on: { click: () => this.close() } }, "✕");
    const isCausal = box.kind === "self" && box.lane === "decoder";
    const head = make("div", { class: "lab-panel-head" }, make("div", {}, make("strong", {}, nameOf(box)), make("p", {}, say(TEXTS[box.kind]), isCausal ? ` ${say("boxTextCausal")}` : "")), close);
    if (box.array === "logits") return [[head], this.logits(translation, axes, step)];
    const { state } = this.lab;
    const open = translation.insight?.[state.array];
    if (!open) return [[head], []];
    const path = box.path.flatMap((name) => {
      const table = translation.insight?.[name];
      return table ? [this.matrix(name, table, box, axes)] : [];
    });
    const heads = open.shape.length === 3 ? (open.shape[0] as number) : 1;
    const headIndex = Math.min(state.head, heads - 1);
    const parts: HTMLElement[] = path.length > 1 ? [make("div", { class: "lab-path", attributes: { role: "group", "aria-label": say("panelPath") } }, ...path)] : [];
    if (heads > 1) {
      parts.push(make("div", { class: "lab-heads", attributes: { role: "group", "aria-label": say("numbersHead") } },
        ...Array.from({ length: heads }, (_, index) => this.headButton(index, open, axes, box, index === headIndex))));
    }
    const numbers = this.numbers(box, open, heads > 1 ? headIndex : undefined, translation, axes, step);
    if (box.kind === "self" || box.kind === "cross") {
      parts.push(make("div", { class: "lab-tools" }, make("div", { class: "lab-panel-edits" }, ...this.edits(box, headIndex)), ...(numbers === this.grid.element ? [this.modes] : [])));
    }
    return [[head, make("div", { class: "lab-pictures" }, ...parts)], [numbers]];
  }

  /** Return the numbers of the open array: weights as a grid to edit, others as a table. */
  private numbers(box: Box, open: Table, headIndex: number | undefined, translation: Translation, axes: Axes, step: number): HTMLElement {
    const { state } = this.lab;
    const caption = `${headIndex === undefined ? state.array : say("numbersOfHead", { array: state.array, head: headIndex + 1 })}: (${open.shape.join(", ")})`;
    const { rows, columns, values } = labelsOf(state.array, open, axes, headIndex ?? 0);
    const shade = `var(--${colourOf(state.array, box)})`;
    if (headIndex === undefined || !state.array.endsWith(".weights")) {
      const table = this.table(values, rows, columns, caption, rows === axes.rows, step);
      table.style.setProperty("--shade", shade);
      return table;
    }
    const kind: Kind = box.kind === "cross" ? "cross" : box.lane;
    const target = { kind, layer: box.layer, head: headIndex + 1 };
    const size = tableSize(kind, translation.source.tokens.length);
    this.heads = { target, weights: values, size };
    const mask = maskOf(editOf(state.edits, target), size);
    this.grid.show({ values, rows, columns, caption, corner: say(kind === "encoder" ? "editReads" : "editReadsWrites"), isVisible: isVisibleIn(kind), isMasked: (row, column) => mask[row]?.[column] === false });
    this.grid.name(`${nameOf(box)}, ${caption}`);
    this.grid.element.querySelectorAll("tbody tr").forEach((row, index) => row.classList.toggle("now", kind !== "encoder" && index === step - 1));
    return this.grid.element;
  }

  /** Return the small picture of a matrix, the same one as before if its numbers are the same. */
  private picture(name: string, values: Float32Array[]): SVGSVGElement {
    const old = this.drawn.get(name);
    const isSame = old?.values.length === values.length && values.every((row, index) => row.length === old.values[index]?.length && row.every((value, column) => value === old.values[index]?.[column]));
    if (old && isSame) return old.svg;
    const svg = sized(values);
    this.drawn.set(name, { values, svg });
    return svg;
  }

  /** Return a matrix of the path: a small picture with its name and shape, which opens its numbers. */
  private matrix(name: string, table: Table, box: Box, axes: Axes): HTMLElement {
    const kind = name.split(".").at(-1) as string;
    const [title, colour, sign] = ARRAYS[kind] ?? [name === box.path[0] ? "arrayBefore" : "arrayAfter", colourOf(name, box), name === box.path[0] ? "" : "→"];
    const { values } = labelsOf(name, table, axes, Math.min(this.lab.state.head, (table.shape[0] as number) - 1));
    const button = make("button", { class: "lab-matrix", attributes: { type: "button", "data-key": name, "aria-pressed": String(name === this.lab.state.array) }, on: { click: () => void this.lab.change({ array: name }) } },
      make("span", { class: "lab-array" }, say(title as Key)), make("span", { class: "lab-shape" }, `${values.length} × ${values[0]?.length ?? 0}`));
    button.style.setProperty("--shade", `var(--${colour})`);
    button.firstElementChild?.after(this.picture(name, values));
    return make("span", { class: "lab-term" }, ...(sign ? [make("span", { attributes: { "aria-hidden": "true" } }, sign)] : []), button);
  }

  private headButton(index: number, table: Table, axes: Axes, box: Box, isChosen: boolean): HTMLElement {
    const { state } = this.lab;
    const { values } = labelsOf(state.array, table, axes, index);
    const button = make("button", { class: "lab-matrix", attributes: { type: "button", "data-key": `head.${index}`, "aria-pressed": String(isChosen) }, on: { click: () => void this.lab.change({ head: index }) } }, make("span", { class: "lab-shape" }, say("changeHeadOf", { head: index + 1 })));
    button.style.setProperty("--shade", `var(--${colourOf(state.array, box)})`);
    button.prepend(this.picture(`head ${index}`, values));
    return button;
  }

  /** Return the buttons that change the chosen head, and that undo the changes of the box. */
  private edits(box: Box, headIndex: number): HTMLElement[] {
    const kind = box.kind === "cross" ? "cross" : box.lane;
    const { edits } = this.lab.state;
    const button = (name: Key, key: string, click: () => void): HTMLElement => make("button", { class: "lab-button", attributes: { type: "button", "data-key": key }, on: { click } }, say(name));
    const change = (name: Key, weights: NonNullable<HeadsEdit["weights"]>): HTMLElement =>
      button(name, `edit.${name}`, () => void this.lab.change({ edits: [...edits, { kind, layer: box.layer, head: headIndex + 1, weights }] }));
    const boxEdits = edits.filter((edit) => isEdited(box, edit));
    return [
      make("span", { class: "lab-shape" }, `${say("changeHeadOf", { head: headIndex + 1 })}:`), change("changeSilent", "silent"), change("changeUniform", "uniform"),
      ...(boxEdits.length ? [button("panelUndo", "undo", () => {
        this.element.querySelector<HTMLElement>("[data-key='edit.changeSilent']")?.focus(); // the button is removed
        void this.lab.change({ edits: edits.filter((edit) => !boxEdits.includes(edit)) });
      })] : []),
    ];
  }

  /** Return the best candidates of the steps, and the logits of the pieces that were written. */
  private logits(translation: Translation, axes: Axes, step: number): HTMLElement[] {
    const { model } = this.lab;
    const steps = axes.rows.map((_, index) => index).filter((index) => !step || index === step - 1);
    const chosen = (index: number): number => translation.tokens[index] ?? model.end;
    const list = make("ul", { class: "lab-best-pieces" }, ...steps.map((index) => make("li", {}, make("span", { class: "lab-rowname" }, axes.rows[index] ?? ""),
      make("span", { class: "lab-bars" }, ...(translation.steps?.[index] ?? []).map(({ token, probability }) => candidateBar(label(model.piece(token)), probability, token === chosen(index)))))));
    const logits = translation.insight?.logits;
    if (!logits) return [list];
    const tokens = [...new Set(axes.rows.map((_, index) => chosen(index)))];
    const width = logits.shape[1] as number;
    const values = axes.rows.map((_, row) => Float32Array.from(tokens, (token) => logits.data[row * width + token] as number));
    const columns = tokens.map((token) => label(model.piece(token)));
    return [make("div", { class: "lab-open" }, list, this.table(values, axes.rows, columns, `logits: (${logits.shape.join(", ")}); ${say("panelWritten")}`, true, step))];
  }

  private table(values: ArrayLike<number>[], rows: string[], columns: string[], caption: string, isDecoder: boolean, step: number): HTMLElement {
    const table = numberTable(values, rows, columns, caption);
    table.dataset.key = "table";
    if (!isDecoder) return table;
    const corner = table.querySelector("thead td");
    if (corner) corner.textContent = say("editReadsWrites");
    if (step) table.querySelectorAll("tbody tr")[step - 1]?.classList.add("now");
    return table;
  }
}

function colourOf(array: string, box: Box): string {
  const known = ARRAYS[array.split(".").at(-1) as string];
  return known ? known[1] : box.lane === "encoder" ? "source" : "target";
}

/** Return a small picture of a matrix, a few pixels for each number. */
function sized(values: Float32Array[]): SVGSVGElement {
  const picture = cells(values);
  const [rows, columns] = [values.length, values[0]?.length ?? 0];
  picture.style.height = `${Math.max(36, Math.min(72, rows * 8))}px`;
  picture.style.width = `${columns > 100 ? 210 : columns > 32 ? 76 : Math.max(40, Math.min(84, columns * 8))}px`;
  return picture;
}
