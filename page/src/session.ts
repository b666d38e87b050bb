/** The translation of a text that changes: first quickly by a stream, then with the best quality. */

import type { Api, RequestSettings, ServerTranslation } from "./api";
import { type Choice, type ChoicePart, type ChosenPart, chosenParts, nbestOf, untokenised } from "./choices";
import { type MissingTerm, missingTerms } from "./doubts";
import type { Pair } from "./glossary_file";
import { AUTO } from "./languages";
import { batchesOf, isBlank, linesOf, missingLines, LruCache, matchStreamedLines } from "./lines";
import { type MemoryUse, supportsPair } from "./memories";
import { isAborted, type Problem, RequestError } from "./problem";
import { sentencesOf, spliceSentence, usesOf, withSentences } from "./sentences";

export interface Line {
  source: string;
  text: string;
  /** `old` is the translation of an earlier text; `rough` comes from the stream. */
  stage: "blank" | "old" | "rough" | "done";
  translation?: ServerTranslation;
  /** Whether the old text translates a prefix of the source, or a text of which the source is a prefix. */
  grows?: boolean;
  /** What the reader has chosen in the translation, in the order of the text. */
  choiceParts?: ChoicePart[];
  /** The terms of the glossary that sentences lack because the reader has chosen or remembered their translations. */
  missingTerms?: MissingTerm[];
}

export interface Listener {
  changed(lines: readonly Line[], isWorking: boolean): void;
  /** Called with the share of the text that is translated, from 0 to 1, between changes of the lines. */
  progressed(share: number): void;
  detected(code: string | undefined): void;
  failed(problem: Problem | null): void;
}

/** Milliseconds. */
const PAUSE_BEFORE_FULL = 200;
/** Longer texts are not streamed, because their first words would take too long. */
const MAX_STREAM_CHARACTERS = 2000;
const LINES_AT_ONCE = 16;
/** So many are translated in about a second; fewer would take longer in all. */
const CHARACTERS_AT_ONCE = 2000;
/** The translation of less takes about as long as the page waits before it shows the progress. */
const MIN_PROGRESS_CHARACTERS = 500;
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

/** Return whether a translation that was made with pairs of a memory, or a part of it, is not the model's. */
const isRemembered = (uses: readonly MemoryUse[]): boolean => uses.some(({ used }) => used !== "retrieved");

/** Return a translation whose tokens spell its text. */
const withTokens = (source: string, translation: ServerTranslation): ServerTranslation =>
  isRemembered(translation.memory ?? []) ? withSentences(source, translation) : translation;

export class Session {
  lines: Line[] = [];
  /** The languages and glossary of these lines, with the detected source language. */
  settings: RequestSettings = { source: "", target: "", beam: 1, glossary: [], memory: null };
  private readonly cache = new LruCache<ServerTranslation>(500);
  /** The best translations of single sentences, by sentence. */
  private readonly nbest = new LruCache<ServerTranslation[]>(100);
  /** What the reader has chosen, by sentence and languages; null where the reader wants the translation of the model or a memory. */
  private readonly choices = new LruCache<Choice | null>(500);
  /** The translations that the reader has confirmed for these languages, by sentence. */
  private confirmed: ReadonlyMap<string, string> = new Map();
  /** The lines that are being translated, and the share of them that is translated. */
  private batch: { lines: readonly string[]; share: number } = { lines: [], share: 0 };
  private running = new AbortController();
  private detectedLanguage: { text: string; code: string } | null = null;
  private requested: { text: string; settings: RequestSettings } = { text: "", settings: this.settings };

  constructor(
    private readonly api: Api,
    private readonly listener: Listener,
    private readonly confirmedPairs: (source: string, target: string) => readonly Pair[] = () => [],
  ) {}

