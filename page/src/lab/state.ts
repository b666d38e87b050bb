/** The state of a laboratory, stored in the fragment of the URL so that it can be shared. */

import type { Edit, Table, Translation } from "./model";

export const VIEWS = ["numbers", "attention", "steps", "change", "choose", "compare"] as const;
export const COMPARED = ["cho", "bahdanau", "luong", "transformer"];
export type View = (typeof VIEWS)[number];

export interface LabState {
  text: string;
  /** A translation to force. */
  target?: string;
  view: View;
  beam: number;
  edits: Edit[];
  /** The array that is open in the view "numbers", the drawing, or "" for none, and its head, counted from 0. */
  array: string;
  head: number;
  /** The step of the decoder that is shown, counted from 1; 0 for all. */
  step: number;
  /** The models of the view "compare"; empty for all. */
  models: string[];
  /** The heads of its Transformer: the mean of the last layer, or the alignment head. */
  heads: "mean" | "head";
}

const DEFAULT_ARRAY = "cross.2.weights";
export const DEFAULT_STATE: LabState = { text: "I want to buy a car.", view: "numbers", beam: 1, edits: [], array: DEFAULT_ARRAY, head: 0, step: 0, models: [], heads: "mean" };

export const toHash = (state: LabState): string => `#lab=${encodeURIComponent(JSON.stringify(state))}`;

/** Parse the state of a fragment; return null if it has none. Invalid values are dropped. */
export function fromHash(hash: string): Partial<LabState> | null {
  const json = /^#lab=(.*)$/s.exec(hash)?.[1];
  if (json === undefined) return null;
  let values: unknown;
  try {
    values = JSON.parse(decodeURIComponent(json));
  } catch {
    return null;
  }
  return typeof values === "object" && values !== null ? validState(values as Record<string, unknown>) : null;
}

function validState(values: Record<string, unknown>): Partial<LabState> {
  const state: Partial<LabState> = {};
  if (typeof values.text === "string") state.text = values.text.slice(0, 2000);
  if (typeof values.target === "string") state.target = values.target.slice(0, 2000);
  if (VIEWS.includes(values.view as View)) state.view = values.view as View;
  if (Number.isInteger(values.beam)) state.beam = Math.min(12, Math.max(1, values.beam as number));
  if (Array.isArray(values.edits)) state.edits = values.edits.filter(isEdit).slice(0, 50);
  if (typeof values.array === "string") state.array = values.array.slice(0, 60);
  if (Number.isInteger(values.head) && (values.head as number) >= 0) state.head = values.head as number;
  if (Number.isInteger(values.step) && (values.step as number) >= 0) state.step = values.step as number;
  if (Array.isArray(values.models)) state.models = values.models.filter((name) => COMPARED.includes(name as string)).slice(0, 4) as string[];
  if (values.heads === "mean" || values.heads === "head") state.heads = values.heads;
  return state;
}

const isIndex = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;
const optional = (value: unknown, test: (value: unknown) => boolean): boolean => value === undefined || test(value);
const rowsOf = (type: string) => (value: unknown): boolean =>
  Array.isArray(value) && value.every((row) => Array.isArray(row) && row.every((value) => typeof value === type));

function isEdit(value: unknown): value is Edit {
  if (typeof value !== "object" || value === null) return false;
  const edit = value as Record<string, unknown>;
  if ("side" in edit) return (edit.side === "source" || edit.side === "target") && Array.isArray(edit.places) && edit.places.every(isIndex);
  return (
    optional(edit.kind, (kind) => ["encoder", "decoder", "cross"].includes(kind as string)) &&
    optional(edit.layer, isIndex) && optional(edit.head, isIndex) && optional(edit.scale, Number.isFinite) &&
    optional(edit.weights, (weights) => typeof weights === "string" || rowsOf("number")(weights)) && optional(edit.mask, rowsOf("boolean"))
  );
}

export const label = (piece: string): string => piece.replace(/^\u2581/, "") || "␣";

/**
 * The labels of the axes: pieces that the encoder reads, that the decoder reads, and that it predicts, and of its rows, such
 * as "Ich → möchte" for the step that reads "Ich" and writes "möchte".
 */
