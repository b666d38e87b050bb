/** A text box whose words can be highlighted and underlined, by elements with the same text behind it. */

import { make } from "./dom";
import { linesOf } from "./lines";
import { splitAtSpans, type Span } from "./words";

export interface SourceListener {
  onInput(isPasted: boolean): void;
  /** Called when the reader may have moved the caret. */
  onCaret(): void;
}

export class SourceBox {
  readonly box: HTMLTextAreaElement;
  readonly element: HTMLElement;
  private readonly mirror = make("div", { class: "mirror", attributes: { "aria-hidden": "true" } });
  /** As high as the text, and with it the box, which does not scroll. */
  private readonly doubts = make("div", { class: "mirror doubts", attributes: { "aria-hidden": "true" } });

  constructor(listener: SourceListener) {
    this.box = make("textarea", {
      id: "source",
      label: "source",
      placeholder: "sourceHint",
      attributes: { spellcheck: "true", dir: "auto", autocomplete: "off" },
      on: {
        input: (event) => {
          this.underline([]);
          listener.onInput((event as InputEvent).inputType !== undefined && (event as InputEvent).inputType.startsWith("insertFrom"));
        },
        click: () => listener.onCaret(),
        keyup: () => listener.onCaret(),
      },
    });
    this.element = make("div", { class: "box" }, this.mirror, this.doubts, this.box);
  }

  get text(): string {
    return this.box.value;
  }

  set text(text: string) {
    this.box.value = text;
    this.underline([]);
  }

  /** The caret: its line, and the offset in it. */
  get caret(): { lineIndex: number; offset: number } {
    const before = linesOf(this.text.slice(0, this.box.selectionStart));
    return { lineIndex: before.length - 1, offset: before.at(-1)!.length };
  }

  /** Highlight spans of a line. */
  mark(lineIndex: number, spans: readonly Span[]): void {
    this.fill(this.mirror, "mark", this.shifted(lineIndex, spans));
  }

  /** Underline the spans of each line. */
  underline(lines: ReadonlyArray<readonly Span[]>): void {
    this.fill(this.doubts, "u", lines.flatMap((spans, index) => this.shifted(index, spans)));
  }

  /** Select a span of a line. */
  select(lineIndex: number, span: Span): void {
    const [[start, end]] = this.shifted(lineIndex, [span]) as [Span];
    this.box.focus();
    this.box.setSelectionRange(start, end);
  }

  /** Return spans of a line as spans of the text. */
  private shifted(lineIndex: number, spans: readonly Span[]): Span[] {
    const before = linesOf(this.text).slice(0, lineIndex).reduce((sum, line) => sum + line.length + 1, 0);
    return spans.map(([start, end]) => [before + start, before + end]);
  }

  private fill(layer: HTMLElement, tag: "mark" | "u", spans: readonly Span[]): void {
    const parts = splitAtSpans(this.text, spans);
    layer.replaceChildren(...parts.map((part) => (part.isMarked ? make(tag, {}, part.text) : part.text)), "\n");
    layer.dir = getComputedStyle(this.box).direction;
  }
}
