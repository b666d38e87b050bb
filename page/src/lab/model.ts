/** What a laboratory needs of a model, in the browser or on a server. */

import type { Edit, ModelInfo, TranslateOptions, Translation as Made } from "../../../web/lib/types";

export type { Edit, HeadsEdit, Table } from "../../../web/lib/types";

/** What a call returns besides the translation, and how it searches. */
export interface Wanted extends Pick<TranslateOptions, "beam" | "nbest" | "length_penalty" | "attention" | "insight" | "tree" | "edits"> {
  /** A translation that the decoder is forced along; the beam is then 1. */
  forced?: string;
  /** Return so many candidates of each step. */
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
  /** 0: all. */
  topK: number;
  topP: number;
  seed: number;
}
export interface LabInfo extends Pick<ModelInfo, "source_language" | "target_language" | "encoder_layers" | "encoder_heads" | "decoder_layers" | "decoder_heads"> {
  /** Whether the decoder attends to itself; others have a recurrence in its place. */
  decoder_attention: boolean;
}

export interface LabModel {
  readonly info: LabInfo;
  /** The token that ends a sentence. */
  readonly end: number;
  /** The line of Python that loads the model. */
  readonly python: string;
  /** Milliseconds without a key press before a text is translated. */
  readonly pause: number;
  translate(text: string, wanted: Wanted): Promise<Translation>;
  /** A translation drawn at random, the same for a seed. */
  sample(text: string, sampling: Sampling, edits: Edit[]): Promise<string>;
  /** The piece of a target token in an answer. */
  piece(token: number): string;
}

export const total = (made: Translation): number => Array.from(made.logProbs).reduce((sum, one) => sum + one, 0);
