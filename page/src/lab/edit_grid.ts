/** A matrix as a grid of cells that are masked, and whose weights are set, with the pointer or the keyboard. */

import { make } from "../dom";
import type { Cell } from "./matrix_edits";
import { say } from "./messages";
import { shortWeight } from "./tables";

export interface Matrix {
  values: ArrayLike<number>[];
  rows: string[];
  columns: string[];
  caption: string;
  /** The header of the rows. */
  corner?: string;
  isMasked?(row: number, column: number): boolean;
  /** Whether a row may look at a column at all; default: yes. */
  isVisible?(row: number, column: number): boolean;
  isChanged?(row: number, column: number): boolean;
  /** The text of a cell and its share of the colour; default: a weight with two decimals. */
  text?(value: number, isMasked: boolean): string;
  share?(value: number): number;
}
/** How cells are edited; without these a matrix is only shown. */
export interface Editing {
  /** Mask or open cells. A drag calls it with all cells so far; `isNew` is true at its start. */
  mask(cells: Cell[], isOpen: boolean, isNew: boolean): void;
  /** Set the weight of a cell, 0 to 1. A drag calls it several times; `isNew` is true at its start. */
  weigh?(cell: Cell, weight: number, isNew: boolean): void;
  /** Whether a drag sets a weight instead of painting a mask. */
  isWeighing?(): boolean;
}

const DRAG = 150; // pixels of a drag from the weight 0 to 1
const STEP = 0.05; // of a weight, by key

export class Grid {
  readonly element: HTMLElement = make("div", { class: "lab-scroll lab-grid" });
  private readonly table = make("table");
  private readonly title = make("caption");
  private readonly head = make("thead");
  private readonly body = make("tbody");
  private cells: HTMLTableCellElement[][] = [];
  private active: Cell = [0, 0];
  private matrix: Matrix = { values: [], rows: [], columns: [], caption: "" };
  private drag: { from: Cell; y: number; weight: number; painted: Cell[]; isOpen: boolean; isNew: boolean } | undefined;

  constructor(private readonly editing?: Editing) {
    this.table.append(this.title, this.head, this.body);
    this.element.append(this.table);
    if (!editing) return;
    this.element.classList.add("lab-editable");
    this.table.setAttribute("role", "grid");
    this.table.addEventListener("keydown", (event) => this.onKey(event));
    this.table.addEventListener("pointerdown", (event) => this.onPress(event));
    this.table.addEventListener("pointermove", (event) => this.onMove(event));
    for (const name of ["pointerup", "pointercancel"] as const) this.table.addEventListener(name, () => (this.drag = undefined));
    this.table.addEventListener("focusin", (event) => {
      const cell = this.cellOf(event.target);
      if (cell) this.activate(cell, false);
    });
  }

  show(matrix: Matrix): void {
    this.matrix = matrix;
    const { values, rows, columns, caption, corner = "" } = matrix;
    if (this.title.textContent !== caption) this.title.textContent = caption;
    if (!this.editing) {
      for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": caption })) this.element.setAttribute(name, value);
    }
    const hadFocus = this.body.contains(document.activeElement);
    const isSameSize = this.cells.length === values.length && this.cells[0]?.length === columns.length;
    const header = (scope: string, text: string): HTMLElement => make("th", { attributes: { scope } }, make("span", {}, text));
    this.head.replaceChildren(make("tr", {}, make("td", {}, corner), ...columns.map((name, column) => {
      const cell = header("col", name);
      if (this.editing) cell.dataset.column = String(column);
      return cell;
    })));
    if (isSameSize) this.body.querySelectorAll("th span").forEach((name, index) => (name.textContent = rows[index] ?? ""));
    else {
      this.cells = values.map((_, row) => columns.map((_, column) => make("td", { attributes: { "data-cell": `${row},${column}` } })));
      this.body.replaceChildren(...this.cells.map((cells, row) => make("tr", {}, header("row", rows[row] ?? ""), ...cells)));
    }
    this.cells.forEach((cells, row) => cells.forEach((cell, column) => this.fill(cell, row, column)));
    if (this.editing && !isSameSize) this.activate([Math.min(this.active[0], values.length - 1), Math.min(this.active[1], columns.length - 1)], hadFocus);
  }

  /** Set the accessible name of the grid. */
  name(name: string): void {
    this.table.setAttribute("aria-label", name);
  }

