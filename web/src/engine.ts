/** The C library (native/c/uwaga.h) in WebAssembly: strings and arrays in and out, codes as errors. */
import { type Candidate, CODES, type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type Table, type TranslateOptions, type Translation, UwagaError } from "./types.js";

/** An address as WebAssembly returns it: negative from 2 GiB on; `address` makes it an index. */
type Pointer = number;
const address = (at: Pointer): number => at >>> 0;
interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  malloc(bytes: number): Pointer;
  free(at: Pointer): void;
  uwaga_version(): Pointer;
  uwaga_open_files(names: Pointer, contents: Pointer, sizes: Pointer, count: number, options: Pointer, model: Pointer, error: Pointer): number;
  uwaga_close(model: Pointer): void;
  uwaga_model_info(model: Pointer): Pointer;
  uwaga_model_piece(model: Pointer, side: number, token: number): Pointer;
  uwaga_host_call_new(user: number): Pointer;
  uwaga_call_free(call: Pointer): void;
  uwaga_translate(model: Pointer, texts: Pointer, lengths: Pointer, count: number, options: Pointer, call: Pointer, result: Pointer, error: Pointer): number;
  uwaga_result_count(result: Pointer, text: number): number;
  uwaga_result_text(result: Pointer, text: number, rank: number, length: Pointer): Pointer;
  uwaga_result_score(result: Pointer, text: number, rank: number): number;
  uwaga_result_truncated(result: Pointer, text: number, rank: number): number;
  uwaga_result_tokens(result: Pointer, text: number, rank: number, side: number, tokens: Pointer): number;
  uwaga_result_log_probs(result: Pointer, text: number, rank: number, logProbs: Pointer): number;
  uwaga_result_array_name(result: Pointer, text: number, rank: number, at: number): Pointer;
  uwaga_result_array(result: Pointer, text: number, rank: number, name: Pointer, shape: Pointer, axes: Pointer): Pointer;
  uwaga_result_free(result: Pointer): void;
}

const ERROR_BYTES = 512; // sizeof(uwaga_error)

/** An instance of the module, with the memory of its models. */
export class Engine {
  private onToken: OnToken | undefined;
  private failure: unknown;
  private constructor(private readonly own: Exports) {}

