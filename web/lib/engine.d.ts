/** The C library (native/c/uwaga.h) in WebAssembly: conversion of strings and arrays, and codes to errors. */
import { type Files, type ModelInfo, type OnToken, type OpenOptions, type Side, type TranslateOptions, type Translation } from "./types.js";
/** An address as returned by WebAssembly: negative from 2 GiB on; `address` converts it to an index. */
type Pointer = number;
/** An instance of the module, with the memory of its models. */
export declare class Engine {
    private readonly exports;
    private onToken;
    private failure;
    private constructor();
    static create(module: WebAssembly.Module): Promise<Engine>;
    get version(): string;
    /** Open a model, given its files, which are copied. Raises UwagaError. */
    open(files: Files, options?: OpenOptions): EngineModel;
    /** Translate texts with a model; `onToken` is called with each decided token. Raises UwagaError. */
    translate(model: Pointer, texts: string[], options: TranslateOptions, onToken?: OnToken): Translation[];
    /** Call `onToken`; return false to end the call, which rethrows an error of `onToken`. */
    private passToken;
    private translateTexts;
    info(model: Pointer): ModelInfo;
    vocabulary(model: Pointer, side: Side): string[];
    close(model: Pointer): void;
    private translation;
    private candidate;
    private side;
    private table;
    private get bytes();
    private get view();
    private copy;
    private string;
    /** Run a task with a function that copies bytes into the memory of the module; the copies are freed at the end. */
    private withAllocations;
    private checkError;
}
export declare class EngineModel {
    private readonly engine;
    private readonly modelPointer;
    private open;
    constructor(engine: Engine, modelPointer: Pointer);
    get info(): ModelInfo;
    translate(texts: string[], options?: TranslateOptions, onToken?: OnToken): Translation[];
    vocabulary(side: Side): string[];
    close(): void;
    private get pointer();
}
export {};
