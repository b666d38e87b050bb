/** The tab with the laboratory for a sentence of the text, or only the attention view for models that it cannot open. */

import type { RequestSettings } from "./api";
import type { App } from "./app";
import { make, fillSelect, setMessage, setText } from "./dom";
import { overlaps } from "./doubts";
import type { Lab, loadMessages } from "./lab/embedded";
import { currentLanguage, say } from "./messages";
import { isAborted, RequestError } from "./problem";
import { type Sentence, sentencesOf, usesOf } from "./sentences";
import { ServerModel } from "./server_model";
import type { Session } from "./session";
import type { Selection, SentencePlace } from "./text_tab";

interface LabModule {
  Lab: typeof Lab;
  loadMessages: typeof loadMessages;
}
interface ViewModule {
  phrases: Record<string, Record<string, string>>;
  attentionView(root: HTMLElement, data: unknown, phrases?: Record<string, string>): void;
}
interface Line extends Sentence, SentencePlace {
  isForced: boolean;
}

/** Load a module of the page on demand. */
const load = <Module>(name: string): Promise<Module> => import(new URL(`page/${name}`, document.baseURI).href) as Promise<Module>;

function loadStyles(): void {
  if (document.querySelector("link[href='page/lab.css']")) return;
  document.head.append(make("link", { attributes: { rel: "stylesheet", href: "page/lab.css" } }));
}

export class InsideTab {
  readonly key = "tabInside" as const;
  readonly element: HTMLElement;
  private readonly lineSelect = make("select", { id: "inside-line" });
  private readonly lineField = make("div", { class: "side" }, make("label", { say: "insideLine", attributes: { for: "inside-line" } }), this.lineSelect);
  private readonly note = make("p", { class: "faint", attributes: { role: "status" } });
  private readonly sentence = make("p", { class: "sentence" });
  private readonly view = make("div", { class: "inside" });
  private running = new AbortController();
  private shownKey = "";
  private lines: Line[] = [];
  /** The view of the laboratory to open next; undefined for the one that is open, or that of the attention. */
  nextView: "choose" | undefined;

  constructor(
    private readonly app: App,
    private readonly session: Session,
    private readonly selection: Selection,
  ) {
    this.lineSelect.addEventListener("change", () => {
      this.selection.select(this.lines[Number(this.lineSelect.value)]!);
      void this.draw();
    });
    this.element = make("div", {}, make("p", { say: "insideIntro", class: "faint" }), this.lineField, this.note, this.sentence, this.view);
  }

  onShow(): void {
    const isForced = this.session.settings.glossary.length > 0;
    this.lines = this.session.lines.flatMap(({ source, translation, choiceParts = [] }, lineIndex) =>
      translation ? sentencesOf(source, translation).map((parts, sentence) => {
        const overlapsChoice = choiceParts.some(({ span }) => overlaps(span, parts.targetSpan));
        const isRemembered = usesOf(source, translation, sentence).length > 0;
        return { ...parts, lineIndex, sentence, isForced: isForced || overlapsChoice || isRemembered };
      }) : [],
    );
    this.lineField.hidden = this.lines.length < 2;
    const { lineIndex, sentence } = this.selection.selected;
    const selected = this.lines.findIndex((line) => line.lineIndex === lineIndex && line.sentence === sentence);
    fillSelect(this.lineSelect, this.lines.map((line, index) => [String(index), line.source.slice(0, 80)] as const), String(Math.max(0, selected)));
    void this.draw();
  }

  private async draw(): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    const line = this.lines[Number(this.lineSelect.value)];
    const { settings } = this.session;
    const key = line ? JSON.stringify([currentLanguage(), settings.source, settings.target, settings.beam, line.source, line.target]) : "";
    if (key && key === this.shownKey && !this.nextView) return;
    this.shownKey = "";
    this.view.replaceChildren();
    this.sentence.replaceChildren();
    setMessage(this.note, line ? "loading" : "insideEmpty");
    if (!line) return;
    try {
      const labModule = await load<LabModule>("lab.js");
      await labModule.loadMessages(currentLanguage());
      if ((await this.openLab(labModule, line, settings, signal)) || (await this.showAttention(line, settings, signal))) this.shownKey = key;
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      setText(this.note, this.message(error));
    }
  }

  /** Show the laboratory; return false if it cannot open the model or the sentence is too long. */
  private async openLab({ Lab }: LabModule, line: Line, settings: RequestSettings, signal: AbortSignal): Promise<boolean> {
    const start = line.isForced ? { forced: line.target } : { beam: settings.beam };
    let model: ServerModel;
    try {
      model = await ServerModel.open(this.app.api, settings, (error) => new Error(this.message(error)), line.source, { ...start, attention: true });
    } catch (error) {
      if (error instanceof RequestError && error.problem.key === "errorOther") return false;
      throw error;
    }
    if (signal.aborted) return true;
    loadStyles();
    const lab = new Lab();
    Object.assign(lab.state, { text: line.source, view: this.nextView ?? "attention", beam: settings.beam, array: `cross.${model.info.decoder_layers}.weights` }, line.isForced ? { target: line.target } : {});
    this.nextView = undefined;
    setText(this.note, "");
    this.view.replaceChildren(lab);
    lab.show(model, { examples: [], source: this.app.nameOf(settings.source), target: this.app.nameOf(settings.target) });
    return true;
  }

  /** Show the attention view; return false for a model without attention. */
  private async showAttention(line: Line, settings: RequestSettings, signal: AbortSignal): Promise<boolean> {
    const forced = line.isForced ? { prefix: line.target } : {};
    const [[translation], { attentionView, phrases }] = await Promise.all([
      this.app.api.translate([line.source], settings, { ...forced, split: "never", attention: "view" }, signal),
      load<ViewModule>("attention.js"),
    ]);
    if (signal.aborted) return true;
    const data = translation?.attention_view;
    setText(this.note, data ? say("insideAttention") : say("insideNone"));
    if (!data) return false;
    this.sentence.append(make("span", { attributes: { dir: "auto" } }, line.source), " → ", make("strong", { attributes: { dir: "auto" } }, translation.text));
    const root = make("div", { class: "uwaga-attention" }, make("div", { attributes: { "data-still": "" } }));
    this.view.append(root);
    attentionView(root, data, phrases[currentLanguage()]);
    return true;
  }

  private message(error: unknown): string {
    if (!(error instanceof RequestError)) throw error;
    return say(error.problem.key, this.app.withLanguageNames(error.problem.values));
  }
}
