/** What a laboratory shows: kept in the address after #, so that it can be shared. */

import type { Edit, Table, Translation } from "./model";

export const VIEWS = ["attention", "steps", "numbers", "change", "choose", "compare"] as const;
export const COMPARED = ["cho", "bahdanau", "luong", "transformer"];
export type View = (typeof VIEWS)[number];

export interface LabState {
  text: string;
  /** A translation that the decoder is forced along. */
  target?: string;
  view: View;
  beam: number;
  edits: Edit[];
  /** The array of the view "numbers", and its head, from 0. */
  array: string;
  head: number;
  /** The models of the view "compare"; all if there are none. */
  models: string[];
  /** The heads of its Transformer: the mean of the last layer's, or the aligning one. */
  heads: "mean" | "head";
}

export const FIRST: LabState = { text: "I want to buy a car.", view: "attention", beam: 1, edits: [], array: "cross.2.weights", head: 0, models: [], heads: "mean" };

export const toHash = (state: LabState): string => `#lab=${encodeURIComponent(JSON.stringify(state))}`;

/** The state in an address, null if it holds none; what is damaged in it is left out. */
export function fromHash(hash: string): Partial<LabState> | null {
  const found = /^#lab=(.*)$/s.exec(hash)?.[1];
  if (found === undefined) return null;
  let given: unknown;
  try {
    given = JSON.parse(decodeURIComponent(found));
  } catch {
    return null;
  }
  return typeof given === "object" && given !== null ? checked(given as Record<string, unknown>) : null;
}

function checked(given: Record<string, unknown>): Partial<LabState> {
  const state: Partial<LabState> = {};
  if (typeof given.text === "string") state.text = given.text.slice(0, 2000);
  if (typeof given.target === "string") state.target = given.target.slice(0, 2000);
  if (VIEWS.includes(given.view as View)) state.view = given.view as View;
  if (Number.isInteger(given.beam)) state.beam = Math.min(12, Math.max(1, given.beam as number));
  if (Array.isArray(given.edits)) state.edits = given.edits.filter(isEdit).slice(0, 50);
  if (typeof given.array === "string") state.array = given.array.slice(0, 60);
  if (Number.isInteger(given.head) && (given.head as number) >= 0) state.head = given.head as number;
  if (Array.isArray(given.models)) state.models = given.models.filter((one) => COMPARED.includes(one as string)).slice(0, 4) as string[];
  if (given.heads === "mean" || given.heads === "head") state.heads = given.heads;
  return state;
}

const whole = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;
const optional = (value: unknown, test: (value: unknown) => boolean): boolean => value === undefined || test(value);
const rowsOf = (type: string) => (value: unknown): boolean =>
  Array.isArray(value) && value.every((row) => Array.isArray(row) && row.every((one) => typeof one === type));

function isEdit(given: unknown): given is Edit {
  if (typeof given !== "object" || given === null) return false;
  const edit = given as Record<string, unknown>;
  if ("side" in edit) return (edit.side === "source" || edit.side === "target") && Array.isArray(edit.places) && edit.places.every(whole);
  return (
    optional(edit.kind, (kind) => ["encoder", "decoder", "cross"].includes(kind as string)) &&
    optional(edit.layer, whole) && optional(edit.head, whole) && optional(edit.scale, Number.isFinite) &&
    optional(edit.weights, (one) => typeof one === "string" || rowsOf("number")(one)) && optional(edit.mask, rowsOf("boolean"))
  );
}

export const label = (piece: string): string => piece.replace(/^\u2581/, "") || "␣";

/** The pieces that label the axes: what the encoder reads, what the decoder reads and what it predicts. */
export interface Axes {
  source: string[];
  fed: string[];
  predicted: string[];
}
export function axesOf(made: Translation): Axes {
  const pieces = made.pieces.map(label);
  const predicted = [...pieces, ...(made.truncated ? [] : ["</s>"])];
  return { source: made.source.pieces.map(label), fed: ["<s>", ...pieces].slice(0, predicted.length), predicted };
}

