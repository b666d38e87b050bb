/** What the page knows of the selected sentence: what to check, its other translations, and the reader's correction. */

import type { ServerTranslation } from "./api";
import type { App } from "./app";
import { button, checkbox, make, replaceContent, setMessage, setText } from "./dom";
import { decisionsOf, type Doubt, doubtsOf, overlaps } from "./doubts";
import { mergePairs } from "./glossary_file";
import { AUTO, tagOf } from "./languages";
import { LookUpFigure, lookUpsOf } from "./look_up";
import { describeUse, type Memory } from "./memories";
import { currentLanguage, say } from "./messages";
import { RequestError } from "./problem";
import { type Sentence, sentencesOf, usesOf } from "./sentences";
import type { Line, Session } from "./session";
import { commonLength } from "./words";

/** A correction that the reader is typing. */
interface Correction {
  /** The sentence and its translation when the box was opened, or when the reader was last told of new ones. */
  source: string;
  target: string;
  box: HTMLTextAreaElement;
  confirm: HTMLButtonElement;
  note: HTMLElement;
}

export class SentencePanel {
  readonly element: HTMLElement;
  private readonly checks = make("div");
  private readonly title = make("h2");
  private readonly origin = make("div", { class: "origin" });
  private readonly list = make("ul");
  private readonly listTitle = make("h3", { say: "others" });
  private readonly actions = make("div");
  private readonly status = make("span", { class: "faint", attributes: { role: "status" } });
  private line: Line | undefined;
  private index = 0;
  private correction: Correction | null = null;
  private shownKey = "";
  private originKey = "";

  constructor(
    private readonly app: App,
    private readonly session: Session,
    private readonly callbacks: { onDoubt(doubt: Doubt): void; onUse(start: number): void; onMarks(isMarked: boolean): void; onRemember(sentence: string): Promise<void> },
  ) {
    const marks = checkbox("markUnsure", app.store.settings.marksUnsure, (isChecked) => {
      app.store.change({ marksUnsure: isChecked });
      callbacks.onMarks(isChecked);
    });
    const head = make("div", { class: "row head" }, make("h2", { say: "checks" }), marks);
    const [checks, others] = [[head, this.origin, this.checks], [this.title, this.actions, this.listTitle, this.list]];
    this.element = make("div", { class: "columns" }, make("section", { class: "checks" }, ...checks), make("section", { class: "others" }, ...others));
  }

  /** Whether the reader corrects the translation; another sentence must not take its place. */
  get isEditing(): boolean {
    return this.correction !== null;
  }

  /** Show a sentence of a line; the server may be asked for its other translations. */
  show(line: Line | undefined, index: number, mayRequest: boolean): void {
    const key = JSON.stringify([line?.source, this.language, index]);
    const isSame = key === this.shownKey;
    [this.line, this.index, this.shownKey] = [line, index, key];
    const isDone = line?.stage === "done" && line.translation !== undefined;
    if (this.correction && !isDone) {
      const { box, target, confirm } = this.correction;
      confirm.disabled = true;
      if ((line && line.stage !== "blank") || box.value !== target) return;
      this.correction = null; // there is no sentence any more
    }
    if (!isSame) setText(this.status, "");
    this.element.hidden = !isDone;
    if (this.element.hidden) return;
    this.title.textContent = say("sentence", { sentence: this.sentence.source.trim() });
    this.showChecks();
    this.showOrigin();
    if (this.keepsCorrection()) return;
    if (!isSame) this.showOthers([]);
    this.showActions();
    void this.loadOthers(key, mayRequest);
  }

  /** Scroll to the other translations, and focus the first. */
  focusOthers(): void {
    const target = this.list.querySelector("button") ?? this.actions.querySelector<HTMLElement>("textarea, button");
    this.list.parentElement!.scrollIntoView({ block: "nearest" });
    target?.focus();
  }

  private get sentence(): Sentence {
    return sentencesOf(this.line!.source, this.line!.translation!)[this.index]!;
  }

  private get language(): string {
    return this.session.settings.target;
  }

