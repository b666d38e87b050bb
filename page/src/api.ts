/** The server's own dialect, /v1, as far as the page speaks it. */

import { EventParser } from "./events";
import type { Pair } from "./glossary_file";
import { AUTO, type Offer } from "./languages";
import { problemOf, readAnswer, Refused, unreachable } from "./problem";
import type { Alignment, Word } from "./words";

/** A translation as the server gives it. */
export interface Made {
  text: string;
  tokens?: string[];
  words?: Word[];
  alignment?: Alignment;
  source_tokens?: string[];
  alternatives?: Made[];
  warnings?: string[];
  /** What the view of attention draws, where it was asked for. */
  attention_view?: unknown;
  error?: { code: string; message: string } | null;
}

export interface Asked {
  source: string;
  target: string;
  glossary: readonly Pair[];
}

export interface Job {
  state: "queued" | "running" | "done" | "failed";
  done: number;
  of: number;
  error?: { message: string } | string | null;
}

type Options = Record<string, unknown>;

export class Api {
  /** The key that requests carry, if any. */
  key = "";
  private said = { from: "", to: "" };

  async offer(): Promise<Offer> {
    const body = (await this.json("GET", "v1/languages")) as {
      languages: Array<{ code: string; name: string; targets: string[] }>;
    };
    const names = new Map(body.languages.map((one) => [one.code, one.name]));
    const pairs = body.languages.flatMap((one) => one.targets.map((to) => [one.code, to] as const));
    const language = (code: string) => ({ code, name: names.get(code) ?? code });
    const sources = [...new Set(pairs.map(([from]) => from))].map(language);
    return {
      sources,
      targets: [...new Set(pairs.map(([, to]) => to))].map(language),
      pairs,
      detects: sources.length > 1,
    };
  }

  async translate(texts: readonly string[], asked: Asked, options: Options, signal?: AbortSignal): Promise<Made[]> {
    const body = { text: texts, ...this.asking(asked), ...options };
    const answer = (await this.json("POST", "v1/translate", body, signal)) as { translations: Made[] };
    return answer.translations;
  }

  /** Give the text of a translation as it grows, all of it each time. */
  async stream(text: string, asked: Asked, grown: (text: string) => void, signal: AbortSignal): Promise<void> {
    const body = { text, ...this.asking(asked), stream: true };
    const response = await this.request("POST", "v1/translate", JSON.stringify(body), "application/json", signal);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    let whole = "";
    for (;;) {
      const { done, value } = await arrived(reader.read(), signal);
      if (done) return;
      for (const event of parser.add(value)) {
        const data = JSON.parse(event.data) as Record<string, unknown>;
        if (event.name === "error") throw this.refusal(500, data, null);
        if (event.name === "piece") grown((whole += String(data.text)));
      }
    }
  }

  /** What happens inside a translation: see docs/guides/serve.md. */
  async inside(text: string, { source, target }: Asked, options: Options): Promise<unknown> {
    this.said = { from: source, to: target };
    return this.json("POST", "v1/inside", { text, source, target, ...options });
  }

  async detect(text: string, signal: AbortSignal): Promise<string | undefined> {
    const answer = (await this.json("POST", "v1/detect", { text }, signal)) as {
      detections: Array<{ code: string } | null>;
    };
    return answer.detections[0]?.code;
  }

  /** Have the server keep a glossary; its id. */
  async keepGlossary(asked: Asked, signal: AbortSignal): Promise<string> {
    const { source, target } = asked;
    const dictionaries = [{ source, target, entries: Object.fromEntries(asked.glossary) }];
    const made = (await this.json("POST", "v1/glossaries", { name: "page", dictionaries }, signal)) as { id: string };
    return made.id;
  }

  async forgetGlossary(id: string): Promise<void> {
    await this.request("DELETE", `v1/glossaries/${encodeURIComponent(id)}`, null, null);
  }

  async sendDocument(file: File, asked: Asked, glossary: string, signal: AbortSignal): Promise<string> {
    const form = new FormData();
    if (asked.source !== AUTO) form.set("source", asked.source);
    form.set("target", asked.target);
    if (glossary) form.set("glossary_id", glossary);
    form.set("file", file);
    this.said = { from: asked.source, to: asked.target };
    const response = await this.request("POST", "v1/documents", form, null, signal);
    return ((await arrived(response.json(), signal)) as { id: string }).id;
  }

  async job(id: string): Promise<Job> {
    return (await this.json("GET", `v1/documents/${encodeURIComponent(id)}`)) as Job;
  }

  async result(id: string): Promise<Blob> {
    const response = await this.request("GET", `v1/documents/${encodeURIComponent(id)}/result`, null, null);
    return arrived(response.blob());
  }

  async cancel(id: string): Promise<void> {
    await this.request("DELETE", `v1/documents/${encodeURIComponent(id)}`, null, null);
  }

  private asking(asked: Asked): Options {
    this.said = { from: asked.source, to: asked.target };
    const glossary = asked.glossary.length ? { glossary: Object.fromEntries(asked.glossary) } : {};
    return { source: asked.source, target: asked.target, ...glossary };
  }

  private async json(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
    const text = body === undefined ? null : JSON.stringify(body);
    const response = await this.request(method, path, text, text === null ? null : "application/json", signal);
    return arrived(response.json(), signal);
  }

  private async request(
    method: string,
    path: string,
    body: BodyInit | null,
    type: string | null,
    signal?: AbortSignal,
  ): Promise<Response> {
    const headers = new Headers({ Accept: "application/json, text/event-stream" });
    if (type) headers.set("Content-Type", type);
    if (this.key) headers.set("Authorization", `Bearer ${this.key}`);
    const asking = fetch(path, { method, headers, body, cache: "no-store", ...(signal ? { signal } : {}) });
    const response = await arrived(asking, signal);
    if (response.ok) return response;
    const told = await response.json().catch(() => null);
    throw this.refusal(response.status, told, response.headers.get("Retry-After"), path);
  }

  private refusal(status: number, body: unknown, retryAfter: string | null, path = ""): Refused {
    const asked = { ...this.said, path, hasKey: this.key !== "" };
    return new Refused(problemOf(readAnswer(status, body, retryAfter), asked));
  }
}

/** What comes from the server; a connection that breaks off is told as any other problem. */
async function arrived<Value>(coming: Promise<Value>, signal?: AbortSignal): Promise<Value> {
  try {
    return await coming;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(unreachable());
  }
}
