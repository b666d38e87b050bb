/** Reading the files of a model from a folder on a server or disk, with progress, cache and abort. */
import { type Files } from "./types.js";
export interface LoadOptions {
    /** Called with the bytes received and, if known, the size of the file. */
    onProgress?: (progress: {
        file: string;
        received: number;
        total: number | null;
    }) => void;
    signal?: AbortSignal;
    /** The names of the files; default: those of uwaga's folders or, in Node without a config.json, of Marian's. */
    files?: string[];
    /** The name of the browser's cache storage for the files; false for none. Default "uwaga-models". */
    cache?: string | false;
}
/** Read the files of a model folder. Raises UwagaError, or the signal's reason. */
export declare function readFolder(folder: string | URL, options?: LoadOptions): Promise<Files>;
