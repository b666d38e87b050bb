/** A translation as words that can be pointed at, reached by keys, and chosen. */

import { make } from "./dom";
import { direction } from "./languages";
import { say, spoken } from "./messages";
import type { Line } from "./session";
import { certainties, doubt, type Part, partsOf, sourcesOf, type Span } from "./words";

export interface Place {
  line: Line;
  /** Number of the line. */
  at: number;
  part: Part;
  element: HTMLElement;
}

export interface OutputListener {
  /** The pointer or the focus is on a word, or on none any longer. */
  looked(at: number, spans: Span[]): void;
  chosen(place: Place): void;
}

export class Output {
  readonly element: HTMLElement;
  private places = new Map<HTMLElement, Place>();
  private drawn: string[] = [];
  private language = "";

  constructor(private readonly listener: OutputListener) {
    this.element = make("div", {
      class: "output",
      label: "translation",
      attributes: { role: "group", "aria-describedby": "word-help", translate: "no" },
      on: {
        click: (event) => this.choose(event.target),
        keydown: (event) => this.key(event),
        focusin: (event) => this.look(event.target),
        focusout: () => this.listener.looked(0, []),
        mouseover: (event) => this.look(event.target),
        mouseleave: () => this.listener.looked(0, []),
      },
    });
  }

  /** Show lines; those that are as they were stay, and with them the focus. */
  show(lines: readonly Line[], language: string): void {
    const keys = lines.map((line) => `${spoken()} ${line.stage} ${line.forced ?? ""}\n${line.text}`);
    if (language !== this.language) this.drawn = [];
    this.language = language;
    this.element.lang = language.replaceAll("_", "-");
    this.element.dir = direction(language);
    lines.forEach((line, at) => {
      const old = this.element.children[at];
      if (old && this.drawn[at] === keys[at]) this.renew(old, line, at);
      else if (old) old.replaceWith(this.line(line, at));
      else this.element.append(this.line(line, at));
    });
    while (this.element.children.length > lines.length) this.element.lastElementChild!.remove();
    this.drawn = keys;
    this.rove();
  }

  /** What stands at an element of a word. */
  placeOf(target: EventTarget | null): Place | undefined {
    const word = target instanceof Element ? target.closest<HTMLElement>(".word") : null;
    return word ? this.places.get(word) : undefined;
  }

  /** Bring the focus to the word of a line that begins at a place, or behind it. */
  focusAt(at: number, start: number): void {
    const words = this.words().filter((word) => this.places.get(word)!.at === at);
    this.focus(words.find((word) => this.places.get(word)!.part.start >= start) ?? words.at(-1));
  }

  private renew(element: Element, line: Line, at: number): void {
    element.querySelectorAll<HTMLElement>(".word").forEach((word) => {
      const place = this.places.get(word);
      if (place) this.places.set(word, { ...place, line, at });
    });
  }

  private line(line: Line, at: number): HTMLElement {
    const element = make("div", { class: `line ${line.stage}` });
    if (line.stage !== "done" || !line.made) {
      element.append(line.text);
      return element;
    }
    const certain = certainties(line.text, line.made.words ?? []);
    for (const part of partsOf(line.text, this.language)) {
      if (part.isWord) element.append(this.word(line, at, part, certain(part.start)));
      else element.append(part.text);
    }
    return element;
  }

  private word(line: Line, at: number, part: Part, mean: number | undefined): HTMLElement {
    const word = make(
      "span",
      { class: "word", attributes: { role: "button", tabindex: "-1", "aria-haspopup": "dialog" } },
      part.text,
    );
    const level = doubt(mean);
    if (level) word.dataset.doubt = String(level);
    if (mean !== undefined) word.title = say("probability", { percent: Math.round(100 * mean) });
    const [from, to] = line.forced ?? [0, 0];
    if (from <= part.start && part.start + part.text.length <= to) word.classList.add("forced");
    this.places.set(word, { line, at, part, element: word });
    return word;
  }

  private words(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>(".word")];
  }

  /** One word is reached by Tab, the others from it by the arrows. */
  private rove(): void {
    const words = this.words();
    const kept = new Set(words);
    for (const word of this.places.keys()) if (!kept.has(word)) this.places.delete(word);
    if (words.length && !words.some((word) => word.tabIndex === 0)) words[0]!.tabIndex = 0;
  }

  private focus(word: HTMLElement | undefined): void {
    if (!word) return;
    for (const other of this.words()) other.tabIndex = other === word ? 0 : -1;
    word.focus();
  }

  private key(event: KeyboardEvent): void {
    const words = this.words();
    const here = words.indexOf(document.activeElement as HTMLElement);
    if (here < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const on = this.element.dir === "rtl" ? -1 : 1;
    const steps: Record<string, number> = { ArrowRight: here + on, ArrowLeft: here - on, Home: 0, End: words.length - 1 };
    const to = steps[event.key];
    if (to !== undefined) this.focus(words[to]);
    else if (event.key === "Enter" || event.key === " ") this.choose(words[here]!);
    else return;
    event.preventDefault();
  }

  private choose(target: EventTarget | null): void {
    const place = this.placeOf(target);
    if (!place || String(getSelection()) !== "") return; // the reader is marking text
    this.listener.chosen(place);
  }

  private look(target: EventTarget | null): void {
    const place = this.placeOf(target);
    const alignment = place?.line.made?.alignment;
    if (!place || !alignment) return this.listener.looked(0, []);
    const { line, part } = place;
    const span: Span = [part.start, part.start + part.text.length];
    this.listener.looked(place.at, sourcesOf(alignment, line.source, line.text, span));
  }
}
