/** Tabs as the ARIA practices have them: one is reached by Tab, the others by the arrows. */

import { make } from "./dom";
import type { Key } from "./messages";

export interface Tab {
  key: Key;
  element: HTMLElement;
  /** Called each time that it is shown. */
  shown?(): void;
}

export class Tabs {
  readonly element: HTMLElement;
  private readonly buttons: HTMLButtonElement[];
  private readonly panels: HTMLElement[];

  constructor(private readonly tabs: readonly Tab[]) {
    this.buttons = tabs.map((tab, at) =>
      make("button", {
        say: tab.key,
        id: tab.key,
        attributes: { type: "button", role: "tab", "aria-controls": `${tab.key}-panel` },
        on: { click: () => this.show(at), keydown: (event) => this.key(event, at) },
      }),
    );
    this.panels = tabs.map((tab) =>
      make("div", { id: `${tab.key}-panel`, attributes: { role: "tabpanel", "aria-labelledby": tab.key } }, tab.element),
    );
    const list = make("div", { class: "tabs", label: "tabs", attributes: { role: "tablist" } }, ...this.buttons);
    this.element = make("div", {}, list, ...this.panels);
    this.show(0);
  }

  show(chosen: number): void {
    this.buttons.forEach((one, at) => {
      one.setAttribute("aria-selected", String(at === chosen));
      one.tabIndex = at === chosen ? 0 : -1;
      this.panels[at]!.hidden = at !== chosen;
    });
    this.tabs[chosen]!.shown?.();
  }

  private key(event: KeyboardEvent, at: number): void {
    const on = getComputedStyle(this.element).direction === "rtl" ? -1 : 1;
    const count = this.buttons.length;
    const steps: Record<string, number> = { ArrowRight: at + on, ArrowLeft: at - on, Home: 0, End: count - 1 };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + count) % count;
    this.show(next);
    this.buttons[next]!.focus();
  }
}
