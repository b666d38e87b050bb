/** The positions of tokens as a row of chips: two are exchanged by dragging one onto another, or with the keyboard. */

import { make } from "../dom";
import { say } from "./messages";

const LARGEST = 99;

export class Positions {
  readonly chips = make("div", { class: "lab-chips", attributes: { role: "group", "aria-label": say("changePositions") } });
  private places: number[] = [];
  private picked: number | undefined;
  private active = 0;

  /** `set` is called with new positions of the tokens. */
  constructor(private readonly set: (places: number[]) => void) {
    this.chips.addEventListener("keydown", (event) => this.onKey(event));
    this.chips.addEventListener("pointerdown", (event) => this.onPress(event));
    this.chips.addEventListener("click", (event) => {
      const index = this.indexOf(event.target);
      if (event.detail === 0 && index !== undefined) this.release(index, this.pick(index)); // by keyboard
    });
  }

  /** Show tokens and their positions. */
  show(tokens: string[], places: number[]): void {
    this.places = places;
    const hadFocus = this.chips.contains(document.activeElement);
    if (this.picked !== undefined && this.picked >= tokens.length) this.picked = undefined;
    this.active = Math.max(0, Math.min(this.active, tokens.length - 1));
    this.chips.replaceChildren(...tokens.map((token, index) => {
      const position = places[index] as number;
      const chip = make("button", { class: "lab-chip", attributes: { type: "button", "data-index": String(index), title: say("editPosition", { token, position }) } },
        make("span", {}, token), " ", make("small", {}, String(position)));
      chip.classList.toggle("changed", position !== index);
      return chip;
    }));
    this.mark();
    if (hadFocus) this.activate(this.active);
  }

  /** The chip that is picked, or else the one that the Tab key reaches. */
  get chosen(): number {
    return this.picked ?? this.active;
  }

  private indexOf(target: EventTarget | null): number | undefined {
    const chip = target instanceof Element ? target.closest<HTMLElement>("[data-index]") : null;
    return chip && this.chips.contains(chip) ? Number(chip.dataset.index) : undefined;
  }

  private mark(): void {
    [...this.chips.children].forEach((chip, index) => {
      chip.setAttribute("aria-pressed", String(index === this.picked));
      (chip as HTMLElement).tabIndex = index === this.active ? 0 : -1;
    });
  }

  private activate(index: number): void {
    this.active = index;
    this.mark();
    (this.chips.children[index] as HTMLElement | undefined)?.focus();
  }

  /** Pick a chip, unless one is picked already; return whether it was picked now. */
  private pick(index: number): boolean {
    this.activate(index);
    if (this.picked !== undefined) return false;
    this.picked = index;
    this.mark();
    return true;
  }

  /** Exchange the picked chip with another, or put it down. */
  private release(index: number | undefined, isNew: boolean): void {
    if (index !== this.picked || !isNew) this.swap(index);
  }

  private onPress(event: PointerEvent): void {
    const index = this.indexOf(event.target);
    if (index === undefined || event.button !== 0) return;
    const isNew = this.pick(index);
    const onRelease = (up: PointerEvent): void => {
      removeEventListener("pointerup", onRelease);
      removeEventListener("pointercancel", onRelease);
      this.release(this.indexOf(document.elementFromPoint(up.clientX, up.clientY)), isNew);
    };
    addEventListener("pointerup", onRelease);
    addEventListener("pointercancel", onRelease);
  }

  private swap(index: number | undefined): void {
    const { picked } = this;
    this.picked = undefined;
    this.mark();
    if (picked === undefined || index === undefined || index === picked) return;
    const places = [...this.places];
    [places[picked], places[index]] = [places[index] as number, places[picked] as number];
    this.set(places);
  }

  private onKey(event: KeyboardEvent): void {
    const last = this.places.length - 1;
    const move = { ArrowLeft: this.active - 1, ArrowRight: this.active + 1, Home: 0, End: last }[event.key];
    const change = { ArrowUp: 1, ArrowDown: -1, "+": 1, "-": -1 }[event.key];
    if (move !== undefined) this.activate(Math.min(last, Math.max(0, move)));
    else if (change !== undefined) {
      const places = [...this.places];
      places[this.active] = Math.min(LARGEST, Math.max(0, (places[this.active] as number) + change));
      this.set(places);
    } else if (event.key === "Escape" && this.picked !== undefined) {
      this.picked = undefined;
      this.mark();
    } else return;
    event.preventDefault();
  }
}

/** Stop counting at a token: it and all later tokens have its position. */
export const frozen = (places: number[], index: number): number[] => places.map((position, i) => (i > index ? (places[index] as number) : position));

/** Leave out the position of a token: it and all later tokens move on by one. */
export const skipped = (places: number[], index: number): number[] => places.map((position, i) => (i >= index ? Math.min(LARGEST, position + 1) : position));