/** The labels of the rows and columns of an array inside the model; dimensions are numbered. */
export function labelsOf(name: string, table: Table, axes: Axes, head: number): { rows: string[]; columns: string[]; values: Float32Array[] } {
  const [count, width] = table.shape.slice(-2) as [number, number];
  const from = table.shape.length === 3 ? head * count * width : 0;
  const values = Array.from({ length: count }, (_, row) => table.data.subarray(from + row * width, from + (row + 1) * width));
  const [kind, , what] = name.split(".") as [string, string?, string?];
  const ofKeys = what === "key" || what === "value";
  const rows = kind === "encoder" || (kind === "cross" && ofKeys) ? axes.source : axes.fed;
  const matrix = what === "scores" || what === "weights";
  const columns = matrix ? (kind === "decoder" ? axes.fed : axes.source) : Array.from({ length: width }, (_, at) => String(at + 1));
  return { rows, columns, values };
}

/** Lines of Python that compute what a laboratory shows; `loaded` is the expression that loads the model. */
export function python(state: LabState, loaded: string): string {
  const text = (value: unknown): string => JSON.stringify(value);
  const value = (given: unknown): string => JSON.stringify(given).replaceAll("true", "True").replaceAll("false", "False").replaceAll(",", ", ");
  const masks: string[] = [];
  const masked = (mask: boolean[][]): string => {
    const name = `mask${masks.length ? masks.length + 1 : ""}`;
    const closed = mask.flatMap((row, at) => row.flatMap((open, column) => (open ? [] : [`${name}[${at}, ${column}] = False`])));
    masks.push([`${name} = np.ones((${mask.length}, ${mask[0]?.length ?? 0}), dtype=bool)`, ...closed].join("\n"));
    return name;
  };
  const heads = state.edits.flatMap((edit) => {
    if ("side" in edit) return [`    Positions(${text(edit.side)}, (${edit.places.map((one) => `${one}, `).join("").trim()})),`];
    const given = [text(edit.kind ?? "cross")];
    for (const name of ["layer", "head"] as const) if (edit[name] !== undefined) given.push(`${name}=${edit[name]}`);
    if (typeof edit.weights === "string") given.push(`weights=${text(edit.weights)}`);
    else if (edit.weights !== undefined) given.push(`weights=np.array(${value(edit.weights)})`);
    if (edit.mask !== undefined) given.push(`mask=${masked(edit.mask as boolean[][])}`);
    if (edit.scale !== undefined) given.push(`scale=${edit.scale}`);
    return [`    Heads(${given.join(", ")}),`];
  });
  const uses = (word: string): boolean => heads.some((line) => line.includes(word));
  const names = ["Heads", "Positions"].filter((name) => uses(`${name}(`));
  const target = state.target === undefined ? "" : `, ${text(state.target)}`;
  return [
    ...(uses("np.") || masks.length ? ["import numpy as np", ""] : []),
    "import uwaga",
    ...(names.length ? [`from uwaga.engine.interventions import ${names.join(", ")}`] : []),
    "from uwaga.inspection import look_inside",
    ...(names.length ? ["from uwaga.inspection.interventions import intervene"] : []),
    "",
    `translator = ${loaded}`,
    ...masks,
    ...(names.length ? ["translator = intervene(", "    translator,", ...heads, ")"] : []),
    `text = ${text(state.text)}`,
    ...(target ? [] : [`print(translator.translate(text, beam=${state.beam}).text)`]),
    `seen = look_inside(translator, text${target || `, translator.translate(text, beam=${state.beam}).text`}, names=[${text(state.array)}])`,
    "print(seen.fed)",
    `print(seen.arrays[${text(state.array)}]${state.array === "logits" || !/^\w+\.\d+\.(query|key|value|scores|weights|context)$/.test(state.array) ? "" : `[${state.head}]`})`,
    "",
  ].join("\n");
}
