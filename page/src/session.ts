/** The translation of a text that changes: first quickly by a stream, then with the best quality. */

import type { Api, RequestSettings, ServerTranslation } from "./api";
import { AUTO } from "./languages";
import { isBlank, linesOf, missingLines, LruCache, matchStreamedLines } from "./lines";
import { isAborted, type Problem, RequestError } from "./problem";
import { sentencesOf, spliceSentence } from "./sentences";
import type { Span } from "./words";

export interface Line {
  source: string;
  text: string;
  /** `old` is the translation of an earlier text; `rough` comes from the stream. */
  stage: "blank" | "old" | "rough" | "done";
  translation?: ServerTranslation;
  /** Whether the old text translates a prefix of the source, or a text of which the source is a prefix. */
  grows?: boolean;
  /** The part of the translation that the reader has selected. */
  forced?: Span;
}

type CachedTranslation = Pick<Line, "forced"> & { translation: ServerTranslation };

export interface Listener {
  changed(lines: readonly Line[], isWorking: boolean): void;
  detected(code: string | undefined): void;
  failed(problem: Problem | null): void;
}

/** Milliseconds. */
const PAUSE_BEFORE_FULL = 200;
/** Longer texts are not streamed, because their first words would take too long. */
const MAX_STREAM_CHARACTERS = 2000;
const LINES_AT_ONCE = 16;
/** Bias of a growing text towards the translation shown. */
const BIAS = 0.3;
const FULL = { nbest: 4, beam: 5, alignment: true, tokens: true, scores: true };

const pause = (milliseconds: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("not wanted any longer", "AbortError"));
    });
  });

/** Return whether the displayed line translates a prefix of the new source, or an extension of it. */
function isGrown(displayed: Line | undefined, source: string): boolean {
  if (!displayed?.text.trim() || (displayed.stage === "old" && !displayed.grows)) return false;
  return source.startsWith(displayed.source) || displayed.source.startsWith(source);
}

export class Session {
  lines: Line[] = [];
  /** The languages and glossary of these lines, with the detected source language. */
  settings: RequestSettings = { source: "", target: "", glossary: [] };
  private readonly cache = new LruCache<CachedTranslation>(500);
  private running = new AbortController();
  private detectedLanguage: { text: string; code: string } | null = null;
  private requested: { text: string; settings: RequestSettings } = { text: "", settings: this.settings };

  constructor(
    private readonly api: Api,
    private readonly listener: Listener,
  ) {}