export interface Axes {
  source: string[];
  inputs: string[];
  predicted: string[];
  rows: string[];
}
export function translationAxes(translation: Translation): Axes {
  const pieces = translation.pieces.map(label);
  const predicted = [...pieces, ...(translation.truncated ? [] : ["</s>"])];
  const inputs = ["<s>", ...pieces].slice(0, predicted.length);
  return { source: translation.source.pieces.map(label), inputs, predicted, rows: predicted.map((piece, step) => `${inputs[step]} → ${piece}`) };
}

/** Return the labels and values of the rows and columns of an array; dimensions are numbered. */
export function labelsOf(name: string, table: Table, axes: Axes, head: number): { rows: string[]; columns: string[]; values: Float32Array[] } {
  const [count, width] = table.shape.slice(-2) as [number, number];
  const from = table.shape.length === 3 ? head * count * width : 0;
  const values = Array.from({ length: count }, (_, row) => table.data.subarray(from + row * width, from + (row + 1) * width));
  const [kind, , array] = name.split(".") as [string, string?, string?];
  const isKeyArray = array === "key" || array === "value";
  const rows = kind === "encoder" || (kind === "cross" && isKeyArray) ? axes.source : axes.rows;
  const isMatrix = array === "scores" || array === "weights";
  const columns = isMatrix ? (kind === "decoder" ? axes.inputs : axes.source) : Array.from({ length: width }, (_, index) => String(index + 1));
  return { rows, columns, values };
}

/** Return Python code that computes what a laboratory shows; `loadCode` is the expression that loads the model. */
export function python(state: LabState, loadCode: string): string {
  const text = (value: unknown): string => JSON.stringify(value);
  const value = (json: unknown): string => JSON.stringify(json).replaceAll("true", "True").replaceAll("false", "False").replaceAll(",", ", ");
  const masks: string[] = [];
  const masked = (mask: boolean[][]): string => {
    const name = `mask${masks.length ? masks.length + 1 : ""}`;
    const closed = mask.flatMap((row, rowIndex) => row.flatMap((isOpen, column) => (isOpen ? [] : [`${name}[${rowIndex}, ${column}] = False`])));
    masks.push([`${name} = np.ones((${mask.length}, ${mask[0]?.length ?? 0}), dtype=bool)`, ...closed].join("\n"));
    return name;
  };
  const heads = state.edits.flatMap((edit) => {
    if ("side" in edit) return [`    Positions(${text(edit.side)}, (${edit.places.map((position) => `${position}, `).join("").trim()})),`];
    const args = [text(edit.kind ?? "cross")];
    for (const name of ["layer", "head"] as const) if (edit[name] !== undefined) args.push(`${name}=${edit[name]}`);
    if (typeof edit.weights === "string") args.push(`weights=${text(edit.weights)}`);
    else if (edit.weights !== undefined) args.push(`weights=np.array(${value(edit.weights)})`);
    if (edit.mask !== undefined) args.push(`mask=${masked(edit.mask as boolean[][])}`);
    if (edit.scale !== undefined) args.push(`scale=${edit.scale}`);
    return [`    Heads(${args.join(", ")}),`];
  });
  const isUsed = (word: string): boolean => heads.some((line) => line.includes(word));
  const names = ["Heads", "Positions"].filter((name) => isUsed(`${name}(`));
  const target = state.target === undefined ? "" : `, ${text(state.target)}`;
  const array = state.array || DEFAULT_ARRAY;
  return [
    ...(isUsed("np.") || masks.length ? ["import numpy as np", ""] : []),
    "import uwaga",
    ...(names.length ? [`from uwaga.engine.interventions import ${names.join(", ")}`] : []),
    "from uwaga.inspection import look_inside",
    ...(names.length ? ["from uwaga.inspection.interventions import intervene"] : []),
    "",
    `translator = ${loadCode}`,
    ...masks,
    ...(names.length ? ["translator = intervene(", "    translator,", ...heads, ")"] : []),
    `text = ${text(state.text)}`,
    ...(target ? [] : [`print(translator.translate(text, beam=${state.beam}).text)`]),
    `seen = look_inside(translator, text${target || `, translator.translate(text, beam=${state.beam}).text`}, names=[${text(array)}])`,
    "print(seen.fed)",
    `print(seen.arrays[${text(array)}]${!/^\w+\.\d+\.(query|key|value|scores|weights|context)$/.test(array) ? "" : `[${state.head}]`})`,
    "",
  ].join("\n");
}
