import { type LoadOptions as FolderOptions } from "./files.js";
import { type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type TranslateOptions, type Translation } from "./types.js";
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
export declare class Uwaga {
    readonly info: ModelInfo;
    private readonly runner;
    private constructor();
    /**
     * Load a model from the URL of a folder, a folder on disk (in Node), or the contents of files by name.
     *
     * Raises UwagaError, which names the file, or the reason of the signal.
     */
    static load(source: string | URL | Files, options?: LoadOptions): Promise<Uwaga>;
    /** Translate a text, or several in order. Raises UwagaError, or the reason of the signal. */
    translate(text: string, options?: CallOptions): Promise<Translation>;
    translate(texts: string[], options?: CallOptions): Promise<Translation[]>;
    /** Return the pieces of a side's vocabulary by token, with U+2581 for spaces. */
    vocabulary(side: Side): Promise<string[]>;
    /** Free the model. */
    close(): void;
}
