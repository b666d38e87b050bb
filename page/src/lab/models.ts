/** The four models of the comparison, which share a tokeniser and are loaded on demand. */

import type { Uwaga } from "../../../web/lib/index";

export interface ComparedModel {
  name: string;
  title: string;
  weights: number;
  bytes: number;
  /** BLEU on the test pairs. */
  bleu: number;
  /** The alignment head of a model with several heads, counted from 1. */
  head?: { layer: number; head: number };
}
export interface LoadedModel extends ComparedModel {
  model: Uwaga;
}

/** Return the available models. */
export async function listModels(): Promise<ComparedModel[]> {
  return JSON.parse(new TextDecoder().decode(await fetchFile("models/models.json"))) as ComparedModel[];
}

const toUrl = (name: string): string => new URL(name, import.meta.url).href;
let loading: Promise<LoadedModel[]> | undefined;

/** Load all models; `progress` is called with the share received, 0 to 1. */
export function loadAll(progress: (share: number) => void): Promise<LoadedModel[]> {
  loading ??= loadModels(progress).catch((error: unknown) => {
    loading = undefined; // to try again
    throw error;
  });
  return loading;
}

async function loadModels(progress: (share: number) => void): Promise<LoadedModel[]> {
  const models = await listModels();
  const package_ = (await import(toUrl("uwaga/index.js"))) as { Uwaga: typeof Uwaga };
  const tokeniser = await fetchFile("models/source.spm");
  const totalBytes = models.reduce((sum, model) => sum + model.bytes, 0);
  let received = 0;
  return Promise.all(models.map(async (model) => {
    const files: Record<string, Uint8Array> = { "source.spm": tokeniser };
    const onBytes = (bytes: number): void => progress(Math.min(1, (received += bytes) / totalBytes));
    files["config.json"] = await fetchFile(`models/${model.name}/config.json`, onBytes);
    files["engine.safetensors"] = await expand(await fetchFile(`models/${model.name}/engine.safetensors.gz`, onBytes));
    return { ...model, model: await package_.Uwaga.load(files) };
  }));
}

/** Expand a file that gzip has compressed. */
async function expand(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Fetch a file from the folder of the script. Raises an error that names the file. */
export async function fetchFile(name: string, onBytes?: (bytes: number) => void): Promise<Uint8Array> {
  const response = await fetch(toUrl(name));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  const parts: Uint8Array[] = [];
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    parts.push(part.value);
    onBytes?.(part.value.byteLength);
  }
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}
