/** Options of a translation, as in Python's `SearchOptions`; default: the model's. */
export interface TranslateOptions {
  beam?: number;
  nbest?: number;
  length_penalty?: number;
  length_formula?: "average" | "gnmt" | "none";
  early_stopping?: boolean | "estimate";
  min_length?: number;
  max_length?: number;
  max_ratio?: number;
  max_extra?: number;
  /** Return the alignment, (target tokens, source tokens), of the model's alignment head. */
  alignment?: boolean;
  /** Return all attention matrices. */
  attention?: boolean;
  /**
   * Return the arrays inside the best translation with these names or prefixes of names, such as "cross.2"; [] for all.
   * See `Candidate.insight`.
   */
  insight?: string[];
  /** A translation of each text, or its tokens, to force; the beam is 1. */
  targets?: (string | number[])[];
  /** Return the candidates of all steps of the search. */
  tree?: boolean;
  /** Edits of attention heads and positions, applied in order. */
  edits?: Edit[];
  /** The source language; a model of another language is an error. */
  source_language?: string;
  /** The target language of a multilingual model; another model of another language is an error. */
  target_language?: string;
  /** Memory limit of the call in bytes. */
  memory?: number;
}

export type Side = "source" | "target";

/** An edit of attention heads, or of the positions of the first tokens of a side, counted from 0. */
export type Edit = HeadsEdit | { side: Side; places: number[] };
export interface HeadsEdit {
  /** The kind of attention; default: cross. */
  kind?: "encoder" | "decoder" | "cross";
  /** Counted from 1; default: all. */
  layer?: number;
  head?: number;
  /**
   * Weights to use instead of the computed ones. `silent`: zero; `alone`: zero for the other heads of the layer;
   * `uniform`: equal for all visible positions; `diagonal`: one for the query's position; or numbers, as an array
   * (queries, keys) or (heads, queries, keys) of a sentence with its end symbol.
   */
  weights?: "silent" | "alone" | "uniform" | "diagonal" | number[][] | number[][][];
  /** True for visible positions (queries, keys); the remaining weights are scaled to sum to 1. */
  mask?: boolean[][] | boolean[][][];
  /** Factor of the scores instead of the model's, which is usually 1/√d_k. */
  scale?: number;
}

/** A decided token, its log-probability, and the translation so far, whose end may still change. */
export interface DecidedToken {
  token: number;
  logProb: number;
  text: string;
}
/** Called with each token; returning false ends the call with the error `cancelled`. */
export type OnToken = (decided: DecidedToken) => boolean | void;

/** An array of numbers in row-major order, with its shape. */
export interface Table {
  shape: number[];
  data: Float32Array;
}

/** The attention matrices of the model, each (layers, heads, queries, keys). */
export interface Attention {
  encoder?: Table;
  decoder?: Table;
  cross?: Table;
}

export interface Candidate {
  text: string;
  /** The score that ranks it. */
  score: number;
  /** Whether it reached a length limit. */
  truncated: boolean;
  tokens: Int32Array;
  /** The pieces of its tokens, with U+2581 for spaces. */
  pieces: string[];
  /** The log-probabilities of its tokens and, unless it is truncated, of the end symbol. */
  logProbs: Float64Array;
  /** (target tokens, source tokens), if requested. */
  alignment?: Table;
  attention?: Attention;
  /**
   * The requested arrays, in the order of computation. The names of a Transformer's arrays are
   * `encoder.embedding`, `encoder.1.query`, `.key`, `.value` (heads, source, head width), `.scores` and `.weights` (heads,
   * queries, keys), `.context` (heads, queries, head width), `.attention` and `.feed_forward` (tokens, width) of each layer,
   * `encoder.output`; the same of `decoder` and, without `feed_forward`, of `cross`; `logits` (target, vocabulary).
   */
  insight?: Record<string, Table>;
}

export interface Translation extends Candidate {
  /**
   * The search tree, if requested (candidates, 3): the index of the previous candidate or -1, the token, and its
   * log-probability. Each step has twice as many candidates as the beam size, the best first.
   */
  tree?: Table;
  source: { text: string; tokens: Int32Array; pieces: string[] };
  /** All translations, the best (this one) first. */
  candidates: Candidate[];
}

/** Information about a model, from `uwaga_model_info`. */
export interface ModelInfo {
  source_language: string;
  target_language: string;
  /** The possible values of `target_language`; empty for a model of one pair. */
  target_languages: string[];
  /** The possible values of `source_language` and `target_language` of a model that is told both. */
  languages: string[];
  /** Whether a shortlist restricts the target tokens of each sentence. */
  shortlist: boolean;
  precision: string;
  isa: string;
  bytes: number;
  source_vocabulary: number;
  target_vocabulary: number;
  width: number;
  encoder_layers: number;
  encoder_heads: number;
  decoder_layers: number;
  decoder_heads: number;
  max_source: number | null;
  beam: number;
  nbest: number;
  /** Search options that the model sets, and that are not applied: newer than this version, or Python's alone. */
  ignored_options: string[];
}

export interface OpenOptions {
  /** Number format of the matrices; default: as stored. */
  dtype?: "float32" | "int8";
  /** Use the shortlist of a Marian model. Default true. */
  shortlist?: boolean;
  /** Memory limit of the model and all its calls, in bytes. */
  memory?: number;
  source_language?: string;
  target_language?: string;
}

export type Files = Record<string, ArrayBuffer | Uint8Array>;

/** The codes of `uwaga.h`. */
export const CODES = [
  "ok", "argument", "file", "model", "text", "too long", "language", "memory", "cancelled", "internal",
] as const;
export type Code = (typeof CODES)[number];

/** An error of the engine, with the name of its code. */
export class UwagaError extends Error {
  constructor(readonly code: Code, message: string) {
    super(message);
    this.name = "UwagaError";
  }
}
