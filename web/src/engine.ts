/** The C library (native/c/uwaga.h) in WebAssembly: conversion of strings and arrays, and codes to errors. */
import { type Candidate, CODES, type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type Table, type TranslateOptions, type Translation, UwagaError } from "./types.js";

/** An address as returned by WebAssembly: negative from 2 GiB on; `address` converts it to an index. */
type Pointer = number;
const address = (pointer: Pointer): number => pointer >>> 0;
interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  malloc(bytes: number): Pointer;
  free(pointer: Pointer): void;
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
  uwaga_result_array_name(result: Pointer, text: number, rank: number, index: number): Pointer;
  uwaga_result_array(result: Pointer, text: number, rank: number, name: Pointer, shape: Pointer, axes: Pointer): Pointer;
  uwaga_result_free(result: Pointer): void;
}

const ERROR_BYTES = 512; // sizeof(uwaga_error)

/** An instance of the module, with the memory of its models. */
export class Engine {
  private onToken: OnToken | undefined;
  private failure: unknown;
  private constructor(private readonly exports: Exports) {}

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
    const onTokenDecided = (_user: number, _text: number, token: number, logProb: number, translation: Pointer): number =>
      engine?.passToken(token, logProb, translation) ? 0 : 1;
    const instance = await WebAssembly.instantiate(module, {
      wasi_snapshot_preview1: { clock_time_get: now, proc_exit: exit },
      env: { emscripten_notify_memory_growth: () => {}, on_token: onTokenDecided },
    });
    exports = instance.exports as unknown as Exports;
    exports._initialize();
    engine = new Engine(exports);
    return engine;
  }

  get version(): string {
    return this.string(this.exports.uwaga_version());
  }

  /** Open a model, given its files, which are copied. Raises UwagaError. */
  open(files: Files, options: OpenOptions = {}): EngineModel {
    const entries = Object.entries(files);
    return this.withAllocations((allocate) => {
      const names = entries.map(([name]) => allocate(text(name)));
      const contents = entries.map(([, content]) => allocate(bytesOf(content)));
      const sizes = entries.map(([, content]) => content.byteLength);
      const model = allocate(new Uint8Array(4));
      this.checkError((error) =>
        this.exports.uwaga_open_files(
          allocate(pointers(names)), allocate(pointers(contents)), allocate(pointers(sizes)), entries.length, allocate(text(JSON.stringify(options))), model, error,
        ),
      );
      return new EngineModel(this, this.view.getUint32(model, true));
    });
  }

  /** Translate texts with a model; `onToken` is called with each decided token. Raises UwagaError. */
  translate(model: Pointer, texts: string[], options: TranslateOptions, onToken?: OnToken): Translation[] {
    const call = onToken === undefined ? 0 : this.exports.uwaga_host_call_new(0);
    this.onToken = onToken;
    this.failure = undefined;
    try {
      return this.translateTexts(model, texts, options, call);
    } catch (error) {
      throw this.failure ?? error;
    } finally {
      this.onToken = undefined;
      if (call !== 0) this.exports.uwaga_call_free(call);
    }
  }

  /** Call `onToken`; return false to end the call, which rethrows an error of `onToken`. */
  private passToken(token: number, logProb: number, translation: Pointer): boolean {
    try {
      return this.onToken?.({ token, logProb, text: this.string(translation) }) !== false;
    } catch (error) {
      this.failure = error;
      return false;
    }
  }

  private translateTexts(model: Pointer, texts: string[], options: TranslateOptions, call: Pointer): Translation[] {
    return this.withAllocations((allocate) => {
      const encoded = texts.map((value) => text(value));
      const addresses = encoded.map((content) => allocate(content));
      const lengths = encoded.map((content) => content.length - 1);
      const resultPointer = allocate(new Uint8Array(4));
      this.checkError((error) =>
        this.exports.uwaga_translate(model, allocate(pointers(addresses)), allocate(pointers(lengths)), texts.length, allocate(text(JSON.stringify(options))), call, resultPointer, error),
      );
      const result = this.view.getUint32(resultPointer, true);
      const scratch = allocate(new Uint8Array(20)); // output parameters: four sizes and their number
      try {
        return texts.map((source, number) => this.translation(model, result, number, source, scratch));
      } finally {
        this.exports.uwaga_result_free(result);
      }
    });
  }

  info(model: Pointer): ModelInfo {
    return JSON.parse(this.string(this.exports.uwaga_model_info(model))) as ModelInfo;
  }

  vocabulary(model: Pointer, side: Side): string[] {
    const pieces: string[] = [];
    for (;;) {
      const piece = this.exports.uwaga_model_piece(model, side === "source" ? 0 : 1, pieces.length);
      if (piece === 0) return pieces;
      pieces.push(this.string(piece));
    }
  }

  close(model: Pointer): void {
    this.exports.uwaga_close(model);
  }

  private translation(model: Pointer, result: Pointer, number: number, source: string, scratch: Pointer): Translation {
    const count = this.exports.uwaga_result_count(result, number);
    const candidates = Array.from({ length: count }, (_, rank) => this.candidate(model, result, number, rank, scratch));
    const best = candidates[0];
    if (best === undefined) throw new UwagaError("internal", "a text has no translation");
    return { ...best, source: { text: source, ...this.side(model, result, number, 0, 0, scratch) }, candidates };
  }

  private candidate(model: Pointer, result: Pointer, number: number, rank: number, scratch: Pointer): Candidate {
    const exports = this.exports;
    const textPointer = exports.uwaga_result_text(result, number, rank, scratch);
    const candidate: Candidate = {
      text: new TextDecoder().decode(this.copy(textPointer, this.view.getUint32(scratch, true))),
      score: exports.uwaga_result_score(result, number, rank),
      truncated: exports.uwaga_result_truncated(result, number, rank) !== 0,
      ...this.side(model, result, number, rank, 1, scratch),
      logProbs: new Float64Array(0),
    };
    const scores = exports.uwaga_result_log_probs(result, number, rank, scratch);
    candidate.logProbs = new Float64Array(this.copy(this.view.getUint32(scratch, true), 8 * scores));
    for (let count = 0; ; ++count) {
      const namePointer = exports.uwaga_result_array_name(result, number, rank, count);
      if (namePointer === 0) return candidate;
      const name = this.string(namePointer);
      const array = this.table(exports.uwaga_result_array(result, number, rank, namePointer, scratch, scratch + 16), scratch);
      const kind = name.startsWith("attention.") ? name.slice("attention.".length) : "";
      if (name === "alignment") candidate.alignment = array;
      else if (name === "tree") (candidate as Translation).tree = array;
      else if (kind !== "") candidate.attention = { ...candidate.attention, [kind]: array };
      else (candidate.insight ??= {})[name] = array;
    }
  }

  private side(model: Pointer, result: Pointer, number: number, rank: number, side: number, scratch: Pointer): { tokens: Int32Array; pieces: string[] } {
    const count = this.exports.uwaga_result_tokens(result, number, rank, side, scratch);
    const tokens = new Int32Array(this.copy(this.view.getUint32(scratch, true), 4 * count));
    const pieces = Array.from(tokens, (token) => this.string(this.exports.uwaga_model_piece(model, side, token)));
    return { tokens, pieces };
  }

  private table(pointer: Pointer, scratch: Pointer): Table {
    const axes = this.view.getUint32(scratch + 16, true);
    const shape = Array.from({ length: axes }, (_, axis) => this.view.getUint32(scratch + 4 * axis, true));
    return { shape, data: new Float32Array(this.copy(pointer, 4 * shape.reduce((product, size) => product * size, 1))) };
  }

  // The memory may grow in every call, so views of it are not kept.
  private get bytes(): Uint8Array {
    return new Uint8Array(this.exports.memory.buffer);
  }
  private get view(): DataView {
    return new DataView(this.exports.memory.buffer);
  }
  private copy(pointer: Pointer, size: number): ArrayBuffer {
    return this.exports.memory.buffer.slice(address(pointer), address(pointer) + size);
  }
  private string(pointer: Pointer): string {
    const bytes = this.bytes;
    return new TextDecoder().decode(bytes.slice(address(pointer), bytes.indexOf(0, address(pointer))));
  }

  /** Run a task with a function that copies bytes into the memory of the module; the copies are freed at the end. */
  private withAllocations<Result>(task: (allocate: (content: Uint8Array) => Pointer) => Result): Result {
    const allocated: Pointer[] = [];
    try {
      return task((content) => {
        const pointer = address(this.exports.malloc(Math.max(content.byteLength, 1)));
        if (pointer === 0) throw new UwagaError("memory", `no room for ${content.byteLength} bytes: the module has ${this.bytes.length} already`);
        allocated.push(pointer);
        this.bytes.set(content, pointer);
        return pointer;
      });
    } finally {
      for (const pointer of allocated) this.exports.free(pointer);
    }
  }

  private checkError(call: (error: Pointer) => number): void {
    this.withAllocations((allocate) => {
      const error = allocate(new Uint8Array(ERROR_BYTES));
      const code = call(error);
      if (code !== 0) throw new UwagaError(CODES[code] ?? "internal", this.string(error + 4));
    });
  }
}

export class EngineModel {
  private open = true;
  constructor(private readonly engine: Engine, private readonly modelPointer: Pointer) {}

  get info(): ModelInfo {
    return this.engine.info(this.pointer);
  }
  translate(texts: string[], options: TranslateOptions = {}, onToken?: OnToken): Translation[] {
    return this.engine.translate(this.pointer, texts, options, onToken);
  }
  vocabulary(side: Side): string[] {
    return this.engine.vocabulary(this.pointer, side);
  }
  close(): void {
    if (this.open) this.engine.close(this.modelPointer);
    this.open = false;
  }
  private get pointer(): Pointer {
    if (!this.open) throw new UwagaError("argument", "the model is closed");
    return this.modelPointer;
  }
}

/** Encode a zero-terminated string. Lone surrogates, which UTF-8 lacks, are errors. */
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
