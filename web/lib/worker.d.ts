import { type Files, type OpenOptions, type TranslateOptions } from "./types.js";
export type Request = {
    id: number;
    kind: "open";
    module: WebAssembly.Module;
    files: Files;
    options: OpenOptions;
} | {
    id: number;
    kind: "translate";
    text: string;
    options: TranslateOptions;
};
export interface Reply {
    id: number;
    made?: unknown;
    error?: {
        code: string | null;
        message: string;
    };
}
