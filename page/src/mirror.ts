/** A text box whose words can be marked: behind it lies the same text, with the marks. */

import { make } from "./dom";
import { marked, type Span } from "./words";

export class SourceBox {
  readonly box: HTMLTextAreaElement;
  readonly element: HTMLElement;
  private readonly mirror: HTMLElement;

  constructor(changed: (isPasted: boolean) => void) {
    this.mirror = make("div", { class: "mirror", attributes: { "aria-hidden": "true" } });
    this.box = make("textarea", {
      id: "source",
      label: "source",
      placeholder: "sourceHint",
      attributes: { spellcheck: "true", dir: "auto", autocomplete: "off" },
      on: {
        input: (event) => {
          this.fit();
          changed((event as InputEvent).inputType !== undefined && (event as InputEvent).inputType.startsWith("insertFrom"));
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
    this.fit();
  }

  /** Mark places of a line. */
  mark(at: number, spans: readonly Span[]): void {
    const lines = this.text.split("\n");
    const before = lines.slice(0, at).reduce((sum, line) => sum + line.length + 1, 0);
    const moved = spans.map(([start, end]): Span => [before + start, before + end]);
    const parts = spans.length ? marked(this.text, moved) : [];
    this.mirror.replaceChildren(...parts.map((part) => (part.isMarked ? make("mark", {}, part.text) : part.text)));
    this.mirror.dir = getComputedStyle(this.box).direction;
  }

  /** As high as its text, so that it need not scroll. */
  private fit(): void {
    this.mirror.replaceChildren(`${this.text}\n`);
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight}px`;
    this.mirror.replaceChildren();
  }
}
