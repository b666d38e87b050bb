/** Edits of a matrix of attention weights, cell by cell, as edits of the model's heads. */

import type { Edit, HeadsEdit, Table } from "./model";

export type Kind = "cross" | "encoder" | "decoder";

/** The heads that an edit changes; without a layer or a head, all of them. */
export interface Target {
  kind: Kind;
  layer?: number;
  head?: number;
}
export type Cell = [row: number, column: number];

const EXTRA_STEPS = 21; // steps besides three for each source token: the length limit of the model
const DIGITS = 6; // decimals of a weight in an edit

const isHeads = (edit: Edit): edit is HeadsEdit => !("side" in edit);
const round = (value: number): number => Number(value.toFixed(DIGITS));

/** Return the last edit of exactly these heads. */
export function editOf(edits: Edit[], { kind, layer, head }: Target): HeadsEdit | undefined {
  return edits.filter(isHeads).filter((edit) => (edit.kind ?? "cross") === kind && edit.layer === layer && edit.head === head).pop();
}

/** Replace the edit of these heads by a changed one, or add one. An edit that changes nothing is removed. */
export function withEdit(edits: Edit[], target: Target, change: (edit: HeadsEdit) => HeadsEdit): Edit[] {
  const old = editOf(edits, target);
  const edit = change(old ?? { ...target });
  const isEmpty = edit.weights === undefined && edit.mask === undefined && edit.scale === undefined;
  const position = old ? edits.indexOf(old) : edits.length;
  return [...edits.slice(0, position), ...(isEmpty ? [] : [edit]), ...edits.slice(position + 1)];
}

/** Return whether a row may look at a column at all: a row of the decoder sees itself and earlier rows. */
export const isVisibleIn = (kind: Kind) => (row: number, column: number): boolean => kind !== "decoder" || column <= row;

/** Return the rows and columns of a table for a sentence; it has room for a longer translation. */
export function tableSize(kind: Kind, source: number): [rows: number, columns: number] {
  const steps = EXTRA_STEPS + 3 * source;
  return [kind === "encoder" ? source : steps, kind === "decoder" ? steps : source];
}

const isTable = <Item>(table: unknown, [rows, columns]: [number, number]): table is Item[][] =>
  Array.isArray(table) && table.length >= rows && Array.isArray(table[0]) && !Array.isArray(table[0][0]) && table[0].length >= columns;

/** Return the mask of an edit, all open if it has none. */
export function maskOf(edit: HeadsEdit | undefined, size: [number, number]): boolean[][] {
  if (isTable<boolean>(edit?.mask, size)) return edit.mask.map((row) => [...row]);
  return Array.from({ length: size[0] }, () => Array.from({ length: size[1] }, () => true));
}

/** Mask or open cells. */
export function maskCells(edit: HeadsEdit, size: [number, number], cells: Cell[], isOpen: boolean): HeadsEdit {
  const mask = maskOf(edit, size);
  for (const [row, column] of cells) (mask[row] as boolean[])[column] = isOpen;
  const { mask: _, ...rest } = edit;
  return mask.every((row) => row.every(Boolean)) ? rest : { ...rest, mask };
}

/** Return a row with a weight in a column, and the other open columns rescaled to the remaining weight. */
export function rescaled(row: number[], column: number, weight: number, isOpen: boolean[]): number[] {
  const others = row.map((value, index) => (index !== column && isOpen[index] ? Math.max(0, value) : 0));
  const sum = others.reduce((total, value) => total + value, 0);
  const count = others.filter((_, index) => index !== column && isOpen[index]).length;
  return row.map((_, index) => {
    if (index === column) return round(weight);
    if (!isOpen[index]) return 0;
    return round((1 - weight) * (sum > 0 ? (others[index] as number) / sum : 1 / count));
  });
}

/**
 * Set the weights of a row. The other rows keep the weights that they have now; rows of a longer translation are uniform.
 * `current` has the weights now, for the steps of the current translation.
 */