  private fill(cell: HTMLTableCellElement, row: number, column: number): void {
    const { values, rows, columns, isMasked, isVisible, isChanged, text, share } = this.matrix;
    const value = values[row]?.[column] ?? 0;
    const [masked, visible] = [isMasked?.(row, column) ?? false, isVisible?.(row, column) ?? true];
    const content = !visible ? "" : text ? text(value, masked) : masked ? "×" : shortWeight(value);
    if (cell.textContent !== content) cell.textContent = content;
    cell.title = visible ? String(value) : "";
    cell.style.setProperty("--share", visible ? (share ? share(value) : Math.min(1, Math.max(0, value))).toFixed(3) : "0");
    cell.classList.toggle("below", value < 0 && Number.isFinite(value));
    cell.classList.toggle("masked", masked);
    cell.classList.toggle("changed", visible && (isChanged?.(row, column) ?? false));
    cell.classList.toggle("hidden", !visible);
    if (!this.editing) return;
    const values_ = { row: rows[row] ?? "", column: columns[column] ?? "", weight: text ? content : value.toFixed(2) };
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("aria-label", say(visible ? (masked ? "editMasked" : "editCell") : "editHidden", values_));
    if (!cell.hasAttribute("tabindex")) cell.tabIndex = -1;
  }

  private isVisible([row, column]: Cell): boolean {
    return this.matrix.isVisible?.(row, column) ?? true;
  }
  private isMasked([row, column]: Cell): boolean {
    return this.matrix.isMasked?.(row, column) ?? false;
  }
  private weight([row, column]: Cell): number {
    return this.matrix.values[row]?.[column] ?? 0;
  }

  private cellOf(target: EventTarget | null): Cell | undefined {
    const position = target instanceof Element ? target.closest<HTMLElement>("[data-cell]")?.dataset.cell : undefined;
    return position?.split(",").map(Number) as Cell | undefined;
  }

  /** Make a cell the one that the Tab key reaches. */
  private activate(cell: Cell, focus = true): void {
    const [old, next] = [this.cells[this.active[0]]?.[this.active[1]], this.cells[cell[0]]?.[cell[1]]];
    if (old) old.tabIndex = -1;
    this.active = cell;
    if (!next) return;
    next.tabIndex = 0;
    if (focus && document.activeElement !== next) next.focus();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.altKey || event.metaKey) return;
    const [row, column] = this.active;
    const [rows, columns] = [this.cells.length - 1, this.matrix.columns.length - 1];
    const moves: Record<string, Cell> = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? rows : row, columns],
    };
    const move = moves[event.key];
    if (move) this.activate([Math.min(rows, Math.max(0, move[0])), Math.min(columns, Math.max(0, move[1]))]);
    else if (event.ctrlKey) return;
    else if (event.key === " " || event.key === "Enter") {
      if (event.shiftKey) this.maskColumn(column);
      else if (this.isVisible(this.active)) this.editing?.mask([this.active], this.isMasked(this.active), true);
    } else if (/^[+\-=_−]$/.test(event.key) && this.editing?.weigh) {
      const change = event.key === "+" || event.key === "=" ? STEP : -STEP;
      this.setWeight(this.active, Math.round((this.weight(this.active) + change) / STEP) * STEP, true);
    } else return;
    event.preventDefault();
  }

  /** Mask a column, or open it if all of it is masked. */
  private maskColumn(column: number): void {
    const cells = this.cells.map((_, row): Cell => [row, column]).filter((cell) => this.isVisible(cell));
    this.editing?.mask(cells, cells.every((cell) => this.isMasked(cell)), true);
  }

  private setWeight(cell: Cell, weight: number, isNew: boolean): void {
    if (this.isVisible(cell)) this.editing?.weigh?.(cell, Number(Math.min(1, Math.max(0, weight)).toFixed(2)), isNew);
  }

  private onPress(event: PointerEvent): void {
    const cell = this.cellOf(event.target);
    const column = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-column]")?.dataset.column : undefined;
    if (column !== undefined && event.button === 0) this.maskColumn(Number(column));
    if (!cell || event.button !== 0 || !this.isVisible(cell)) return;
    event.preventDefault(); // no selection of text
    this.activate(cell);
    this.table.setPointerCapture(event.pointerId);
    const isOpen = this.isMasked(cell);
    this.drag = { from: cell, y: event.clientY, weight: this.weight(cell), painted: [cell], isOpen, isNew: true };
    if (this.editing?.weigh && this.editing.isWeighing?.()) return;
    this.drag.isNew = false;
    this.editing?.mask([cell], isOpen, true);
  }

  private onMove(event: PointerEvent): void {
    const { drag } = this;
    if (!drag) return;
    if (this.editing?.weigh && this.editing.isWeighing?.()) {
      if (drag.isNew && Math.abs(event.clientY - drag.y) < 3) return;
      this.setWeight(drag.from, drag.weight + (drag.y - event.clientY) / DRAG, drag.isNew);
      drag.isNew = false;
      return;
    }
    const cell = this.cellOf(document.elementFromPoint(event.clientX, event.clientY));
    if (!cell || !this.isVisible(cell) || drag.painted.some(([row, column]) => row === cell[0] && column === cell[1])) return;
    if (!this.table.contains(document.elementFromPoint(event.clientX, event.clientY))) return; // another grid
    drag.painted.push(cell);
    this.activate(cell);
    this.editing?.mask(drag.painted, drag.isOpen, false);
  }
}
