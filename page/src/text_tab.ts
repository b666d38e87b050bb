/** The two boxes: a text, and its translation while one types. */

import type { App } from "./app";
import { button, checkbox, make, tell } from "./dom";
import { LanguageBar } from "./language_bar";
import { SourceBox } from "./mirror";
import { type Key, say } from "./messages";
import { Output, type Place } from "./output";
import type { Problem } from "./problem";
import { type Line, Session } from "./session";
import { fromFragment, isTooLong, toFragment } from "./share";
import { WordMenu } from "./word_menu";

/** Milliseconds without a key before a request. */
const PAUSE = 40;
/** Milliseconds after which a translation is worth keeping. */
const SETTLED = 1500;

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
  private readonly others = make("div", { class: "others" });
  private readonly said = make("span", { class: "faint", attributes: { role: "status" } });
  private readonly hint = make("p", { say: "translationHint", class: "faint hint" });
  private readonly wordHint = make("p", { say: "wordHint", class: "faint word-hint" });
  /** The line whose other translations are shown. */
  private line = 0;
  private settled: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly app: App) {
    this.session = new Session(app.api, {
      changed: (lines, isWorking) => this.show(lines, isWorking),
      detected: (code) => this.bar.detected(code),
      failed: (problem) => this.complain(problem),
    });
    this.source = new SourceBox((isPasted) => this.changed(isPasted ? 0 : PAUSE));
    this.output = new Output({
      looked: (at, spans) => this.source.mark(at, spans),
      chosen: (place) => {
        this.line = place.at;
        this.showOthers(this.session.lines);
        void this.menu.open(place, this.session.asked);
      },
    });
    this.menu = new WordMenu(app.api, (place, sentence, prefix) => void this.force(place, sentence, prefix));
    this.bar = new LanguageBar(app, () => this.changed(0), () => this.swap());
    this.wordHint.hidden = true;
    this.element = this.build();
    this.open(fromFragment(location.hash).text ?? "");
    addEventListener("hashchange", () => this.openFragment());
  }

  /** Put in a text and translate it. */
  open(text: string): void {
    this.source.text = text;
    this.changed(0);
  }

  /** Ask again, after something else than the text has changed. */
  refresh(): void {
    this.bar.refresh();
    this.changed(0);
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
      make("div", { class: "row tools" }, this.said,
        button("copy", () => void this.copy(this.session.text(), "copied"), "quiet"),
        button("share", () => void this.share(), "quiet"),
        button("print", () => print(), "quiet")),
      this.menu.element);
    const marks = checkbox("markUnsure", this.app.store.settings.marksUnsure, (on) => {
      this.app.store.change({ marksUnsure: on });
      this.element.classList.toggle("marks", on);
    });
    const levels = (["unsure1", "unsure2", "unsure3"] as const).map((key, at) =>
      make("span", { say: key, class: "sample", attributes: { "data-doubt": String(at + 1) } }));
    const legend = make("p", { class: "legend" }, make("span", { say: "legend" }), ...levels);
    const below = make("div", { class: "row below" }, marks, legend);
    const element = make("div", {}, this.bar.element, this.note, make("div", { class: "panes" }, left, right),
      below, this.others, this.status);
    element.classList.toggle("marks", this.app.store.settings.marksUnsure);
    return element;
  }

  private changed(delay: number): void {
    const { text } = this.source;
    this.count.textContent = say("characters", { count: [...text].length });
    this.hint.hidden = text !== "";
    clearTimeout(this.settled);
    void this.session.update(text, this.app.asked(), delay);
  }

  private show(lines: readonly Line[], isWorking: boolean): void {
    this.output.show(lines, this.session.asked.target);
    this.output.element.setAttribute("aria-busy", String(isWorking));
    this.wordHint.hidden = !lines.some((line) => line.stage === "done");
    this.element.classList.toggle("working", isWorking);
    this.showOthers(lines);
    if (isWorking || !this.session.isDone()) return;
    const text = this.session.text();
    this.status.textContent = text.trim() ? say("ready", { text }) : "";
    this.complainOfLines(lines);
    clearTimeout(this.settled);
    if (text.trim()) this.settled = setTimeout(() => this.app.settled(this.text, text, this.session.asked), SETTLED);
  }

  /** The n-best of the line that was touched last. */
  private showOthers(lines: readonly Line[]): void {
    const line = lines[Math.min(this.line, lines.length - 1)];
    const others = (line?.made?.alternatives ?? []).filter((one) => one.text !== line?.text);
    const parts: Node[] = [];
    if (line?.stage === "done" && line.forced !== undefined) {
      parts.push(button("back", () => void this.session.free(line.source)));
    }
    if (line?.stage === "done" && others.length) {
      const items = others.map((one) => {
        const take = make("button", { class: "choice", title: "use", attributes: { type: "button", dir: "auto" } }, one.text);
        take.lang = this.session.asked.target.replaceAll("_", "-");
        take.addEventListener("click", () => this.session.take(line, one));
        return make("li", {}, take);
      });
      parts.push(make("h2", { say: "others" }), make("ul", { class: "choices" }, ...items));
    }
    this.others.replaceChildren(...parts);
  }

  private async force(place: Place, sentence: number, prefix: string): Promise<void> {
    await this.session.force(place.line, sentence, prefix);
    this.output.focusAt(place.at, place.part.start);
  }

  private swap(): void {
    if (!this.app.swap(this.session.asked.source)) return;
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
      copyByHand(text); // no clipboard outside secure addresses
    }
    tell(this.said, key);
    setTimeout(() => this.said.replaceChildren(), 4000);
  }

  private async share(): Promise<void> {
    const { source, target } = this.app.store.settings;
    const fragment = toFragment({ source, target, text: this.text });
    if (isTooLong(fragment)) return tell(this.said, "shareLong");
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

  private complain(problem: Problem | null): void {
    if (!problem) return this.note.replaceChildren();
    const retry = button("retry", () => this.changed(0));
    this.note.replaceChildren(say(problem.key, this.app.named(problem.values)), ...(problem.canRetry ? [retry] : []));
  }

  /** What the server notes of lines that it has translated, or could not. */
  private complainOfLines(lines: readonly Line[]): void {
    const notes = lines.flatMap((line) => [
      ...(line.made?.error ? [say("errorOther", { detail: line.made.error.message })] : []),
      ...(line.made?.warnings ?? []).map((detail) => say("warning", { detail })),
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