export function setRow(edit: HeadsEdit, kind: Kind, size: [number, number], current: ArrayLike<number>[], row: number, weights: number[]): HeadsEdit {
  const [rows, columns] = size;
  const uniform = (index: number): number[] => {
    const visible = kind === "decoder" ? index + 1 : columns;
    return Array.from({ length: columns }, (_, column) => (column < visible ? round(1 / visible) : 0));
  };
  const padded = (values: ArrayLike<number>): number[] => Array.from({ length: columns }, (_, column) => round(values[column] ?? 0));
  const table = isTable<number>(edit.weights, size)
    ? edit.weights.map((values) => [...values])
    : Array.from({ length: rows }, (_, index) => (current[index] ? padded(current[index]) : uniform(index)));
  table[row] = padded(weights);
  return { ...edit, weights: table };
}

/** Return the weights (queries, keys) of a head, or the mean of several. */
export function meanWeights({ shape, data }: Table, { layer, head }: Target): Float32Array[] {
  const [layers, heads, rows, columns] = shape as [number, number, number, number];
  const chosen = (count: number, number?: number): number[] => (number === undefined ? Array.from({ length: count }, (_, index) => index) : [Math.min(number, count) - 1]);
  const starts = chosen(layers, layer).flatMap((l) => chosen(heads, head).map((h) => (l * heads + h) * rows * columns));
  return Array.from({ length: rows }, (_, row) => {
    const sum = new Float32Array(columns);
    for (const start of starts) for (let column = 0; column < columns; ++column) sum[column] = (sum[column] as number) + (data[start + row * columns + column] as number);
    return sum.map((value) => value / starts.length);
  });
}

/** Split a text into words and spaces, and mark the words that are not in another text, in order. */
export function changedWords(before: string, after: string): Array<{ text: string; isChanged: boolean }> {
  const split = (text: string): string[] => text.match(/\s+|[^\s.,!?;:]+|[.,!?;:]/gu) ?? [];
  const [old, parts] = [split(before).filter((part) => part.trim()), split(after)];
  const words = parts.filter((part) => part.trim());
  // The longest common subsequence; of several, the one with most words in their old places.
  const score = (i: number, j: number): number => (old[i] === words[j] ? 1000 + Number(i === j) : -Infinity);
  const best = Array.from({ length: old.length + 1 }, () => new Array<number>(words.length + 1).fill(0));
  const bestFrom = (i: number, j: number): number => (best[i] as number[])[j] as number;
  for (let i = old.length - 1; i >= 0; --i) {
    for (let j = words.length - 1; j >= 0; --j) {
      (best[i] as number[])[j] = Math.max(score(i, j) + bestFrom(i + 1, j + 1), bestFrom(i + 1, j), bestFrom(i, j + 1));
    }
  }
  const kept = new Set<number>();
  for (let i = 0, j = 0; i < old.length && j < words.length; ) {
    if (bestFrom(i, j) === bestFrom(i + 1, j)) ++i;
    else if (bestFrom(i, j) === bestFrom(i, j + 1)) ++j;
    else {
      kept.add(j++);
      ++i;
    }
  }
  let word = 0;
  return parts.map((text) => ({ text, isChanged: text.trim() !== "" && !kept.has(word++) }));
}

/** Return positions, a number for each token, as an edit of a side; undefined if they are the usual ones. */
export function positionsEdit(side: "source" | "target", places: number[]): Edit | undefined {
  return places.every((position, index) => position === index) ? undefined : { side, places };
}

/** Return the positions of the tokens of a side after edits. */
export function positionsOf(edits: Edit[], side: "source" | "target", count: number): number[] {
  const last = edits.filter((edit): edit is Exclude<Edit, HeadsEdit> => "side" in edit && edit.side === side).pop();
  return Array.from({ length: count }, (_, index) => last?.places[index] ?? index);
}
