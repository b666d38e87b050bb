/** The laboratory on a sentence of the text; for models that it cannot open, the library's view of attention alone. */

import type { Asked } from "./api";
import type { App } from "./app";
import { make, options, tell } from "./dom";
import type { Lab, speak } from "./lab/embedded";
import { spoken, say } from "./messages";
import { isAborted, Refused } from "./problem";
import { type Sentence, sentencesOf } from "./sentences";
import { ServerModel } from "./server_model";
import type { Session } from "./session";

interface LabModule {
  Lab: typeof Lab;
  speak: typeof speak;
}
interface ViewModule {
  phrases: Record<string, Record<string, string>>;
  attentionView(root: HTMLElement, data: unknown, phrases?: Record<string, string>): void;
}
interface Line extends Sentence {
  isForced: boolean;
}

const BEAM = 5; // of the translation in the text's tab

/** A file of the page that is loaded when it is needed. */
const load = <Module>(name: string): Promise<Module> => import(new URL(`page/${name}`, document.baseURI).href) as Promise<Module>;

function styled(): void {
  if (document.querySelector("link[href='page/lab.css']")) return;
  document.head.append(make("link", { attributes: { rel: "stylesheet", href: "page/lab.css" } }));
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
  private lines: Line[] = [];

  constructor(
    private readonly app: App,
    private readonly session: Session,
  ) {
    this.line.addEventListener("change", () => void this.draw());
    this.element = make("div", {}, make("p", { say: "insideIntro", class: "faint" }), this.choice, this.note, this.sentence, this.view);
  }

  shown(): void {
    const isForced = this.session.asked.glossary.length > 0;
    this.lines = this.session.lines.flatMap(({ source, made, forced }) =>
      made ? sentencesOf(source, made).map((one) => ({ ...one, isForced: isForced || forced !== undefined })) : [],
    );
    this.choice.hidden = this.lines.length < 2;
    const before = this.lines.findIndex((one) => one.source === this.source);
    options(this.line, this.lines.map((one, at) => [String(at), one.source.slice(0, 80)] as const), String(Math.max(0, before)));
    void this.draw();
  }

  private async draw(): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    const line = this.lines[Number(this.line.value)];
    this.source = line?.source ?? "";
    const { asked } = this.session;
    const wanted = line ? JSON.stringify([spoken(), asked.source, asked.target, line.source, line.target]) : "";
    if (wanted && wanted === this.drawn) return;
    this.drawn = "";
    this.view.replaceChildren();
    this.sentence.replaceChildren();
    tell(this.note, line ? "loading" : "insideEmpty");
    if (!line) return;
    try {
      const made = await load<LabModule>("lab.js");
      await made.speak(spoken());
      if ((await this.opened(made, line, asked, signal)) || (await this.attended(line, asked, signal))) this.drawn = wanted;
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      this.write(this.message(error));
    }
  }

  /** Show the laboratory; false if it cannot open the model, or show a sentence that is so long. */
  private async opened({ Lab }: LabModule, line: Line, asked: Asked, signal: AbortSignal): Promise<boolean> {
    const start = line.isForced ? { forced: line.target } : { beam: BEAM };
    let model: ServerModel;
    try {
      model = await ServerModel.open(this.app.api, asked, (error) => new Error(this.message(error)), line.source, { ...start, attention: true });
    } catch (error) {
      if (error instanceof Refused && error.problem.key === "errorOther") return false;
      throw error;
    }
    if (signal.aborted) return true;
    styled();
    const lab = new Lab();
    Object.assign(lab.state, { text: line.source, beam: BEAM, array: `cross.${model.info.decoder_layers}.weights` }, line.isForced ? { target: line.target } : {});
    this.write("");
    this.view.replaceChildren(lab);
    lab.show(model, { examples: [], source: this.app.nameOf(asked.source), target: this.app.nameOf(asked.target) });
    return true;
  }

  /** Show the library's view of attention; false for a model that has none. */
  private async attended(line: Line, asked: Asked, signal: AbortSignal): Promise<boolean> {
    const forced = line.isForced ? { prefix: line.target } : {};
    const [[made], { attentionView, phrases }] = await Promise.all([
      this.app.api.translate([line.source], asked, { ...forced, split: "never", attention: "view" }, signal),
      load<ViewModule>("attention.js"),
    ]);
    if (signal.aborted) return true;
    const data = made?.attention_view;
    this.write(data ? say("insideAttention") : say("insideNone"));
    if (!data) return false;
    this.sentence.append(make("span", { attributes: { dir: "auto" } }, line.source), " → ", make("strong", { attributes: { dir: "auto" } }, made.text));
    const root = make("div", { class: "uwaga-attention" }, make("div", { attributes: { "data-still": "" } }));
    this.view.append(root);
    attentionView(root, data, phrases[spoken()]);
    return true;
  }

  private write(text: string): void {
    delete this.note.dataset.say;
    this.note.textContent = text;
  }

  private message(error: unknown): string {
    if (!(error instanceof Refused)) throw error;
    return say(error.problem.key, this.app.named(error.problem.values));
  }
}
