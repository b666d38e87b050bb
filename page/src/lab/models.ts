/** The four compared models, which share one tokeniser: fetched when they are first asked for. */

import type { Uwaga } from "../../../web/lib/index";

export interface Compared {
  name: string;
  title: string;
  weights: number;
  bytes: number;
  /** On the test pairs. */
  bleu: number;
  /** The aligning head of a model with several, from 1. */
  head?: { layer: number; head: number };
}
export interface Running extends Compared {
  model: Uwaga;
}

/** The models that there are. */
export async function listed(): Promise<Compared[]> {
  return JSON.parse(new TextDecoder().decode(await fetched("models/models.json"))) as Compared[];
}

const place = (name: string): string => new URL(name, import.meta.url).href;
let loading: Promise<Running[]> | undefined;

/** Load all models; `progress` is called with the share that has arrived, 0 to 1. */
export function loadAll(progress: (share: number) => void): Promise<Running[]> {
  loading ??= loaded(progress).catch((error: unknown) => {
    loading = undefined; // to try again
    throw error;
  });
  return loading;
}

async function loaded(progress: (share: number) => void): Promise<Running[]> {
  const models = await listed();
  const package_ = (await import(place("uwaga/index.js"))) as { Uwaga: typeof Uwaga };
  const tokeniser = await fetched("models/source.spm");
  const all = models.reduce((sum, one) => sum + one.bytes, 0);
  let received = 0;
  return Promise.all(models.map(async (one) => {
    const files: Record<string, Uint8Array> = { "source.spm": tokeniser };
    for (const name of ["config.json", "engine.safetensors"]) {
      files[name] = await fetched(`models/${one.name}/${name}`, (bytes) => progress(Math.min(1, (received += bytes) / all)));
    }
    return { ...one, model: await package_.Uwaga.load(files) };
  }));
}

/** The bytes of a file beside the script. Raises an error that names the file. */
export async function fetched(name: string, arrived?: (bytes: number) => void): Promise<Uint8Array> {
  const response = await fetch(place(name));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  const parts: Uint8Array[] = [];
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    parts.push(part.value);
    arrived?.(part.value.byteLength);
  }
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}
