// src/types.ts
var CODES = [
  "ok",
  "argument",
  "file",
  "model",
  "text",
  "too long",
  "language",
  "memory",
  "cancelled",
  "internal"
];
var UwagaError = class extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
    this.name = "UwagaError";
  }
  code;
};

// src/engine.ts
var address = (pointer) => pointer >>> 0;
var ERROR_BYTES = 512;
var Engine = class _Engine {
  constructor(exports) {
    this.exports = exports;
  }
  exports;
  onToken;
  failure;
  static async create(module) {
    let exports;
    const now = (_clock, _precision, time) => {
      new DataView(exports.memory.buffer).setBigUint64(address(time), BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    };
    const exit = (code) => {
      throw new UwagaError("internal", `the engine ended with code ${code}`);
    };
    let engine;
    const onTokenDecided = (_user, _text, token, logProb, translation) => engine?.passToken(token, logProb, translation) ? 0 : 1;
    const instance = await WebAssembly.instantiate(module, {
      wasi_snapshot_preview1: { clock_time_get: now, proc_exit: exit },
      env: { emscripten_notify_memory_growth: () => {
      }, on_token: onTokenDecided }
    });
    exports = instance.exports;
    exports._initialize();
    engine = new _Engine(exports);
    return engine;
  }
  get version() {
    return this.string(this.exports.uwaga_version());
  }
  /** Open a model, given its files, which are copied. Raises UwagaError. */
  open(files, options = {}) {
    const entries = Object.entries(files);
    return this.withAllocations((allocate) => {
      const names = entries.map(([name]) => allocate(text(name)));
      const contents = entries.map(([, content]) => allocate(bytesOf(content)));
      const sizes = entries.map(([, content]) => content.byteLength);
      const model = allocate(new Uint8Array(4));
      this.checkError(
        (error) => this.exports.uwaga_open_files(
          allocate(pointers(names)),
          allocate(pointers(contents)),
          allocate(pointers(sizes)),
          entries.length,
          allocate(text(JSON.stringify(options))),
          model,
          error
        )
      );
      return new EngineModel(this, this.view.getUint32(model, true));
    });
  }
  /** Translate texts with a model; `onToken` is called with each decided token. Raises UwagaError. */
  translate(model, texts, options, onToken) {
    const call = onToken === void 0 ? 0 : this.exports.uwaga_host_call_new(0);
    this.onToken = onToken;
    this.failure = void 0;
    try {
      return this.translateTexts(model, texts, options, call);
    } catch (error) {
      throw this.failure ?? error;
    } finally {
      this.onToken = void 0;
      if (call !== 0) this.exports.uwaga_call_free(call);
    }
  }
  /** Call `onToken`; return false to end the call, which rethrows an error of `onToken`. */
  passToken(token, logProb, translation) {
    try {
      return this.onToken?.({ token, logProb, text: this.string(translation) }) !== false;
    } catch (error) {
      this.failure = error;
      return false;
    }
  }
  translateTexts(model, texts, options, call) {
    return this.withAllocations((allocate) => {
      const encoded = texts.map((value) => text(value));
      const addresses = encoded.map((content) => allocate(content));
      const lengths = encoded.map((content) => content.length - 1);
      const resultPointer = allocate(new Uint8Array(4));
      this.checkError(
        (error) => this.exports.uwaga_translate(model, allocate(pointers(addresses)), allocate(pointers(lengths)), texts.length, allocate(text(JSON.stringify(options))), call, resultPointer, error)
      );
      const result = this.view.getUint32(resultPointer, true);
      const scratch = allocate(new Uint8Array(20));
      try {
        return texts.map((source, number) => this.translation(model, result, number, source, scratch));
      } finally {
        this.exports.uwaga_result_free(result);
      }
    });
  }
  info(model) {
    return JSON.parse(this.string(this.exports.uwaga_model_info(model)));
  }
  vocabulary(model, side) {
    const pieces = [];
    for (; ; ) {
      const piece = this.exports.uwaga_model_piece(model, side === "source" ? 0 : 1, pieces.length);
      if (piece === 0) return pieces;
      pieces.push(this.string(piece));
    }
  }
  close(model) {
    this.exports.uwaga_close(model);
  }
  translation(model, result, number, source, scratch) {
    const count = this.exports.uwaga_result_count(result, number);
    const candidates = Array.from({ length: count }, (_, rank) => this.candidate(model, result, number, rank, scratch));
    const best = candidates[0];
    if (best === void 0) throw new UwagaError("internal", "a text has no translation");
    return { ...best, source: { text: source, ...this.side(model, result, number, 0, 0, scratch) }, candidates };
  }
  candidate(model, result, number, rank, scratch) {
    const exports = this.exports;
    const textPointer = exports.uwaga_result_text(result, number, rank, scratch);
    const candidate = {
      text: new TextDecoder().decode(this.copy(textPointer, this.view.getUint32(scratch, true))),
      score: exports.uwaga_result_score(result, number, rank),
      truncated: exports.uwaga_result_truncated(result, number, rank) !== 0,
      ...this.side(model, result, number, rank, 1, scratch),
      logProbs: new Float64Array(0)
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
      else if (name === "tree") candidate.tree = array;
      else if (kind !== "") candidate.attention = { ...candidate.attention, [kind]: array };
      else (candidate.insight ??= {})[name] = array;
    }
  }
  side(model, result, number, rank, side, scratch) {
    const count = this.exports.uwaga_result_tokens(result, number, rank, side, scratch);
    const tokens = new Int32Array(this.copy(this.view.getUint32(scratch, true), 4 * count));
    const pieces = Array.from(tokens, (token) => this.string(this.exports.uwaga_model_piece(model, side, token)));
    return { tokens, pieces };
  }
  table(pointer, scratch) {
    const axes = this.view.getUint32(scratch + 16, true);
    const shape = Array.from({ length: axes }, (_, axis) => this.view.getUint32(scratch + 4 * axis, true));
    return { shape, data: new Float32Array(this.copy(pointer, 4 * shape.reduce((product, size) => product * size, 1))) };
  }
  // The memory may grow in every call, so views of it are not kept.
  get bytes() {
    return new Uint8Array(this.exports.memory.buffer);
  }
  get view() {
    return new DataView(this.exports.memory.buffer);
  }
  copy(pointer, size) {
    return this.exports.memory.buffer.slice(address(pointer), address(pointer) + size);
  }
  string(pointer) {
    const bytes = this.bytes;
    return new TextDecoder().decode(bytes.slice(address(pointer), bytes.indexOf(0, address(pointer))));
  }
  /** Run a task with a function that copies bytes into the memory of the module; the copies are freed at the end. */
  withAllocations(task) {
    const allocated = [];
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
  checkError(call) {
    this.withAllocations((allocate) => {
      const error = allocate(new Uint8Array(ERROR_BYTES));
      const code = call(error);
      if (code !== 0) throw new UwagaError(CODES[code] ?? "internal", this.string(error + 4));
    });
  }
};
var EngineModel = class {
  constructor(engine, modelPointer) {
    this.engine = engine;
    this.modelPointer = modelPointer;
  }
  engine;
  modelPointer;
  open = true;
  get info() {
    return this.engine.info(this.pointer);
  }
  translate(texts, options = {}, onToken) {
    return this.engine.translate(this.pointer, texts, options, onToken);
  }
  vocabulary(side) {
    return this.engine.vocabulary(this.pointer, side);
  }
  close() {
    if (this.open) this.engine.close(this.modelPointer);
    this.open = false;
  }
  get pointer() {
    if (!this.open) throw new UwagaError("argument", "the model is closed");
    return this.modelPointer;
  }
};
function text(value) {
  if (/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(value)) {
    throw new UwagaError("text", "a text has a lone surrogate, so it is not Unicode");
  }
  return new TextEncoder().encode(`${value}\0`);
}
function bytesOf(content) {
  return content instanceof Uint8Array ? content : new Uint8Array(content);
}
function pointers(values) {
  return new Uint8Array(Uint32Array.from(values).buffer);
}

export {
  CODES,
  UwagaError,
  Engine
};
