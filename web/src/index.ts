/**
 * Translation with attention models in Node and in browsers.
 *
 *     const model = await Uwaga.load("https://example.org/models/en-de/");
 *     const { text } = await model.translate("A dog runs.");
 *
 * In a browser the model runs in a Web Worker. A text is translated as one sentence.
 */
import { Engine, type EngineModel } from "./engine.js";
import { type LoadOptions as FolderOptions, readFolder } from "./files.js";
import { type Code, type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type TranslateOptions, type Translation, UwagaError } from "./types.js";
import type { Reply, Request } from "./worker.js";

export * from "./types.js";

export interface LoadOptions extends OpenOptions, FolderOptions {
  /** Run in a Web Worker; default: true in documents. */
  worker?: boolean;
  /** The location of uwaga.wasm; default: the folder of this module. */
  wasm?: string | URL;
}
export interface CallOptions extends TranslateOptions {
  /** Rejects the call; a worker finishes the current sentence. */
  signal?: AbortSignal;
  /** For streaming: called with each decided token. The beam is then 1. Without a worker, returning false ends the call. */
  onToken?: OnToken;
}

export class Uwaga {
  private constructor(readonly info: ModelInfo, private readonly runner: Runner) {}

  /**
   * Load a model from the URL of a folder, a folder on disk (in Node), or the contents of files by name.
   *
   * Raises UwagaError, which names the file, or the reason of the signal.
   */
  static async load(source: string | URL | Files, options: LoadOptions = {}): Promise<Uwaga> {
    const { worker, wasm, onProgress: _progress, signal, cache: _cache, files: _files, ...open } = options;
    const wasmUrl = wasm ?? new URL("uwaga.wasm", import.meta.url);
    const files = typeof source === "string" || source instanceof URL ? await readFolder(source, options) : source;
    const module = await compileModule(wasmUrl, signal);
    signal?.throwIfAborted();
    const runner = (worker ?? typeof document !== "undefined") ? new WorkerRunner() : new LocalRunner();
    try {
      return new Uwaga(await runner.open(module, files, open, signal), runner);
    } catch (error) {
      runner.close();
      throw error;
    }
  }

  /** Translate a text, or several in order. Raises UwagaError, or the reason of the signal. */
  translate(text: string, options?: CallOptions): Promise<Translation>;
  translate(texts: string[], options?: CallOptions): Promise<Translation[]>;
  async translate(text: string | string[], options: CallOptions = {}): Promise<Translation | Translation[]> {
    const { signal, onToken, targets, ...search } = options;
    const texts = typeof text === "string" ? [text] : text;
    if (targets !== undefined && targets.length !== texts.length) {
      throw new UwagaError("argument", `targets: there are ${targets.length} for ${texts.length} texts`);
    }
    const translations: Translation[] = [];
    for (const [index, sentence] of texts.entries()) {
      signal?.throwIfAborted();
      const forced = targets === undefined ? {} : { targets: [targets[index] as string | number[]] };
      translations.push(await this.runner.translate(sentence, { ...search, ...forced }, signal, onToken));
    }
    return typeof text === "string" ? (translations[0] as Translation) : translations;
  }

  /** Return the pieces of a side's vocabulary by token, with U+2581 for spaces. */
  vocabulary(side: Side): Promise<string[]> {
    return this.runner.vocabulary(side);
  }

  /** Free the model. */
  close(): void {
    this.runner.close();
  }
}

interface Runner {
  vocabulary(side: Side): Promise<string[]>;
  open(module: WebAssembly.Module, files: Files, options: OpenOptions, signal?: AbortSignal): Promise<ModelInfo>;
  translate(text: string, options: TranslateOptions, signal?: AbortSignal, onToken?: OnToken): Promise<Translation>;
  close(): void;
}

class LocalRunner implements Runner {
  private model: EngineModel | undefined;

  async open(module: WebAssembly.Module, files: Files, options: OpenOptions): Promise<ModelInfo> {
    this.model = (await Engine.create(module)).open(files, options);
    return this.model.info;
  }
  async translate(text: string, options: TranslateOptions, _signal?: AbortSignal, onToken?: OnToken): Promise<Translation> {
    const translation = this.model?.translate([text], options, onToken)[0];
    if (translation === undefined) throw new UwagaError("argument", "the model is closed");
    return translation;
  }
  async vocabulary(side: Side): Promise<string[]> {
    if (this.model === undefined) throw new UwagaError("argument", "the model is closed");
    return this.model.vocabulary(side);
  }
  close(): void {
    this.model?.close();
    this.model = undefined;
  }
}

class WorkerRunner implements Runner {
  private readonly worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  private readonly pendingCalls = new Map<number, { done: (result: never) => void; failed: (error: unknown) => void; onToken?: OnToken | undefined }>();
  private calls = 0;
  private closed = false;

  constructor() {
    this.worker.addEventListener("message", (event: MessageEvent<Reply>) => {
      const { id, result, error, decided } = event.data;
      const call = this.pendingCalls.get(id);
      if (decided !== undefined) {
        call?.onToken?.(decided);
        return;
      }
      this.pendingCalls.delete(id);
      if (error === undefined) call?.done(result as never);
      else call?.failed(error.code === null ? new Error(error.message) : new UwagaError(error.code as Code, error.message));
    });
    this.worker.addEventListener("error", (event) => {
      this.fail(new UwagaError("internal", `the worker failed: ${event.message || "its script cannot be loaded"}`));
    });
  }

  open(module: WebAssembly.Module, files: Files, options: OpenOptions, signal?: AbortSignal): Promise<ModelInfo> {
    return this.call({ kind: "open", module, files, options }, signal);
  }
  translate(text: string, options: TranslateOptions, signal?: AbortSignal, onToken?: OnToken): Promise<Translation> {
    return this.call({ kind: "translate", text, options, streams: onToken !== undefined }, signal, onToken);
  }
  vocabulary(side: Side): Promise<string[]> {
    return this.call({ kind: "vocabulary", side });
  }
  close(): void {
    this.closed = true;
    this.worker.terminate();
    this.fail(new UwagaError("cancelled", "the model was closed"));
  }

  private call<Result>(message: Unnumbered<Request>, signal?: AbortSignal, onToken?: OnToken): Promise<Result> {
    if (this.closed) return Promise.reject(new UwagaError("argument", "the model is closed"));
    const id = this.calls++;
    return new Promise<Result>((resolve, reject) => {
      const abort = (): void => {
        this.pendingCalls.delete(id);
        reject(signal?.reason);
      };
      const ended = <Value>(use: (value: Value) => void) => (value: Value) => {
        signal?.removeEventListener("abort", abort);
        use(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.pendingCalls.set(id, { done: ended(resolve) as (result: never) => void, failed: ended(reject), onToken });
      this.worker.postMessage({ ...message, id });
    });
  }
  private fail(error: UwagaError): void {
    const calls = [...this.pendingCalls.values()];
    this.pendingCalls.clear();
    for (const call of calls) call.failed(error);
  }
}

type Unnumbered<Message> = Message extends { id: number } ? Omit<Message, "id"> : never;

async function compileModule(wasm: string | URL, signal?: AbortSignal): Promise<WebAssembly.Module> {
  const url = String(wasm);
  if (url.startsWith("file:") || (typeof document === "undefined" && !/^https?:/.test(url))) {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url.startsWith("file:") ? new URL(url) : url));
  }
  const response = await fetch(url, signal ? { signal } : {});
  if (!response.ok) throw new UwagaError("file", `${url}: the server answers ${response.status} ${response.statusText}`);
  return WebAssembly.compile(await response.arrayBuffer());
}
