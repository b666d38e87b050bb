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
  /** Run in a Web Worker; default: where there are workers and documents. */
  worker?: boolean;
  /** Where uwaga.wasm is, if not beside this module. */
  wasm?: string | URL;
}
export interface CallOptions extends TranslateOptions {
  /** Ends the wait; a worker finishes the sentence that it has begun. */
  signal?: AbortSignal;
  /** Stream: called with each token as it is decided. The beam is then 1. Where there is no worker, false ends the call. */
  onToken?: OnToken;
}

export class Uwaga {
  private constructor(readonly info: ModelInfo, private readonly runner: Runner) {}

  /**
   * Load a model from the URL of a folder, a folder on the disk (in Node), or the contents of files by their names.
   *
   * Raises UwagaError, which names the file at fault, or the reason of the signal.
   */
  static async load(source: string | URL | Files, options: LoadOptions = {}): Promise<Uwaga> {
    const { worker, wasm, onProgress: _progress, signal, cache: _cache, files: _files, ...open } = options;
    const place = wasm ?? new URL("uwaga.wasm", import.meta.url);
    const files = typeof source === "string" || source instanceof URL ? await readFolder(source, options) : source;
    const module = await compiled(place, signal);
    signal?.throwIfAborted();
    const runner = (worker ?? typeof document !== "undefined") ? new WorkerRunner() : new LocalRunner();
    try {
      return new Uwaga(await runner.open(module, files, open, signal), runner);
    } catch (error) {
      runner.close();
      throw error;
    }
  }

  /** Translate a text, or several in their order. Raises UwagaError, or the reason of the signal. */
  translate(text: string, options?: CallOptions): Promise<Translation>;
  translate(texts: string[], options?: CallOptions): Promise<Translation[]>;
  async translate(text: string | string[], options: CallOptions = {}): Promise<Translation | Translation[]> {
    const { signal, onToken, targets, ...search } = options;
    const texts = typeof text === "string" ? [text] : text;
    if (targets !== undefined && targets.length !== texts.length) {
      throw new UwagaError("argument", `targets: there are ${targets.length} for ${texts.length} texts`);
    }
    const made: Translation[] = [];
    for (const [at, one] of texts.entries()) {
      signal?.throwIfAborted();
      const forced = targets === undefined ? {} : { targets: [targets[at] as string | number[]] };
      made.push(await this.runner.translate(one, { ...search, ...forced }, signal, onToken));
    }
    return typeof text === "string" ? (made[0] as Translation) : made;
  }

  /** The pieces of a side's vocabulary by their tokens, with U+2581 for spaces. */
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
    const made = this.model?.translate([text], options, onToken)[0];
    if (made === undefined) throw new UwagaError("argument", "the model is closed");
    return made;
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
  private readonly waiting = new Map<number, { done: (made: never) => void; failed: (error: unknown) => void; onToken?: OnToken | undefined }>();
  private calls = 0;
  private closed = false;

  constructor() {
    this.worker.addEventListener("message", (event: MessageEvent<Reply>) => {
      const { id, made, error, decided } = event.data;
      const call = this.waiting.get(id);
      if (decided !== undefined) {
        call?.onToken?.(decided);
        return;
      }
      this.waiting.delete(id);
      if (error === undefined) call?.done(made as never);
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

  private call<Made>(message: Unnumbered<Request>, signal?: AbortSignal, onToken?: OnToken): Promise<Made> {
    if (this.closed) return Promise.reject(new UwagaError("argument", "the model is closed"));
    const id = this.calls++;
    return new Promise<Made>((resolve, reject) => {
      const abort = (): void => {
        this.waiting.delete(id);
        reject(signal?.reason);
      };
      const ended = <Value>(use: (value: Value) => void) => (value: Value) => {
        signal?.removeEventListener("abort", abort);
        use(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.waiting.set(id, { done: ended(resolve) as (made: never) => void, failed: ended(reject), onToken });
      this.worker.postMessage({ ...message, id });
    });
  }
  private fail(error: UwagaError): void {
    const all = [...this.waiting.values()];
    this.waiting.clear();
    for (const call of all) call.failed(error);
  }
}

type Unnumbered<Message> = Message extends { id: number } ? Omit<Message, "id"> : never;

async function compiled(place: string | URL, signal?: AbortSignal): Promise<WebAssembly.Module> {
  const url = String(place);
  if (url.startsWith("file:") || (typeof document === "undefined" && !/^https?:/.test(url))) {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url.startsWith("file:") ? new URL(url) : url));
  }
  const response = await fetch(url, signal ? { signal } : {});
  if (!response.ok) throw new UwagaError("file", `${url}: the server answers ${response.status} ${response.statusText}`);
  return WebAssembly.compile(await response.arrayBuffer());
}
