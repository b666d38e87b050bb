/** The weights of heads as a grid in which they are edited. */

import { make } from "../dom";
import { Grid } from "./edit_grid";
import type { Lab } from "./lab";
import { type Cell, isVisibleIn, maskCells, maskOf, rescaled, setRow, type Target, withEdit } from "./matrix_edits";
import { say } from "./messages";
import type { Edit, HeadsEdit } from "./model";

export interface ShownHeads {
  target: Target;
  /** The weights with the edits. */
  weights: Float32Array[];
  /** The rows and columns of a table for the sentence. */
  size: [rows: number, columns: number];
}

/** Return a grid, and the buttons for what a drag in it does; `onMode` is called when that changes. */
export function headGrid(lab: Lab, read: () => ShownHeads, onMode: (isWeighing: boolean) => void = () => {}): { grid: Grid; modes: HTMLElement } {
  let start: { edits: Edit[]; weights: Float32Array[] } = { edits: [], weights: [] }; // of a drag
  let isWeighing = false;
  function change(isNew: boolean, edit: (old: HeadsEdit, heads: ShownHeads) => HeadsEdit): void {
    const heads = read();
    if (isNew) start = { edits: lab.state.edits, weights: heads.weights };
    void lab.change({ edits: withEdit(start.edits, heads.target, (old) => edit(old, heads)) });
  }
  const grid = new Grid({
    isWeighing: () => isWeighing,
    mask: (cells: Cell[], isOpen, isNew) => change(isNew, (edit, { size }) => maskCells(edit, size, cells, isOpen)),
    weigh: (cell, weight, isNew) =>
      change(isNew, (edit, { target, size }) => {
        const [row, column] = cell;
        const isVisible = isVisibleIn(target.kind);
        const opened = weight > 0 ? maskCells(edit, size, [cell], true) : edit;
        const isOpen = (maskOf(opened, size)[row] as boolean[]).map((open, index) => open && isVisible(row, index));
        return setRow(opened, target.kind, size, start.weights, row, rescaled(Array.from(start.weights[row] ?? []), column, weight, isOpen));
      }),
  });
  const buttons = ([[false, "editMask"], [true, "editWeight"]] as const).map(([weighs, key]) =>
    make("button", { class: "lab-button", attributes: { type: "button", "data-key": key, "aria-pressed": String(!weighs) }, on: { click: () => {
      isWeighing = weighs;
      buttons.forEach((button, index) => button.setAttribute("aria-pressed", String((index === 1) === weighs)));
      grid.element.classList.toggle("lab-weighing", weighs);
      onMode(weighs);
    } } }, say(key)));
  return { grid, modes: make("span", { class: "lab-modes", attributes: { role: "group", "aria-label": say("editMode") } }, ...buttons) };
}
