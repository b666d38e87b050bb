/** The selection of the source and target language. */

import type { App } from "./app";
import { make, fillSelect } from "./dom";
import { icon } from "./icons";
import { AUTO, nameOf, availableTargets, type Language, type LanguagePair } from "./languages";
import { say, currentLanguage } from "./messages";

export class LanguageBar {
  readonly element: HTMLElement;
  private readonly from = make("select", { id: "from" });
  private readonly to = make("select", { id: "to" });
  private readonly status = make("span", { class: "unseen", attributes: { role: "status" } });
  private readonly swapButton: HTMLButtonElement;

  constructor(
    private readonly app: App,
    onChange: () => void,
    onSwap: () => void,
  ) {
    this.swapButton = make("button", { class: "button swap", label: "swap", attributes: { type: "button" }, on: { click: onSwap } }, icon("swap"));
    const choose = (changes: Partial<LanguagePair>) => {
      this.app.choose(changes);
      this.refresh();
      onChange();
    };
    this.from.addEventListener("change", () => choose({ source: this.from.value }));
    this.to.addEventListener("change", () => choose({ target: this.to.value }));
    this.element = make(
      "div",
      { class: "bar" },
      make("div", { class: "side" }, make("label", { say: "from", attributes: { for: "from" } }), this.from, this.status, this.swapButton),
      make("div", { class: "side" }, make("label", { say: "to", attributes: { for: "to" } }), this.to),
    );
    this.refresh();
  }

  refresh(): void {
    const { languages, pair: { source, target }, textPair } = this.app;
    const reader = currentLanguage();
    const toOptions = (choices: Language[]) =>
      choices
        .map((language): [string, string] => [language.code, nameOf(language, reader)])
        .sort((first, second) => first[1].localeCompare(second[1], reader));
    const detected = textPair.source === source ? "" : say("detected", { language: this.app.nameOf(textPair.source) });
    const auto: Array<[string, string]> = languages.detects ? [[AUTO, detected || say("detect")]] : [];
    fillSelect(this.from, [...auto, ...toOptions(languages.sources)], source);
    fillSelect(this.to, toOptions(availableTargets(languages, source)), target);
    this.status.textContent = detected;
    const problem = this.swapProblem();
    this.swapButton.setAttribute("aria-disabled", String(problem !== ""));
    this.swapButton.title = problem || say("swap");
  }

  /** Return why the languages cannot be swapped; empty if they can. */
  swapProblem(): string {
    const { source, target } = this.app.textPair;
    if (source === AUTO) return say("noSwapYet");
    return this.app.swappedPair() ? "" : say("noSwap", this.app.withLanguageNames({ from: target, to: source }));
  }
}