  /** Translate a text after a delay in milliseconds, unless it changes. */
  async update(text: string, settings: RequestSettings, delay: number): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.requested = { text, settings };
    this.batch = { lines: [], share: 0 };
    const previous = this.lines;
    if (isBlank(text)) this.detectedLanguage = null;
    this.use({ ...settings, source: settings.source === AUTO ? (this.detectedLanguage?.code ?? AUTO) : settings.source });
    this.lines = linesOf(text).map((source, index) => ({
      source, text: previous[index]?.text ?? "", stage: "old" as const, grows: isGrown(previous[index], source),
    }));
    this.fillFromCache();
    this.listener.failed(null);
    try {
      const pendingLines = missingLines(this.lines.map((line) => line.source), (line) => this.cache.get(this.cacheKey(line)) !== undefined);
      const isDetected = settings.source !== AUTO || isBlank(text) || this.detectedLanguage?.text === text;
      const isComplete = isDetected && !pendingLines.length && !this.outdatedChoices().size;
      this.notify(!isComplete);
      if (isBlank(text)) this.listener.detected(undefined);
      if (isComplete) return;
      await pause(delay, signal);
      await this.translateMissing(text, settings, signal);
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      await this.reportError(error, text, settings, signal);
    }
  }

  /**
   * Force the translation of a sentence of a line to start with a prefix, or to be a text, of which the reader may have typed
   * the end; return whether that succeeded.
   */
  async force(line: Line, index: number, prefix: string, isTyped: boolean, isComplete = false): Promise<boolean> {
    const sentence = line.translation && sentencesOf(line.source, line.translation)[index];
    if (!sentence) return false;
    const known = this.choices.get(this.choiceKey(sentence.source));
    const nbest = isTyped ? undefined : known?.nbest;
    const parts = chosenParts(sentence.target, known?.parts ?? [], prefix, isTyped, isComplete && !isTyped);
    const choice: Choice = { prefix, isComplete, parts, nbest, translation: untokenised(prefix) };
    return this.runOnce((signal) => this.continueFrom(sentence.source, choice, signal));
  }

  /** Return the n-best translations of a sentence of a line; none if the server must be asked for them and may not be. */
  async nbestTranslations(line: Line, index: number, mayRequest: boolean): Promise<ServerTranslation[]> {
    const { source } = sentencesOf(line.source, line.translation!)[index]!;
    const key = this.modelKey(source);
    const known = this.choices.get(this.choiceKey(source))?.nbest ?? this.nbest.get(key);
    if (known || !mayRequest) return known ?? [];
    const [translation] = await this.api.translate([source], this.settings, this.sentenceOptions());
    this.nbest.set(key, translation ? nbestOf(source, translation) : []);
    return this.nbest.get(key)!;
  }

  /** Use another of the n-best translations of a sentence of a line; what it leaves out or adds is then requested. */
  async choose(line: Line, index: number, translation: ServerTranslation): Promise<void> {
    const { source, target } = sentencesOf(line.source, line.translation!)[index]!;
    const known = this.choices.get(this.choiceKey(source));
    const parts = chosenParts(target, known?.parts ?? [], translation.text, false, true);
    const choice: Choice = { prefix: translation.text, isComplete: true, parts, translation, settings: "", nbest: known?.nbest };
    this.choices.set(this.choiceKey(source), choice);
    this.fillFromCache();
    await this.runOnce((signal) => this.continueFrom(source, choice, signal));
  }

  /** Return the sentences whose translations the reader has chosen, with these. */
  choicePairs(): Pair[] {
    const sentences = this.lines.flatMap(({ source, translation }) => (translation ? sentencesOf(source, translation) : []));
    return sentences.filter(({ source }) => this.choices.get(this.choiceKey(source))).map(({ source, target }) => [source, target]);
  }

  /** Choose translations of sentences again. */
  restore({ source, target, choices }: { source: string; target: string; choices: readonly Pair[] }): void {
    for (const [sentence, text] of choices) {
      const parts: ChosenPart[] = [{ span: [0, text.length], isTyped: true }]; // it is not known which words the reader has typed
      const choice: Choice = { prefix: text, isComplete: true, parts, translation: untokenised(text), settings: "" };
      this.choices.set(this.choiceKey(sentence, { source, target }), choice);
    }
  }

  /** Forget what the reader has chosen for sentences. */
  forget(sentences: readonly string[]): void {
    for (const sentence of sentences) this.choices.delete(this.choiceKey(sentence));
  }

  /** Read the confirmed translations again. */
  refreshConfirmed(): void {
    this.use(this.settings);
    this.fillFromCache();
    this.notify(false);
  }

  /** Undo the reader's choice for a sentence of a line. */
  async reset(line: Line, index: number): Promise<void> {
    this.choices.set(this.choiceKey(sentencesOf(line.source, line.translation!)[index]!.source), null);
    await this.update(this.requested.text, this.requested.settings, 0);
  }

  /** Translate all lines again, since a memory knows more, and a sentence from it instead of as the reader has chosen. */
  async refresh(sentence: string, settings: RequestSettings): Promise<void> {
    this.choices.set(this.choiceKey(sentence), null);
    this.cache.clear();
    await this.update(this.requested.text, settings, 0);
  }

  /** Return the complete translation. */
  text(): string {
    return this.lines.map((line) => line.text).join("\n");
  }

  /** Return the share of the text that is translated, from 0 to 1. */
  share(): number {
    const { lines, share } = this.batch;
    const shareOf = ({ source, stage }: Line) => (stage === "done" ? 1 : lines.includes(source) ? share : 0);
    const size = (weight: (line: Line) => number) => this.lines.reduce((sum, line) => sum + weight(line) * line.source.length, 0);
    return size(shareOf) / Math.max(1, size(() => 1));
  }

  isDone(): boolean {
    return this.lines.every((line) => line.stage === "done" || line.stage === "blank");
  }

  /** Run a task instead of the present one, and report its problem, if any; return whether it succeeded. */
  private async runOnce(task: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.notify(true);
    try {
      await task(signal);
      this.listener.failed(null);
    } catch (error) {
      if (signal.aborted) return false;
      if (!(error instanceof RequestError)) throw error;
      this.listener.failed(error.problem);
      this.fillFromCache();
      this.notify(false);
      return false;
    }
    this.fillFromCache();
    this.notify(false);
    const { text, settings } = this.requested;
    if (!this.isDone()) void this.update(text, settings, 0); // lines whose translation was interrupted
    return true;
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
    for (const batch of batchesOf(pendingLines, LINES_AT_ONCE, CHARACTERS_AT_ONCE)) {
      const translations = await this.translateBatch(batch, signal);
      batch.forEach((line, index) => this.cache.set(this.cacheKey(line), withTokens(line, translations[index]!)));
      this.fillFromCache();
      this.notify(true); // the end is reported once, below
    }
    for (const [source, choice] of this.outdatedChoices()) await this.continueFrom(source, choice, signal);
    this.fillFromCache();
    this.notify(false);
  }

  /** Translate lines; the share of a text that is not short grows with each sentence. */
  private translateBatch(lines: readonly string[], signal: AbortSignal): Promise<ServerTranslation[]> {
    this.batch = { lines, share: 0 };
    const report = (share: number): void => {
      this.batch.share = Math.max(this.batch.share, share); // more sentences may become known
      this.listener.progressed(this.share());
    };
    const isShort = lines.join("\n").length < MIN_PROGRESS_CHARACTERS;
    return this.api.translate(lines, this.settings, this.lineOptions(), signal, isShort ? undefined : report);
  }

  /** Return the reader's choices that the model continued with other settings, by sentence. */
  private outdatedChoices(): Map<string, Choice> {
    const outdated = new Map<string, Choice>();
    for (const { source, translation } of this.lines) {
      for (const sentence of translation ? sentencesOf(source, translation) : []) {
        const choice = this.choices.get(this.choiceKey(sentence.source));
        if (choice?.settings !== undefined && choice.settings !== this.modelKey("")) outdated.set(sentence.source, choice);
      }
    }
    return outdated;
  }

  /** Choose the start of the translation of a sentence, which the model continues, or all of it. */
  private async continueFrom(source: string, { settings: _, ...choice }: Choice, signal: AbortSignal): Promise<void> {
    const { prefix, isComplete } = choice;
    const settings = this.modelKey("");
    if (isComplete) {
      const translation = await this.describe(source, choice.translation, signal);
      this.choices.set(this.choiceKey(source), { ...choice, translation });
      return;
    }
    const [continued] = await this.api.translate([source], this.settings, { ...this.sentenceOptions(), prefix }, signal);
    if (!continued) return;
    const nbest = nbestOf(source, continued, prefix);
    const [best] = nbest as [ServerTranslation];
    const translation = best === continued ? best : await this.describe(source, best, signal);
    this.choices.set(this.choiceKey(source), { ...choice, translation, settings, nbest });
  }

  /** Return a translation of a sentence with what the server says about the best one only: what it leaves out or adds. */
  private async describe(source: string, translation: ServerTranslation, signal: AbortSignal): Promise<ServerTranslation> {
    const options = { ...FULL, beam: 1, split: "never", prefix: translation.text };
    const [described] = await this.api.translate([source], this.settings, options, signal);
    return described?.text === translation.text ? described : translation;
  }

  private async findLanguage(text: string, signal: AbortSignal): Promise<void> {
    if (this.detectedLanguage?.text !== text) {
      const code = (await this.api.detect(text.slice(0, 1000), signal))?.code;
      this.detectedLanguage = code === undefined ? null : { text, code };
    }
    this.use({ ...this.settings, source: this.detectedLanguage?.code ?? AUTO });
    this.listener.detected(this.detectedLanguage?.code);
    signal.throwIfAborted(); // the text may now have other settings
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
    return { ...FULL, beam: this.settings.beam };
  }

  /** Return the options of the best translations of a sentence. */
  private sentenceOptions() {
    return { ...this.fullOptions(), nbest: Math.min(NBEST, this.settings.beam), split: "never" };
  }

  /** Return the options of the best translation of a line, which may come from a memory. */
  private lineOptions() {
    return this.memory ? { ...this.fullOptions(), memory: this.memory.id } : this.fullOptions();
  }

  /** The memory, if it is for the language of the text. */
  private get memory() {
    const { source, target, memory } = this.settings;
    return memory && supportsPair(memory, source, target) ? memory : null;
  }

  private cacheKey(line: string): string {
    return JSON.stringify([this.memory?.id, this.modelKey(line)]);
  }

  /** Return the key of what the model makes of a text, without a memory. */
  private modelKey(text: string): string {
    const { source, target, beam, glossary } = this.settings;
    return JSON.stringify([source, target, beam, glossary, text]);
  }

  private choiceKey(sentence: string, { source, target }: { source: string; target: string } = this.settings): string {
    return JSON.stringify([source, target, sentence.trim()]);
  }

  private use(settings: RequestSettings): void {
    this.settings = settings;
    this.confirmed = new Map(this.confirmedPairs(settings.source, settings.target).map(([sentence, text]) => [sentence.trim(), text]));
  }

  /** Return what the reader has chosen for a sentence, or has confirmed before, unless a memory has the sentence itself. */
  private choiceFor(sentence: string, uses: readonly MemoryUse[]): Choice | null | undefined {
    const key = this.choiceKey(sentence);
    const text = this.confirmed.get(sentence.trim());
    const isNew = text !== undefined && this.choices.get(key) === undefined && !uses.some(({ used }) => used === "verbatim");
    if (isNew) this.restore({ ...this.settings, choices: [[sentence, text]] });
    return this.choices.get(key);
  }

  /** Fill the lines from the cache, with the reader's choices. */
  private fillFromCache(): void {
    this.lines = this.lines.map((line) => {
      if (isBlank(line.source)) return { source: line.source, text: line.source, stage: "blank" };
      const translation = this.cache.get(this.cacheKey(line.source));
      return translation ? this.withChoices(line.source, translation) : line;
    });
  }

  private withChoices(source: string, translation: ServerTranslation): Line {
    const sentences = sentencesOf(source, translation);
    const choiceParts: ChoicePart[] = [];
    const missing: MissingTerm[] = [];
    let result = translation;
    sentences.forEach((sentence, index) => {
      const uses = usesOf(source, translation, index);
      const choice = this.choiceFor(sentence.source, uses);
      if (choice?.isComplete || (!choice && isRemembered(uses))) {
        const [offset] = sentence.sourceSpan;
        const terms = missingTerms(sentence.source, choice?.prefix ?? sentence.target, this.settings.glossary);
        missing.push(...terms.map(({ span: [start, end], target }): MissingTerm => ({ span: [start + offset, end + offset], target })));
      }
      const current = sentencesOf(source, result);
      if (!choice || current.length !== sentences.length) return; // the pieces of another choice do not spell its text
      const [start] = current[index]!.targetSpan;
      const isConfirmed = choice.isComplete && choice.prefix === this.confirmed.get(sentence.source.trim());
      const whole: ChosenPart = { span: [0, choice.prefix.length], isTyped: false };
      for (const { span, isTyped } of isConfirmed ? [whole, ...choice.parts] : choice.parts) {
        choiceParts.push({ span: [start + span[0], start + span[1]], isTyped, isConfirmed });
      }
      result = spliceSentence(source, result, index, choice.translation);
    });
    return { source, text: result.text, stage: "done", translation: result, ...(choiceParts.length ? { choiceParts } : {}), ...(missing.length ? { missingTerms: missing } : {}) };
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
