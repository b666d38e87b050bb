import { type DecidedToken, type Files, type OpenOptions, type Side, type TranslateOptions } from "./types.js";
export type Request = {
    id: number;
    kind: "open";
    module: WebAssembly.Module;
    files: Files;
    options: OpenOptions;
} | {
    id: number;
    kind: "vocabulary";
    side: Side;
} | {
    id: number;
    kind: "translate";
    text: string;
    options: TranslateOptions;
    streams: boolean;
};
export interface Reply {
    id: number;
    result?: unknown;
    /** A token of a running call. */
    decided?: DecidedToken;
    error?: {
        code: string | null;
        message: string;
    };
}
