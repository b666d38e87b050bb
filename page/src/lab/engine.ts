/** The model of the course's laboratories, in WebAssembly: loaded once, when the first of them starts. */

import type { Uwaga } from "../../../web/lib/index";
import { softmax } from "./math";
import type { Edit, LabInfo, LabModel, Sampling, StepCandidate, Translation, Wanted } from "./model";

const MOST_STEPS = 40; // of a sampled translation
let loading: Promise<LabModel> | undefined;

/** Load the model beside this script; `progress` is called with the share that has arrived, 0 to 1. */
export function load(progress: (share: number) => void): Promise<LabModel> {
  loading ??= loaded(progress).catch((error: unknown) => {
    loading = undefined; // to try again
    throw error;
  });
  return loading;
}

async function loaded(progress: (share: number) => void): Promise<LabModel> {
  const place = (name: string): string => new URL(name, import.meta.url).href;
  const package_ = (await import(place("uwaga/index.js"))) as { Uwaga: typeof Uwaga };
  const received = new Map<string, [number, number]>();
  const model = await package_.Uwaga.load(place("model/"), {
    onProgress: ({ file, received: bytes, total }) => {
      received.set(file, [bytes, total ?? bytes]);
      const sum = (at: 0 | 1): number => [...received.values()].reduce((all, one) => all + one[at], 0);
      progress(sum(0) / Math.max(sum(1), 1));
    },
  });
  return new EngineModel(model, await model.vocabulary("target"));
}

class EngineModel implements LabModel {
  readonly info: LabInfo;
  readonly end: number;
  readonly python = 'uwaga.load(dtype="int8")';
  readonly pause = 0;

  constructor(
    private readonly model: Uwaga,
    private readonly pieces: string[],
  ) {
    this.info = { ...model.info, decoder_attention: true };
    this.end = pieces.indexOf("</s>");
  }

  async translate(text: string, { forced, steps, ...options }: Wanted): Promise<Translation> {
    const insight = steps ? [...(options.insight ?? []), "logits"] : options.insight;
    const made: Translation = await this.model.translate(text, {
      ...options,
      ...(insight ? { insight } : {}),
      ...(forced === undefined ? {} : { targets: [forced], beam: 1 }),
    });
    if (steps) made.steps = rowsOf(made).map((logits) => likeliest(softmax(logits), steps));
    return made;
  }

  async sample(text: string, { temperature, topK, topP, seed }: Sampling, edits: Edit[]): Promise<string> {
    const tokens: number[] = [];
    let random = seed >>> 0;
    for (let step = 0; step < MOST_STEPS; ++step) {
      const made = await this.model.translate(text, { targets: [tokens], insight: ["logits"], edits });
      const row = rowsOf(made)[tokens.length];
      if (!row) break;
      random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
      const token = pick(softmax(row.map((one) => one / temperature)), topK, topP, random / 4294967296);
      if (token === this.end) break;
      tokens.push(token);
    }
    return (await this.model.translate(text, { targets: [tokens], edits })).text;
  }

  piece(token: number): string {
    return this.pieces[token] ?? "";
  }
}

/** The logits of each step. */
function rowsOf(made: Translation): number[][] {
  const logits = made.insight?.logits;
  if (!logits) return [];
  const [steps, width] = logits.shape as [number, number];
  return Array.from({ length: steps }, (_, step) => Array.from(logits.data.subarray(step * width, (step + 1) * width)));
}

function likeliest(probabilities: number[], count: number): StepCandidate[] {
  const best: number[] = [];
  probabilities.forEach((value, at) => {
    if (best.length === count && value <= (probabilities[best[count - 1] as number] as number)) return;
    const place = best.findIndex((one) => (probabilities[one] as number) < value);
    best.splice(place < 0 ? best.length : place, 0, at);
    best.length = Math.min(best.length, count);
  });
  return best.map((token) => ({ token, probability: probabilities[token] as number }));
}

/** The token at a place, 0 to 1, of the distribution over the best k tokens with at least the share p together. */
export function pick(probabilities: number[], topK: number, topP: number, place: number): number {
  const order = probabilities.map((_, at) => at).sort((one, other) => (probabilities[other] as number) - (probabilities[one] as number));
  const kept: number[] = [];
  let sum = 0;
  for (const token of order) {
    if ((topK > 0 && kept.length === topK) || sum >= topP) break;
    kept.push(token);
    sum += probabilities[token] as number;
  }
  let left = place * sum;
  for (const token of kept) {
    left -= probabilities[token] as number;
    if (left < 0) return token;
  }
  return kept[kept.length - 1] as number;
}
