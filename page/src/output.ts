/** A translation whose words can be hovered, focused by keys, and selected. */

import { make } from "./dom";
import { type Decision, decisionsOf, type Doubt, doubtsOf, overlaps } from "./doubts";
import { direction, tagOf } from "./languages";
import { say, currentLanguage } from "./messages";
import { describeUse } from "./memories";
import { sentenceAt, sentencesOf, usesOf } from "./sentences";
import type { Line } from "./session";
import { wordProbabilities, type Part, splitWords, sourceSpans, type Span } from "./words";

export interface WordPosition {
  line: Line;
  /** The index of the line. */
  lineIndex: number;
  /** The index of the sentence in the line. */
  sentence: number;
  part: Part;
  element: HTMLElement;
}

/** Return the source words that are aligned with a word. */
export function sourcesOf({ line, part }: WordPosition): Span[] {
  const alignment = line.translation?.alignment;
  return alignment ? sourceSpans(alignment, line.source, line.text, [part.start, part.start + part.text.length]) : [];
}

export interface OutputListener {
  /** Called when the pointer or the focus has moved to a word, or away from all words. */
  onHover(position: WordPosition | undefined, spans: Span[]): void;
  onChoose(position: WordPosition): void;
}

export class Output {
  readonly element: HTMLElement;
  private positions = new Map<HTMLElement, WordPosition>();
  private shownKeys: string[] = [];
  private language = "";

  constructor(private readonly listener: OutputListener) {
    this.element = make("div", {
      class: "output",
      label: "translation",
      attributes: { role: "group", "aria-describedby": "word-help", translate: "no" },
      on: {
        click: (event) => this.choose(event.target),
        keydown: (event) => this.key(event),
        focusin: (event) => this.showSources(event.target),
        focusout: () => this.listener.onHover(undefined, []),
        mouseover: (event) => this.showSources(event.target),
        mouseleave: () => this.listener.onHover(undefined, []),
      },
    });
  }

  /** Show lines; the elements of unchanged lines are kept, and the focus stays at its place. */
  show(lines: readonly Line[], language: string): void {
    const focused = this.positionOf(document.activeElement);
    const keys = lines.map((line) => `${currentLanguage()} ${line.stage} ${JSON.stringify([line.choiceParts, line.translation?.memory, line.translation?.warnings])}\n${line.text}`);
    if (language !== this.language) this.shownKeys = [];
    this.language = language;
    this.element.lang = tagOf(language);
    this.element.dir = direction(language);
    lines.forEach((line, index) => {
      const existing = this.element.children[index];
      if (existing && this.shownKeys[index] === keys[index]) this.updateWords(existing, line, index);
      else if (existing) existing.replaceWith(this.line(line, index));
      else this.element.append(this.line(line, index));
    });
    while (this.element.children.length > lines.length) this.element.lastElementChild!.remove();
    this.shownKeys = keys;
    this.updateTabStops();
    if (focused && !focused.element.isConnected) this.focusAt(focused.lineIndex, focused.part.start);
  }

  /** Return the position of the word of an element. */
  positionOf(target: EventTarget | null): WordPosition | undefined {
    const word = target instanceof Element ? target.closest<HTMLElement>(".word") : null;
    return word ? this.positions.get(word) : undefined;
  }

  /** Show which sentence is selected. */
  select(lineIndex: number, sentence: number): void {
    this.element.querySelectorAll(".sentence").forEach((span) => span.classList.remove("selected"));
    this.element.children[lineIndex]?.querySelectorAll(".sentence")[sentence]?.classList.add("selected");
  }

  /** Focus the word at a position of a line, or the next one. */
  focusAt(lineIndex: number, position: number): void {
    const words = this.words().filter((word) => this.positions.get(word)!.lineIndex === lineIndex);
    const endsAfter = ({ part }: WordPosition) => part.start + part.text.length > position;
    this.focus(words.find((word) => endsAfter(this.positions.get(word)!)) ?? words.at(-1));
  }

  private updateWords(element: Element, line: Line, lineIndex: number): void {
    element.querySelectorAll<HTMLElement>(".word").forEach((word) => {
      const position = this.positions.get(word);
      if (position) this.positions.set(word, { ...position, line, lineIndex });
    });
  }

