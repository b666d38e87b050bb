/** The model of a page's laboratories: loaded once, when the first of them starts. */

import type { Uwaga } from "../../../web/lib/index";

export type { Candidate, Edit, HeadsEdit, Side, Table, TranslateOptions, Translation } from "../../../web/lib/types";

export interface LabModel {
  model: Uwaga;
  /** The pieces of the target's vocabulary. */
  pieces: string[];
}

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
  return { model, pieces: await model.vocabulary("target") };
}
