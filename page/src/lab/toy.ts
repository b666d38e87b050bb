/** <uwaga-toy>: a calculator of attention with editable numbers. */

import { make } from "../dom";
import { type Gru, gruToy, type Positions, positionsToy, type Softmax, softmaxToy } from "./calculators";
import { clockToy } from "./clock";
import { Grid } from "./edit_grid";
import { attention, type Attention, type Calculation, type Matrix, normal, product, type Score, maxGradient } from "./math";
import { type Key, say } from "./messages";
import { type Arrow, Plane } from "./plane";
import { editTable, numberTable, formatNumber, type VectorRole } from "./tables";

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
  /** The smallest and largest number of words that are timed. */
  clock?: [number, number];
}

export const SCORES: Record<Score, Key> = { dot: "toyDot", scaled: "toyScaled", general: "toyGeneral", additive: "toyAdditive", location: "toyLocation" };
const RANDOM_KEYS = 8; // keys of random vectors

export class Toy extends HTMLElement {
  private settings: Settings = {};
  private plane: Plane | undefined;
  private grids: Grid[] = [];
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
    const { gru, positions, softmax, clock, mask } = this.settings;
    const other = clock ? clockToy(clock) : gru ? gruToy(gru) : positions ? positionsToy(positions) : softmax ? softmaxToy(softmax) : undefined;
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
    const restartButton = make("button", { class: "lab-button lab-restart", attributes: { type: "button" }, on: { click: () => this.restart() } }, say("toyAgain"));
    this.plane = this.arrows();
    this.grids = [];
    this.fill();
    const inputs = this.plane ? make("div", { class: "lab-beside" }, this.plane.element, make("div", {}, make("p", { class: "lab-faint" }, say("toyPlaneHint")), this.inputs)) : this.inputs;
    const masking = mask ? [make("p", { class: "lab-faint" }, say("toyMaskHint"))] : [];
    this.replaceChildren(...(controls.childElementCount ? [controls] : []), ...(mask ? [...masking, this.results, inputs] : [inputs, this.results]), restartButton);
    this.compute();
  }

  private restart(): void {
    delete this.dataset.started;
    this.temperature = 1;
    this.dimension = 64;
    this.connectedCallback();
    this.querySelector<HTMLButtonElement>(".lab-restart")?.focus(); // the button that was pressed was replaced
  }

  /** Return a plane of queries and keys that have two numbers. */
  private arrows(): Plane | undefined {
    const { queries = [], keys = [], x, mask, heads } = this.settings;
    const vectors = [...queries, ...keys];
    if (x || mask || heads || !vectors.length || vectors.some((vector) => vector.length !== 2)) return undefined;
    const arrows = (role: "query" | "key", rows: Matrix, names: string[]): Arrow[] => rows.map((vector, index) => ({ name: names[index] ?? "", role, vector }));
    return new Plane([...arrows("query", queries, this.names("queries")), ...arrows("key", keys, this.names("keys"))], () => {
      this.fill();
      this.compute();
    });
  }

  private setMask(cells: Array<[number, number]>, isOpen: boolean): void {
    for (const [row, column] of cells) (this.settings.mask?.[row] as boolean[])[column] = isOpen;
    this.compute();
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
    const { x, wq, wk, wv, queries, keys, values, w, u, width } = this.settings;
    const change = (): void => {
      this.plane?.update();
      this.compute();
    };
    const emptyColumnNames = (matrix: Matrix): string[] => (matrix[0] ?? []).map(() => "");
    const table = (matrix: Matrix | undefined, rows: string[], caption: string, role?: VectorRole): HTMLElement[] =>
      matrix?.length && matrix[0]?.length ? [editTable(matrix, rows, emptyColumnNames(matrix), caption, change, role)] : [];
    const emptyRowNames = (matrix?: Matrix): string[] => (matrix ?? []).map(() => "");
    const usesW = this.score === "additive" || this.score === "general" || this.score === "location";
    this.inputs.replaceChildren(
      ...(width ? [] : x
        ? [...table(x, this.names("keys"), "X"), ...table(wq, emptyRowNames(wq), "W_q", "query"), ...table(wk, emptyRowNames(wk), "W_k", "key"), ...table(wv, emptyRowNames(wv), "W_v", "value")]
        : [...table(queries, this.names("queries"), say("toyQueries"), "query"), ...table(keys, this.names("keys"), say(values ? "toyKeys" : "toyKeysValues"), "key"), ...table(values, this.names("keys"), say("toyValues"), "value")]),
      ...(usesW ? table(w, emptyRowNames(w), "W") : []),
      ...(this.score === "additive" ? [...table(u, emptyRowNames(u), "U"), ...table(this.v, ["v"], "v")] : []),
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
      for (const [name, role, matrix] of [["Q = X W_q", "query", calculation.queries], ["K = X W_k", "key", calculation.keys], ["V = X W_v", "value", calculation.values]] as const) {
        tables.push(numberTable(matrix, this.names("keys"), (matrix[0] ?? []).map((_, index) => String(index + 1)), name, role));
      }
    }
    const parts = Array.from({ length: heads }, (_, head) => this.headAttention(calculation, head, heads));
    parts.forEach((part, head) => tables.push(...this.tables(part, head, (table) => (heads > 1 ? say("toyOfHead", { table: say(table), head: head + 1 }) : say(table)))));
    if (heads > 1) {
      const concatenated = this.names("queries").map((_, row) => parts.flatMap((part) => part.contexts[row] ?? []));
      tables.push(numberTable(concatenated, this.names("queries"), (concatenated[0] ?? []).map((_, index) => String(index + 1)), say("toyHeads")));
    }
    this.arrange(tables);
  }

  /** Show tables, the grids first; these stay in the page, since one may have the focus. */
  private arrange(tables: HTMLElement[]): void {
    const grids = this.grids.map(({ element }) => element);
    for (const element of [...this.results.children]) if (!grids.includes(element as HTMLElement)) element.remove();
    this.results.prepend(...grids.filter((element) => element.parentElement !== this.results));
    const others = tables.filter((table) => !grids.includes(table));
    if (grids.length) others.unshift(...others.splice(-1)); // the contexts beside the weights
    this.results.append(...others);
  }

  private headAttention(calculation: Calculation, head: number, heads: number): Attention {
    const headPart = (matrix: Matrix): Matrix => {
      const width = (matrix[0]?.length ?? 0) / heads;
      return matrix.map((row) => row.slice(head * width, (head + 1) * width));
    };
    return attention({ ...calculation, queries: headPart(calculation.queries), keys: headPart(calculation.keys), values: headPart(calculation.values) });
  }

  private tables({ scores, weights, contexts }: Attention, head: number, title: (table: Key) => string): HTMLElement[] {
    const [queries, keys] = [this.names("queries"), this.names("keys")];
    const columnNames = (contexts[0] ?? []).map((_, index) => String(index + 1));
    const context = numberTable(contexts, queries, columnNames, title("toyContexts"), "value");
    const { mask, values } = this.settings;
    if (!values) this.plane?.showContexts(contexts);
    if (!mask) return [numberTable(scores, queries, keys, title("toyScores")), numberTable(weights, queries, keys, title("toyWeights")), context];
    const grid = (index: number): Grid => (this.grids[2 * head + index] ??= new Grid({ mask: (cells, isOpen) => this.setMask(cells, isOpen) }));
    const [ofScores, ofWeights] = [grid(0), grid(1)];
    const largest = Math.max(1e-9, ...scores.flat().map(Math.abs));
    const shared = { rows: queries, columns: keys, isMasked: (row: number, column: number) => mask[row]?.[column] === false };
    ofScores.show({ ...shared, values: scores, caption: title("toyScores"), text: (value, isMasked) => (isMasked ? "−∞" : formatNumber(value)), share: (value) => Math.abs(value) / largest });
    ofWeights.show({ ...shared, values: weights, caption: title("toyWeights"), text: (value) => formatNumber(value) });
    return [ofScores.element, ofWeights.element, context];
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
