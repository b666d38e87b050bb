/** Tabs according to the ARIA practices: one is reached by Tab, the others by the arrow keys. */

import { make } from "./dom";
import type { Key } from "./messages";

export interface Tab {
  key: Key;
  element: HTMLElement;
  /** Called each time the tab is shown. */
  onShow?(): void;
}

export class Tabs {
  readonly element: HTMLElement;
  private readonly buttons: HTMLButtonElement[];
  private readonly panels: HTMLElement[];

  constructor(private readonly tabs: readonly Tab[]) {
    this.buttons = tabs.map((tab, index) =>
      make("button", {
        say: tab.key,
        id: tab.key,
        attributes: { type: "button", role: "tab", "aria-controls": `${tab.key}-panel` },
        on: { click: () => this.show(index), keydown: (event) => this.key(event, index) },
      }),
    );
    this.panels = tabs.map((tab) =>
      make("div", { id: `${tab.key}-panel`, attributes: { role: "tabpanel", "aria-labelledby": tab.key } }, tab.element),
    );
    const list = make("div", { class: "tabs", label: "tabs", attributes: { role: "tablist" } }, ...this.buttons);
    this.element = make("div", {}, list, ...this.panels);
    this.show(0);
  }

  show(selected: number, withFocus = false): void {
    this.buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(index === selected));
      button.tabIndex = index === selected ? 0 : -1;
      this.panels[index]!.hidden = index !== selected;
    });
    this.tabs[selected]!.onShow?.();
    if (withFocus) this.buttons[selected]!.focus();
  }

  private key(event: KeyboardEvent, index: number): void {
    const forward = getComputedStyle(this.element).direction === "rtl" ? -1 : 1;
    const count = this.buttons.length;
    const steps: Record<string, number> = { ArrowRight: index + forward, ArrowLeft: index - forward, Home: 0, End: count - 1 };
    const target = steps[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const next = (target + count) % count;
    this.show(next, true);
  }
}