  static async create(module: WebAssembly.Module): Promise<Engine> {
    let exports: Exports | undefined;
    const now = (_clock: number, _precision: bigint, time: Pointer): number => {
      new DataView((exports as Exports).memory.buffer).setBigUint64(address(time), BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    };
    const exit = (code: number): never => {
      throw new UwagaError("internal", `the engine ended with code ${code}`);
    };
    let engine: Engine | undefined;
    const told = (_user: number, _text: number, token: number, logProb: number, translation: Pointer): number =>
      engine?.tell(token, logProb, translation) ? 0 : 1;
    const instance = await WebAssembly.instantiate(module, {
      wasi_snapshot_preview1: { clock_time_get: now, proc_exit: exit },
      env: { emscripten_notify_memory_growth: () => {}, on_token: told },
    });
    exports = instance.exports as unknown as Exports;
    exports._initialize();
    engine = new Engine(exports);
    return engine;
  }

  get version(): string {
    return this.string(this.own.uwaga_version());
  }

  /** Open a model of files, which are copied. Raises UwagaError. */
  open(files: Files, options: OpenOptions = {}): EngineModel {
    const entries = Object.entries(files);
    return this.borrowing((take) => {
      const names = entries.map(([name]) => take(text(name)));
      const contents = entries.map(([, content]) => take(bytesOf(content)));
      const sizes = entries.map(([, content]) => content.byteLength);
      const model = take(new Uint8Array(4));
      this.checked((error) =>
        this.own.uwaga_open_files(
          take(pointers(names)), take(pointers(contents)), take(pointers(sizes)), entries.length, take(text(JSON.stringify(options))), model, error,
        ),
      );
      return new EngineModel(this, this.view.getUint32(model, true));
    });
  }

  /** Translate texts with a model; `onToken` is called with each token as it is decided. Raises UwagaError. */
  translate(model: Pointer, texts: string[], options: TranslateOptions, onToken?: OnToken): Translation[] {
    const call = onToken === undefined ? 0 : this.own.uwaga_host_call_new(0);
    this.onToken = onToken;
    this.failure = undefined;
    try {
      return this.translated(model, texts, options, call);
    } catch (error) {
      throw this.failure ?? error;
    } finally {
      this.onToken = undefined;
      if (call !== 0) this.own.uwaga_call_free(call);
    }
  }

  /** Pass a token on; false ends the call: what the function threw is thrown by the call. */
  private tell(token: number, logProb: number, translation: Pointer): boolean {
    try {
      return this.onToken?.({ token, logProb, text: this.string(translation) }) !== false;
    } catch (error) {
      this.failure = error;
      return false;
    }
  }

  private translated(model: Pointer, texts: string[], options: TranslateOptions, call: Pointer): Translation[] {
    return this.borrowing((take) => {
      const encoded = texts.map((one) => text(one));
      const places = encoded.map((one) => take(one));
      const lengths = encoded.map((one) => one.length - 1);
      const at = take(new Uint8Array(4));
      this.checked((error) =>
        this.own.uwaga_translate(model, take(pointers(places)), take(pointers(lengths)), texts.length, take(text(JSON.stringify(options))), call, at, error),
      );
      const result = this.view.getUint32(at, true);
      const room = take(new Uint8Array(20)); // what a function returns besides its value: four sizes and their number
      try {
        return texts.map((one, number) => this.translation(model, result, number, one, room));
      } finally {
        this.own.uwaga_result_free(result);
      }
    });
  }

  info(model: Pointer): ModelInfo {
    return JSON.parse(this.string(this.own.uwaga_model_info(model))) as ModelInfo;
  }

  vocabulary(model: Pointer, side: Side): string[] {
    const pieces: string[] = [];
    for (;;) {
      const at = this.own.uwaga_model_piece(model, side === "source" ? 0 : 1, pieces.length);
      if (at === 0) return pieces;
      pieces.push(this.string(at));
    }
  }

  close(model: Pointer): void {
    this.own.uwaga_close(model);
  }

  private translation(model: Pointer, result: Pointer, number: number, source: string, room: Pointer): Translation {
    const count = this.own.uwaga_result_count(result, number);
    const candidates = Array.from({ length: count }, (_, rank) => this.candidate(model, result, number, rank, room));
    const best = candidates[0];
    if (best === undefined) throw new UwagaError("internal", "a text has no translation");
    return { ...best, source: { text: source, ...this.side(model, result, number, 0, 0, room) }, candidates };
  }

  private candidate(model: Pointer, result: Pointer, number: number, rank: number, room: Pointer): Candidate {
    const own = this.own;
    const at = own.uwaga_result_text(result, number, rank, room);
    const made: Candidate = {
      text: new TextDecoder().decode(this.copied(at, this.view.getUint32(room, true))),
      score: own.uwaga_result_score(result, number, rank),
      truncated: own.uwaga_result_truncated(result, number, rank) !== 0,
      ...this.side(model, result, number, rank, 1, room),
      logProbs: new Float64Array(0),
    };
    const scores = own.uwaga_result_log_probs(result, number, rank, room);
    made.logProbs = new Float64Array(this.copied(this.view.getUint32(room, true), 8 * scores));
    for (let count = 0; ; ++count) {
      const at = own.uwaga_result_array_name(result, number, rank, count);
      if (at === 0) return made;
      const name = this.string(at);
      const array = this.table(own.uwaga_result_array(result, number, rank, at, room, room + 16), room);
      const kind = name.startsWith("attention.") ? name.slice("attention.".length) : "";
      if (name === "alignment") made.alignment = array;
      else if (name === "tree") (made as Translation).tree = array;
      else if (kind !== "") made.attention = { ...made.attention, [kind]: array };
      else (made.insight ??= {})[name] = array;
    }
  }

  private side(model: Pointer, result: Pointer, number: number, rank: number, side: number, room: Pointer): { tokens: Int32Array; pieces: string[] } {
    const count = this.own.uwaga_result_tokens(result, number, rank, side, room);
    const tokens = new Int32Array(this.copied(this.view.getUint32(room, true), 4 * count));
    const pieces = Array.from(tokens, (token) => this.string(this.own.uwaga_model_piece(model, side, token)));
    return { tokens, pieces };
  }

  private table(at: Pointer, room: Pointer): Table {
    const axes = this.view.getUint32(room + 16, true);
    const shape = Array.from({ length: axes }, (_, axis) => this.view.getUint32(room + 4 * axis, true));
    return { shape, data: new Float32Array(this.copied(at, 4 * shape.reduce((all, size) => all * size, 1))) };
  }

  // The memory may grow in every call: views of it are made anew.
  private get bytes(): Uint8Array {
    return new Uint8Array(this.own.memory.buffer);
  }
  private get view(): DataView {
    return new DataView(this.own.memory.buffer);
  }
  private copied(at: Pointer, size: number): ArrayBuffer {
    return this.own.memory.buffer.slice(address(at), address(at) + size);
  }
  private string(at: Pointer): string {
    const bytes = this.bytes;
    return new TextDecoder().decode(bytes.slice(address(at), bytes.indexOf(0, address(at))));
  }

  /** Call with a function that copies bytes into the memory of the module, which is freed at the end. */
  private borrowing<Made>(work: (take: (content: Uint8Array) => Pointer) => Made): Made {
    const taken: Pointer[] = [];
    try {
      return work((content) => {
        const at = address(this.own.malloc(Math.max(content.byteLength, 1)));
        if (at === 0) throw new UwagaError("memory", `no room for ${content.byteLength} bytes: the module has ${this.bytes.length} already`);
        taken.push(at);
        this.bytes.set(content, at);
        return at;
      });
    } finally {
      for (const at of taken) this.own.free(at);
    }
  }

  private checked(call: (error: Pointer) => number): void {
    this.borrowing((take) => {
      const error = take(new Uint8Array(ERROR_BYTES));
      const code = call(error);
      if (code !== 0) throw new UwagaError(CODES[code] ?? "internal", this.string(error + 4));
    });
  }
}

export class EngineModel {
  private open = true;
  constructor(private readonly engine: Engine, private readonly at: Pointer) {}

  get info(): ModelInfo {
    return this.engine.info(this.used);
  }
  translate(texts: string[], options: TranslateOptions = {}, onToken?: OnToken): Translation[] {
    return this.engine.translate(this.used, texts, options, onToken);
  }
  vocabulary(side: Side): string[] {
    return this.engine.vocabulary(this.used, side);
  }
  close(): void {
    if (this.open) this.engine.close(this.at);
    this.open = false;
  }
  private get used(): Pointer {
    if (!this.open) throw new UwagaError("argument", "the model is closed");
    return this.at;
  }
}

/** The bytes of a string with a final zero. Lone surrogates, which UTF-8 lacks, are refused. */
function text(value: string): Uint8Array {
  if (/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(value)) {
    throw new UwagaError("text", "a text has a lone surrogate, so it is not Unicode");
  }
  return new TextEncoder().encode(`${value}\0`);
}
function bytesOf(content: ArrayBuffer | Uint8Array): Uint8Array {
  return content instanceof Uint8Array ? content : new Uint8Array(content);
}
function pointers(values: number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(values).buffer);
}