  private line(line: Line, lineIndex: number): HTMLElement {
    const element = make("div", { class: `line ${line.stage}` });
    if (line.stage !== "done" || !line.translation) {
      element.append(line.text);
      return element;
    }
    const { translation } = line;
    const probabilityAt = wordProbabilities(line.text, translation.words ?? []);
    const doubts = doubtsOf(line, this.language).filter((doubt) => doubt.side === "target");
    const decisions = decisionsOf(line);
    const sentences = sentencesOf(line.source, translation);
    const spans = sentences.map(() => make("span", { class: "sentence" }));
    const origins = sentences.map((_, index) => usesOf(line.source, translation, index).map(describeUse).join(" "));
    for (const part of splitWords(line.text, this.language)) {
      const sentence = sentenceAt(sentences, part.start);
      const [start, end] = sentences[sentence]!.targetSpan;
      const isBetween = part.start < start || part.start >= end;
      const parent = isBetween ? element : spans[sentence]!;
      if (!isBetween) element.append(parent);
      const word = (): HTMLElement => this.word({ line, lineIndex, sentence, part }, probabilityAt(part.start), doubts, decisions, origins[sentence]!);
      parent.append(part.isWord ? word() : part.text);
    }
    return element;
  }

  /** Create a word; `origin` says where it comes from if that is not the model. */
  private word(place: Omit<WordPosition, "element">, mean: number | undefined, doubts: readonly Doubt[], decisions: readonly Decision[], origin: string): HTMLElement {
    const { part } = place;
    const span: Span = [part.start, part.start + part.text.length];
    const word = make(
      "span",
      { class: "word", attributes: { role: "button", tabindex: "-1", "aria-haspopup": "dialog" } },
      part.text,
    );
    const wordDoubts = doubts.filter((doubt) => overlaps(doubt.span, span));
    const decision = decisions.find((candidate) => overlaps(candidate.span, span));
    if (wordDoubts.length) {
      word.dataset.doubt = String(Math.max(...wordDoubts.map((doubt) => doubt.level)));
      word.title = wordDoubts.map((doubt) => say(doubt.reason, doubt.values)).join(" ");
    } else if (decision) {
      word.title = say(decision.reason);
      word.classList.add(decision.reason === "wordTerm" ? "term" : "chosen");
    } else if (mean !== undefined) word.title = say("probability", { percent: Math.round(100 * mean) });
    else word.title = origin;
    this.positions.set(word, { ...place, element: word });
    return word;
  }

  private words(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>(".word")];
  }

  /** Make one word reachable by Tab; the others are reached from it by the arrow keys. */
  private updateTabStops(): void {
    const words = this.words();
    const current = new Set(words);
    for (const word of this.positions.keys()) if (!current.has(word)) this.positions.delete(word);
    if (words.length && !words.some((word) => word.tabIndex === 0)) words[0]!.tabIndex = 0;
  }

  private focus(word: HTMLElement | undefined): void {
    if (!word) return;
    for (const other of this.words()) other.tabIndex = other === word ? 0 : -1;
    word.focus();
  }

  private key(event: KeyboardEvent): void {
    const words = this.words();
    const index = words.indexOf(document.activeElement as HTMLElement);
    if (index < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const forward = this.element.dir === "rtl" ? -1 : 1;
    const steps: Record<string, number> = { ArrowRight: index + forward, ArrowLeft: index - forward, Home: 0, End: words.length - 1 };
    const target = steps[event.key];
    if (target !== undefined) this.focus(words[target]);
    else if (event.key === "Enter" || event.key === " ") this.choose(words[index]!);
    else return;
    event.preventDefault();
  }

  private choose(target: EventTarget | null): void {
    const position = this.positionOf(target);
    if (!position || String(getSelection()) !== "") return; // the reader is selecting text
    this.listener.onChoose(position);
  }

  private showSources(target: EventTarget | null): void {
    const position = this.positionOf(target);
    this.listener.onHover(position, position ? sourcesOf(position) : []);
  }
}