  private showChecks(): void {
    const { source, translation } = this.line!;
    const { sourceSpan, targetSpan } = this.sentence;
    const doubts = doubtsOf(this.line!, this.language).filter(({ side, span }) => overlaps(span, side === "source" ? sourceSpan : targetSpan));
    const items = doubts.map((doubt) => {
      const text = (doubt.side === "source" ? source : translation!.text).slice(...doubt.span);
      const choice = make("button", { class: "choice", attributes: { type: "button" } },
        make("strong", { attributes: { dir: "auto", "data-doubt": String(doubt.level) } }, text), " ", make("span", { class: "faint" }, say(doubt.reason, doubt.values)));
      choice.addEventListener("click", () => this.callbacks.onDoubt(doubt));
      return make("li", {}, choice);
    });
    const list = items.length ? make("ul", {}, ...items) : make("p", { say: "checksNone", class: "faint" });
    const decided = decisionsOf(this.line!).filter(({ span }) => overlaps(span, targetSpan));
    const reasons = [...new Set(decided.map(({ reason }) => reason))];
    replaceContent(this.checks, list, ...reasons.map((reason) => make("p", { say: reason, class: "chosen" }))); // in the colour of the words
  }

  /** Show what the sentence has from a translation memory: similarity, use, origin, and a pair that differs from it. */
  private showOrigin(): void {
    const { source, target } = this.sentence;
    const memory = this.session.settings.memory;
    const key = JSON.stringify([currentLanguage(), this.language, memory?.id, this.line!.translation!.memory, this.line!.source, source, target]);
    if (key === this.originKey) return; // the figure of the look-ups stays
    this.originKey = key;
    const text = (words: string, language: string) => make("span", { attributes: { dir: "auto", lang: tagOf(language) } }, words);
    const uses = usesOf(this.line!.source, this.line!.translation!, this.index);
    const origins = uses.flatMap((use) => {
      const isSame = use.source.trim() === source.trim() || target.includes(use.target);
      const pair = make("p", { class: "faint" }, text(use.source, this.session.settings.source), " → ", text(use.target, this.language));
      return [make("p", {}, describeUse(use)), ...(isSame ? [] : [pair])];
    });
    const isRetrieved = memory !== null && uses.some(({ used }) => used === "retrieved");
    this.origin.replaceChildren(...origins, ...(isRetrieved ? this.lookUpParts(memory) : []));
  }

  /** Return the button that opens the figure of the words that were looked up, and its place. */
  private lookUpParts(memory: Memory): HTMLElement[] {
    const [{ target }, { source, translation }, settings] = [this.sentence, this.line!, this.session.settings];
    const figure = make("div", { attributes: { hidden: "" } });
    const status = make("p", { class: "faint", attributes: { role: "status" } });
    const open = async (): Promise<void> => {
      setMessage(status, "loading");
      let message = "";
      try {
        const lookUps = await this.app.api.lookUp(memory, source);
        const pieces = lookUpsOf(target, lookUps.pieces);
        message = pieces.length ? "" : say("lookUpNone");
        if (pieces.length && lookUps.text !== translation!.text) message = say("lookUpOther", { text: lookUps.text });
        figure.replaceChildren(...(pieces.length ? [new LookUpFigure(lookUps, pieces, settings.source, settings.target).element] : []));
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        message = say(error.problem.key, this.app.withLanguageNames(error.problem.values));
      }
      setText(status, message);
    };
    const toggle = button("lookUp", () => {
      figure.hidden = !figure.hidden;
      toggle.setAttribute("aria-expanded", String(!figure.hidden));
      status.replaceChildren();
      if (!figure.hidden) void open();
    });
    toggle.setAttribute("aria-expanded", "false");
    return [make("div", { class: "row" }, toggle), status, figure];
  }

  private async loadOthers(key: string, mayRequest: boolean): Promise<void> {
    let translations: readonly ServerTranslation[] = [];
    try {
      translations = await this.session.nbestTranslations(this.line!, this.index, mayRequest);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error; // the list is left out
    }
    if (key === this.shownKey && !this.isEditing && !this.element.hidden) this.showOthers(translations);
  }

  /** Show the translations that differ from the current one. */
  private showOthers(translations: readonly ServerTranslation[]): void {
    const [line, index] = [this.line!, this.index];
    const { target, targetSpan } = this.sentence;
    const items = translations.filter(({ text }) => text !== target).map((translation) => {
      const choice = make("button", { class: "choice", title: "use", attributes: { type: "button", dir: "auto", lang: tagOf(this.language) } }, translation.text);
      choice.addEventListener("click", () => {
        void this.session.choose(line, index, translation);
        this.callbacks.onUse(targetSpan[0] + commonLength(target, translation.text));
      });
      return make("li", {}, choice);
    });
    this.listTitle.hidden = !items.length;
    replaceContent(this.list, ...items);
  }

