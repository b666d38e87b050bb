/** <uwaga-frames>: the attention of four models during training, frame by frame. */

import { make, fillSelect } from "../dom";
import { say } from "./messages";
import { fetchFile } from "./models";
import { curves, heatMap, describeWeights } from "./drawing";
import { numberTable, formatNumber } from "./tables";

interface View {
  /** The mean number of source positions that a row attends to, on dev pairs. */
  seen: number[];
  /** The share of the three targets' pieces whose largest weight is on the right word. */
  linked: number[];
  /** Bytes as base64: frames, sentences, rows, columns. */
  weights: string;
}
interface Run {
  updates: number[];
  loss: number[];
  bleu: Array<[number, number]>;
  views: Partial<Record<"head" | "mean", View>>;
}
interface Film {
  sentences: Array<{ source: string[]; target: string[] }>;
  without: { alone: number };
  runs: Record<string, Run>;
}

const TITLES: Record<string, string> = { cho: "Cho 2014", bahdanau: "Bahdanau 2014", luong: "Luong 2015", transformer: "Transformer" };
const CELL = 34; // of the matrix
const FRAME_INTERVAL = 350; // milliseconds between frames
let film: Promise<Film> | undefined;

export class Frames extends HTMLElement {
  private film!: Film;
  private model = "transformer";
  private view: "head" | "mean" = "mean";
  private sentence = 0;
  private frame = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly models = make("select");
  private readonly views = make("select");
  private readonly sentences = make("select");
  private readonly slider = make("input", { attributes: { type: "range", min: "0", step: "1" } });
  private readonly update = make("output");
  private readonly play = make("button", { class: "lab-button", attributes: { type: "button" } });
  private readonly status = make("p", { class: "lab-status", attributes: { role: "status" } });
  private readonly pictures = make("div", { class: "lab-film" });
  private readonly words = make("p", { class: "lab-faint" });
  private readonly matrixTable = make("details", {}, make("summary", {}, say("pictureTable")));
  private readonly updateTable = make("details", {}, make("summary", {}, say("framesTable")));
  private readonly still = matchMedia("(prefers-reduced-motion: reduce)");

  connectedCallback(): void {
    if (this.dataset.started !== undefined) return;
    this.dataset.started = "";
    void this.open();
  }
  disconnectedCallback(): void {
    this.stop();
  }

  private async open(): Promise<void> {
    try {
      film ??= fetchFile("models/frames.json").then((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as Film);
      this.film = await film;
    } catch (error) {
      film = undefined;
      this.append(make("p", { attributes: { role: "status" } }, say("labFailed", { detail: error instanceof Error ? error.message : String(error) })));
      return;
    }
    const settings = JSON.parse(this.dataset.frames ?? "{}") as { model?: string; sentence?: number; view?: "head" | "mean" };
    if (settings.model && this.film.runs[settings.model]) this.model = settings.model;
    if (settings.view) this.view = settings.view;
    this.sentence = settings.sentence ?? 0;
    const labelled = (name: string, inner: HTMLElement, ...others: Array<HTMLElement | string>): HTMLElement => make("label", {}, `${name} `, inner, ...others);
    fillSelect(this.models, Object.keys(this.film.runs).map((name) => [name, TITLES[name] ?? name] as const), this.model);
    fillSelect(this.sentences, this.film.sentences.map(({ source }, index) => [String(index), source.join("").replaceAll("\u2581", " ").replace("</s>", "").trim()] as const), String(this.sentence));
    this.models.addEventListener("change", () => this.choose(() => (this.model = this.models.value)));
    this.views.addEventListener("change", () => this.choose(() => (this.view = this.views.value as "head")));
    this.sentences.addEventListener("change", () => this.choose(() => (this.sentence = Number(this.sentences.value))));
    this.slider.addEventListener("input", () => {
      this.stop();
      this.frame = this.slider.valueAsNumber;
      this.draw();
    });
    this.play.addEventListener("click", () => this.togglePlay());
    this.replaceChildren(
      make("div", { class: "lab-bar" }, labelled(say("compareModel"), this.models), labelled(say("compareHeads"), this.views), labelled(say("framesSentence"), this.sentences)),
      make("div", { class: "lab-bar" }, labelled(say("framesUpdate"), this.slider, " ", this.update), this.play),
      this.status, this.pictures, this.matrixTable, this.updateTable,
    );
    this.choose(() => undefined);
  }

  private get run(): Run {
    return this.film.runs[this.model] as Run;
  }

  /** Change the model, the view or the sentence, and keep the update if possible. */
  private choose(change: () => void): void {
    this.stop();
    const update = this.run.updates[this.frame] ?? 0;
    change();
    const { updates, views, loss } = this.run;
    const index = updates.findIndex((value) => value >= update);
    this.frame = index < 0 ? updates.length - 1 : index;
    const available = (["mean", "head"] as const).filter((name) => views[name]);
    fillSelect(this.views, available.map((name) => [name, say(available.length < 2 ? "framesOnly" : name === "mean" ? "compareMean" : "compareHead")] as const), views[this.view] ? this.view : (available[0] ?? ""));
    this.views.disabled = available.length < 2;
    this.slider.max = String(updates.length - 1);
    const viewData = this.currentView();
    const columns = [say("framesLoss"), ...(viewData ? [say("framesSeen"), say("framesLinked")] : [])];
    const rows = updates.map((_, index) => [loss[index] as number, ...(viewData ? [viewData.seen[index] as number, viewData.linked[index] as number] : [])]);
    this.updateTable.replaceChildren(this.updateTable.firstElementChild as Element, numberTable(rows, updates.map(String), columns, say("framesTable")));
    this.draw();
  }

  private currentView(): View | undefined {
    return this.run.views[this.view] ?? this.run.views.head;
  }

  private togglePlay(): void {
    if (this.timer !== undefined) return this.stop();
    if (this.frame === this.run.updates.length - 1) this.frame = -1;
    this.next();
    if (!this.still.matches) this.scheduleNext();
  }
  private next(): void {
    this.frame += 1;
    this.draw();
  }
  private scheduleNext(): void {
    this.timer = setTimeout(() => {
      this.next();
      if (this.frame < this.run.updates.length - 1) this.scheduleNext();
      else this.stop();
    }, FRAME_INTERVAL);
    this.updateButton();
  }
  private stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.updateButton();
  }
  private updateButton(): void {
    this.play.textContent = say(this.timer !== undefined ? "framesPause" : this.still.matches ? "framesNext" : "framesPlay");
  }

