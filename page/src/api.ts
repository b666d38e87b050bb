/** A client of the server's API /v1, with the calls that the page needs. */

import { EventParser } from "./events";
import type { Pair } from "./glossary_file";
import { AUTO, type AvailableLanguages, type LanguagePair } from "./languages";
import type { LookUps } from "./look_up";
import type { Memory, MemoryUse } from "./memories";
import { toProblem, parseError, RequestError, unreachable } from "./problem";
import type { Alignment, Span, Word } from "./words";

/** The words of a text that its translation omits, with their spans in code points if these are known. */
export interface Coverage {
  omitted: string[];
  omitted_spans: Span[];
}

/** A translation as returned by the server. */
export interface ServerTranslation {
  text: string;
  tokens?: string[];
  words?: Word[];
  alignment?: Alignment;
  source_tokens?: string[];
  alternatives?: ServerTranslation[];
  /** The terms of the glossary in the text, and the forms in the translation. */
  terms?: Array<{ source: string; target: string; applied: boolean }>;
  warnings?: string[];
  /** What the translation lacks or adds, if requested. */
  coverage?: Coverage;
  /** The pairs of the translation memory that it was made with. */
  memory?: MemoryUse[];
  /** The data for the attention view, if requested. */
  attention_view?: unknown;
  error?: { code: string; message: string } | null;
}

export interface RequestSettings {
  source: string;
  target: string;
  /** Hypotheses of the beam search. */
  beam: number;
  glossary: readonly Pair[];
  /** The translation memory of texts and documents, if it is for these languages. */
  memory: Memory | null;
}

/** The terms of a glossary for a pair of languages. */
export interface Dictionary extends LanguagePair {
  terms: readonly Pair[];
}

export interface Detection {
  code: string;
  /** From 0 to 1. */
  confidence: number;
}

export interface Job {
  state: "queued" | "running" | "done" | "failed";
  done: number;
  of: number;
  error?: { code: string; message: string } | null;
}

type Options = Record<string, unknown>;

export class Api {
  /** The API key of requests, if any. */
  key = "";
  private lastLanguages = { from: "", to: "" };

  async loadLanguages(): Promise<AvailableLanguages> {
    const [body, { models, memories }] = (await Promise.all([this.json("GET", "v1/languages"), this.json("GET", "v1/models")])) as [
      { languages: Array<{ code: string; name: string; targets: string[]; detected: boolean }> },
      { models: Array<{ name: string; sources: string[]; targets: string[] }>; memories: boolean },
    ];
    const names = new Map(body.languages.map((entry) => [entry.code, entry.name]));
    const pairs = body.languages.flatMap((entry) => entry.targets.map((target) => [entry.code, target] as const));
    const language = (code: string) => ({ code, name: names.get(code) ?? code });
    const sources = body.languages.flatMap(({ code, name, targets, detected }) => (targets.length ? [{ code, name, isDetected: detected }] : []));
    return {
      sources,
      targets: [...new Set(pairs.map(([, to]) => to))].map(language),
      pairs,
      demonstration: models.find((model) => model.name === "bundled"),
      detects: sources.length > 1 && sources.some(({ isDetected }) => isDetected),
      remembers: memories,
    };
  }

  async loadMemories(): Promise<Memory[]> {
    return ((await this.json("GET", "v1/memories")) as { memories: Memory[] }).memories;
  }

  async createMemory(name: string, source: string, target: string): Promise<Memory> {
    return (await this.json("POST", "v1/memories", { name, source, target })) as Memory;
  }

  /** Add a confirmed translation to a memory. */
  async remember(memory: Memory, source: string, target: string): Promise<void> {
    await this.json("POST", `v1/memories/${encodeURIComponent(memory.id)}/pairs`, { pairs: [{ source, target }] });
  }

  /** Return which remembered words the translation of a text looks at. */
  async lookUp(memory: Memory, text: string): Promise<LookUps> {
    return (await this.json("POST", `v1/memories/${encodeURIComponent(memory.id)}/look-up`, { text })) as LookUps;
  }

  /** Translate texts; `onShare` is called with the share of their sentences that is translated, from 0 to 1. */
  async translate(
    texts: readonly string[],
    settings: RequestSettings,
    options: Options,
    signal?: AbortSignal,
    onShare?: (share: number) => void,
  ): Promise<ServerTranslation[]> {
    const body = { text: texts, ...this.requestFields(settings), ...options };
    let answer: { translations: ServerTranslation[] } | undefined;
    const handle = (name: string, data: Record<string, unknown>): void => {
      if (name === "progress") onShare!(Number(data.done) / Math.max(1, Number(data.of)));
      else answer = data as typeof answer;
    };
    if (onShare) await this.events({ ...body, progress: true }, handle, signal);
    else handle("done", (await this.json("POST", "v1/translate", body, signal)) as Record<string, unknown>);
    if (!answer) throw new RequestError(unreachable()); // the stream ended early
    return answer.translations;
  }

