/** <uwaga-train>: a small attention model that is trained in the page, in slices that leave the page free. */

import { make, options } from "../dom";
import type { Score } from "./math";
import { say } from "./messages";
import { curves, heatMap, told } from "./drawing";
import { numberTable } from "./tables";
import { SCORES } from "./toy";
import { type Measured, type Task, Trainee, type TrainSettings, wanted } from "./training";

const UPDATES = 1500;
const BETWEEN = 25; // updates between two measurements
const SLICE = 30; // milliseconds of a slice
const letters = (symbols: number[]): string[] => symbols.map((one) => String.fromCharCode(97 + one));

export class Training extends HTMLElement {
  private trainee!: Trainee;
  private measured: Measured[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private spent = 0;
  private readonly task = make("select");
  private readonly score = make("select");
  private readonly positions = make("input", { attributes: { type: "checkbox" } });
  private readonly seed = make("input", { attributes: { type: "number", min: "0", max: "999999", step: "1" } });
  private readonly go = make("button", { class: "lab-button", attributes: { type: "button" } });
  private readonly status = make("p", { class: "lab-status", attributes: { role: "status" } });
  private readonly example = make("p");
  private readonly pictures = make("div", { class: "lab-matrices" });
  private readonly words = make("p", { class: "lab-faint" });
  private readonly matrixTable = make("details", {}, make("summary", {}, say("pictureTable")));
  private readonly updateTable = make("details", {}, make("summary", {}, say("framesTable")));

  connectedCallback(): void {
    if (this.dataset.started !== undefined) return;
    this.dataset.started = "";
    const given: TrainSettings = { task: "reverse", score: "scaled", positions: true, seed: 1, ...(JSON.parse(this.dataset.train ?? "{}") as Partial<TrainSettings>) };
    options(this.task, [["reverse", say("trainReverse")], ["copy", say("trainCopy")], ["sort", say("trainSort")]], given.task);
    options(this.score, (Object.keys(SCORES) as Score[]).map((name) => [name, say(SCORES[name])] as const), given.score);
    this.positions.checked = given.positions;
    this.seed.value = String(given.seed);
    for (const one of [this.task, this.score, this.positions, this.seed]) one.addEventListener("change", () => this.restart());
    this.go.addEventListener("click", () => this.pressed());
    const again = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => this.restart() } }, say("toyAgain"));
    this.replaceChildren(
      make("div", { class: "lab-bar" }, make("label", {}, `${say("trainTask")} `, this.task), make("label", {}, `${say("toyScore")} `, this.score),
        make("label", {}, this.positions, ` ${say("toyCount")}`), make("label", {}, `${say("trainSeed")} `, this.seed)),
      make("div", { class: "lab-bar" }, this.go, again),
      this.status, this.example, this.pictures, this.words, this.matrixTable, this.updateTable,
    );
    this.restart();
  }
  disconnectedCallback(): void {
    this.stop();
  }

  private restart(): void {
    this.stop();
    const seed = Number.isFinite(this.seed.valueAsNumber) ? Math.floor(Math.abs(this.seed.valueAsNumber)) : 1;
    this.trainee = new Trainee({ task: this.task.value as Task, score: this.score.value as Score, positions: this.positions.checked, seed });
    this.measured = [this.trainee.measure()];
    this.spent = 0;
    this.draw();
  }

  private pressed(): void {
    if (this.timer !== undefined) return this.stop();
    if (this.trainee.update >= UPDATES) this.restart();
    this.timer = setTimeout(() => this.slice());
    this.named();
  }
  private stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.named();
  }
  private named(): void {
    this.status.setAttribute("aria-busy", String(this.timer !== undefined));
    this.go.textContent = say(this.timer === undefined ? "trainStart" : "trainStop");
  }

  /** Some updates; the page can do other things before the next ones. */
  private slice(): void {
    const began = performance.now();
    let drawn = false;
    while (this.trainee.update < UPDATES && performance.now() - began < SLICE && !drawn) {
      this.trainee.step();
      if (this.trainee.update % BETWEEN === 0) {
        this.measured.push(this.trainee.measure());
        drawn = true;
      }
    }
    this.spent += performance.now() - began;
    if (drawn) this.draw();
    if (this.trainee.update < UPDATES) this.timer = setTimeout(() => this.slice());
    else {
      this.stop();
      this.draw();
    }
  }

  private draw(): void {
    const { update, right, symbols, loss } = this.measured[this.measured.length - 1] as Measured;
    this.dataset.right = String(right);
    this.dataset.update = String(update);
    this.status.textContent = say("trainStatus", { update, updates: UPDATES, loss: loss.toFixed(3), right: (100 * right).toFixed(1), symbols: (100 * symbols).toFixed(1), seconds: (this.spent / 1000).toFixed(1) });
    const source = this.trainee.held[0] as number[];
    const [made, target] = [this.trainee.decode(source), wanted(this.trainee.settings.task, source)];
    this.example.textContent = say("trainExample", { source: letters(source).join(" "), made: letters(made).join(" "), target: letters(target).join(" ") });
    const [rows, columns, values] = [letters(target), letters(source), this.trainee.matrix(source)];
    const title = say("trainPicture", { update });
    const points = (of: (one: Measured) => number): Array<[number, number]> => this.measured.map((one) => [one.update, of(one)]);
    const axes = { x: [0, UPDATES] as [number, number], marks: [0, UPDATES / 3, (2 * UPDATES) / 3, UPDATES] };
    this.pictures.replaceChildren(
      heatMap(values, rows, columns, title, 26),
      curves([{ name: say("framesLoss"), points: points((one) => one.loss) }], { ...axes, most: 3 }, say("framesLoss")),
      curves([{ name: say("trainRight"), points: points((one) => one.right) }], { ...axes, most: 1 }, say("trainRight")),
    );
    this.words.textContent = told(values, rows, columns);
    const open = (details: HTMLElement, table: HTMLElement): void => details.replaceChildren(details.firstElementChild as Element, table);
    open(this.matrixTable, numberTable(values, rows, columns, title));
    open(this.updateTable, numberTable(this.measured.map((one) => [one.loss, one.right, one.symbols]), this.measured.map((one) => String(one.update)), [say("framesLoss"), say("trainRight"), say("trainSymbols")], say("framesTable")));
  }
}
