/** The tab for glossaries, typed or read from a file and stored in the browser for each pair of languages. */

import type { App } from "./app";
import { button, checkbox, make, saveFile, setMessage, setText } from "./dom";
import { mergePairs, type Pair, readPairs, writePairs } from "./glossary_file";
import { icon } from "./icons";
import { type Key, say } from "./messages";
import type { Session } from "./session";
import { UndoNotice } from "./undo";

export class GlossaryTab {
  readonly key = "tabGlossary" as const;
  readonly element: HTMLElement;
  private readonly intro = make("p", { class: "faint" });
  private readonly rows = make("tbody");
  private readonly confirmedRows = make("tbody");
  private readonly confirmed: HTMLElement;
  private readonly keep = make("div", { class: "row" });
  private readonly empty = make("div", { class: "empty" }, icon("glossary"), make("p", { say: "glossaryEmpty" }));
  private readonly note = make("p", { class: "faint", attributes: { role: "status" } });
  private readonly problem = make("p", { class: "note", attributes: { role: "alert" } });
  private readonly removeAll = button("glossaryClear", () => this.remove([]));
  private readonly removeAllConfirmed = button("confirmedClear", () => this.removeConfirmed([]));
  private readonly undo = new UndoNotice();
  private readonly undoConfirmed = new UndoNotice();
  private readonly source = make("input", { label: "glossarySource", placeholder: "glossarySource", attributes: { autocomplete: "off", dir: "auto" } });
  private readonly target = make("input", { label: "glossaryTarget", placeholder: "glossaryTarget", attributes: { autocomplete: "off", dir: "auto" } });

  constructor(
    private readonly app: App,
    private readonly onChange: () => void,
    private readonly session: Session,
  ) {
    const form = make("form", { class: "row" }, this.source, this.target, make("button", { say: "glossaryAdd", class: "button" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
    const file = make("input", { id: "glossary-file", class: "unseen", attributes: { type: "file", accept: ".tsv,.csv,.txt,text/*" } });
    file.addEventListener("change", () => void this.read(file));
    const uses = checkbox("glossaryUse", app.store.settings.usesGlossary, (isChecked) => {
      app.store.change({ usesGlossary: isChecked });
      this.onChange();
    });
    const tools = make("div", { class: "row" }, uses, file,
      make("label", { say: "glossaryFile", class: "button", attributes: { for: "glossary-file" } }),
      this.keep);
    this.keep.append(button("glossarySave", () => this.save("glossary", this.app.pair, this.pairs())), this.removeAll);
    this.confirmed = make("section", { class: "confirmed" }, make("h2", { say: "confirmedTitle" }), make("p", { say: "confirmedIntro", class: "faint" }),
      make("div", { class: "row" },
        button("glossarySave", () => this.save("confirmed", this.session.settings, this.confirmedPairs())),
        this.removeAllConfirmed),
      table("tabText", "translation", this.confirmedRows));
    this.element = make("div", {}, this.intro, tools, form, this.problem, this.note, this.empty, table("glossarySource", "glossaryTarget", this.rows), this.undo.element,
      this.confirmed, this.undoConfirmed.element);
    app.listeners.push(() => this.onShow());
    this.onShow();
  }

  onShow(): void {
    for (const notice of [this.undo, this.undoConfirmed]) notice.clear();
    this.refresh();
  }

  /** Show the stored pairs. */
  refresh(): void {
    for (const message of [this.note, this.problem]) setText(message, "");
    const { source, target } = this.app.pair;
    this.intro.textContent = say("glossaryIntro", this.app.withLanguageNames({ from: source, to: target }));
    const pairs = this.pairs();
    this.rows.replaceChildren(...pairs.map((pair) => row(pair, () => this.remove(this.pairs().filter(([term]) => term !== pair[0])))));
    this.rows.parentElement!.hidden = this.keep.hidden = !pairs.length;
    this.empty.hidden = pairs.length > 0;
    const confirmed = this.confirmedPairs();
    this.confirmed.hidden = !confirmed.length;
    this.confirmedRows.replaceChildren(...confirmed.map((pair) => row(pair, () => this.removeConfirmed(this.confirmedPairs().filter(([source]) => source !== pair[0])))));
  }

  private pairs(): Pair[] {
    const { source, target } = this.app.pair;
    return this.app.store.glossary(source, target);
  }

  private set(pairs: Pair[]): void {
    const { source, target } = this.app.pair;
    this.app.store.setGlossary(source, target, pairs);
    this.onShow();
    this.onChange();
  }

  /** Keep only these pairs of the glossary, until the reader undoes it. */
  private remove(pairs: Pair[]): void {
    const all = this.pairs();
    this.set(pairs);
    this.undo.show(() => this.set(all), this.removeAll);
  }

  private confirmedPairs(): Pair[] {
    const { source, target } = this.session.settings;
    return this.app.store.confirmed(source, target);
  }

  /** Keep only these confirmed pairs, until the reader undoes it. */
  private removeConfirmed(pairs: Pair[]): void {
    const all = this.confirmedPairs();
    this.setConfirmed(pairs);
    this.undoConfirmed.show(() => this.setConfirmed(all), this.removeAllConfirmed);
  }

  /** Set the confirmed pairs; those that are left out are not used any more. */
  private setConfirmed(pairs: Pair[]): void {
    const { source, target } = this.session.settings;
    const removed = this.confirmedPairs().filter(([sentence]) => !pairs.some(([other]) => other === sentence));
    this.app.store.setConfirmed(source, target, pairs);
    this.session.forget(removed.map(([sentence]) => sentence));
    this.onShow();
    this.onChange();
  }

  private add(): void {
    const pair: Pair = [this.source.value.trim(), this.target.value.trim()];
    if (!pair[0] || !pair[1]) {
      setMessage(this.problem, "glossaryHalf");
      return (pair[0] ? this.target : this.source).focus();
    }
    this.set(mergePairs(this.pairs(), [pair]));
    this.source.value = this.target.value = "";
    this.source.focus();
  }

  private async read(input: HTMLInputElement): Promise<void> {
    const [file] = input.files ?? [];
    if (!file) return;
    const { pairs, bad } = readPairs(await file.text());
    input.value = "";
    this.set(mergePairs(this.pairs(), pairs));
    const skipped = bad.length ? ` ${say("glossaryBad", { lines: bad.join(", ") })}` : "";
    setText(this.note, say("glossaryRead", { count: pairs.length }) + skipped);
  }

  private save(name: string, { source, target }: { source: string; target: string }, pairs: readonly Pair[]): void {
    saveFile(`${name}.${source}-${target}.tsv`, new Blob([writePairs(pairs)], { type: "text/tab-separated-values" }));
  }
}

function table(source: Key, target: Key, rows: HTMLElement): HTMLTableElement {
  const head = make("thead", {}, make("tr", {}, make("th", { say: source }), make("th", { say: target }), make("td")));
  return make("table", { class: "pairs" }, head, rows);
}

function row([source, target]: Pair, remove: () => void): HTMLElement {
  const removeButton = make("button", { class: "quiet", label: "remove", title: "remove", attributes: { type: "button" }, on: { click: remove } }, icon("remove"));
  const cell = (text: string) => make("td", { attributes: { dir: "auto" } }, text);
  return make("tr", {}, cell(source), cell(target), make("td", {}, removeButton));
}
