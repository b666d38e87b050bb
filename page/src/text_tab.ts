/** The tab with a text and its translation, updated while typing. */

import type { App } from "./app";
import { translatedName } from "./document_name";
import { button, make, saveFile, setMessage } from "./dom";
import { LanguageBar } from "./language_bar";
import { LanguageCheck } from "./language_check";
import { MemoryChoice } from "./memories";
import { SourceBox } from "./mirror";
import { isBlank } from "./lines";
import { type Key, say } from "./messages";
import { type Doubt, doubtsOf, type Note, notesOf } from "./doubts";
import { icon } from "./icons";
import { Output } from "./output";
import { type Problem, resultError, toProblem } from "./problem";
import { sentenceAt, sentencesOf } from "./sentences";
import { SentencePanel } from "./sentence_panel";
import { type Line, Session } from "./session";
import { fromFragment, isTooLong, toFragment } from "./share";
import { TextProgress } from "./text_progress";
import { UndoNotice } from "./undo";
import { WordMenu } from "./word_menu";

/** Milliseconds without a key press before a request. */
const PAUSE = 40;
/** Milliseconds after which a translation is added to the history. */
const HISTORY_DELAY = 1500;
/** Milliseconds on a word until its sentence is selected, so that a pointer on its way elsewhere selects nothing. */
const SELECTION_DELAY = 250;

export interface SentencePlace {
  lineIndex: number;
  /** The index of the sentence in its line. */
  sentence: number;
}

/** The selected sentence of the text. */
export interface Selection {
  readonly selected: SentencePlace;
  select(place: SentencePlace): void;
}

