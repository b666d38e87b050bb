/** <uwaga-toy>: a calculator of attention with editable numbers. */

import { make } from "../dom";
import { type Gru, gruToy, type Positions, positionsToy, type Softmax, softmaxToy } from "./calculators";
import { attention, type Attention, type Calculation, type Matrix, normal, product, type Score, maxGradient } from "./math";
import { type Key, say } from "./messages";
import { editTable, maskTable, numberTable, formatNumber } from "./tables";

interface Settings {
  score?: Score;
  scores?: Score[];
  queries?: Matrix;
  keys?: Matrix;
  values?: Matrix;
  x?: Matrix;
  wq?: Matrix;
  wk?: Matrix;
  wv?: Matrix;
  w?: Matrix;
  u?: Matrix;
  v?: number[];
  queryNames?: string[];
  keyNames?: string[];
  heads?: number;
  temperature?: boolean;
  mask?: boolean[][];
  /** Minimum and maximum width of random queries and keys. */
  width?: [number, number];
  /** Another calculator instead of attention. */
  gru?: Gru;
  positions?: Positions;
  softmax?: Softmax;
}

export const SCORES: Record<Score, Key> = { dot: "toyDot", scaled: "toyScaled", general: "toyGeneral", additive: "toyAdditive", location: "toyLocation" };
const RANDOM_KEYS = 8; // keys of random vectors

export class Toy extends HTMLElement {
  private settings: Settings = {};
  private readonly inputs = make("div", { class: "lab-inputs" });
  private readonly results = make("div", { class: "lab-results" });
  private score: Score = "dot";
  private temperature = 1;
  private dimension = 64;
  private v: Matrix = [];

