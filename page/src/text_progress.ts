/** The progress of the translation of a text that takes longer than a moment. */

import { make } from "./dom";
import { say } from "./say";

/** Milliseconds until the progress of a translation is shown. */
const DELAY = 1000;
const TICK = 1000;
/** The share of the text after which the progress is announced again. */
const ANNOUNCED_STEP = 0.25;

export class TextProgress {
  readonly element: HTMLElement;
  private readonly bar = make("progress", { label: "working" });
  private readonly text = make("span", {});
  private readonly status = make("span", { class: "unseen", attributes: { role: "status" } });
  private readonly shown = make("div", { class: "shown-progress" }, this.bar, this.text);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private startTime = 0;
  private announced = 0;
  private share = 0;

  constructor() {
    this.shown.hidden = true;
    this.element = make("div", { class: "text-progress" }, this.shown, this.status);
  }

  /** Show the share of a text that is translated, from 0 to 1; 0 if it is not known. */
  update(share: number): void {
    this.share = share;
    if (this.timer === undefined) {
      this.startTime = Date.now();
      this.timer = setTimeout(() => this.tick(), DELAY);
    } else if (!this.shown.hidden) this.show();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.shown.hidden = true;
    this.status.textContent = "";
    this.announced = 0;
  }

  private tick(): void {
    this.show();
    this.timer = setTimeout(() => this.tick(), TICK);
  }

  private show(): void {
    const percent = Math.floor(100 * this.share);
    const seconds = Math.round((Date.now() - this.startTime) / 1000);
    if (percent) this.bar.value = this.share;
    else this.bar.removeAttribute("value");
    this.text.textContent = percent ? say("progressShare", { percent, seconds }) : say("progress", { seconds });
    if (this.shown.hidden || this.share >= this.announced + ANNOUNCED_STEP) {
      this.announced = this.share;
      this.status.textContent = this.text.textContent;
    }
    this.shown.hidden = false;
  }
}
