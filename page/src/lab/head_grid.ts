/** The weights of heads as a grid in which they are edited. */

import { Grid } from "./edit_grid";
import type { Lab } from "./lab";
import { type Cell, maskCells, maskOf, rescaled, setRow, type Target, withEdit } from "./matrix_edits";
import type { Edit, HeadsEdit } from "./model";

export interface ShownHeads {
  target: Target;
  /** The weights with the edits. */
  weights: Float32Array[];
  /** The rows and columns of a table for the sentence. */
  size: [rows: number, columns: number];
  /** Whether a row may look at a column at all. */
  isVisible(row: number, column: number): boolean;
}

export function headGrid(lab: Lab, shown: () => ShownHeads, isWeighing: () => boolean): Grid {
  let start: { edits: Edit[]; weights: Float32Array[] } = { edits: [], weights: [] }; // of a drag
  function change(isNew: boolean, edit: (old: HeadsEdit, heads: ShownHeads) => HeadsEdit): void {
    const heads = shown();
    if (isNew) start = { edits: lab.state.edits, weights: heads.weights };
    void lab.change({ edits: withEdit(start.edits, heads.target, (old) => edit(old, heads)) });
  }
  return new Grid({
    isWeighing,
    mask: (cells: Cell[], isOpen, isNew) => change(isNew, (edit, { size }) => maskCells(edit, size, cells, isOpen)),
    weigh: (cell, weight, isNew) =>
      change(isNew, (edit, { target, size, isVisible }) => {
        const [row, column] = cell;
        const opened = weight > 0 ? maskCells(edit, size, [cell], true) : edit;
        const isOpen = (maskOf(opened, size)[row] as boolean[]).map((open, index) => open && isVisible(row, index));
        return setRow(opened, target.kind, size, start.weights, row, rescaled(Array.from(start.weights[row] ?? []), column, weight, isOpen));
      }),
  });
}
