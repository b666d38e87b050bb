/** From which language to which. */

import type { App } from "./app";
import { make, options } from "./dom";
import { AUTO, nameOf, targetsOf } from "./languages";
import { say, spoken } from "./messages";

export class LanguageBar {
  readonly element: HTMLElement;
  private readonly from = make("select", { id: "from" });
  private readonly to = make("select", { id: "to" });
  private readonly found = make("span", { class: "faint", attributes: { role: "status" } });
  private readonly exchange: HTMLButtonElement;
  private code: string | undefined;

  constructor(
    private readonly app: App,
    changed: () => void,
    swap: () => void,
  ) {
    this.exchange = make("button", { class: "button swap", label: "swap", title: "swap", attributes: { type: "button" }, on: { click: swap } }, "⇄");
    const choose = () => {
      this.app.choose(this.from.value, this.to.value);
      this.refresh();
      changed();
    };
    for (const select of [this.from, this.to]) select.addEventListener("change", choose);
    this.element = make(
      "div",
      { class: "bar" },
      make("div", {}, make("label", { say: "from", attributes: { for: "from" } }), this.from, this.found),
      this.exchange,
      make("div", {}, make("label", { say: "to", attributes: { for: "to" } }), this.to),
    );
    this.refresh();
  }

  /** The language that a text was found to be in, undefined if nobody asked. */
  detected(code: string | undefined): void {
    this.code = code;
    this.refresh();
  }

  refresh(): void {
    const { offer, store } = this.app;
    const { source, target } = store.settings;
    const reader = spoken();
    const named = (languages: typeof offer.sources) =>
      languages
        .map((one): [string, string] => [one.code, nameOf(one, reader)])
        .sort((one, other) => one[1].localeCompare(other[1], reader));
    const auto: Array<[string, string]> = offer.detects ? [[AUTO, say("detect")]] : [];
    options(this.from, [...auto, ...named(offer.sources)], source);
    options(this.to, named(targetsOf(offer, source)), target);
    const isAuto = source === AUTO;
    this.found.textContent = isAuto && this.code ? say("detected", { language: this.app.nameOf(this.code) }) : "";
    const way = this.app.swapped(isAuto ? this.code : source);
    this.exchange.disabled = way === null;
    const from = this.app.nameOf(target);
    const to = this.app.nameOf((isAuto ? this.code : source) ?? "");
    this.exchange.title = way === null && to ? say("noSwap", { from, to }) : say("swap");
  }
}