export class TextTab implements Selection {
  readonly element: HTMLElement;
  readonly session: Session;
  selected: SentencePlace = { lineIndex: 0, sentence: 0 };
  private readonly source: SourceBox;
  private readonly output: Output;
  private readonly menu: WordMenu;
  private readonly bar: LanguageBar;
  private readonly memories: MemoryChoice;
  private readonly count = make("span", { class: "faint" });
  private readonly status = make("p", { class: "unseen", attributes: { role: "status" } });
  private readonly note = make("div", { class: "note", attributes: { role: "alert" } });
  private readonly demonstration = make("p", { class: "faint demonstration" }, make("img", { attributes: { src: "page/icon.svg", alt: "", width: "20", height: "20" } }), make("span", { say: "demonstration" }));
  private readonly panel: SentencePanel;
  private readonly feedback = make("span", { class: "faint", attributes: { role: "status" } });
  private readonly hint = make("div", { class: "hint empty" }, icon("text"), make("p", { say: "translationHint" }));
  private readonly wordHint = make("p", { class: "faint word-hint" });
  private readonly copyButton = button("copy", () => void this.copy(this.session.text(), "copied"), "quiet");
  private readonly downloadButton = button("download", () => this.download(), "quiet");
  private readonly shareButton = button("share", () => void this.share(), "quiet");
  private readonly printButton = button("print", () => print(), "quiet");
  /** Whether the sentence at the caret of the source is selected, until the reader selects another one. */
  private followsCaret = false;
  private readonly progress = new TextProgress();
  private readonly undo = new UndoNotice();
  /** The text and languages before the last swap, and the text that replaced it. */
  private beforeSwap = { source: "", target: "", text: "", replacement: "" };
  private readonly languageCheck: LanguageCheck;
  private checking = new AbortController();
  private selectionTimer: ReturnType<typeof setTimeout> | undefined;
  private historyTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly app: App, onSearch: () => void) {
    this.languageCheck = new LanguageCheck(app.api);
    this.session = new Session(app.api, {
      changed: (lines, isWorking) => this.show(lines, isWorking),
      progressed: (share) => this.progress.update(share),
      detected: (code) => this.setDetected(code),
      failed: (problem) => this.showProblem(problem),
    }, (source, target) => app.store.confirmed(source, target));
    this.source = new SourceBox({
      onInput: (isPasted) => {
        this.followsCaret = true;
        this.undo.clear();
        this.update(isPasted ? 0 : PAUSE);
      },
      onCaret: () => {
        clearTimeout(this.selectionTimer);
        this.selectionTimer = setTimeout(() => this.selectAtCaret(), SELECTION_DELAY);
      },
    });
    this.output = new Output({
      onHover: (position, spans) => {
        this.source.mark(position?.lineIndex ?? 0, spans);
        this.wordHint.textContent = position?.element.title || say("wordHint");
        clearTimeout(this.selectionTimer);
        if (position && !this.panel.isEditing) this.selectionTimer = setTimeout(() => this.select(position), SELECTION_DELAY);
      },
      onChoose: (position) => {
        if (!this.panel.isEditing) this.select(position);
        void this.menu.open(position, this.session.settings);
      },
    });
    this.menu = new WordMenu(app.api, {
      onChoose: ({ line }, sentence, prefix, isTyped) => void this.session.force(line, sentence, prefix, isTyped),
      onSources: (lineIndex, spans) => this.source.mark(lineIndex, spans),
      onOthers: () => this.panel.focusOthers(),
      onSearch,
    });
    this.panel = new SentencePanel(app, this.session, {
      onDoubt: (doubt) => this.showDoubt(doubt),
      onUse: (start) => this.output.focusAt(this.selected.lineIndex, start),
      onMarks: (isMarked) => this.element.classList.toggle("marks", isMarked),
      onRemember: async (sentence) => {
        const { selected } = this;
        this.memories.refresh();
        await this.session.refresh(sentence, app.requestSettings());
        this.select(selected);
      },
    });
    this.memories = new MemoryChoice(app, () => this.update(0));
    this.bar = new LanguageBar(app, () => this.update(0), () => this.swap());
    this.element = this.build();
    this.open(fromFragment(location.hash).text ?? "");
    window.onhashchange = () => this.openFragment(); // instead of that of a tab built before
  }

  /** Set the text and translate it. */
  open(text: string): void {
    this.undo.clear();
    this.source.text = text;
    this.followsCaret = false;
    this.update(0);
  }

  /** Translate again after a change of settings. */
  refresh(): void {
    this.bar.refresh();
    this.memories.refresh();
    this.update(0);
  }

  /** Select a sentence of the translation, or the last one if there are fewer; its other translations may be requested. */
  select(place: SentencePlace): void {
    this.followsCaret = false;
    this.showSelected(place, true);
  }

  /** Select the sentence at the caret of the source, and those to which the caret moves. */
  private selectAtCaret(): void {
    if (this.panel.isEditing) return;
    this.followsCaret = true;
    const { lineIndex, sentence } = this.caretPlace();
    const isSame = lineIndex === this.selected.lineIndex && sentence === this.selected.sentence;
    if (!isSame) this.showSelected({ lineIndex, sentence }, true);
  }

  private caretPlace(): SentencePlace {
    const { lineIndex, offset } = this.source.caret;
    const { source = "", translation } = this.session.lines[lineIndex] ?? {};
    // at the end of a sentence, the caret belongs to it
    return { lineIndex, sentence: translation ? sentenceAt(sentencesOf(source, translation), offset - 1, "sourceSpan") : 0 };
  }

  /** Show the selected sentence after a change of the text or its translation. */
  private reselect(mayRequest: boolean): void {
    this.showSelected(this.followsCaret && !this.panel.isEditing ? this.caretPlace() : this.selected, mayRequest);
  }

  private showSelected({ lineIndex, sentence }: SentencePlace, mayRequest: boolean): void {
    const { lines } = this.session;
    const index = Math.min(lineIndex, lines.length - 1);
    const line = lines[index];
    const count = line?.translation ? sentencesOf(line.source, line.translation).length : 1;
    this.selected = { lineIndex: index, sentence: Math.min(sentence, count - 1) };
    this.output.select(index, this.selected.sentence);
    this.panel.show(line, this.selected.sentence, mayRequest);
  }

  focus(): void {
    this.source.box.focus();
  }

  get text(): string {
    return this.source.text;
  }

  private build(): HTMLElement {
    const left = make("section", { class: "pane" },
      this.source.element,
      make("div", { class: "row tools" }, this.count, button("clear", () => this.clear(), "quiet")));
    const right = make("section", { class: "pane" },
      make("div", { class: "shown" }, this.hint, this.output.element),
      make("p", { say: "wordHelp", class: "unseen", id: "word-help" }),
      make("div", { class: "row tools" }, make("div", { class: "hints" }, this.feedback, this.wordHint),
        this.copyButton, this.downloadButton, this.shareButton, this.printButton),
      this.menu.element);
    // What comes and goes stands below the panes, so that their texts do not move, and in view.
    const below = make("div", { class: "below" }, this.note, this.undo.element, this.progress.element);
    const element = make("div", {}, this.bar.element, this.memories.element, make("div", { class: "panes" }, left, right),
      below, this.demonstration, this.panel.element, this.status);
    element.classList.toggle("marks", this.app.store.settings.marksUnsure);
    return element;
  }

  private update(delay: number): void {
    const { text } = this.source;
    this.count.textContent = say("characters", { count: [...text].length });
    this.hint.hidden = !isBlank(text);
    clearTimeout(this.historyTimer);
    this.checking.abort();
    this.progress.stop();
    void this.session.update(text, this.app.requestSettings(), delay);
  }

  /** Note the detected language of the text, which is translated again if other settings belong to it. */
  private setDetected(code: string | undefined): void {
    const isNew = this.app.setDetected(code);
    this.bar.refresh();
    if (isNew && !isBlank(this.text)) this.update(0);
  }

  private show(lines: readonly Line[], isWorking: boolean): void {
    this.output.show(lines, this.session.settings.target);
    const replaced = this.menu.closeIfReplaced();
    if (replaced) this.output.focusAt(replaced.lineIndex, replaced.part.start);
    this.output.element.setAttribute("aria-busy", String(isWorking));
    this.wordHint.textContent = lines.some((line) => line.stage === "done") ? say("wordHint") : "";
    this.demonstration.hidden = !this.app.isDemonstration();
    this.element.classList.toggle("working", isWorking);
    if (isWorking) this.progress.update(this.session.share());
    else this.progress.stop();
    const { target } = this.session.settings;
    this.source.underline(lines.map((line) => doubtsOf(line, target).filter(({ side }) => side === "source").map(({ span }) => span)));
    this.reselect(false);
    this.updateButtons();
    if (isWorking || !this.session.isDone()) return;
    const text = this.session.text();
    this.status.textContent = text.trim() ? say("ready", { text }) : "";
    this.showLineNotes(lines);
    void this.checkLanguage();
    clearTimeout(this.historyTimer);
    if (!text.trim()) return;
    this.historyTimer = setTimeout(() => {
      this.app.addToHistory(this.text, text, this.session.choicePairs(), this.session.settings);
      this.reselect(true);
    }, HISTORY_DELAY);
  }

  /** Disable the buttons for which there is nothing yet; their titles say why. */
  private updateButtons(): void {
    const set = (target: HTMLButtonElement, text: string, reason: Key): void => {
      target.disabled = isBlank(text);
      target.title = target.disabled ? say(reason) : "";
    };
    for (const target of [this.copyButton, this.downloadButton]) set(target, this.session.text(), "noTranslation");
    for (const target of [this.shareButton, this.printButton]) set(target, this.text, "noText");
  }

  /** Move to a doubtful word. */
  private showDoubt({ side, span }: Doubt): void {
    const { lineIndex } = this.selected;
    if (side === "source") this.source.select(lineIndex, span);
    else this.output.focusAt(lineIndex, span[0]);
  }

  private swap(): void {
    const { app, text, session, beforeSwap } = this;
    const { source, target } = app.textPair;
    const swapped = app.swappedPair();
    if (!swapped) return this.note.replaceChildren(make("p", {}, this.bar.swapProblem()));
    app.choose(swapped);
    const isBack = beforeSwap.source === target && beforeSwap.target === source && beforeSwap.replacement === text;
    const replacement = isBack ? beforeSwap.text : session.text() || text;
    this.beforeSwap = { source, target, text, replacement };
    this.open(replacement);
    this.bar.refresh();
  }

  /** Clear the text, until the reader undoes it. */
  private clear(): void {
    const { text } = this;
    this.open("");
    if (text) this.undo.show(() => this.open(text), this.source.box);
    this.focus(); // for the next text
  }

  private async copy(text: string, key: Key): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copyByHand(text); // the clipboard is available in secure contexts only
    }
    setMessage(this.feedback, key);
    setTimeout(() => this.feedback.replaceChildren(), 4000);
  }

  private download(): void {
    const content = new Blob([this.session.text()], { type: "text/plain" });
    saveFile(translatedName("text.txt", this.session.settings.target), content);
  }

  private async share(): Promise<void> {
    const { source, target } = this.app.pair;
    const fragment = toFragment({ source, target, text: this.text });
    if (isTooLong(fragment)) return setMessage(this.feedback, "shareLong");
    history.replaceState(null, "", fragment);
    await this.copy(location.href, "shared");
  }

  private openFragment(): void {
    const shared = fromFragment(location.hash);
    if (shared.text === undefined) return;
    this.app.choose(shared);
    this.bar.refresh();
    this.open(shared.text);
  }

  private showProblem(problem: Problem | null): void {
    if (!problem) return this.note.replaceChildren();
    const retry = button("retry", () => this.update(0));
    this.note.replaceChildren(say(problem.key, this.app.withLanguageNames(problem.values)), ...(problem.canRetry ? [retry] : []));
  }

  /** Show a note if the text is not in the selected language. */
  private async checkLanguage(): Promise<void> {
    this.checking.abort();
    const { signal } = (this.checking = new AbortController());
    const { app } = this;
    const { sources } = app.languages;
    const source = sources.find(({ code }) => code === app.pair.source); // none if it is detected
    const other = source && (await this.languageCheck.otherLanguage(this.text, source, signal));
    if (!source || other === undefined || signal.aborted) return;
    const isSource = sources.some(({ code }) => code === other);
    const key = other === null ? "noteNoLanguage" : isSource ? "noteOtherLanguage" : "noteOtherLanguageOnly";
    this.note.prepend(make("p", {}, say(key, { language: app.nameOf(other ?? source.code) })));
  }

  /** Return what to say about the error of a line. */
  private lineProblem(error: { code: string; message: string }): string {
    const { source, target } = this.session.settings;
    const { key, values } = toProblem(resultError(error), { from: source, to: target, path: "", hasKey: true });
    return say(key, this.app.withLanguageNames(values));
  }

  /** Show the warnings and errors of lines. */
  private showLineNotes(lines: readonly Line[]): void {
    const { languages, textPair: { source } } = this.app;
    const isTargetOnly = !languages.sources.some(({ code }) => code === source);
    const noteText = ({ key, values }: Note) =>
      key === "noteSame" && isTargetOnly ? say("noteOtherLanguageOnly", { language: this.app.nameOf(source) }) : say(key, values);
    const notes = lines.flatMap((line) => [
      ...(line.translation?.error ? [this.lineProblem(line.translation.error)] : []),
      ...notesOf(line).map(noteText),
    ]);
    this.note.replaceChildren(...[...new Set(notes)].map((text) => make("p", {}, text)));
  }
}

function copyByHand(text: string): void {
  const box = make("textarea", { class: "unseen" }, text);
  document.body.append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}
