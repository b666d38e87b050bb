/** <uwaga-train>: a small attention model that is trained in the page, in short slices so that the page stays responsive. */

import { make, fillSelect } from "../dom";
import type { Score } from "./math";
import { say } from "./messages";
import { curves, heatMap, describeWeights } from "./drawing";
import { numberTable } from "./tables";
import { SCORES } from "./toy";
import { type Measurement, type Task, Trainee, type TrainSettings, targetOf } from "./training";

const UPDATES = 1500;
const MEASURE_INTERVAL = 25; // updates between two measurements
const SLICE = 30; // milliseconds of a slice
const letters = (symbols: number[]): string[] => symbols.map((symbol) => String.fromCharCode(97 + symbol));

export class Training extends HTMLElement {
  private trainee!: Trainee;
  private measured: Measurement[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private elapsed = 0;
  private readonly task = make("select");
  private readonly score = make("select");
  private readonly positions = make("input", { attributes: { type: "checkbox" } });
  private readonly seed = make("input", { attributes: { type: "number", min: "0", max: "999999", step: "1" } });
  private readonly startButton = make("button", { class: "lab-button", attributes: { type: "button" } });
  private readonly status = make("p", { class: "lab-status", attributes: { role: "status" } });
  private readonly example = make("p");
  private readonly pictures = make("div", { class: "lab-matrices" });
  private readonly words = make("p", { class: "lab-faint" });
  private readonly matrixTable = make("details", {}, make("summary", {}, say("pictureTable")));
  private readonly updateTable = make("details", {}, make("summary", {}, say("framesTable")));

  connectedCallback(): void {
    if (this.dataset.started !== undefined) return;
    this.dataset.started = "";
    const settings: TrainSettings = { task: "reverse", score: "scaled", positions: true, seed: 1, ...(JSON.parse(this.dataset.train ?? "{}") as Partial<TrainSettings>) };
    fillSelect(this.task, [["reverse", say("trainReverse")], ["copy", say("trainCopy")], ["sort", say("trainSort")]], settings.task);
    fillSelect(this.score, (Object.keys(SCORES) as Score[]).map((name) => [name, say(SCORES[name])] as const), settings.score);
    this.positions.checked = settings.positions;
    this.seed.value = String(settings.seed);
    for (const control of [this.task, this.score, this.positions, this.seed]) control.addEventListener("change", () => this.restart());
    this.startButton.addEventListener("click", () => this.toggle());
    const restartButton = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => this.restart() } }, say("toyAgain"));
    this.replaceChildren(
      make("div", { class: "lab-bar" }, make("label", {}, `${say("trainTask")} `, this.task), make("label", {}, `${say("toyScore")} `, this.score),
        make("label", {}, this.positions, ` ${say("toyCount")}`), make("label", {}, `${say("trainSeed")} `, this.seed)),
      make("div", { class: "lab-bar" }, this.startButton, restartButton),
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
    this.elapsed = 0;
    this.draw();
  }

  private toggle(): void {
    if (this.timer !== undefined) return this.stop();
    if (this.trainee.update >= UPDATES) this.restart();
    this.timer = setTimeout(() => this.slice());
    this.updateButton();
  }
  private stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.updateButton();
  }
  private updateButton(): void {
    this.status.setAttribute("aria-busy", String(this.timer !== undefined));
    this.startButton.textContent = say(this.timer === undefined ? "trainStart" : "trainStop");
  }

  /** Do some updates, then return control to the page. */
  private slice(): void {
    const start = performance.now();
    let isMeasured = false;
    while (this.trainee.update < UPDATES && performance.now() - start < SLICE && !isMeasured) {
      this.trainee.step();
      if (this.trainee.update % MEASURE_INTERVAL === 0) {
        this.measured.push(this.trainee.measure());
        isMeasured = true;
      }
    }
    this.elapsed += performance.now() - start;
    if (isMeasured) this.draw();
    if (this.trainee.update < UPDATES) this.timer = setTimeout(() => this.slice());
    else {
      this.stop();
      this.draw();
    }
  }

  private draw(): void {
    const { update, right, symbols, loss } = this.measured[this.measured.length - 1] as Measurement;
    this.dataset.right = String(right);
    this.dataset.update = String(update);
    this.status.textContent = say("trainStatus", { update, updates: UPDATES, loss: loss.toFixed(3), right: (100 * right).toFixed(1), symbols: (100 * symbols).toFixed(1), seconds: (this.elapsed / 1000).toFixed(1) });
    const source = this.trainee.heldOut[0] as number[];
    const [output, target] = [this.trainee.decode(source), targetOf(this.trainee.settings.task, source)];
    this.example.textContent = say("trainExample", { source: letters(source).join(" "), made: letters(output).join(" "), target: letters(target).join(" ") });
    const [rows, columns, values] = [letters(target), letters(source), this.trainee.matrix(source)];
    const title = say("trainPicture", { update });
    const points = (valueOf: (measurement: Measurement) => number): Array<[number, number]> => this.measured.map((measurement) => [measurement.update, valueOf(measurement)]);
    const axes = { x: [0, UPDATES] as [number, number], marks: [0, UPDATES / 3, (2 * UPDATES) / 3, UPDATES] };
    this.pictures.replaceChildren(
      heatMap(values, rows, columns, title, 26),
      curves([{ name: say("framesLoss"), points: points((measurement) => measurement.loss) }], { ...axes, max: 3 }, say("framesLoss")),
      curves([{ name: say("trainRight"), points: points((measurement) => measurement.right) }], { ...axes, max: 1 }, say("trainRight")),
    );
    this.words.textContent = describeWeights(values, rows, columns);
    const setTable = (details: HTMLElement, table: HTMLElement): void => details.replaceChildren(details.firstElementChild as Element, table);
    setTable(this.matrixTable, numberTable(values, rows, columns, title));
    setTable(this.updateTable, numberTable(this.measured.map((measurement) => [measurement.loss, measurement.right, measurement.symbols]), this.measured.map((measurement) => String(measurement.update)), [say("framesLoss"), say("trainRight"), say("trainSymbols")], say("framesTable")));
  }
}
