import {
  CODES,
  Engine,
  UwagaError
} from "./shared.js";

// src/files.ts
async function readFolder(folder, options = {}) {
  const base = String(folder).replace(/\/?$/, "/");
  const read = /^https?:/.test(base) || typeof document !== "undefined" ? fetchFile : openFile;
  const files = {};
  const addFile = async (name, required) => {
    options.signal?.throwIfAborted();
    const content = await read(base, name, options);
    if (content !== void 0) files[name] = content;
    else if (required) throw new UwagaError("file", `${base}${name}: not found; give the URL of a folder by uwaga convert or uwaga train, or the names of its files`);
  };
  const names = options.files ?? (read === openFile ? await marianFiles(base) : void 0);
  if (names !== void 0) {
    for (const name of names) await addFile(name, true);
    return files;
  }
  await addFile("config.json", true);
  let config;
  try {
    config = JSON.parse(new TextDecoder().decode(files["config.json"]));
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
async function marianFiles(base) {
  const { readdir } = await import("node:fs/promises");
  const names = await readdir(base.startsWith("file:") ? new URL(base) : base).catch(() => []);
  if (names.includes("config.json") || !names.some((name) => /^model.*\.bin$/.test(name))) return void 0;
  return names.filter((name) => /\.(bin|spm|yml)$/.test(name) || name === "alignment_head.json");
}
async function fetchFile(base, name, options) {
  const url = new URL(name, new URL(base, globalThis.location?.href)).href;
  const storage = options.cache === false || typeof caches === "undefined" ? void 0 : await caches.open(options.cache ?? "uwaga-models").catch(() => void 0);
  let response = await storage?.match(url);
  const cached = response !== void 0;
  if (response === void 0) {
    try {
      response = await fetch(url, options.signal ? { signal: options.signal } : {});
    } catch (error) {
      options.signal?.throwIfAborted();
      throw new UwagaError("file", `${url}: cannot be fetched: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (response.status === 404 || response.status === 403) return void 0;
    if (!response.ok) throw new UwagaError("file", `${url}: the server answers ${response.status} ${response.statusText}`);
  }
  const content = await receive(response, name, options);
  if (!cached) await storage?.put(url, new Response(content)).catch(() => void 0);
  return content;
}
async function receive(response, file, options) {
  const length = response.headers.get("content-encoding") ? null : response.headers.get("content-length");
  const total = length === null ? null : Number(length);
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (; ; ) {
    options.signal?.throwIfAborted();
    const part = await reader?.read();
    if (part === void 0 || part.done) break;
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
async function openFile(base, name, options) {
  const { readFile } = await import("node:fs/promises");
  try {
    const content = await readFile(base.startsWith("file:") ? new URL(name, base) : `${base}${name}`);
    options.onProgress?.({ file: name, received: content.byteLength, total: content.byteLength });
    return content;
  } catch (error) {
    if (error.code === "ENOENT") return void 0;
    throw new UwagaError("file", `${base}${name}: ${error.message}`);
  }
}

// src/index.ts
var Uwaga = class _Uwaga {
  constructor(info, runner) {
    this.info = info;
    this.runner = runner;
  }
  info;
  runner;
  /**
   * Load a model from the URL of a folder, a folder on disk (in Node), or the contents of files by name.
   *
   * Raises UwagaError, which names the file, or the reason of the signal.
   */
  static async load(source, options = {}) {
    const { worker, wasm, onProgress: _progress, signal, cache: _cache, files: _files, ...open } = options;
    const wasmUrl = wasm ?? new URL("uwaga.wasm", import.meta.url);
    const files = typeof source === "string" || source instanceof URL ? await readFolder(source, options) : source;
    const module = await compileModule(wasmUrl, signal);
    signal?.throwIfAborted();
    const runner = worker ?? typeof document !== "undefined" ? new WorkerRunner() : new LocalRunner();
    try {
      return new _Uwaga(await runner.open(module, files, open, signal), runner);
    } catch (error) {
      runner.close();
      throw error;
    }
  }
  async translate(text, options = {}) {
    const { signal, onToken, targets, ...search } = options;
    const texts = typeof text === "string" ? [text] : text;
    if (targets !== void 0 && targets.length !== texts.length) {
      throw new UwagaError("argument", `targets: there are ${targets.length} for ${texts.length} texts`);
    }
    const translations = [];
    for (const [index, sentence] of texts.entries()) {
      signal?.throwIfAborted();
      const forced = targets === void 0 ? {} : { targets: [targets[index]] };
      translations.push(await this.runner.translate(sentence, { ...search, ...forced }, signal, onToken));
    }
    return typeof text === "string" ? translations[0] : translations;
  }
  /** Return the pieces of a side's vocabulary by token, with U+2581 for spaces. */
  vocabulary(side) {
    return this.runner.vocabulary(side);
  }
  /** Free the model. */
  close() {
    this.runner.close();
  }
};
var LocalRunner = class {
  model;
  async open(module, files, options) {
    this.model = (await Engine.create(module)).open(files, options);
    return this.model.info;
  }
  async translate(text, options, _signal, onToken) {
    const translation = this.model?.translate([text], options, onToken)[0];
    if (translation === void 0) throw new UwagaError("argument", "the model is closed");
    return translation;
  }
  async vocabulary(side) {
    if (this.model === void 0) throw new UwagaError("argument", "the model is closed");
    return this.model.vocabulary(side);
  }
  close() {
    this.model?.close();
    this.model = void 0;
  }
};
var WorkerRunner = class {
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  pendingCalls = /* @__PURE__ */ new Map();
  calls = 0;
  closed = false;
  constructor() {
    this.worker.addEventListener("message", (event) => {
      const { id, result, error, decided } = event.data;
      const call = this.pendingCalls.get(id);
      if (decided !== void 0) {
        call?.onToken?.(decided);
        return;
      }
      this.pendingCalls.delete(id);
      if (error === void 0) call?.done(result);
      else call?.failed(error.code === null ? new Error(error.message) : new UwagaError(error.code, error.message));
    });
    this.worker.addEventListener("error", (event) => {
      this.fail(new UwagaError("internal", `the worker failed: ${event.message || "its script cannot be loaded"}`));
    });
  }
  open(module, files, options, signal) {
    return this.call({ kind: "open", module, files, options }, signal);
  }
  translate(text, options, signal, onToken) {
    return this.call({ kind: "translate", text, options, streams: onToken !== void 0 }, signal, onToken);
  }
  vocabulary(side) {
    return this.call({ kind: "vocabulary", side });
  }
  close() {
    this.closed = true;
    this.worker.terminate();
    this.fail(new UwagaError("cancelled", "the model was closed"));
  }
  call(message, signal, onToken) {
    if (this.closed) return Promise.reject(new UwagaError("argument", "the model is closed"));
    const id = this.calls++;
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.pendingCalls.delete(id);
        reject(signal?.reason);
      };
      const ended = (use) => (value) => {
        signal?.removeEventListener("abort", abort);
        use(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.pendingCalls.set(id, { done: ended(resolve), failed: ended(reject), onToken });
      this.worker.postMessage({ ...message, id });
    });
  }
  fail(error) {
    const calls = [...this.pendingCalls.values()];
    this.pendingCalls.clear();
    for (const call of calls) call.failed(error);
  }
};
async function compileModule(wasm, signal) {
  const url = String(wasm);
  if (url.startsWith("file:") || typeof document === "undefined" && !/^https?:/.test(url)) {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url.startsWith("file:") ? new URL(url) : url));
  }
  const response = await fetch(url, signal ? { signal } : {});
  if (!response.ok) throw new UwagaError("file", `${url}: the server answers ${response.status} ${response.statusText}`);
  return WebAssembly.compile(await response.arrayBuffer());
}
export {
  CODES,
  Uwaga,
  UwagaError
};