  /** Stream a translation; `onText` is called with the complete text so far. */
  async stream(text: string, settings: RequestSettings, onText: (text: string) => void, signal: AbortSignal): Promise<void> {
    let translation = "";
    const handle = (name: string, data: Record<string, unknown>): void => {
      if (name === "piece") onText((translation += String(data.text)));
    };
    await this.events({ text, ...this.requestFields(settings), stream: true }, handle, signal);
  }

  /** Call a function with each event of a translation; an event `error` becomes a RequestError. */
  private async events(body: Options, onEvent: (name: string, data: Record<string, unknown>) => void, signal?: AbortSignal): Promise<void> {
    const response = await this.request("POST", "v1/translate", JSON.stringify(body), signal);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await receive(reader.read(), signal);
      if (done) return;
      for (const event of parser.add(value)) {
        const data = JSON.parse(event.data) as Record<string, unknown>;
        if (event.name === "error") throw this.requestError(500, data, null);
        onEvent(event.name, data);
      }
    }
  }

  /** Return a translation with internals of the model: see docs/guides/serve.md. */
  async inside(text: string, { source, target }: RequestSettings, options: Options): Promise<unknown> {
    this.lastLanguages = { from: source, to: target };
    return this.json("POST", "v1/inside", { text, source, target, ...options });
  }

  /** Return the language of a text or a document; null if it is none of the server's languages, or the document cannot be read. */
  async detect(content: string | File, signal: AbortSignal): Promise<Detection | null> {
    const form = new FormData();
    form.set("file", content);
    const [path, body] = typeof content === "string" ? ["v1/detect", { text: content }] : ["v1/documents/detect", form];
    const { detections } = (await this.json("POST", path, body, signal)) as { detections: Array<Detection | null> };
    return detections[0] ?? null;
  }

  /** Store a glossary on the server and return its id. */
  async uploadGlossary(dictionaries: readonly Dictionary[], signal: AbortSignal): Promise<string> {
    const body = { name: "page", dictionaries: dictionaries.map(({ source, target, terms }) => ({ source, target, entries: Object.fromEntries(terms) })) };
    const created = (await this.json("POST", "v1/glossaries", body, signal)) as { id: string };
    return created.id;
  }

  async deleteGlossary(id: string): Promise<void> {
    await this.request("DELETE", `v1/glossaries/${encodeURIComponent(id)}`);
  }

  async sendDocument(file: File, settings: RequestSettings, glossary: string, signal: AbortSignal): Promise<string> {
    const form = new FormData();
    if (settings.source !== AUTO) form.set("source", settings.source);
    form.set("target", settings.target);
    if (glossary) form.set("glossary_id", glossary);
    if (settings.memory) form.set("memory", settings.memory.id);
    form.set("file", file);
    this.lastLanguages = { from: settings.source, to: settings.target };
    return ((await this.json("POST", "v1/documents", form, signal)) as { id: string }).id;
  }

  async job(id: string): Promise<Job> {
    return (await this.json("GET", `v1/documents/${encodeURIComponent(id)}`)) as Job;
  }

  async result(id: string): Promise<Blob> {
    const response = await this.request("GET", `v1/documents/${encodeURIComponent(id)}/result`);
    return receive(response.blob());
  }

  async cancel(id: string): Promise<void> {
    await this.request("DELETE", `v1/documents/${encodeURIComponent(id)}`);
  }

  private requestFields(settings: RequestSettings): Options {
    this.lastLanguages = { from: settings.source, to: settings.target };
    const glossary = settings.glossary.length ? { glossary: Object.fromEntries(settings.glossary) } : {};
    return { source: settings.source, target: settings.target, ...glossary };
  }

  /** Return the answer to a request with a body: a form, or what is sent as JSON. */
  private async json(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
    const response = await this.request(method, path, body instanceof FormData ? body : JSON.stringify(body), signal);
    return receive(response.json(), signal);
  }

  private async request(
    method: string,
    path: string,
    body?: FormData | string,
    signal?: AbortSignal,
  ): Promise<Response> {
    const headers = new Headers({ Accept: "application/json, text/event-stream" });
    if (typeof body === "string") headers.set("Content-Type", "application/json");
    if (this.key) headers.set("Authorization", `Bearer ${this.key}`);
    const keepalive = method === "DELETE"; // also when the page is being closed
    const pending = fetch(path, { method, headers, body: body ?? null, cache: "no-store", keepalive, ...(signal ? { signal } : {}) });
    const response = await receive(pending, signal);
    if (response.ok) return response;
    const errorBody = await response.json().catch(() => null);
    throw this.requestError(response.status, errorBody, response.headers.get("Retry-After"), path);
  }

  private requestError(status: number, body: unknown, retryAfter: string | null, path = ""): RequestError {
    const context = { ...this.lastLanguages, path, hasKey: this.key !== "" };
    return new RequestError(toProblem(parseError(status, body, retryAfter), context));
  }
}

/** Wait for data from the server; a broken connection becomes a RequestError. */
async function receive<Value>(pending: Promise<Value>, signal?: AbortSignal): Promise<Value> {
  try {
    return await pending;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(unreachable());
  }
}
