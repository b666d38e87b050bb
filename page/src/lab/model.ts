/** The interface of a laboratory's model, in the browser or on a server. */

import type { Edit, ModelInfo, TranslateOptions, Translation as Made } from "../../../web/lib/types";

export type { Edit, HeadsEdit, Table } from "../../../web/lib/types";

/** Options of a call: what it returns besides the translation, and how it searches. */
export interface TranslationOptions extends Pick<TranslateOptions, "beam" | "nbest" | "length_penalty" | "attention" | "insight" | "tree" | "edits"> {
  /** A translation to force; the beam is then 1. */
  forced?: string;
  /** Number of candidates of each step to return. */
  steps?: number;
}
export interface StepCandidate {
  token: number;
  probability: number;
}
export interface Translation extends Made {
  /** The candidates of each step, the best first, if requested. */
  steps?: StepCandidate[][];
}
export interface Sampling {
  temperature: number;
  /** 0 for all. */
  topK: number;
  topP: number;
  seed: number;
}
export interface LabInfo extends Pick<ModelInfo, "source_language" | "target_language" | "encoder_layers" | "encoder_heads" | "decoder_layers" | "decoder_heads"> {
  /** Whether the decoder has self-attention instead of a recurrence. */
  decoder_attention: boolean;
  /** "pre" if the norms are known to stand before the sublayers. */
  norm?: "pre";
}

export interface LabModel {
  readonly info: LabInfo;
  /** The end symbol. */
  readonly end: number;
  /** The line of Python that loads the model. */
  readonly python: string;
  /** Milliseconds without a key press before a text is translated. */
  readonly pause: number;
  translate(text: string, options: TranslationOptions): Promise<Translation>;
  /** Return a sampled translation, reproducible by seed. */
  sample(text: string, sampling: Sampling, edits: Edit[]): Promise<string>;
  /** Return the piece of a target token. */
  piece(token: number): string;
}

export const totalLogProb = (translation: Translation): number => Array.from(translation.logProbs).reduce((sum, value) => sum + value, 0);
