/** A model on the server for the laboratory, by POST /v1/inside. */

import type { Api, RequestSettings } from "./api";
import type { Edit, LabInfo, LabModel, Sampling, Table, Translation, TranslationOptions } from "./lab/model";

interface PackedTable {
  shape: number[];
  data: string;
}
interface Candidate {
  text: string;
  score: number | null;
  truncated: boolean;
  tokens: number[];
  pieces: string[];
  log_probs: Array<number | null>;
  attention?: Record<string, PackedTable>;
  insight?: Record<string, PackedTable>;
}
interface Answer {
  source: { text: string; tokens: number[]; pieces: string[] };
  candidates: Candidate[];
  tree?: PackedTable;
  steps?: Array<Array<{ token: number; log_prob: number | null }>>;
  vocabulary: Record<string, string>;
  model: LabInfo & { name: string; end: number };
}

const MAX_ANSWERS = 8; // cached answers: views request some of them repeatedly

export class ServerModel implements LabModel {
  readonly pause = 250;
  info!: LabInfo;
  end = -1;
  python = "";
  private readonly pieces = new Map<string, string>();
  private readonly answers = new Map<string, Promise<Answer>>();

  private constructor(
    private readonly api: Api,
    private readonly settings: RequestSettings,
    private readonly toError: (error: unknown) => Error,
  ) {}

  /** Open the model with a first request, like that of the first view; reject if the server rejects it. */
  static async open(api: Api, settings: RequestSettings, toError: (error: unknown) => Error, text: string, options: TranslationOptions): Promise<ServerModel> {
    const instance = new ServerModel(api, settings, toError);
    const { model } = await instance.answer(text, options);
    instance.info = model.name === "bundled" ? { ...model, norm: "pre" } : model;
    instance.end = model.end;
    instance.python = model.name === "bundled" ? "uwaga.load()" : `uwaga.load(${JSON.stringify(model.name)})`;
    return instance;
  }

  async translate(text: string, options: TranslationOptions): Promise<Translation> {
    try {
      return toTranslation(await this.answer(text, options));
    } catch (error) {
      throw this.toError(error);
    }
  }

  async sample(text: string, { temperature, topK, topP, seed }: Sampling, edits: Edit[]): Promise<string> {
    const options = { sample: true, temperature, top_k: topK, top_p: topP, seed };
    return (await this.translate(text, { ...options, edits } as TranslationOptions)).text;
  }

  piece(token: number): string {
    return this.pieces.get(String(token)) ?? "";
  }

  private async answer(text: string, request: TranslationOptions): Promise<Answer> {
    const { forced, edits, ...others } = request;
    const options = { ...others, ...(forced === undefined ? {} : { forced }), ...(edits?.length ? { edits } : {}) };
    const key = JSON.stringify([text, options]);
    const cached = this.answers.get(key);
    const pending = cached ?? (this.api.inside(text, this.settings, options) as Promise<Answer>);
    if (!cached) {
      this.answers.set(key, pending);
      for (const oldest of this.answers.keys()) if (this.answers.size > MAX_ANSWERS) this.answers.delete(oldest);
      pending.catch(() => this.answers.delete(key));
    }
    const answer = await pending;
    for (const [token, piece] of Object.entries(answer.vocabulary)) this.pieces.set(token, piece);
    return answer;
  }
}

export function toTranslation(answer: Answer): Translation {
  const candidates = answer.candidates.map((candidate) => ({
    text: candidate.text,
    score: candidate.score ?? -Infinity,
    truncated: candidate.truncated,
    tokens: Int32Array.from(candidate.tokens),
    pieces: candidate.pieces,
    logProbs: Float64Array.from(candidate.log_probs, (value) => value ?? -Infinity),
    ...(candidate.attention ? { attention: tables(candidate.attention) } : {}),
    ...(candidate.insight ? { insight: tables(candidate.insight) } : {}),
  }));
  const { text, tokens, pieces } = answer.source;
  return {
    ...candidates[0]!,
    source: { text, tokens: Int32Array.from(tokens), pieces },
    candidates,
    ...(answer.tree ? { tree: unpackTable(answer.tree) } : {}),
    ...(answer.steps
      ? { steps: answer.steps.map((step) => step.map(({ token, log_prob }) => ({ token, probability: log_prob === null ? 0 : Math.exp(log_prob) }))) }
      : {}),
  };
}

const tables = (packed: Record<string, PackedTable>): Record<string, Table> =>
  Object.fromEntries(Object.entries(packed).map(([name, table]) => [name, unpackTable(table)]));

/** Decode an array of float32 in base64, little-endian. */
export function unpackTable({ shape, data }: PackedTable): Table {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  return { shape, data: new Float32Array(bytes.buffer) };
}