  private draw(): void {
    const { updates, loss, bleu } = this.run;
    const [update, viewData] = [updates[this.frame] as number, this.currentView()];
    this.slider.value = String(this.frame);
    this.slider.setAttribute("aria-valuetext", say("framesAt", { update }));
    this.update.textContent = String(update);
    const score = bleu.find(([number]) => number === update)?.[1];
    const parts = [say("framesStatus", { update, loss: formatNumber(loss[this.frame] as number) })];
    if (score !== undefined) parts.push(say("framesBleu", { bleu: score }));
    if (viewData) parts.push(say("framesRows", { seen: formatNumber(viewData.seen[this.frame] as number), linked: Math.round(100 * (viewData.linked[this.frame] as number)) }));
    this.status.textContent = parts.join(" ");
    const last = updates[updates.length - 1] as number;
    const points = (values: number[]): Array<[number, number]> => values.slice(1).map((value, index) => [updates[index + 1] as number, value]);
    const axes = { x: [50, last] as [number, number], marks: [50, 500, last], log: true, marker: Math.max(50, update) };
    const pictures: Element[] = [];
    const { source, target } = this.film.sentences[this.sentence] as { source: string[]; target: string[] };
    if (viewData) {
      const values = this.weights(viewData);
      const title = say("framesPicture", { model: TITLES[this.model] ?? this.model, update });
      pictures.push(make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": title } }, heatMap(values, target, source, title, CELL)));
      this.words.textContent = describeWeights(values, target, source);
      this.matrixTable.replaceChildren(this.matrixTable.firstElementChild as Element, this.words, numberTable(values, target.map(pieceText), source.map(pieceText), title));
    } else pictures.push(make("p", {}, say("compareNone", { count: source.length })));
    this.matrixTable.hidden = !viewData;
    const baseline: Array<[number, number]> = [[50, this.film.without.alone], [last, this.film.without.alone]];
    const lines = [{ name: say("framesLoss"), points: points(loss) }, { name: say("framesAlone"), points: baseline }];
    const curve = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("framesCurve") } }, curves(lines, { ...axes, max: 9 }, say("framesCurve")));
    if (viewData) curve.append(curves([{ name: say("framesLinked"), points: points(viewData.linked) }], { ...axes, max: 1 }, say("framesLinked")));
    this.pictures.replaceChildren(...pictures, curve);
  }

  /** Return the weights (target, source) of the current frame and sentence. */
  private weights(view: View): number[][] {
    const bytes = Uint8Array.from(atob(view.weights), (character) => character.charCodeAt(0));
    const sizes = this.film.sentences.map(({ source, target }) => source.length * target.length);
    const sum = (count: number): number => sizes.slice(0, count).reduce((total, size) => total + size, 0);
    const { source, target } = this.film.sentences[this.sentence] as { source: string[]; target: string[] };
    const from = this.frame * sum(sizes.length) + sum(this.sentence);
    return target.map((_, row) => Array.from(bytes.subarray(from + row * source.length, from + (row + 1) * source.length), (byte) => byte / 255));
  }
}

const pieceText = (piece: string): string => piece.replace(/^\u2581/, "") || "␣";
