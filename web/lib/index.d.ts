import { type LoadOptions as FolderOptions } from "./files.js";
import { type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type TranslateOptions, type Translation } from "./types.js";
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
export declare class Uwaga {
    readonly info: ModelInfo;
    private readonly runner;
    private constructor();
    /**
     * Load a model from the URL of a folder, a folder on the disk (in Node), or the contents of files by their names.
     *
     * Raises UwagaError, which names the file at fault, or the reason of the signal.
     */
    static load(source: string | URL | Files, options?: LoadOptions): Promise<Uwaga>;
    /** Translate a text, or several in their order. Raises UwagaError, or the reason of the signal. */
    translate(text: string, options?: CallOptions): Promise<Translation>;
    translate(texts: string[], options?: CallOptions): Promise<Translation[]>;
    /** The pieces of a side's vocabulary by their tokens, with U+2581 for spaces. */
    vocabulary(side: Side): Promise<string[]>;
    /** Free the model. */
    close(): void;
}