  /** Translate a text after a delay in milliseconds, unless it changes. */
  async update(text: string, settings: RequestSettings, delay: number): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.requested = { text, settings };
    const previous = this.lines;
    this.settings = { ...settings, source: settings.source === AUTO ? (this.detectedLanguage?.code ?? AUTO) : settings.source };
    this.lines = linesOf(text).map((source, index) => ({
      source, text: previous[index]?.text ?? "", stage: "old" as const, grows: isGrown(previous[index], source),
    }));
    this.fillFromCache();
    this.listener.failed(null);
    try {
      const pendingLines = missingLines(this.lines.map((line) => line.source), (line) => this.cache.get(this.cacheKey(line)) !== undefined);
      this.notify(pendingLines.length > 0);
      if (isBlank(text)) this.listener.detected(undefined);
      if (!pendingLines.length) return;
      await pause(delay, signal);
      await this.translateMissing(text, settings, signal);
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      await this.reportError(error, text, settings, signal);
    }
  }

  /** Force the translation of a sentence of a line to start with a prefix. */
  async force(line: Line, index: number, prefix: string): Promise<void> {
    const translation = line.translation;
    const sentence = translation && sentencesOf(line.source, translation)[index];
    if (!sentence) return;
    await this.runOnce(async (signal) => {
      const options = { ...FULL, prefix, split: "never" };
      const [result] = await this.api.translate([sentence.source], this.settings, options, signal);
      if (!result) return;
      const [start] = sentence.targetSpan;
      const forced: Span = [start, start + prefix.length];
      this.cache.set(this.cacheKey(line.source), { translation: spliceSentence(line.source, translation, index, result), forced });
    });
  }

  /** Use another of the n-best translations of a line. */
  chooseAlternative(line: Line, chosenTranslation: ServerTranslation): void {
    const { alternatives = [], ...first } = line.translation!;
    const others = alternatives.filter((alternative) => alternative.text !== chosenTranslation.text);
    const translation = { ...chosenTranslation, alternatives: [first, ...others] };
    this.cache.set(this.cacheKey(line.source), { translation, forced: [0, chosenTranslation.text.length] });
    this.fillFromCache();
    this.notify(false);
  }

  /** Undo the reader's choices for a line. */
  async resetLine(source: string): Promise<void> {
    await this.runOnce(async (signal) => {
      const [translation] = await this.api.translate([source], this.settings, FULL, signal);
      if (translation) this.cache.set(this.cacheKey(source), { translation });
    });
  }

  /** Return the complete translation. */
  text(): string {
    return this.lines.map((line) => line.text).join("\n");
  }

  isDone(): boolean {
    return this.lines.every((line) => line.stage === "done" || line.stage === "blank");
  }

  private async runOnce(task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.notify(true);
    try {
      await task(signal);
      this.listener.failed(null);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof RequestError)) throw error;
      this.listener.failed(error.problem);
      this.fillFromCache();
      return this.notify(false);
    }
    this.fillFromCache();
    this.notify(false);
    const { text, settings } = this.requested;
    if (!this.isDone()) void this.update(text, settings, 0); // lines whose translation was interrupted
  }

  private async translateMissing(text: string, settings: RequestSettings, signal: AbortSignal): Promise<void> {
    if (settings.source === AUTO) await this.findLanguage(text, signal);
    const pendingLines = missingLines(this.lines.map((line) => line.source), (line) => this.cache.get(this.cacheKey(line)) !== undefined);
    const joined = pendingLines.join("\n");
    // A stream is greedy and does not support glossaries.
    if (pendingLines.length && joined.length <= MAX_STREAM_CHARACTERS && !this.settings.glossary.length) {
      const drafts = pendingLines.map((source) => this.lines.find((line) => line.source === source && line.grows)?.text);
      if (drafts.every(Boolean)) {
        const translations = await this.api.translate(pendingLines, this.settings, { draft: drafts, bias: BIAS }, signal);
        this.showDrafts(new Map(pendingLines.map((source, index) => [source, translations[index]!.text])));
      } else {
        await this.api.stream(joined, this.settings, (streamed) => this.showDrafts(matchStreamedLines(pendingLines, streamed)), signal);
      }
      await pause(PAUSE_BEFORE_FULL, signal);
    }
    for (let start = 0; start < pendingLines.length; start += LINES_AT_ONCE) {
      const batch = pendingLines.slice(start, start + LINES_AT_ONCE);
      const translations = await this.api.translate(batch, this.settings, FULL, signal);
      batch.forEach((line, index) => this.cache.set(this.cacheKey(line), { translation: translations[index]! }));
      this.fillFromCache();
      this.notify(start + LINES_AT_ONCE < pendingLines.length);
    }
    if (!pendingLines.length) this.notify(false);
  }

  private async findLanguage(text: string, signal: AbortSignal): Promise<void> {
    if (this.detectedLanguage?.text !== text) {
      const code = await this.api.detect(text.slice(0, 1000), signal);
      this.detectedLanguage = code === undefined ? null : { text, code };
    }
    this.settings = { ...this.settings, source: this.detectedLanguage?.code ?? AUTO };
    this.listener.detected(this.detectedLanguage?.code);
    this.fillFromCache();
  }

  /** Report a problem, and repeat the request automatically if that may help. */
  private async reportError(error: unknown, text: string, settings: RequestSettings, signal: AbortSignal): Promise<void> {
    if (!(error instanceof RequestError)) throw error;
    this.listener.failed(error.problem);
    this.notify(false);
    if (error.problem.retrySeconds === undefined) return;
    try {
      await pause(error.problem.retrySeconds * 1000, signal);
    } catch {
      return; // the reader continued typing
    }
    await this.update(text, settings, 0);
  }

  private cacheKey(line: string): string {
    return JSON.stringify([this.settings.source, this.settings.target, this.settings.glossary, line]);
  }

  /** Fill the lines from the cache. */
  private fillFromCache(): void {
    this.lines = this.lines.map((line) => {
      if (isBlank(line.source)) return { source: line.source, text: line.source, stage: "blank" };
      const cached = this.cache.get(this.cacheKey(line.source));
      if (!cached) return line;
      const { translation, forced } = cached;
      const filled: Line = { source: line.source, text: translation.text, stage: "done", translation };
      return forced === undefined ? filled : { ...filled, forced };
    });
  }

  private showDrafts(drafts: ReadonlyMap<string, string>): void {
    this.lines = this.lines.map((line) => {
      const text = drafts.get(line.source);
      return text === undefined || line.stage === "done" ? line : { source: line.source, text, stage: "rough" };
    });
    this.notify(true);
  }

  private notify(isWorking: boolean): void {
    this.listener.changed(this.lines, isWorking);
  }
}
