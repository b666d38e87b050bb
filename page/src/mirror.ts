/** A text box whose words can be highlighted, by an element with the same text behind it. */

import { make } from "./dom";
import { splitAtSpans, type Span } from "./words";

export class SourceBox {
  readonly box: HTMLTextAreaElement;
  readonly element: HTMLElement;
  private readonly mirror: HTMLElement;

  constructor(onInput: (isPasted: boolean) => void) {
    this.mirror = make("div", { class: "mirror", attributes: { "aria-hidden": "true" } });
    this.box = make("textarea", {
      id: "source",
      label: "source",
      placeholder: "sourceHint",
      attributes: { spellcheck: "true", dir: "auto", autocomplete: "off" },
      on: {
        input: (event) => {
          this.resize();
          onInput((event as InputEvent).inputType !== undefined && (event as InputEvent).inputType.startsWith("insertFrom"));
        },
      },
    });
    this.element = make("div", { class: "box" }, this.mirror, this.box);
  }

  get text(): string {
    return this.box.value;
  }

  set text(text: string) {
    this.box.value = text;
    this.resize();
  }

  /** Highlight spans of a line. */
  mark(lineIndex: number, spans: readonly Span[]): void {
    const lines = this.text.split("\n");
    const before = lines.slice(0, lineIndex).reduce((sum, line) => sum + line.length + 1, 0);
    const shifted = spans.map(([start, end]): Span => [before + start, before + end]);
    const parts = spans.length ? splitAtSpans(this.text, shifted) : [];
    this.mirror.replaceChildren(...parts.map((part) => (part.isMarked ? make("mark", {}, part.text) : part.text)));
    this.mirror.dir = getComputedStyle(this.box).direction;
  }

  /** Fit the height to the text, so that the box does not scroll. */
  private resize(): void {
    this.mirror.replaceChildren(`${this.text}\n`);
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight}px`;
    this.mirror.replaceChildren();
  }
}
