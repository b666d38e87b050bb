/** Every head of a sentence: the library's own view of attention, as notebooks show it. */

import type { App } from "./app";
import { make, options, tell } from "./dom";
import { isAborted, Refused } from "./problem";
import { say, spoken } from "./messages";
import { ATTENTION } from "./messages/attention";
import { type Sentence, sentencesOf } from "./sentences";
import type { Session } from "./session";

interface ViewModule {
  attentionView(root: HTMLElement, data: unknown, phrases?: Record<string, string>): void;
}

export class InsideTab {
  readonly key = "tabInside" as const;
  readonly element: HTMLElement;
  private readonly line = make("select", { id: "inside-line" });
  private readonly choice = make("div", { class: "field" }, make("label", { say: "insideLine", attributes: { for: "inside-line" } }), this.line);
  private readonly note = make("p", { class: "faint", attributes: { role: "status" } });
  private readonly sentence = make("p", { class: "sentence" });
  private readonly view = make("div", { class: "inside" });
  private running = new AbortController();
  private drawn = "";
  private source = "";
  private sentences: Array<Sentence & { isForced: boolean }> = [];

  constructor(
    private readonly app: App,
    private readonly session: Session,
  ) {
    this.line.addEventListener("change", () => void this.draw());
    this.element = make("div", {}, make("p", { say: "insideIntro", class: "faint" }), this.choice, this.note, this.sentence, this.view);
  }

  shown(): void {
    this.sentences = this.session.lines.flatMap(({ source, made, forced }) =>
      made ? sentencesOf(source, made).map((one) => ({ ...one, isForced: forced !== undefined })) : [],
    );
    this.choice.hidden = this.sentences.length < 2;
    const before = this.sentences.findIndex((one) => one.source === this.source);
    options(this.line, this.sentences.map((one, at) => [String(at), one.source.slice(0, 80)] as const), String(Math.max(0, before)));
    void this.draw();
  }

  private async draw(): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    const line = this.sentences[Number(this.line.value)];
    this.source = line?.source ?? "";
    const wanted = line ? `${spoken()} ${line.source}\n${line.target}` : "";
    if (wanted && wanted === this.drawn) return;
    this.drawn = "";
    this.view.replaceChildren();
    this.sentence.replaceChildren();
    tell(this.note, line ? "loading" : "insideEmpty");
    if (!line) return;
    try {
      const forced = line.isForced ? { prefix: line.target } : {};
      const [[made], { attentionView }] = await Promise.all([
        this.app.api.translate([line.source], this.session.asked, { ...forced, split: "never", attention: "view" }, signal),
        import(new URL("page/attention.js", document.baseURI).href) as Promise<ViewModule>,
      ]);
      if (signal.aborted) return;
      const data = made?.attention_view;
      delete this.note.dataset.say;
      this.note.textContent = data ? "" : say("insideNone");
      if (!data) return;
      this.sentence.append(make("span", { attributes: { dir: "auto" } }, line.source), " → ", make("strong", { attributes: { dir: "auto" } }, made.text));
      const root = make("div", { class: "uwaga-attention" }, make("div", { attributes: { "data-still": "" } }));
      this.view.append(root);
      attentionView(root, data, ATTENTION[spoken()]);
      this.drawn = wanted;
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      delete this.note.dataset.say;
      this.note.textContent = say(error.problem.key, this.app.named(error.problem.values));
    }
  }
}