  connectedCallback(): void {
    if (this.dataset.started !== undefined) return;
    this.dataset.started = "";
    this.settings = JSON.parse(this.dataset.toy ?? "{}") as Settings;
    const { gru, positions, softmax } = this.settings;
    const other = gru ? gruToy(gru) : positions ? positionsToy(positions) : softmax ? softmaxToy(softmax) : undefined;
    if (other) {
      this.replaceChildren(other);
      return;
    }
    this.score = this.settings.score ?? this.settings.scores?.[0] ?? "scaled";
    this.v = [this.settings.v ?? []];
    const controls = make("div", { class: "lab-bar" });
    if (this.settings.scores) controls.append(this.scoreChoice(this.settings.scores));
    if (this.settings.width) controls.append(this.slider("d_k", this.settings.width[0], this.settings.width[1], 1, 64, (value) => (this.dimension = value)));
    if (this.settings.temperature) controls.append(this.slider(say("toyTemperature"), 0.1, 5, 0.1, 1, (value) => (this.temperature = value)));
    const restartButton = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => this.restart() } }, say("toyAgain"));
    controls.append(restartButton);
    this.fill();
    this.replaceChildren(controls, this.inputs, this.results);
    this.compute();
  }

  private restart(): void {
    delete this.dataset.started;
    this.temperature = 1;
    this.dimension = 64;
    this.connectedCallback();
    this.querySelector<HTMLButtonElement>("button")?.focus(); // the button that was pressed was replaced
  }

  private scoreChoice(scores: Score[]): HTMLElement {
    const select = make("select", {}, ...scores.map((score) => make("option", { attributes: { value: score } }, say(SCORES[score]))));
    select.addEventListener("change", () => {
      this.score = select.value as Score;
      this.fill();
      this.compute();
    });
    return make("label", {}, `${say("toyScore")} `, select);
  }

  private slider(name: string, min: number, max: number, step: number, value: number, set: (value: number) => void): HTMLElement {
    const output = make("output", {}, String(value));
    const input = make("input", { attributes: { type: "range", min: String(min), max: String(max), step: String(step), value: String(value) } });
    input.addEventListener("input", () => {
      set(input.valueAsNumber);
      output.textContent = input.value;
      this.compute();
    });
    return make("label", {}, `${name} `, input, " ", output);
  }

  private names(side: "queries" | "keys"): string[] {
    const { x, queryNames, keyNames } = this.settings;
    const names = side === "queries" ? (queryNames ?? (x ? keyNames : undefined)) : (keyNames ?? (x ? queryNames : undefined));
    const count = x?.length ?? this.settings[side]?.length ?? (side === "keys" ? RANDOM_KEYS : 1);
    return names ?? Array.from({ length: count }, (_, index) => `${x ? "x" : side === "queries" ? "q" : "k"}${index + 1}`);
  }

  private fill(): void {
    const { x, wq, wk, wv, queries, keys, values, w, u, mask, width } = this.settings;
    const change = (): void => this.compute();
    const emptyNames = (matrix: Matrix): string[] => (matrix[0] ?? []).map(() => "");
    const table = (matrix: Matrix | undefined, rows: string[], caption: string): HTMLElement[] =>
      matrix?.length && matrix[0]?.length ? [editTable(matrix, rows, emptyNames(matrix), caption, change)] : [];
    const blank = (matrix?: Matrix): string[] => (matrix ?? []).map(() => "");
    const usesW = this.score === "additive" || this.score === "general" || this.score === "location";
    this.inputs.replaceChildren(
      ...(width ? [] : x
        ? [...table(x, this.names("keys"), "X"), ...table(wq, blank(wq), "W_q"), ...table(wk, blank(wk), "W_k"), ...table(wv, blank(wv), "W_v")]
        : [...table(queries, this.names("queries"), say("toyQueries")), ...table(keys, this.names("keys"), say(values ? "toyKeys" : "toyKeysValues")), ...table(values, this.names("keys"), say("toyValues"))]),
      ...(usesW ? table(w, blank(w), "W") : []),
      ...(this.score === "additive" ? [...table(u, blank(u), "U"), ...table(this.v, ["v"], "v")] : []),
      ...(mask ? [maskTable(mask, this.names("queries"), this.names("keys"), say("toyMask"), change)] : []),
    );
  }

  private calculation(): Calculation {
    const { x, wq, wk, wv, w, u, mask, width } = this.settings;
    const shared = { score: this.score, w, u, v: this.v[0], mask, temperature: this.temperature };
    if (width) {
      const draw = normal(7);
      const row = (): number[] => Array.from({ length: this.dimension }, draw);
      const [queries, keys] = [[row()], Array.from({ length: RANDOM_KEYS }, row)];
      return { ...shared, queries, keys, values: keys.map((_, index) => [index]) };
    }
    if (x) {
      const project = (matrix?: Matrix): Matrix => (matrix ? product(x, matrix) : x);
      return { ...shared, queries: project(wq), keys: project(wk), values: project(wv) };
    }
    const keys = this.settings.keys ?? [];
    return { ...shared, queries: this.settings.queries ?? [], keys, values: this.settings.values ?? keys };
  }

  private compute(): void {
    const calculation = this.calculation();
    if (this.settings.width) return this.showRandom(calculation);
    const heads = this.settings.heads ?? 1;
    const tables: HTMLElement[] = [];
    if (this.settings.x) {
      for (const [name, matrix] of [["Q = X W_q", calculation.queries], ["K = X W_k", calculation.keys], ["V = X W_v", calculation.values]] as const) {
        tables.push(numberTable(matrix, this.names("keys"), (matrix[0] ?? []).map((_, index) => String(index + 1)), name));
      }
    }
    const parts = Array.from({ length: heads }, (_, head) => this.headAttention(calculation, head, heads));
    parts.forEach((part, head) => tables.push(...this.tables(part, (table) => (heads > 1 ? say("toyOfHead", { table: say(table), head: head + 1 }) : say(table)))));
    if (heads > 1) {
      const concatenated = this.names("queries").map((_, row) => parts.flatMap((part) => part.contexts[row] ?? []));
      tables.push(numberTable(concatenated, this.names("queries"), (concatenated[0] ?? []).map((_, index) => String(index + 1)), say("toyHeads")));
    }
    this.results.replaceChildren(...tables);
  }

  private headAttention(calculation: Calculation, head: number, heads: number): Attention {
    const headPart = (matrix: Matrix): Matrix => {
      const width = (matrix[0]?.length ?? 0) / heads;
      return matrix.map((row) => row.slice(head * width, (head + 1) * width));
    };
    return attention({ ...calculation, queries: headPart(calculation.queries), keys: headPart(calculation.keys), values: headPart(calculation.values) });
  }

  private tables({ scores, weights, contexts }: Attention, title: (table: Key) => string): HTMLElement[] {
    const [queries, keys] = [this.names("queries"), this.names("keys")];
    const columnNames = (contexts[0] ?? []).map((_, index) => String(index + 1));
    return [numberTable(scores, queries, keys, title("toyScores")), numberTable(weights, queries, keys, title("toyWeights")), numberTable(contexts, queries, columnNames, title("toyContexts"))];
  }

  private showRandom(calculation: Calculation): void {
    const rows = (["dot", "scaled"] as const).map((score) => ({ score, ...attention({ ...calculation, score }) }));
    const keys = this.names("keys");
    const text = rows.map(({ score, weights }) => say("toyGradient", { score: say(SCORES[score]), gradient: formatNumber(maxGradient(weights[0] ?? [0])) }));
    this.results.replaceChildren(
      numberTable(rows.map((row) => row.scores[0] ?? []), rows.map((row) => say(SCORES[row.score])), keys, say("toyRandom")),
      numberTable(rows.map((row) => row.weights[0] ?? []), rows.map((row) => say(SCORES[row.score])), keys, say("toyWeights")),
      make("p", { attributes: { role: "status" } }, text.join("; ")),
    );
  }
}
