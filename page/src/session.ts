/** The translation of a text that changes: first quickly by a stream, then with the best quality. */

import type { Api, RequestSettings, ServerTranslation } from "./api";
import { AUTO } from "./languages";
import { isBlank, linesOf, missingLines, LruCache, matchStreamedLines } from "./lines";
import { fits } from "./memories";
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
const NBEST = 4;
const FULL = { alignment: true, tokens: true, scores: true, coverage: "unaligned" };

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

const nbestOf = (translation: ServerTranslation): ServerTranslation[] => [translation, ...(translation.alternatives ?? [])];

/** Return a translation of which only the text is known; each word is a piece. */
const untokenised = (text: string): ServerTranslation => ({ text, tokens: text.split(/\s+/).map((word) => `▁${word}`) });

/** Return whether the text of a translation, or a part of it, is not the model's. */
const isRemembered = (translation: ServerTranslation): boolean => translation.memory?.some(({ used }) => used !== "beginning") ?? false;

/** Return a translation whose tokens spell its text. */
const withTokens = (translation: ServerTranslation): ServerTranslation =>
  isRemembered(translation) ? { ...translation, ...untokenised(translation.text), source_tokens: [] } : translation;

export class Session {
  lines: Line[] = [];
  /** The languages and glossary of these lines, with the detected source language. */
  settings: RequestSettings = { source: "", target: "", beam: 1, glossary: [], memory: null };
  private readonly cache = new LruCache<CachedTranslation>(500);
  /** The best translations of single sentences, by sentence. */
  private readonly nbest = new LruCache<ServerTranslation[]>(100);
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

  /** Force the translation of a sentence of a line to start with a prefix, or to be a given text. */
  async force(line: Line, index: number, prefix: string, isComplete = false): Promise<void> {
    const translation = line.translation;
    const sentence = translation && sentencesOf(line.source, translation)[index];
    if (!sentence) return;
    await this.runOnce(async (signal) => {
      const options = { ...this.fullOptions(), prefix, split: "never" };
      const [continued] = await this.api.translate([sentence.source], this.settings, options, signal);
      if (!continued) return;
      const result = isComplete && continued.text !== prefix ? untokenised(prefix) : continued;
      if (isComplete) this.knownTranslations(line, index);
      else this.nbest.set(this.cacheKey(sentence.source), nbestOf(result));
      const [start] = sentence.targetSpan;
      const forced: Span = [start, start + prefix.length];
      this.cache.set(this.cacheKey(line.source), { translation: spliceSentence(line.source, translation, index, result), forced });
    });
  }

  /** Return the n-best translations of a sentence of a line; none if the server must be asked for them and may not be. */
  async nbestTranslations(line: Line, index: number, mayRequest: boolean): Promise<ServerTranslation[]> {
    const known = this.knownTranslations(line, index);
    if (known || !mayRequest) return known ?? [];
    const { source } = sentencesOf(line.source, line.translation!)[index]!;
    const key = this.cacheKey(source);
    const [translation] = await this.api.translate([source], this.settings, { ...this.fullOptions(), split: "never" });
    this.nbest.set(key, translation ? nbestOf(translation) : []);
    return this.nbest.get(key)!;
  }

  /** Use another of the n-best translations of a sentence of a line. */
  choose(line: Line, index: number, translation: ServerTranslation): void {
    this.knownTranslations(line, index);
    const [start] = sentencesOf(line.source, line.translation!)[index]!.targetSpan;
    const forced: Span = [start, start + translation.text.length];
    this.cache.set(this.cacheKey(line.source), { translation: spliceSentence(line.source, line.translation!, index, translation), forced });
    this.fillFromCache();
    this.notify(false);
  }

  /** Return and keep the n-best translations of a sentence, if the server was asked for them. */
  private knownTranslations(line: Line, index: number): ServerTranslation[] | undefined {
    const sentences = sentencesOf(line.source, line.translation!);
    const key = this.cacheKey(sentences[index]!.source);
    const isModels = sentences.length === 1 && !line.translation!.memory?.length;
    const known = this.nbest.get(key) ?? (isModels ? nbestOf(line.translation!) : undefined);
    if (known) this.nbest.set(key, known);
    return known;
  }

  /** Undo the reader's choices for a line. */
  async resetLine(source: string): Promise<void> {
    await this.runOnce(async (signal) => {
      const [translation] = await this.api.translate([source], this.settings, this.lineOptions(), signal);
      if (!translation) return;
      this.cache.set(this.cacheKey(source), { translation: withTokens(translation) });
      for (const sentence of sentencesOf(source, translation)) this.nbest.delete(this.cacheKey(sentence.source));
    });
  }

  /** Translate all lines again, since a memory knows more: all but those with the reader's choices, except for one. */
  async refreshExcept(line: Line, settings: RequestSettings): Promise<void> {
    const kept = this.lines.filter(({ source, forced }) => forced !== undefined && source !== line.source);
    this.settings = { ...settings, source: this.settings.source };
    this.cache.clear();
    for (const { source, translation, forced } of kept) this.cache.set(this.cacheKey(source), { translation: translation!, forced: forced! });
    await this.update(this.requested.text, settings, 0);
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
    // A stream is greedy and does not support glossaries; with a memory, it has no more than one piece.
    if (pendingLines.length && joined.length <= MAX_STREAM_CHARACTERS && !this.settings.glossary.length && !this.memory) {
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
      const translations = await this.api.translate(batch, this.settings, this.lineOptions(), signal);
      batch.forEach((line, index) => this.cache.set(this.cacheKey(line), { translation: withTokens(translations[index]!) }));
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

  /** Return the options of the best translation. */
  private fullOptions() {
    const { beam } = this.settings;
    return { ...FULL, beam, nbest: Math.min(NBEST, beam) };
  }

  /** Return the options of the best translation of a line, which may come from a memory. */
  private lineOptions() {
    return this.memory ? { ...this.fullOptions(), memory: this.memory.id } : this.fullOptions();
  }

  /** The memory, if it is for the language of the text. */
  private get memory() {
    const { source, target, memory } = this.settings;
    return memory && fits(memory, source, target) ? memory : null;
  }

  private cacheKey(line: string): string {
    const { source, target, beam, glossary } = this.settings;
    return JSON.stringify([source, target, beam, glossary, this.memory?.id, line]);
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
