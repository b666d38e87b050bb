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
var address = (at) => at >>> 0;
var ERROR_BYTES = 512;
var Engine = class _Engine {
  constructor(own) {
    this.own = own;
  }
  own;
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
    const told = (_user, _text, token, logProb, translation) => engine?.tell(token, logProb, translation) ? 0 : 1;
    const instance = await WebAssembly.instantiate(module, {
      wasi_snapshot_preview1: { clock_time_get: now, proc_exit: exit },
      env: { emscripten_notify_memory_growth: () => {
      }, on_token: told }
    });
    exports = instance.exports;
    exports._initialize();
    engine = new _Engine(exports);
    return engine;
  }
  get version() {
    return this.string(this.own.uwaga_version());
  }
  /** Open a model of files, which are copied. Raises UwagaError. */
  open(files, options = {}) {
    const entries = Object.entries(files);
    return this.borrowing((take) => {
      const names = entries.map(([name]) => take(text(name)));
      const contents = entries.map(([, content]) => take(bytesOf(content)));
      const sizes = entries.map(([, content]) => content.byteLength);
      const model = take(new Uint8Array(4));
      this.checked(
        (error) => this.own.uwaga_open_files(
          take(pointers(names)),
          take(pointers(contents)),
          take(pointers(sizes)),
          entries.length,
          take(text(JSON.stringify(options))),
          model,
          error
        )
      );
      return new EngineModel(this, this.view.getUint32(model, true));
    });
  }
  /** Translate texts with a model; `onToken` is called with each token as it is decided. Raises UwagaError. */
  translate(model, texts, options, onToken) {
    const call = onToken === void 0 ? 0 : this.own.uwaga_host_call_new(0);
    this.onToken = onToken;
    this.failure = void 0;
    try {
      return this.translated(model, texts, options, call);
    } catch (error) {
      throw this.failure ?? error;
    } finally {
      this.onToken = void 0;
      if (call !== 0) this.own.uwaga_call_free(call);
    }
  }
  /** Pass a token on; false ends the call: what the function threw is thrown by the call. */
  tell(token, logProb, translation) {
    try {
      return this.onToken?.({ token, logProb, text: this.string(translation) }) !== false;
    } catch (error) {
      this.failure = error;
      return false;
    }
  }
  translated(model, texts, options, call) {
    return this.borrowing((take) => {
      const encoded = texts.map((one) => text(one));
      const places = encoded.map((one) => take(one));
      const lengths = encoded.map((one) => one.length - 1);
      const at = take(new Uint8Array(4));
      this.checked(
        (error) => this.own.uwaga_translate(model, take(pointers(places)), take(pointers(lengths)), texts.length, take(text(JSON.stringify(options))), call, at, error)
      );
      const result = this.view.getUint32(at, true);
      const room = take(new Uint8Array(20));
      try {
        return texts.map((one, number) => this.translation(model, result, number, one, room));
      } finally {
        this.own.uwaga_result_free(result);
      }
    });
  }
  info(model) {
    return JSON.parse(this.string(this.own.uwaga_model_info(model)));
  }
  vocabulary(model, side) {
    const pieces = [];
    for (; ; ) {
      const at = this.own.uwaga_model_piece(model, side === "source" ? 0 : 1, pieces.length);
      if (at === 0) return pieces;
      pieces.push(this.string(at));
    }
  }
  close(model) {
    this.own.uwaga_close(model);
  }
  translation(model, result, number, source, room) {
    const count = this.own.uwaga_result_count(result, number);
    const candidates = Array.from({ length: count }, (_, rank) => this.candidate(model, result, number, rank, room));
    const best = candidates[0];
    if (best === void 0) throw new UwagaError("internal", "a text has no translation");
    return { ...best, source: { text: source, ...this.side(model, result, number, 0, 0, room) }, candidates };
  }
  candidate(model, result, number, rank, room) {
    const own = this.own;
    const at = own.uwaga_result_text(result, number, rank, room);
    const made = {
      text: new TextDecoder().decode(this.copied(at, this.view.getUint32(room, true))),
      score: own.uwaga_result_score(result, number, rank),
      truncated: own.uwaga_result_truncated(result, number, rank) !== 0,
      ...this.side(model, result, number, rank, 1, room),
      logProbs: new Float64Array(0)
    };
    const scores = own.uwaga_result_log_probs(result, number, rank, room);
    made.logProbs = new Float64Array(this.copied(this.view.getUint32(room, true), 8 * scores));
    for (let count = 0; ; ++count) {
      const at2 = own.uwaga_result_array_name(result, number, rank, count);
      if (at2 === 0) return made;
      const name = this.string(at2);
      const array = this.table(own.uwaga_result_array(result, number, rank, at2, room, room + 16), room);
      const kind = name.startsWith("attention.") ? name.slice("attention.".length) : "";
      if (name === "alignment") made.alignment = array;
      else if (name === "tree") made.tree = array;
      else if (kind !== "") made.attention = { ...made.attention, [kind]: array };
      else (made.insight ??= {})[name] = array;
    }
  }
  side(model, result, number, rank, side, room) {
    const count = this.own.uwaga_result_tokens(result, number, rank, side, room);
    const tokens = new Int32Array(this.copied(this.view.getUint32(room, true), 4 * count));
    const pieces = Array.from(tokens, (token) => this.string(this.own.uwaga_model_piece(model, side, token)));
    return { tokens, pieces };
  }
  table(at, room) {
    const axes = this.view.getUint32(room + 16, true);
    const shape = Array.from({ length: axes }, (_, axis) => this.view.getUint32(room + 4 * axis, true));
    return { shape, data: new Float32Array(this.copied(at, 4 * shape.reduce((all, size) => all * size, 1))) };
  }
  // The memory may grow in every call: views of it are made anew.
  get bytes() {
    return new Uint8Array(this.own.memory.buffer);
  }
  get view() {
    return new DataView(this.own.memory.buffer);
  }
  copied(at, size) {
    return this.own.memory.buffer.slice(address(at), address(at) + size);
  }
  string(at) {
    const bytes = this.bytes;
    return new TextDecoder().decode(bytes.slice(address(at), bytes.indexOf(0, address(at))));
  }
  /** Call with a function that copies bytes into the memory of the module, which is freed at the end. */
  borrowing(work) {
    const taken = [];
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
  checked(call) {
    this.borrowing((take) => {
      const error = take(new Uint8Array(ERROR_BYTES));
      const code = call(error);
      if (code !== 0) throw new UwagaError(CODES[code] ?? "internal", this.string(error + 4));
    });
  }
};
var EngineModel = class {
  constructor(engine, at) {
    this.engine = engine;
    this.at = at;
  }
  engine;
  at;
  open = true;
  get info() {
    return this.engine.info(this.used);
  }
  translate(texts, options = {}, onToken) {
    return this.engine.translate(this.used, texts, options, onToken);
  }
  vocabulary(side) {
    return this.engine.vocabulary(this.used, side);
  }
  close() {
    if (this.open) this.engine.close(this.at);
    this.open = false;
  }
  get used() {
    if (!this.open) throw new UwagaError("argument", "the model is closed");
    return this.at;
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
