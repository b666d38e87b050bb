/** The C library (native/c/uwaga.h) in WebAssembly: strings and arrays in and out, codes as errors. */
import { type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type TranslateOptions, type Translation } from "./types.js";
/** An address as WebAssembly returns it: negative from 2 GiB on; `address` makes it an index. */
type Pointer = number;
/** An instance of the module, with the memory of its models. */
export declare class Engine {
    private readonly own;
    private onToken;
    private failure;
    private constructor();
    static create(module: WebAssembly.Module): Promise<Engine>;
    get version(): string;
    /** Open a model of files, which are copied. Raises UwagaError. */
    open(files: Files, options?: OpenOptions): EngineModel;
    /** Translate texts with a model; `onToken` is called with each token as it is decided. Raises UwagaError. */
    translate(model: Pointer, texts: string[], options: TranslateOptions, onToken?: OnToken): Translation[];
    /** Pass a token on; false ends the call: what the function threw is thrown by the call. */
    private tell;
    private translated;
    info(model: Pointer): ModelInfo;
    vocabulary(model: Pointer, side: Side): string[];
    close(model: Pointer): void;
    private translation;
    private candidate;
    private side;
    private table;
    private get bytes();
    private get view();
    private copied;
    private string;
    /** Call with a function that copies bytes into the memory of the module, which is freed at the end. */
    private borrowing;
    private checked;
}
export declare class EngineModel {
    private readonly engine;
    private readonly at;
    private open;
    constructor(engine: Engine, at: Pointer);
    get info(): ModelInfo;
    translate(texts: string[], options?: TranslateOptions, onToken?: OnToken): Translation[];
    vocabulary(side: Side): string[];
    close(): void;
    private get used();
}
export {};
