/** The files of a model: from a folder on a server or on the disk, with progress, cache and abort. */
import { type Files } from "./types.js";
export interface LoadOptions {
    /** Called with the bytes received and, once the server has said it, the bytes of the file. */
    onProgress?: (progress: {
        file: string;
        received: number;
        total: number | null;
    }) => void;
    signal?: AbortSignal;
    /** The names of the files; default: those of uwaga's folders, and in Node, where there is no config.json, of Marian's. */
    files?: string[];
    /** Keep files in the browser's cache storage of this name; false: not. Default "uwaga-models". */
    cache?: string | false;
}
/** Read the files of a model folder. Raises UwagaError, or the signal's reason. */
export declare function readFolder(folder: string | URL, options?: LoadOptions): Promise<Files>;
