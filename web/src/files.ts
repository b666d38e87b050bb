/** The files of a model: from a folder on a server or on the disk, with progress, cache and abort. */
import { type Files, UwagaError } from "./types.js";

export interface LoadOptions {
  /** Called with the bytes received and, once the server has said it, the bytes of the file. */
  onProgress?: (progress: { file: string; received: number; total: number | null }) => void;
  signal?: AbortSignal;
  /** The names of the files; default: those of uwaga's folders, and in Node, where there is no config.json, of Marian's. */
  files?: string[];
  /** Keep files in the browser's cache storage of this name; false: not. Default "uwaga-models". */
  cache?: string | false;
}

interface Config {
  format?: string;
  tokenisers?: string;
  vocabulary?: { joint?: boolean };
}

/** Read the files of a model folder. Raises UwagaError, or the signal's reason. */
export async function readFolder(folder: string | URL, options: LoadOptions = {}): Promise<Files> {
  const place = String(folder).replace(/\/?$/, "/");
  const read = /^https?:/.test(place) || typeof document !== "undefined" ? fetched : opened;
  const files: Files = {};
  const wanted = async (name: string, needed: boolean): Promise<void> => {
    options.signal?.throwIfAborted();
    const content = await read(place, name, options);
    if (content !== undefined) files[name] = content;
    else if (needed) throw new UwagaError("file", `${place}${name}: not found; give the URL of a folder by uwaga convert or uwaga train, or the names of its files`);
  };
  const names = options.files ?? (read === opened ? await marianFiles(place) : undefined);
  if (names !== undefined) {
    for (const name of names) await wanted(name, true);
    return files;
  }
  await wanted("config.json", true);
  let config: Config;
  try {
    config = JSON.parse(new TextDecoder().decode(files["config.json"])) as Config;
  } catch {
    throw new UwagaError("model", `${place}config.json: not JSON`);
  }
  await wanted(/^uwaga int[48] model$/.test(config.format ?? "") ? "engine.safetensors" : "model.safetensors", true);
  await wanted("source.spm", true);
  if (config.tokenisers === "marian") {
    await wanted("source.vocab.json", true);
    await wanted("target.vocab.json", true);
  }
  if (config.vocabulary?.joint !== true) await wanted("target.spm", false);
  await wanted("alignment_head.json", false);
  return files;
}

/** The names of the files of a folder as Marian and Firefox have it; undefined for another one. */
async function marianFiles(place: string): Promise<string[] | undefined> {
  const { readdir } = await import("node:fs/promises");
  const names = await readdir(place.startsWith("file:") ? new URL(place) : place).catch(() => [] as string[]);
  if (names.includes("config.json") || !names.some((name) => /^model.*\.bin$/.test(name))) return undefined;
  return names.filter((name) => /\.(bin|spm|yml)$/.test(name) || name === "alignment_head.json");
}

async function fetched(place: string, name: string, options: LoadOptions): Promise<Uint8Array | undefined> {
  const url = new URL(name, new URL(place, globalThis.location?.href)).href;
  const kept = options.cache === false || typeof caches === "undefined" ? undefined : await caches.open(options.cache ?? "uwaga-models").catch(() => undefined);
  let response = await kept?.match(url);
  const cached = response !== undefined;
  if (response === undefined) {
    try {
      response = await fetch(url, options.signal ? { signal: options.signal } : {});
    } catch (error) {
      options.signal?.throwIfAborted();
      throw new UwagaError("file", `${url}: cannot be fetched: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (response.status === 404 || response.status === 403) return undefined;
    if (!response.ok) throw new UwagaError("file", `${url}: the server answers ${response.status} ${response.statusText}`);
  }
  const content = await received(response, name, options);
  // A browser may refuse to keep it, for room or privacy: then it is fetched again the next time.
  if (!cached) await kept?.put(url, new Response(content)).catch(() => undefined);
  return content;
}

async function received(response: Response, file: string, options: LoadOptions): Promise<Uint8Array<ArrayBuffer>> {
  const length = response.headers.get("content-encoding") ? null : response.headers.get("content-length");
  const total = length === null ? null : Number(length);
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    options.signal?.throwIfAborted();
    const part = await reader?.read();
    if (part === undefined || part.done) break;
    parts.push(part.value);
    size += part.value.byteLength;
    options.onProgress?.({ file, received: size, total });
  }
  if (total !== null && size !== total) throw new UwagaError("file", `${file}: ${size} of ${total} bytes received`);
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

async function opened(place: string, name: string, options: LoadOptions): Promise<Uint8Array | undefined> {
  const { readFile } = await import("node:fs/promises");
  try {
    const content = await readFile(place.startsWith("file:") ? new URL(name, place) : `${place}${name}`);
    options.onProgress?.({ file: name, received: content.byteLength, total: content.byteLength });
    return content;
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw new UwagaError("file", `${place}${name}: ${(error as Error).message}`);
  }
}
