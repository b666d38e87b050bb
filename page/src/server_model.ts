/** A model on the server, for the laboratory: POST /v1/inside. */

import type { Api, Asked } from "./api";
import type { Edit, LabInfo, LabModel, Sampling, Table, Translation, Wanted } from "./lab/model";

interface Packed {
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
  attention?: Record<string, Packed>;
  insight?: Record<string, Packed>;
}
interface Answer {
  source: { text: string; tokens: number[]; pieces: string[] };
  candidates: Candidate[];
  tree?: Packed;
  steps?: Array<Array<{ token: number; log_prob: number | null }>>;
  vocabulary: Record<string, string>;
  model: LabInfo & { name: string; end: number };
}

const KEPT = 8; // answers: a view asks for some of them more than once

export class ServerModel implements LabModel {
  readonly pause = 250;
  info!: LabInfo;
  end = -1;
  python = "";
  private readonly pieces = new Map<string, string>();
  private readonly answers = new Map<string, Promise<Answer>>();

  private constructor(
    private readonly api: Api,
    private readonly asked: Asked,
    private readonly refused: (error: unknown) => Error,
  ) {}

  /** Ask for a first text, as the first view does; rejects with what the server refuses. */
  static async open(api: Api, asked: Asked, refused: (error: unknown) => Error, text: string, wanted: Wanted): Promise<ServerModel> {
    const own = new ServerModel(api, asked, refused);
    const { model } = await own.answer(text, wanted);
    own.info = model;
    own.end = model.end;
    own.python = model.name === "bundled" ? "uwaga.load()" : `uwaga.load(${JSON.stringify(model.name)})`;
    return own;
  }

  async translate(text: string, wanted: Wanted): Promise<Translation> {
    try {
      return translationOf(await this.answer(text, wanted));
    } catch (error) {
      throw this.refused(error);
    }
  }

  async sample(text: string, { temperature, topK, topP, seed }: Sampling, edits: Edit[]): Promise<string> {
    const drawn = { sample: true, temperature, top_k: topK, top_p: topP, seed };
    return (await this.translate(text, { ...drawn, edits } as Wanted)).text;
  }

  piece(token: number): string {
    return this.pieces.get(String(token)) ?? "";
  }

  private async answer(text: string, wanted: Wanted): Promise<Answer> {
    const { forced, edits, ...rest } = wanted;
    const options = { ...rest, ...(forced === undefined ? {} : { forced }), ...(edits?.length ? { edits } : {}) };
    const key = JSON.stringify([text, options]);
    const known = this.answers.get(key);
    const coming = known ?? (this.api.inside(text, this.asked, options) as Promise<Answer>);
    if (!known) {
      this.answers.set(key, coming);
      for (const old of this.answers.keys()) if (this.answers.size > KEPT) this.answers.delete(old);
      coming.catch(() => this.answers.delete(key));
    }
    const answer = await coming;
    for (const [token, piece] of Object.entries(answer.vocabulary)) this.pieces.set(token, piece);
    return answer;
  }
}

export function translationOf(answer: Answer): Translation {
  const candidates = answer.candidates.map((one) => ({
    text: one.text,
    score: one.score ?? -Infinity,
    truncated: one.truncated,
    tokens: Int32Array.from(one.tokens),
    pieces: one.pieces,
    logProbs: Float64Array.from(one.log_probs, (value) => value ?? -Infinity),
    ...(one.attention ? { attention: tables(one.attention) } : {}),
    ...(one.insight ? { insight: tables(one.insight) } : {}),
  }));
  const { text, tokens, pieces } = answer.source;
  return {
    ...candidates[0]!,
    source: { text, tokens: Int32Array.from(tokens), pieces },
    candidates,
    ...(answer.tree ? { tree: unpacked(answer.tree) } : {}),
    ...(answer.steps
      ? { steps: answer.steps.map((step) => step.map(({ token, log_prob }) => ({ token, probability: log_prob === null ? 0 : Math.exp(log_prob) }))) }
      : {}),
  };
}

const tables = (packed: Record<string, Packed>): Record<string, Table> =>
  Object.fromEntries(Object.entries(packed).map(([name, one]) => [name, unpacked(one)]));

/** The array of base64 of float32, little-endian as every browser's machine is. */
export function unpacked({ shape, data }: Packed): Table {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return { shape, data: new Float32Array(bytes.buffer) };
}
