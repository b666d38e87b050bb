/**
 * The tab for glossaries, typed or read from a file and stored in the browser for each pair of languages. While the language of
 * the text is not known, a term is for any language: it is used for all of them, and listed with the terms of each.
 */

import type { App } from "./app";
import { button, checkbox, make, saveFile, setMessage, setText } from "./dom";
import { mergePairs, type Pair, readPairs, writePairs } from "./glossary_file";
import { icon } from "./icons";
import { AUTO, type LanguagePair } from "./languages";
import { type Key, say } from "./messages";
import type { Session } from "./session";
import { UndoNotice } from "./undo";

interface Term {
  /** The language of the term; AUTO for any language. */
  language: string;
  pair: Pair;
}

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
  /** The languages whose terms and confirmed translations are shown. */
  private languages: LanguagePair = { source: "", target: "" };
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
    this.keep.append(button("glossarySave", () => this.save("glossary", this.terms().map(({ pair }) => pair))), this.removeAll);
    this.confirmed = make("section", { class: "confirmed" }, make("h2", { say: "confirmedTitle" }), make("p", { say: "confirmedIntro", class: "faint" }),
      make("div", { class: "row" },
        button("confirmedSave", () => this.save("confirmed", this.confirmedPairs())),
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
    const { source, target } = (this.languages = this.app.textPair);
    this.intro.textContent = say("glossaryIntro", this.app.withLanguageNames({ from: source, to: target }));
    const terms = this.terms();
    this.rows.replaceChildren(...terms.map(({ language, pair }) => {
      const isOther = (term: Term) => term.language !== language || term.pair[0] !== pair[0];
      return row(pair, () => this.remove(this.terms().filter(isOther)), language === source ? "" : `(${this.app.nameOf(language)})`);
    }));
    this.rows.parentElement!.hidden = this.keep.hidden = !terms.length;
    this.empty.hidden = terms.length > 0;
    const confirmed = this.confirmedPairs();
    this.confirmed.hidden = !confirmed.length;
    this.confirmedRows.replaceChildren(...confirmed.map((pair) => row(pair, () => this.removeConfirmed(this.confirmedPairs().filter(([source]) => source !== pair[0])))));
  }

  /** Return the terms for the language shown, and those for any language. */
  private terms(): Term[] {
    const { source, target } = this.languages;
    const termsOf = (language: string) => this.app.store.glossary(language, target).map((pair): Term => ({ language, pair }));
    return source === AUTO ? termsOf(AUTO) : [...termsOf(AUTO), ...termsOf(source)];
  }

  private set(terms: readonly Term[]): void {
    const { source, target } = this.languages;
    for (const language of new Set([AUTO, source])) {
      const pairs = terms.filter((term) => term.language === language).map(({ pair }) => pair);
      this.app.store.setGlossary(language, target, pairs);
    }
    this.onShow();
    this.onChange();
  }

  /** Keep only these terms, until the reader undoes it. */
  private remove(terms: readonly Term[]): void {
    const all = this.terms();
    this.set(terms);
    this.undo.show(() => this.set(all), this.removeAll);
  }

  /** Add pairs for the language shown; they replace pairs with the same source term. */
  private merge(pairs: readonly Pair[]): void {
    const { source } = this.languages;
    const all = this.terms();
    const currentPairs = all.filter(({ language }) => language === source).map(({ pair }) => pair);
    const merged = mergePairs(currentPairs, pairs).map((pair): Term => ({ language: source, pair }));
    this.set([...all.filter(({ language }) => language !== source), ...merged]);
  }

  private confirmedPairs(): Pair[] {
    const { source, target } = this.languages;
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
    const { source, target } = this.languages;
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
    this.merge([pair]);
    this.source.value = this.target.value = "";
    this.source.focus();
  }

  private async read(input: HTMLInputElement): Promise<void> {
    const [file] = input.files ?? [];
    if (!file) return;
    const { pairs, bad } = readPairs(await file.text());
    input.value = "";
    this.merge(pairs);
    const skipped = bad.length ? ` ${say("glossaryBad", { lines: bad.join(", ") })}` : "";
    setText(this.note, say("glossaryRead", { count: pairs.length }) + skipped);
  }

  private save(name: string, pairs: readonly Pair[]): void {
    const { source, target } = this.languages;
    saveFile(`${name}.${source}-${target}.tsv`, new Blob([writePairs(pairs)], { type: "text/tab-separated-values" }));
  }
}

function table(source: Key, target: Key, rows: HTMLElement): HTMLTableElement {
  const head = make("thead", {}, make("tr", {}, make("th", { say: source }), make("th", { say: target }), make("td")));
  return make("table", { class: "pairs" }, head, rows);
}

function row([source, target]: Pair, remove: () => void, note = ""): HTMLElement {
  const removeButton = make("button", { class: "quiet", label: "remove", title: "remove", attributes: { type: "button" }, on: { click: remove } }, icon("remove"));
  const cell = (text: string, ...others: Array<string | Node>) => make("td", { attributes: { dir: "auto" } }, text, ...others);
  const notes = note ? [" ", make("span", { class: "faint" }, note)] : [];
  return make("tr", {}, cell(source, ...notes), cell(target), make("td", {}, removeButton));
}
