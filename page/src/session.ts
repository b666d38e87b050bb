/** A text that is translated while it changes: quickly first, by a stream, then as well as the model can. */

import type { Api, Asked, Made } from "./api";
import { AUTO } from "./languages";
import { isBlank, linesOf, missing, Recent, spread } from "./lines";
import { isAborted, type Problem, Refused } from "./problem";
import { sentencesOf, splice } from "./sentences";
import type { Span } from "./words";

export interface Line {
  source: string;
  text: string;
  /** `old` is of a text that has changed since; `rough` comes from the stream. */
  stage: "blank" | "old" | "rough" | "done";
  made?: Made;
  /** Whether the old text translates a beginning of the source, or a text that begins so. */
  grows?: boolean;
  /** The part of the translation that the reader has chosen. */
  forced?: Span;
}

type Kept = Pick<Line, "forced"> & { made: Made };

export interface Listener {
  changed(lines: readonly Line[], isWorking: boolean): void;
  detected(code: string | undefined): void;
  failed(problem: Problem | null): void;
}

/** Milliseconds. */
const PAUSE_BEFORE_FULL = 200;
/** Characters: above, the first words would wait for a stream of it all. */
const LONGEST_STREAM = 2000;
const LINES_AT_ONCE = 16;
/** How much a text that grows keeps of the translation that is shown. */
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

/** Whether what is shown for a line is the translation of a beginning of its new source, or of more. */
function isGrown(shown: Line | undefined, source: string): boolean {
  if (!shown?.text.trim() || (shown.stage === "old" && !shown.grows)) return false;
  return source.startsWith(shown.source) || shown.source.startsWith(source);
}

export class Session {
  lines: Line[] = [];
  /** The languages and glossary of these lines, the source found out where it was. */
  asked: Asked = { source: "", target: "", glossary: [] };
  private readonly kept = new Recent<Kept>(500);
  private running = new AbortController();
  private known: { text: string; code: string } | null = null;
  private wanted: { text: string; asked: Asked } = { text: "", asked: this.asked };

  constructor(
    private readonly api: Api,
    private readonly listener: Listener,
  ) {}