  /** Show what the reader can do with the current translation. */
  private showActions(): void {
    const { source, target, targetSpan } = this.sentence;
    const { choiceParts = [] } = this.line!;
    const confirm = button("confirm", () => void this.confirm(target));
    confirm.disabled = this.confirmed().some((pair) => pair[0] === source.trim() && pair[1] === target);
    confirm.title = say(confirm.disabled ? "wordConfirmed" : "confirmHelp");
    const overlapsChoice = choiceParts.some(({ span }) => overlaps(span, targetSpan));
    const back = overlapsChoice ? [button("back", () => void this.session.reset(this.line!, this.index), "quiet")] : [];
    replaceContent(this.actions, make("div", { class: "row" }, button("correct", () => this.edit()), confirm, ...this.rememberButton(), ...back, this.status));
  }

  /** Return the button that adds the sentence to a memory, or why the selected memory cannot be changed. */
  private rememberButton(): HTMLElement[] {
    const memory = this.app.memory();
    if (!this.app.languages.remembers || this.session.settings.source === AUTO) return [];
    if (memory?.shared) return [make("span", { class: "faint" }, say("rememberReadOnly", { name: memory.name }))];
    const remember = button("remember", () => void this.remember());
    remember.title = say("rememberHelp");
    const { target } = this.sentence;
    remember.disabled = usesOf(this.line!.source, this.line!.translation!, this.index).some((use) => use.used === "verbatim" && use.target === target);
    return [remember];
  }

  /** Add the translation of the sentence to a memory, and translate again with it. */
  private async remember(): Promise<void> {
    const [{ source, target }, { settings }] = [this.sentence, this.session];
    setText(this.status, "");
    try {
      const { name } = await this.app.remember(settings.source, settings.target, source.trim(), target.trim());
      await this.callbacks.onRemember(source);
      this.status.textContent = say("remembered", { name });
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      this.status.textContent = say(error.problem.key, this.app.withLanguageNames(error.problem.values));
    }
    if (document.activeElement === document.body) this.actions.querySelector("button")?.focus(); // the panel was hidden meanwhile
  }

  private edit(): void {
    setText(this.status, "");
    const box = make("textarea", { label: "correction", attributes: { rows: "3", dir: "auto", lang: tagOf(this.language) } });
    const { source, target } = this.sentence;
    box.value = target;
    const confirm = make("button", { say: "confirm", title: "confirmHelp", class: "button primary" });
    const note = make("p", { class: "faint", attributes: { role: "status" } });
    const form = make("form", {}, box, note, make("div", { class: "row" }, confirm, button("cancel", () => this.endEdit())));
    this.correction = { source, target, box, confirm, note };
    const submit = (): void => {
      const text = box.value.trim().replace(/\s*\n\s*/g, " ");
      if (text && !confirm.disabled) void this.confirm(text);
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.endEdit();
      else if (event.key === "Enter" && !event.isComposing) submit();
      else return;
      event.preventDefault();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    this.showOthers([]);
    this.actions.replaceChildren(form);
    box.focus();
  }

  /**
   * Return whether the box of a correction stays open. When the sentence has a new translation, or is another one, a box that
   * the reader has not changed is closed; below one that they have changed, the new translation is shown.
   */
  private keepsCorrection(): boolean {
    if (!this.correction) return false;
    const { source, target } = this.sentence;
    const { box, confirm, note, ...old } = this.correction;
    confirm.disabled = false;
    if (source === old.source && target === old.target) return true;
    if (box.value === old.target) {
      this.correction = null;
      return false;
    }
    box.lang = tagOf(this.language);
    note.textContent = say("correctionKept", { text: target });
    Object.assign(this.correction, { source, target });
    return true;
  }

  private endEdit(): void {
    this.correction = null;
    this.show(this.line, this.index, true);
  }

  private confirmed() {
    return this.app.store.confirmed(this.session.settings.source, this.language);
  }

  /**
   * Keep a translation of the sentence in this browser, also if another one is selected meanwhile, unless the server does not
   * respond, which the tab says.
   */
  private async confirm(translation: string): Promise<void> {
    const { sentence: { source, target }, session: { settings }, app: { store }, shownKey, correction } = this;
    if (!(await this.session.force(this.line!, this.index, translation, translation !== target, true))) return;
    if (this.correction === correction) this.correction = null;
    const pairs = store.confirmed(settings.source, settings.target);
    store.setConfirmed(settings.source, settings.target, mergePairs(pairs, [[source.trim(), translation]]));
    this.session.refreshConfirmed();
    this.show(this.line, this.index, true);
    if (this.shownKey === shownKey) setMessage(this.status, this.app.languages.remembers ? "confirmed" : "confirmedAlone");
  }
}
