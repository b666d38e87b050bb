/** The tab with earlier translations, which are stored only in this browser. */

import type { App } from "./app";
import { button, checkbox, make } from "./dom";
import { icon } from "./icons";
import { currentLanguage } from "./messages";
import { addEntry, type Entry } from "./store";
import { UndoNotice } from "./undo";

/** Characters of a text that are shown; the style limits its lines. */
const MAX_CHARACTERS = 300;

function shortened(text: string): string {
  return text.length > MAX_CHARACTERS ? `${[...text.slice(0, MAX_CHARACTERS)].slice(0, -1).join("")}…` : text;
}

export class HistoryTab {
  readonly key = "tabHistory" as const;
  readonly element: HTMLElement;
  private readonly list = make("ul", { class: "history" });
  private readonly clear = button("historyClear", () => this.removeAll());
  private readonly undo = new UndoNotice();
  private readonly empty = make("div", { class: "empty" }, icon("history"), make("p", { say: "historyEmpty" }));

  constructor(
    private readonly app: App,
    private readonly open: (entry: Entry) => void,
  ) {
    const keepBox = checkbox("historyKeep", app.store.settings.keepsHistory, (isChecked) => app.store.change({ keepsHistory: isChecked }));
    this.element = make("div", {}, make("p", { say: "keyHelp", class: "faint" }), make("div", { class: "row" }, keepBox, this.clear, this.undo.element), this.empty, this.list);
  }

  onShow(): void {
    this.undo.clear();
    this.refresh();
  }

  /** Show the stored translations. */
  refresh(): void {
    const entries = this.app.store.history();
    this.empty.hidden = entries.length > 0;
    this.clear.hidden = !entries.length;
    this.list.replaceChildren(...entries.map((entry) => this.item(entry)));
  }

  /** Clear the history, until the reader undoes it; what was added meanwhile stays. */
  private removeAll(): void {
    const { store } = this.app;
    const entries = store.history();
    store.setHistory([]);
    this.refresh();
    this.undo.show(() => {
      store.setHistory(store.history().reduceRight(addEntry, entries));
      this.refresh();
    }, this.clear);
  }

  private item(entry: Entry): HTMLElement {
    const time = new Date(entry.time);
    const formatted = time.toLocaleString(currentLanguage(), { dateStyle: "medium", timeStyle: "short" });
    const side = (text: string, lang: string) => make("span", { attributes: { dir: "auto", lang } }, shortened(text));
    const choice = make("button", { class: "choice", title: "historyOpen", attributes: { type: "button" } },
      make("span", { class: "faint" }, `${this.app.nameOf(entry.source)} → ${this.app.nameOf(entry.target)}, `,
        make("time", { attributes: { datetime: time.toISOString() } }, formatted)),
      side(entry.text, entry.source), side(entry.translation, entry.target));
    choice.addEventListener("click", () => this.open(entry));
    return make("li", {}, choice);
  }
}
