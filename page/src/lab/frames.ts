/** <uwaga-frames>: what training does to the attention of four models, frame by frame. */

import { make, options } from "../dom";
import { say } from "./messages";
import { fetched } from "./models";
import { curves, heatMap, told } from "./drawing";
import { numberTable, short } from "./tables";

interface View {
  /** The mean number of source positions that a row looks at, on dev pairs. */
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
const PACE = 350; // milliseconds between frames
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
  private readonly pictures = make("div", { class: "lab-matrices" });
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
      film ??= fetched("models/frames.json").then((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as Film);
      this.film = await film;
    } catch (error) {
      film = undefined;
      this.append(make("p", { attributes: { role: "status" } }, say("labFailed", { detail: error instanceof Error ? error.message : String(error) })));
      return;
    }
    const given = JSON.parse(this.dataset.frames ?? "{}") as { model?: string; sentence?: number; view?: "head" | "mean" };
    if (given.model && this.film.runs[given.model]) this.model = given.model;
    if (given.view) this.view = given.view;
    this.sentence = given.sentence ?? 0;
    const named = (name: string, inner: HTMLElement, ...more: Array<HTMLElement | string>): HTMLElement => make("label", {}, `${name} `, inner, ...more);
    options(this.models, Object.keys(this.film.runs).map((name) => [name, TITLES[name] ?? name] as const), this.model);
    options(this.sentences, this.film.sentences.map(({ source }, at) => [String(at), source.join("").replaceAll("\u2581", " ").replace("</s>", "").trim()] as const), String(this.sentence));
    this.models.addEventListener("change", () => this.choose(() => (this.model = this.models.value)));
    this.views.addEventListener("change", () => this.choose(() => (this.view = this.views.value as "head")));
    this.sentences.addEventListener("change", () => this.choose(() => (this.sentence = Number(this.sentences.value))));
    this.slider.addEventListener("input", () => {
      this.stop();
      this.frame = this.slider.valueAsNumber;
      this.draw();
    });
    this.play.addEventListener("click", () => this.pressed());
    this.replaceChildren(
      make("div", { class: "lab-bar" }, named(say("compareModel"), this.models), named(say("compareHeads"), this.views), named(say("framesSentence"), this.sentences)),
      make("div", { class: "lab-bar" }, named(say("framesUpdate"), this.slider, " ", this.update), this.play),
      this.status, this.pictures, this.words, this.matrixTable, this.updateTable,
    );
    this.choose(() => undefined);
  }

  private get run(): Run {
    return this.film.runs[this.model] as Run;
  }

  /** Change the model, the view or the sentence, near the same update. */
  private choose(change: () => void): void {
    this.stop();
    const update = this.run.updates[this.frame] ?? 0;
    change();
    const { updates, views, loss } = this.run;
    const near = updates.findIndex((one) => one >= update);
    this.frame = near < 0 ? updates.length - 1 : near;
    const there = (["mean", "head"] as const).filter((name) => views[name]);
    options(this.views, there.map((name) => [name, say(there.length < 2 ? "framesOnly" : name === "mean" ? "compareMean" : "compareHead")] as const), views[this.view] ? this.view : (there[0] ?? ""));
    this.views.disabled = there.length < 2;
    this.slider.max = String(updates.length - 1);
    const measured = this.shown();
    const columns = [say("framesLoss"), ...(measured ? [say("framesSeen"), say("framesLinked")] : [])];
    const rows = updates.map((_, at) => [loss[at] as number, ...(measured ? [measured.seen[at] as number, measured.linked[at] as number] : [])]);
    this.updateTable.replaceChildren(this.updateTable.firstElementChild as Element, numberTable(rows, updates.map(String), columns, say("framesTable")));
    this.draw();
  }

  private shown(): View | undefined {
    return this.run.views[this.view] ?? this.run.views.head;
  }

  private pressed(): void {
    if (this.timer !== undefined) return this.stop();
    if (this.frame === this.run.updates.length - 1) this.frame = -1;
    this.next();
    if (!this.still.matches) this.follow();
  }
  private next(): void {
    this.frame += 1;
    this.draw();
  }
  private follow(): void {
    this.timer = setTimeout(() => {
      this.next();
      if (this.frame < this.run.updates.length - 1) this.follow();
      else this.stop();
    }, PACE);
    this.named();
  }
  private stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.named();
  }
  private named(): void {
    this.play.textContent = say(this.timer !== undefined ? "framesPause" : this.still.matches ? "framesNext" : "framesPlay");
  }

  private draw(): void {
    const { updates, loss, bleu } = this.run;
    const [update, measured] = [updates[this.frame] as number, this.shown()];
    this.slider.value = String(this.frame);
    this.slider.setAttribute("aria-valuetext", say("framesAt", { update }));
    this.update.textContent = String(update);
    const score = bleu.find(([at]) => at === update)?.[1];
    const parts = [say("framesStatus", { update, loss: short(loss[this.frame] as number) })];
    if (score !== undefined) parts.push(say("framesBleu", { bleu: score }));
    if (measured) parts.push(say("framesRows", { seen: short(measured.seen[this.frame] as number), linked: Math.round(100 * (measured.linked[this.frame] as number)) }));
    this.status.textContent = parts.join(" ");
    const last = updates[updates.length - 1] as number;
    const points = (values: number[]): Array<[number, number]> => values.slice(1).map((value, at) => [updates[at + 1] as number, value]);
    const axes = { x: [50, last] as [number, number], marks: [50, 500, last], log: true, at: Math.max(50, update) };
    const pictures: Element[] = [];
    const { source, target } = this.film.sentences[this.sentence] as { source: string[]; target: string[] };
    if (measured) {
      const values = this.weights(measured);
      const title = say("framesPicture", { model: TITLES[this.model] ?? this.model, update });
      pictures.push(make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": title } }, heatMap(values, target, source, title)));
      this.words.textContent = told(values, target, source);
      this.matrixTable.replaceChildren(this.matrixTable.firstElementChild as Element, numberTable(values, target.map(plain), source.map(plain), title));
    } else this.words.textContent = say("compareNone", { count: source.length });
    this.matrixTable.hidden = !measured;
    const without: Array<[number, number]> = [[50, this.film.without.alone], [last, this.film.without.alone]];
    const lines = [{ name: say("framesLoss"), points: points(loss) }, { name: say("framesAlone"), points: without }];
    const curve = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("framesCurve") } }, curves(lines, { ...axes, most: 9 }, say("framesCurve")));
    if (measured) curve.append(curves([{ name: say("framesLinked"), points: points(measured.linked) }], { ...axes, most: 1 }, say("framesLinked")));
    this.pictures.replaceChildren(...pictures, curve);
  }

  /** The weights (target, source) of this frame and sentence. */
  private weights(view: View): number[][] {
    const bytes = Uint8Array.from(atob(view.weights), (one) => one.charCodeAt(0));
    const sizes = this.film.sentences.map(({ source, target }) => source.length * target.length);
    const sum = (count: number): number => sizes.slice(0, count).reduce((all, one) => all + one, 0);
    const { source, target } = this.film.sentences[this.sentence] as { source: string[]; target: string[] };
    const from = this.frame * sum(sizes.length) + sum(this.sentence);
    return target.map((_, row) => Array.from(bytes.subarray(from + row * source.length, from + (row + 1) * source.length), (one) => one / 255));
  }
}

const plain = (piece: string): string => piece.replace(/^\u2581/, "") || "␣";