  /** Translate a text after so many milliseconds in which it does not change. */
  async update(text: string, asked: Asked, delay: number): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.wanted = { text, asked };
    const before = this.lines;
    this.asked = { ...asked, source: asked.source === AUTO ? (this.known?.code ?? AUTO) : asked.source };
    this.lines = linesOf(text).map((source, at) => ({
      source, text: before[at]?.text ?? "", stage: "old" as const, grows: isGrown(before[at], source),
    }));
    this.fill();
    this.listener.failed(null);
    try {
      const open = missing(this.lines.map((line) => line.source), (line) => this.kept.get(this.keyOf(line)) !== undefined);
      this.tell(open.length > 0);
      if (isBlank(text)) this.listener.detected(undefined);
      if (!open.length) return;
      await pause(delay, signal);
      await this.work(text, asked, signal);
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      await this.complain(error, text, asked, signal);
    }
  }

  /** Let the translation of a sentence of a line begin so, and go on from there. */
  async force(line: Line, index: number, prefix: string): Promise<void> {
    const whole = line.made;
    const sentence = whole && sentencesOf(line.source, whole)[index];
    if (!sentence) return;
    await this.once(async (signal) => {
      const options = { ...FULL, prefix, split: "never" };
      const [made] = await this.api.translate([sentence.source], this.asked, options, signal);
      if (!made) return;
      const [start] = sentence.targetSpan;
      const forced: Span = [start, start + prefix.length];
      this.kept.set(this.keyOf(line.source), { made: splice(line.source, whole, index, made), forced });
    });
  }

  /** Take another of the n-best translations of a line. */
  take(line: Line, other: Made): void {
    const { alternatives = [], ...first } = line.made!;
    const rest = alternatives.filter((one) => one.text !== other.text);
    const made = { ...other, alternatives: [first, ...rest] };
    this.kept.set(this.keyOf(line.source), { made, forced: [0, other.text.length] });
    this.fill();
    this.tell(false);
  }

  /** Take what the reader has chosen for a line back. */
  async free(source: string): Promise<void> {
    await this.once(async (signal) => {
      const [made] = await this.api.translate([source], this.asked, FULL, signal);
      if (made) this.kept.set(this.keyOf(source), { made });
    });
  }

  /** The whole translation. */
  text(): string {
    return this.lines.map((line) => line.text).join("\n");
  }

  isDone(): boolean {
    return this.lines.every((line) => line.stage === "done" || line.stage === "blank");
  }

  private async once(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.tell(true);
    try {
      await work(signal);
      this.listener.failed(null);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      this.listener.failed(error.problem);
      this.fill();
      return this.tell(false);
    }
    this.fill();
    this.tell(false);
    const { text, asked } = this.wanted;
    if (!this.isDone()) void this.update(text, asked, 0); // lines that were being translated
  }

  private async work(text: string, asked: Asked, signal: AbortSignal): Promise<void> {
    if (asked.source === AUTO) await this.findLanguage(text, signal);
    const open = missing(this.lines.map((line) => line.source), (line) => this.kept.get(this.keyOf(line)) !== undefined);
    const together = open.join("\n");
    // A stream is greedy, and holds to no terms.
    if (open.length && together.length <= LONGEST_STREAM && !this.asked.glossary.length) {
      const shown = open.map((source) => this.lines.find((line) => line.source === source && line.grows)?.text);
      if (shown.every(Boolean)) {
        const made = await this.api.translate(open, this.asked, { draft: shown, bias: BIAS }, signal);
        this.grow(new Map(open.map((source, at) => [source, made[at]!.text])));
      } else {
        await this.api.stream(together, this.asked, (grown) => this.grow(spread(open, grown)), signal);
      }
      await pause(PAUSE_BEFORE_FULL, signal);
    }
    for (let at = 0; at < open.length; at += LINES_AT_ONCE) {
      const some = open.slice(at, at + LINES_AT_ONCE);
      const made = await this.api.translate(some, this.asked, FULL, signal);
      some.forEach((line, index) => this.kept.set(this.keyOf(line), { made: made[index]! }));
      this.fill();
      this.tell(at + LINES_AT_ONCE < open.length);
    }
    if (!open.length) this.tell(false);
  }

  private async findLanguage(text: string, signal: AbortSignal): Promise<void> {
    if (this.known?.text !== text) {
      const code = await this.api.detect(text.slice(0, 1000), signal);
      this.known = code === undefined ? null : { text, code };
    }
    this.asked = { ...this.asked, source: this.known?.code ?? AUTO };
    this.listener.detected(this.known?.code);
    this.fill();
  }

  /** Say what went wrong; where it is worth it, ask again by itself. */
  private async complain(error: unknown, text: string, asked: Asked, signal: AbortSignal): Promise<void> {
    if (!(error instanceof Refused)) throw error;
    this.listener.failed(error.problem);
    this.tell(false);
    if (error.problem.again === undefined) return;
    try {
      await pause(error.problem.again * 1000, signal);
    } catch {
      return; // the reader went on typing
    }
    await this.update(text, asked, 0);
  }

  private keyOf(line: string): string {
    return JSON.stringify([this.asked.source, this.asked.target, this.asked.glossary, line]);
  }

  /** Put in what is known of each line. */
  private fill(): void {
    this.lines = this.lines.map((line) => {
      if (isBlank(line.source)) return { source: line.source, text: line.source, stage: "blank" };
      const kept = this.kept.get(this.keyOf(line.source));
      if (!kept) return line;
      const { made, forced } = kept;
      const filled: Line = { source: line.source, text: made.text, stage: "done", made };
      return forced === undefined ? filled : { ...filled, forced };
    });
  }

  private grow(found: ReadonlyMap<string, string>): void {
    this.lines = this.lines.map((line) => {
      const text = found.get(line.source);
      return text === undefined || line.stage === "done" ? line : { source: line.source, text, stage: "rough" };
    });
    this.tell(true);
  }

  private tell(isWorking: boolean): void {
    this.listener.changed(this.lines, isWorking);
  }
}
