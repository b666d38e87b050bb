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
    this.fill(this.mirror, "mark", shifted(spans, this.lineStarts()[lineIndex]));
  }

  /** Underline the spans of each line. */
  underline(lines: ReadonlyArray<readonly Span[]>): void {
    const starts = this.lineStarts();
    this.fill(this.doubts, "u", lines.flatMap((spans, index) => shifted(spans, starts[index])));
  }

  /** Select a span of a line. */
  select(lineIndex: number, span: Span): void {
    const [[start, end]] = shifted([span], this.lineStarts()[lineIndex]) as [Span];
    this.box.focus();
    this.box.setSelectionRange(start, end);
  }

  /** Return the position in the text at which each line starts. */
  private lineStarts(): number[] {
    let position = 0;
    return linesOf(this.text).map((line) => {
      const start = position;
      position += line.length + 1;
      return start;
    });
  }

  private fill(layer: HTMLElement, tag: "mark" | "u", spans: readonly Span[]): void {
    const parts = splitAtSpans(this.text, spans);
    layer.replaceChildren(...parts.map((part) => (part.isMarked ? make(tag, {}, part.text) : part.text)), "\n");
    layer.dir = getComputedStyle(this.box).direction;
  }
}

/** Return spans of a line, which starts at a position of the text, as spans of the text. */
function shifted(spans: readonly Span[], lineStart = 0): Span[] {
  return spans.map(([start, end]) => [lineStart + start, lineStart + end]);
}
