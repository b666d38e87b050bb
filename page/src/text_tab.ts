/** The tab with a text and its translation, updated while typing. */

import type { App } from "./app";
import { button, checkbox, make, setMessage } from "./dom";
import { LanguageBar } from "./language_bar";
import { SourceBox } from "./mirror";
import { type Key, say } from "./messages";
import { Output, type WordPosition } from "./output";
import type { Problem } from "./problem";
import { type Line, Session } from "./session";
import { fromFragment, isTooLong, toFragment } from "./share";
import { WordMenu } from "./word_menu";

/** Milliseconds without a key press before a request. */
const PAUSE = 40;
/** Milliseconds after which a translation is added to the history. */
const HISTORY_DELAY = 1500;

export class TextTab {
  readonly element: HTMLElement;
  readonly session: Session;
  private readonly source: SourceBox;
  private readonly output: Output;
  private readonly menu: WordMenu;
  private readonly bar: LanguageBar;
  private readonly count = make("span", { class: "faint" });
  private readonly status = make("p", { class: "unseen", attributes: { role: "status" } });
  private readonly note = make("div", { class: "note", attributes: { role: "alert" } });
  private readonly alternatives = make("div", { class: "others" });
  private readonly feedback = make("span", { class: "faint", attributes: { role: "status" } });
  private readonly hint = make("p", { say: "translationHint", class: "faint hint" });
  private readonly wordHint = make("p", { say: "wordHint", class: "faint word-hint" });
  /** The line whose alternatives are shown. */
  private activeLine = 0;
  private historyTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly app: App) {
    this.session = new Session(app.api, {
      changed: (lines, isWorking) => this.show(lines, isWorking),
      detected: (code) => this.bar.setDetected(code),
      failed: (problem) => this.showProblem(problem),
    });
    this.source = new SourceBox((isPasted) => this.update(isPasted ? 0 : PAUSE));
    this.output = new Output({
      onHover: (lineIndex, spans) => this.source.mark(lineIndex, spans),
      onChoose: (position) => {
        this.activeLine = position.lineIndex;
        this.showAlternatives(this.session.lines);
        void this.menu.open(position, this.session.settings);
      },
    });
    this.menu = new WordMenu(app.api, (position, sentence, prefix) => void this.force(position, sentence, prefix));
    this.bar = new LanguageBar(app, () => this.update(0), () => this.swap());
    this.wordHint.hidden = true;
    this.element = this.build();
    this.open(fromFragment(location.hash).text ?? "");
    addEventListener("hashchange", () => this.openFragment());
  }

  /** Set the text and translate it. */
  open(text: string): void {
    this.source.text = text;
    this.update(0);
  }

  /** Translate again after a change of settings. */
  refresh(): void {
    this.bar.refresh();
    this.update(0);
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
      this.wordHint,
      make("p", { say: "wordHelp", class: "unseen", id: "word-help" }),
      make("div", { class: "row tools" }, this.feedback,
        button("copy", () => void this.copy(this.session.text(), "copied"), "quiet"),
        button("share", () => void this.share(), "quiet"),
        button("print", () => print(), "quiet")),
      this.menu.element);
    const marks = checkbox("markUnsure", this.app.store.settings.marksUnsure, (isChecked) => {
      this.app.store.change({ marksUnsure: isChecked });
      this.element.classList.toggle("marks", isChecked);
    });
    const levels = (["unsure1", "unsure2", "unsure3"] as const).map((key, index) =>
      make("span", { say: key, class: "sample", attributes: { "data-doubt": String(index + 1) } }));
    const legend = make("p", { class: "legend" }, make("span", { say: "legend" }), ...levels);
    const below = make("div", { class: "row below" }, marks, legend);
    const element = make("div", {}, this.bar.element, this.note, make("div", { class: "panes" }, left, right),
      below, this.alternatives, this.status);
    element.classList.toggle("marks", this.app.store.settings.marksUnsure);
    return element;
  }

  private update(delay: number): void {
    const { text } = this.source;
    this.count.textContent = say("characters", { count: [...text].length });
    this.hint.hidden = text !== "";
    clearTimeout(this.historyTimer);
    void this.session.update(text, this.app.requestSettings(), delay);
  }

  private show(lines: readonly Line[], isWorking: boolean): void {
    this.output.show(lines, this.session.settings.target);
    this.output.element.setAttribute("aria-busy", String(isWorking));
    this.wordHint.hidden = !lines.some((line) => line.stage === "done");
    this.element.classList.toggle("working", isWorking);
    this.showAlternatives(lines);
    if (isWorking || !this.session.isDone()) return;
    const text = this.session.text();
    this.status.textContent = text.trim() ? say("ready", { text }) : "";
    this.showLineNotes(lines);
    clearTimeout(this.historyTimer);
    if (text.trim()) this.historyTimer = setTimeout(() => this.app.addToHistory(this.text, text, this.session.settings), HISTORY_DELAY);
  }

  /** Show the n-best translations of the active line. */
  private showAlternatives(lines: readonly Line[]): void {
    const line = lines[Math.min(this.activeLine, lines.length - 1)];
    const alternatives = (line?.translation?.alternatives ?? []).filter((alternative) => alternative.text !== line?.text);
    const parts: Node[] = [];
    if (line?.stage === "done" && line.forced !== undefined) {
      parts.push(button("back", () => void this.session.resetLine(line.source)));
    }
    if (line?.stage === "done" && alternatives.length) {
      const items = alternatives.map((alternative) => {
        const choice = make("button", { class: "choice", title: "use", attributes: { type: "button", dir: "auto" } }, alternative.text);
        choice.lang = this.session.settings.target.replaceAll("_", "-");
        choice.addEventListener("click", () => this.session.chooseAlternative(line, alternative));
        return make("li", {}, choice);
      });
      parts.push(make("h2", { say: "others" }), make("ul", { class: "choices" }, ...items));
    }
    this.alternatives.replaceChildren(...parts);
  }

  private async force(position: WordPosition, sentence: number, prefix: string): Promise<void> {
    await this.session.force(position.line, sentence, prefix);
    this.output.focusAt(position.lineIndex, position.part.start);
  }

  private swap(): void {
    if (!this.app.swap(this.session.settings.source)) return;
    this.open(this.session.text() || this.text);
    this.bar.refresh();
  }

  private clear(): void {
    this.open("");
    this.focus();
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

  private async share(): Promise<void> {
    const { source, target } = this.app.store.settings;
    const fragment = toFragment({ source, target, text: this.text });
    if (isTooLong(fragment)) return setMessage(this.feedback, "shareLong");
    history.replaceState(null, "", fragment);
    await this.copy(location.href, "shared");
  }

  private openFragment(): void {
    const shared = fromFragment(location.hash);
    if (shared.text === undefined) return;
    this.app.choose(shared.source ?? this.app.store.settings.source, shared.target ?? this.app.store.settings.target);
    this.bar.refresh();
    this.open(shared.text);
  }

  private showProblem(problem: Problem | null): void {
    if (!problem) return this.note.replaceChildren();
    const retry = button("retry", () => this.update(0));
    this.note.replaceChildren(say(problem.key, this.app.withLanguageNames(problem.values)), ...(problem.canRetry ? [retry] : []));
  }

  /** Show the warnings and errors of lines. */
  private showLineNotes(lines: readonly Line[]): void {
    const notes = lines.flatMap((line) => [
      ...(line.translation?.error ? [say("errorOther", { detail: line.translation.error.message })] : []),
      ...(line.translation?.warnings ?? []).map((detail) => say("warning", { detail })),
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
