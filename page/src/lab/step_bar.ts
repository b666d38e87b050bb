/** The step of the decoder that a view shows: one back, one further, or played from the first to the last. */

import { make } from "../dom";
import type { Lab } from "./lab";
import { type Key, say } from "./messages";
import { type Axes } from "./state";

const PAUSE = 1100; // milliseconds between two steps

export class StepBar {
  readonly text = make("span", { class: "lab-step", attributes: { role: "status" } });
  readonly element: HTMLElement;
  private readonly back = this.button("stepBack", "◀", () => this.go(this.step - 1));
  private readonly next = this.button("stepNext", "▶", () => this.go(this.step + 1));
  private readonly playing = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => this.toggle() } }, say("stepPlay"));
  private timer: ReturnType<typeof setInterval> | undefined;
  private count = 0;

  /** `first` is the first step: 1, or 0 for all steps. */
  constructor(private readonly lab: Lab, private readonly first: 0 | 1, private readonly onStep: () => void) {
    this.element = make("div", { class: "lab-stepbar", attributes: { role: "group", "aria-label": say("labSteps") } }, this.back, this.next, this.playing, this.text);
  }

  /** The step, which is less than chosen if the translation has become shorter. */
  get step(): number {
    return Math.max(this.first, Math.min(this.lab.state.step, this.count));
  }

  show({ inputs, predicted }: Axes): void {
    this.count = predicted.length;
    const step = this.step;
    this.text.textContent = step
      ? say("stepOf", { step, steps: this.count, read: inputs[step - 1] ?? "", written: predicted[step - 1] ?? "" })
      : say("stepAll", { steps: this.count });
    this.back.disabled = step <= this.first;
    this.next.disabled = step >= this.count;
  }

  /** Show a step; the first and the last one are the limits. */
  go(step: number): void {
    this.lab.note({ step: Math.max(this.first, Math.min(step, this.count)) });
    this.onStep();
    if (this.timer !== undefined && this.step >= this.count) this.toggle();
  }

  stop(): void {
    if (this.timer !== undefined) this.toggle();
  }

  private toggle(): void {
    if (this.timer !== undefined) {
      clearInterval(this.timer);
      this.timer = undefined;
    } else {
      this.timer = setInterval(() => (this.element.isConnected ? this.go(this.step + 1) : this.stop()), PAUSE);
      this.go(this.step >= this.count ? 1 : this.step + 1);
    }
    this.playing.textContent = say(this.timer === undefined ? "stepPlay" : "stepPause");
  }

  private button(name: Key, sign: string, click: () => void): HTMLButtonElement {
    return make("button", { class: "lab-button", label: name, title: name, attributes: { type: "button" }, on: { click } }, sign);
  }
}
