/** Reading the files of a model from a folder on a server or disk, with progress, cache and abort. */
import { type Files, UwagaError } from "./types.js";

export interface LoadOptions {
  /** Called with the bytes received and, if known, the size of the file. */
  onProgress?: (progress: { file: string; received: number; total: number | null }) => void;
  signal?: AbortSignal;
  /** The names of the files; default: those of uwaga's folders or, in Node without a config.json, of Marian's. */
  files?: string[];
  /** The name of the browser's cache storage for the files; false for none. Default "uwaga-models". */
  cache?: string | false;
}

interface Config {
  format?: string;
  tokenisers?: string;
  vocabulary?: { joint?: boolean };
}

/** Read the files of a model folder. Raises UwagaError, or the signal's reason. */
export async function readFolder(folder: string | URL, options: LoadOptions = {}): Promise<Files> {
  const base = String(folder).replace(/\/?$/, "/");
  const read = /^https?:/.test(base) || typeof document !== "undefined" ? fetchFile : openFile;
  const files: Files = {};
  const addFile = async (name: string, required: boolean): Promise<void> => {
    options.signal?.throwIfAborted();
    const content = await read(base, name, options);
    if (content !== undefined) files[name] = content;
    else if (required) throw new UwagaError("file", `${base}${name}: not found; give the URL of a folder by uwaga convert or uwaga train, or the names of its files`);
  };
  const names = options.files ?? (read === openFile ? await marianFiles(base) : undefined);
  if (names !== undefined) {
    for (const name of names) await addFile(name, true);
    return files;
  }
  await addFile("config.json", true);
  let config: Config;
  try {
    config = JSON.parse(new TextDecoder().decode(files["config.json"])) as Config;
  } catch {
    throw new UwagaError("model", `${base}config.json: not JSON`);
  }
  await addFile(/^uwaga int[48] model$/.test(config.format ?? "") ? "engine.safetensors" : "model.safetensors", true);
  await addFile("source.spm", true);
  if (config.tokenisers === "marian" || config.tokenisers === "numbered") await addFile("source.vocab.json", true);
  if (config.tokenisers === "marian") await addFile("target.vocab.json", true);
  if (config.vocabulary?.joint !== true) await addFile("target.spm", false);
  await addFile("alignment_head.json", false);
  return files;
}

/** Return the names of the files of a Marian or Firefox folder; undefined for other folders. */
async function marianFiles(base: string): Promise<string[] | undefined> {
  const { readdir } = await import("node:fs/promises");
  const names = await readdir(base.startsWith("file:") ? new URL(base) : base).catch(() => [] as string[]);
  if (names.includes("config.json") || !names.some((name) => /^model.*\.bin$/.test(name))) return undefined;
  return names.filter((name) => /\.(bin|spm|yml)$/.test(name) || name === "alignment_head.json");
}

async function fetchFile(base: string, name: string, options: LoadOptions): Promise<Uint8Array | undefined> {
  const url = new URL(name, new URL(base, globalThis.location?.href)).href;
  const storage = options.cache === false || typeof caches === "undefined" ? undefined : await caches.open(options.cache ?? "uwaga-models").catch(() => undefined);
  let response = await storage?.match(url);
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
  const content = await receive(response, name, options);
  // A browser may refuse to store it, for lack of space or privacy; then it is fetched again the next time.
  if (!cached) await storage?.put(url, new Response(content)).catch(() => undefined);
  return content;
}

async function receive(response: Response, file: string, options: LoadOptions): Promise<Uint8Array<ArrayBuffer>> {
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
  const content = new Uint8Array(size);
  let offset = 0;
  for (const part of parts) {
    content.set(part, offset);
    offset += part.byteLength;
  }
  return content;
}

async function openFile(base: string, name: string, options: LoadOptions): Promise<Uint8Array | undefined> {
  const { readFile } = await import("node:fs/promises");
  try {
    const content = await readFile(base.startsWith("file:") ? new URL(name, base) : `${base}${name}`);
    options.onProgress?.({ file: name, received: content.byteLength, total: content.byteLength });
    return content;
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw new UwagaError("file", `${base}${name}: ${(error as Error).message}`);
  }
}
