/** The model of the course's laboratories, in WebAssembly, loaded once when the first laboratory starts. */

import type { Uwaga } from "../../../web/lib/index";
import { softmax } from "./math";
import type { Edit, LabInfo, LabModel, Sampling, StepCandidate, Translation, TranslationOptions } from "./model";

const MAX_STEPS = 40; // of a sampled translation
let loading: Promise<LabModel> | undefined;

/** Load the model from the folder of this script; `progress` is called with the share received, 0 to 1. */
export function load(progress: (share: number) => void): Promise<LabModel> {
  loading ??= loadModel(progress).catch((error: unknown) => {
    loading = undefined; // to try again
    throw error;
  });
  return loading;
}

async function loadModel(progress: (share: number) => void): Promise<LabModel> {
  const toUrl = (name: string): string => new URL(name, import.meta.url).href;
  const package_ = (await import(toUrl("uwaga/index.js"))) as { Uwaga: typeof Uwaga };
  const received = new Map<string, [number, number]>();
  const model = await package_.Uwaga.load(toUrl("model/"), {
    onProgress: ({ file, received: bytes, total }) => {
      received.set(file, [bytes, total ?? bytes]);
      const sum = (index: 0 | 1): number => [...received.values()].reduce((total, counts) => total + counts[index], 0);
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
    this.info = { ...model.info, decoder_attention: true, norm: "pre" };
    this.end = pieces.indexOf("</s>");
  }

  async translate(text: string, { forced, steps, ...options }: TranslationOptions): Promise<Translation> {
    const insight = steps ? [...(options.insight ?? []), "logits"] : options.insight;
    const translation: Translation = await this.model.translate(text, {
      ...options,
      ...(insight ? { insight } : {}),
      ...(forced === undefined ? {} : { targets: [forced], beam: 1 }),
    });
    if (steps) translation.steps = logitRows(translation).map((logits) => mostProbable(softmax(logits), steps));
    return translation;
  }

  async sample(text: string, { temperature, topK, topP, seed }: Sampling, edits: Edit[]): Promise<string> {
    const tokens: number[] = [];
    let random = seed >>> 0;
    for (let step = 0; step < MAX_STEPS; ++step) {
      const translation = await this.model.translate(text, { targets: [tokens], insight: ["logits"], edits });
      const row = logitRows(translation)[tokens.length];
      if (!row) break;
      random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
      const token = pick(softmax(row.map((logit) => logit / temperature)), topK, topP, random / 4294967296);
      if (token === this.end) break;
      tokens.push(token);
    }
    return (await this.model.translate(text, { targets: [tokens], edits })).text;
  }

  piece(token: number): string {
    return this.pieces[token] ?? "";
  }
}

/** Return the logits of each step. */
function logitRows(translation: Translation): number[][] {
  const logits = translation.insight?.logits;
  if (!logits) return [];
  const [steps, width] = logits.shape as [number, number];
  return Array.from({ length: steps }, (_, step) => Array.from(logits.data.subarray(step * width, (step + 1) * width)));
}

function mostProbable(probabilities: number[], count: number): StepCandidate[] {
  const best: number[] = [];
  probabilities.forEach((value, token) => {
    if (best.length === count && value <= (probabilities[best[count - 1] as number] as number)) return;
    const index = best.findIndex((other) => (probabilities[other] as number) < value);
    best.splice(index < 0 ? best.length : index, 0, token);
    best.length = Math.min(best.length, count);
  });
  return best.map((token) => ({ token, probability: probabilities[token] as number }));
}

/** Return the token at a position, 0 to 1, of the distribution restricted to the top k tokens and the share p. */
export function pick(probabilities: number[], topK: number, topP: number, position: number): number {
  const order = probabilities.map((_, token) => token).sort((first, second) => (probabilities[second] as number) - (probabilities[first] as number));
  const candidates: number[] = [];
  let sum = 0;
  for (const token of order) {
    if ((topK > 0 && candidates.length === topK) || sum >= topP) break;
    candidates.push(token);
    sum += probabilities[token] as number;
  }
  let remaining = position * sum;
  for (const token of candidates) {
    remaining -= probabilities[token] as number;
    if (remaining < 0) return token;
  }
  return candidates[candidates.length - 1] as number;
}
