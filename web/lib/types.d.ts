/** Options of a translation; those left out are the model's own. They are the options of Python's `SearchOptions`. */
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
    /** Return the share of each source token in each target token, by the model's alignment head. */
    alignment?: boolean;
    /** Return all attention matrices. */
    attention?: boolean;
    /**
     * Return the arrays inside the best translation with these names or beginnings of names, such as "cross.2"; [] for all.
     * See `Candidate.insight`.
     */
    insight?: string[];
    /** A translation of each text, or its tokens, which the decoder is forced along; the beam is 1. */
    targets?: (string | number[])[];
    /** Return the candidates of all steps of the search. */
    tree?: boolean;
    /** Changes of attention heads and positions, made in their order. */
    edits?: Edit[];
    /** Refuse a model of another language. */
    source_language?: string;
    /** Of a multilingual model; of any other, refuse a model of another language. */
    target_language?: string;
    /** Bound in bytes of this call. */
    memory?: number;
}
export type Side = "source" | "target";
/** A change of attention heads, or of the positions of the first tokens of a side, counted from 0. */
export type Edit = HeadsEdit | {
    side: Side;
    places: number[];
};
export interface HeadsEdit {
    /** The kind of attention; default cross. */
    kind?: "encoder" | "decoder" | "cross";
    /** From 1; default: all. */
    layer?: number;
    head?: number;
    /**
     * In place of their own. `silent`: none; `alone`: none for the other heads of the layer; `uniform`: the same for all
     * positions that a query may see; `diagonal`: all on its own position; or rows of numbers (queries, keys) of one
     * sentence with its end, or these for each head.
     */
    weights?: "silent" | "alone" | "uniform" | "diagonal" | number[][] | number[][][];
    /** True where a query may look (queries, keys): what is left is scaled to sum to 1 again. */
    mask?: boolean[][] | boolean[][][];
    /** Factor of the scores in place of the model's, which is usually 1/√d_k. */
    scale?: number;
}
/** A token that was decided, its log-probability, and the translation so far, whose end later tokens may change. */
export interface DecidedToken {
    token: number;
    logProb: number;
    text: string;
}
/** Called with each token; false ends the call with an error, `cancelled`. */
export type OnToken = (decided: DecidedToken) => boolean | void;
/** Numbers with the sizes of their axes, row by row. */
export interface Table {
    shape: number[];
    data: Float32Array;
}
/** All attention matrices, each (layers, heads, queries, keys). Those that the model lacks are missing. */
export interface Attention {
    encoder?: Table;
    decoder?: Table;
    cross?: Table;
}
export interface Candidate {
    text: string;
    /** The score that ranks it. */
    score: number;
    /** True if a limit of length cut it. */
    truncated: boolean;
    tokens: Int32Array;
    /** The pieces of its tokens, with U+2581 for spaces. */
    pieces: string[];
    /** Of its tokens and, unless it is truncated, of the end symbol. */
    logProbs: Float64Array;
    /** (target tokens, source tokens), if requested. */
    alignment?: Table;
    attention?: Attention;
    /**
     * The arrays that were requested, in the order of the computation. The names of a Transformer's are
     * `encoder.embedding`, `encoder.1.query`, `.key`, `.value` (heads, source, head width), `.scores` and `.weights` (heads,
     * queries, keys), `.context` (heads, queries, head width), `.attention` and `.feed_forward` (tokens, width) of each layer,
     * `encoder.output`; the same of `decoder` and, without `feed_forward`, of `cross`; `logits` (target, vocabulary).
     */
    insight?: Record<string, Table>;
}
export interface Translation extends Candidate {
    /**
     * The search, if requested (candidates, 3): the number of the candidate before or -1, the token, its log-probability. Each
     * step keeps twice as many as there are beams, the best first.
     */
    tree?: Table;
    source: {
        text: string;
        tokens: Int32Array;
        pieces: string[];
    };
    /** All translations, the best first, which is this one. */
    candidates: Candidate[];
}
/** A model, as `uwaga_model_info` describes it. */
export interface ModelInfo {
    source_language: string;
    target_language: string;
    /** The languages that `target_language` chooses from; empty for a model of one pair. */
    target_languages: string[];
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
}
export interface OpenOptions {
    /** Of the matrices; default: as they are stored. */
    dtype?: "float32" | "int8";
    /** Restrict each sentence to the shortlist that comes with a model of Marian. Default true. */
    shortlist?: boolean;
    /** Bound in bytes of the model and of all calls together. */
    memory?: number;
    source_language?: string;
    target_language?: string;
}
export type Files = Record<string, ArrayBuffer | Uint8Array>;
/** The codes of `uwaga.h`. */
export declare const CODES: readonly ["ok", "argument", "file", "model", "text", "too long", "language", "memory", "cancelled", "internal"];
export type Code = (typeof CODES)[number];
/** What the engine refuses, with the name of its code. */
export declare class UwagaError extends Error {
    readonly code: Code;
    constructor(code: Code, message: string);
}
