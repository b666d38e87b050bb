import {
  CODES,
  Engine,
  UwagaError
} from "./shared.js";

// src/files.ts
async function readFolder(folder, options = {}) {
  const place = String(folder).replace(/\/?$/, "/");
  const read = /^https?:/.test(place) || typeof document !== "undefined" ? fetched : opened;
  const files = {};
  const wanted = async (name, needed) => {
    options.signal?.throwIfAborted();
    const content = await read(place, name, options);
    if (content !== void 0) files[name] = content;
    else if (needed) throw new UwagaError("file", `${place}${name}: not found; give the URL of a folder by uwaga convert or uwaga train, or the names of its files`);
  };
  const names = options.files ?? (read === opened ? await marianFiles(place) : void 0);
  if (names !== void 0) {
    for (const name of names) await wanted(name, true);
    return files;
  }
  await wanted("config.json", true);
  let config;
  try {
    config = JSON.parse(new TextDecoder().decode(files["config.json"]));
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
async function marianFiles(place) {
  const { readdir } = await import("node:fs/promises");
  const names = await readdir(place.startsWith("file:") ? new URL(place) : place).catch(() => []);
  if (names.includes("config.json") || !names.some((name) => /^model.*\.bin$/.test(name))) return void 0;
  return names.filter((name) => /\.(bin|spm|yml)$/.test(name) || name === "alignment_head.json");
}
async function fetched(place, name, options) {
  const url = new URL(name, new URL(place, globalThis.location?.href)).href;
  const kept = options.cache === false || typeof caches === "undefined" ? void 0 : await caches.open(options.cache ?? "uwaga-models").catch(() => void 0);
  let response = await kept?.match(url);
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
  const content = await received(response, name, options);
  if (!cached) await kept?.put(url, new Response(content)).catch(() => void 0);
  return content;
}
async function received(response, file, options) {
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
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}
async function opened(place, name, options) {
  const { readFile } = await import("node:fs/promises");
  try {
    const content = await readFile(place.startsWith("file:") ? new URL(name, place) : `${place}${name}`);
    options.onProgress?.({ file: name, received: content.byteLength, total: content.byteLength });
    return content;
  } catch (error) {
    if (error.code === "ENOENT") return void 0;
    throw new UwagaError("file", `${place}${name}: ${error.message}`);
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
   * Load a model from the URL of a folder, a folder on the disk (in Node), or the contents of files by their names.
   *
   * Raises UwagaError, which names the file at fault, or the reason of the signal.
   */
  static async load(source, options = {}) {
    const { worker, wasm, onProgress: _progress, signal, cache: _cache, files: _files, ...open } = options;
    const place = wasm ?? new URL("uwaga.wasm", import.meta.url);
    const files = typeof source === "string" || source instanceof URL ? await readFolder(source, options) : source;
    const module = await compiled(place, signal);
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
    const made = [];
    for (const [at, one] of texts.entries()) {
      signal?.throwIfAborted();
      const forced = targets === void 0 ? {} : { targets: [targets[at]] };
      made.push(await this.runner.translate(one, { ...search, ...forced }, signal, onToken));
    }
    return typeof text === "string" ? made[0] : made;
  }
  /** The pieces of a side's vocabulary by their tokens, with U+2581 for spaces. */
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
    const made = this.model?.translate([text], options, onToken)[0];
    if (made === void 0) throw new UwagaError("argument", "the model is closed");
    return made;
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
  waiting = /* @__PURE__ */ new Map();
  calls = 0;
  closed = false;
  constructor() {
    this.worker.addEventListener("message", (event) => {
      const { id, made, error, decided } = event.data;
      const call = this.waiting.get(id);
      if (decided !== void 0) {
        call?.onToken?.(decided);
        return;
      }
      this.waiting.delete(id);
      if (error === void 0) call?.done(made);
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
        this.waiting.delete(id);
        reject(signal?.reason);
      };
      const ended = (use) => (value) => {
        signal?.removeEventListener("abort", abort);
        use(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.waiting.set(id, { done: ended(resolve), failed: ended(reject), onToken });
      this.worker.postMessage({ ...message, id });
    });
  }
  fail(error) {
    const all = [...this.waiting.values()];
    this.waiting.clear();
    for (const call of all) call.failed(error);
  }
};
async function compiled(place, signal) {
  const url = String(place);
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
