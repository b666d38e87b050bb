/**
 * A small attention model that is trained in the page: one attention over the symbols of a sequence, its gradients
 * written by hand, and Adam. It learns to reverse, copy or sort sequences of different symbols.
 *
 * The query of step i is a vector of the last target symbol and, with positions, of i; the keys, which are the values as
 * well, are vectors of the source symbols and their positions. The context is all that the output layer reads.
 */

import { type Score, softmax, uniform } from "./math";

export type Task = "reverse" | "copy" | "sort";
export interface TrainSettings {
  task: Task;
  score: Score;
  positions: boolean;
  seed: number;
}
export interface Measured {
  update: number;
  /** Of the training batches since the measurement before, in nats for each symbol. */
  loss: number;
  /** Share of the held-out sequences whose greedy result is right in every symbol, and of all their symbols. */
  right: number;
  symbols: number;
}
/** What the decoder computes for one sequence. */
interface Pass {
  keys: Float64Array;
  queries: Float64Array;
  projected: Float64Array;
  tanh: Float64Array;
  weights: Float64Array;
  contexts: Float64Array;
  probabilities: Float64Array;
}

export const SYMBOLS = 10;
export const LENGTH = 6;
export const WIDTH = 32;
export const BATCH = 32;
const HELD_OUT = 200;
const RATE = 0.002;
const SPREAD = 0.7; // standard deviation of the first vectors

export const wanted = (task: Task, source: number[]): number[] =>
  task === "copy" ? [...source] : task === "reverse" ? [...source].reverse() : [...source].sort((one, other) => one - other);

/** The weights of a model by their names, each with its gradient and Adam's two means. */
interface Parameter {
  value: Float64Array;
  gradient: Float64Array;
  first: Float64Array;
  second: Float64Array;
}

export class Trainee {
  readonly parameters = new Map<string, Parameter>();
  readonly held: number[][] = [];
  update = 0;
  private readonly draw: () => number;
  private readonly keysHeld = new Set<string>();
  private sum = 0;
  private since = 0;

  constructor(readonly settings: TrainSettings) {
    this.draw = uniform(settings.seed);
    const { score } = settings;
    this.add("source", SYMBOLS * WIDTH, SPREAD);
    this.add("target", (SYMBOLS + 1) * WIDTH, SPREAD);
    if (settings.positions) {
      this.add("sourcePlaces", LENGTH * WIDTH, SPREAD);
      this.add("targetPlaces", LENGTH * WIDTH, SPREAD);
    }
    if (score === "general" || score === "additive") this.add("W", WIDTH * WIDTH, 1 / Math.sqrt(WIDTH));
    if (score === "additive") {
      this.add("U", WIDTH * WIDTH, 1 / Math.sqrt(WIDTH));
      this.add("v", WIDTH, 1 / Math.sqrt(WIDTH));
    }
    if (score === "location") this.add("W", LENGTH * WIDTH, 1 / Math.sqrt(WIDTH));
    this.add("output", SYMBOLS * WIDTH, 1 / Math.sqrt(WIDTH));
    this.add("bias", SYMBOLS, 0);
    while (this.held.length < HELD_OUT) {
      const source = this.sequence();
      if (this.keysHeld.has(source.join())) continue;
      this.keysHeld.add(source.join());
      this.held.push(source);
    }
  }

  /** One update; the gradient is that of the mean loss of a batch of sequences that are not held out. */
  step(): void {
    const batch: number[][] = [];
    while (batch.length < BATCH) {
      const source = this.sequence();
      if (!this.keysHeld.has(source.join())) batch.push(source);
    }
    this.sum += this.gradients(batch);
    this.since += 1;
    this.update += 1;
    this.adam();
  }

  /** Measure on the held-out sequences. */
  measure(): Measured {
    let right = 0;
    let symbols = 0;
    for (const source of this.held) {
      const target = wanted(this.settings.task, source);
      const made = this.decode(source);
      const same = target.filter((symbol, at) => symbol === made[at]).length;
      symbols += same;
      if (same === LENGTH) right += 1;
    }
    const loss = this.since ? this.sum / this.since : this.loss(this.held);
    this.sum = this.since = 0;
    return { update: this.update, loss, right: right / HELD_OUT, symbols: symbols / (HELD_OUT * LENGTH) };
  }

  /** The symbols of greedy search. */
  decode(source: number[]): number[] {
    const made: number[] = [];
    for (let step = 0; step < LENGTH; ++step) {
      const { probabilities } = this.pass(source, made, step, step + 1);
      let best = 0;
      for (let at = 1; at < SYMBOLS; ++at) if ((probabilities[step * SYMBOLS + at] as number) > (probabilities[step * SYMBOLS + best] as number)) best = at;
      made.push(best);
    }
    return made;
  }

  /** The weights (target, source) along the right result. */
  matrix(source: number[]): number[][] {
    const { weights } = this.pass(source, wanted(this.settings.task, source), 0, LENGTH);
    return Array.from({ length: LENGTH }, (_, row) => Array.from(weights.subarray(row * LENGTH, (row + 1) * LENGTH)));
  }

  /** The mean loss of a symbol, in nats. */
  loss(batch: number[][]): number {
    let sum = 0;
    for (const source of batch) {
      const target = wanted(this.settings.task, source);
      const { probabilities } = this.pass(source, target, 0, LENGTH);
      target.forEach((symbol, step) => (sum -= Math.log(probabilities[step * SYMBOLS + symbol] as number)));
    }
    return sum / (batch.length * LENGTH);
  }

  /** Fill in the gradients of the mean loss of a batch, which is returned. */
  gradients(batch: number[][]): number {
    for (const { gradient } of this.parameters.values()) gradient.fill(0);
    let sum = 0;
    for (const source of batch) {
      const target = wanted(this.settings.task, source);
      const pass = this.pass(source, target, 0, LENGTH);
      target.forEach((symbol, step) => (sum -= Math.log(pass.probabilities[step * SYMBOLS + symbol] as number)));
      this.back(source, target, pass, 1 / (batch.length * LENGTH));
    }
    return sum / (batch.length * LENGTH);
  }

  private add(name: string, size: number, spread: number): void {
    const value = new Float64Array(size);
    for (let at = 0; at < size; ++at) {
      const radius = Math.sqrt(-2 * Math.log(1 - this.draw()));
      value[at] = spread * radius * Math.cos(2 * Math.PI * this.draw());
    }
    this.parameters.set(name, { value, gradient: new Float64Array(size), first: new Float64Array(size), second: new Float64Array(size) });
  }
  private value(name: string): Float64Array {
    return (this.parameters.get(name) as Parameter).value;
  }
  private gradient(name: string): Float64Array {
    return (this.parameters.get(name) as Parameter).gradient;
  }

  /** Different symbols in any order. */
  private sequence(): number[] {
    const symbols = Array.from({ length: SYMBOLS }, (_, at) => at);
    for (let at = 0; at < LENGTH; ++at) {
      const other = at + Math.floor(this.draw() * (SYMBOLS - at));
      [symbols[at], symbols[other]] = [symbols[other] as number, symbols[at] as number];
    }
    return symbols.slice(0, LENGTH);
  }

  /** Compute the steps from `from` to `to`; the last symbol before each of them is in `target`, before the first the start symbol. */
  private pass(source: number[], target: number[], from: number, to: number): Pass {
    const { score, positions } = this.settings;
    const pass: Pass = {
      keys: new Float64Array(LENGTH * WIDTH), queries: new Float64Array(LENGTH * WIDTH), projected: new Float64Array(LENGTH * WIDTH),
      tanh: new Float64Array(score === "additive" ? LENGTH * LENGTH * WIDTH : 0), weights: new Float64Array(LENGTH * LENGTH),
      contexts: new Float64Array(LENGTH * WIDTH), probabilities: new Float64Array(LENGTH * SYMBOLS),
    };
    const { keys, queries, projected, tanh, weights, contexts } = pass;
    const [ofSource, ofTarget, output, bias] = [this.value("source"), this.value("target"), this.value("output"), this.value("bias")];
    const [sourcePlaces, targetPlaces] = positions ? [this.value("sourcePlaces"), this.value("targetPlaces")] : [];
    const scale = score === "scaled" ? 1 / Math.sqrt(WIDTH) : 1;
    for (let j = 0; j < LENGTH; ++j) {
      for (let k = 0; k < WIDTH; ++k) keys[j * WIDTH + k] = (ofSource[(source[j] as number) * WIDTH + k] as number) + (sourcePlaces?.[j * WIDTH + k] ?? 0);
    }
    // The keys of an additive score are projected once for all steps.
    const ofKeys = score === "additive" ? times(this.value("U"), keys, LENGTH) : keys;
    for (let i = from; i < to; ++i) {
      const last = i === 0 ? SYMBOLS : (target[i - 1] as number);
      const query = queries.subarray(i * WIDTH, (i + 1) * WIDTH);
      for (let k = 0; k < WIDTH; ++k) query[k] = (ofTarget[last * WIDTH + k] as number) + (targetPlaces?.[i * WIDTH + k] ?? 0);
      const asked = projected.subarray(i * WIDTH, (i + 1) * WIDTH);
      if (score === "general" || score === "additive") asked.set(times(this.value("W"), query, 1));
      else asked.set(query);
      const scores: number[] = [];
      for (let j = 0; j < LENGTH; ++j) {
        let sum = 0;
        if (score === "additive") {
          const v = this.value("v");
          for (let k = 0; k < WIDTH; ++k) {
            const hidden = Math.tanh((asked[k] as number) + (ofKeys[j * WIDTH + k] as number));
            tanh[(i * LENGTH + j) * WIDTH + k] = hidden;
            sum += (v[k] as number) * hidden;
          }
        } else {
          const with_ = score === "location" ? this.value("W") : keys;
          for (let k = 0; k < WIDTH; ++k) sum += (asked[k] as number) * (with_[j * WIDTH + k] as number);
        }
        scores.push(scale * sum);
      }
      weights.set(softmax(scores), i * LENGTH);
      for (let j = 0; j < LENGTH; ++j) {
        const weight = weights[i * LENGTH + j] as number;
        for (let k = 0; k < WIDTH; ++k) contexts[i * WIDTH + k] = (contexts[i * WIDTH + k] as number) + weight * (keys[j * WIDTH + k] as number);
      }
      const logits = Array.from(bias, (one, symbol) => {
        let sum = one;
        for (let k = 0; k < WIDTH; ++k) sum += (output[symbol * WIDTH + k] as number) * (contexts[i * WIDTH + k] as number);
        return sum;
      });
      pass.probabilities.set(softmax(logits), i * SYMBOLS);
    }
    return pass;
  }

  /** Add the gradients of a sequence's summed loss times `share`. */
  private back(source: number[], target: number[], pass: Pass, share: number): void {
    const { score, positions } = this.settings;
    const { keys, queries, projected, tanh, weights, contexts, probabilities } = pass;
    const output = this.value("output");
    const [toOutput, toBias] = [this.gradient("output"), this.gradient("bias")];
    const scale = score === "scaled" ? 1 / Math.sqrt(WIDTH) : 1;
    const toKeys = new Float64Array(LENGTH * WIDTH);
    const toOfKeys = new Float64Array(LENGTH * WIDTH); // of the projected keys of an additive score
    for (let i = 0; i < LENGTH; ++i) {
      const toContext = new Float64Array(WIDTH);
      for (let symbol = 0; symbol < SYMBOLS; ++symbol) {
        const wrong = share * ((probabilities[i * SYMBOLS + symbol] as number) - (symbol === target[i] ? 1 : 0));
        add(toBias, symbol, wrong);
        for (let k = 0; k < WIDTH; ++k) {
          add(toOutput, symbol * WIDTH + k, wrong * (contexts[i * WIDTH + k] as number));
          add(toContext, k, wrong * (output[symbol * WIDTH + k] as number));
        }
      }
      const toWeights = Array.from({ length: LENGTH }, (_, j) => {
        let sum = 0;
        const weight = weights[i * LENGTH + j] as number;
        for (let k = 0; k < WIDTH; ++k) {
          sum += (toContext[k] as number) * (keys[j * WIDTH + k] as number);
          add(toKeys, j * WIDTH + k, weight * (toContext[k] as number));
        }
        return sum;
      });
      const mean = toWeights.reduce((sum, one, j) => sum + one * (weights[i * LENGTH + j] as number), 0);
      const toAsked = new Float64Array(WIDTH);
      for (let j = 0; j < LENGTH; ++j) {
        const toScore = scale * (weights[i * LENGTH + j] as number) * ((toWeights[j] as number) - mean);
        if (score === "additive") {
          const [v, toV] = [this.value("v"), this.gradient("v")];
          for (let k = 0; k < WIDTH; ++k) {
            const hidden = tanh[(i * LENGTH + j) * WIDTH + k] as number;
            add(toV, k, toScore * hidden);
            const inside = toScore * (v[k] as number) * (1 - hidden * hidden);
            add(toAsked, k, inside);
            add(toOfKeys, j * WIDTH + k, inside);
          }
        } else {
          const [with_, toWith] = score === "location" ? [this.value("W"), this.gradient("W")] : [keys, toKeys];
          for (let k = 0; k < WIDTH; ++k) {
            add(toAsked, k, toScore * (with_[j * WIDTH + k] as number));
            add(toWith, j * WIDTH + k, toScore * (projected[i * WIDTH + k] as number));
          }
        }
      }
      const query = queries.subarray(i * WIDTH, (i + 1) * WIDTH);
      const toQuery = score === "general" || score === "additive" ? backwards(this.value("W"), this.gradient("W"), query, toAsked) : toAsked;
      const last = i === 0 ? SYMBOLS : (target[i - 1] as number);
      for (let k = 0; k < WIDTH; ++k) {
        add(this.gradient("target"), last * WIDTH + k, toQuery[k] as number);
        if (positions) add(this.gradient("targetPlaces"), i * WIDTH + k, toQuery[k] as number);
      }
    }
    for (let j = 0; j < LENGTH; ++j) {
      if (score === "additive") {
        const [key, toProjected] = [keys.subarray(j * WIDTH, (j + 1) * WIDTH), toOfKeys.subarray(j * WIDTH, (j + 1) * WIDTH)];
        backwards(this.value("U"), this.gradient("U"), key, toProjected).forEach((one, k) => add(toKeys, j * WIDTH + k, one));
      }
      for (let k = 0; k < WIDTH; ++k) {
        add(this.gradient("source"), (source[j] as number) * WIDTH + k, toKeys[j * WIDTH + k] as number);
        if (positions) add(this.gradient("sourcePlaces"), j * WIDTH + k, toKeys[j * WIDTH + k] as number);
      }
    }
  }

  private adam(): void {
    const [one, two] = [1 - 0.9 ** this.update, 1 - 0.999 ** this.update];
    for (const { value, gradient, first, second } of this.parameters.values()) {
      for (let at = 0; at < value.length; ++at) {
        const slope = gradient[at] as number;
        first[at] = 0.9 * (first[at] as number) + 0.1 * slope;
        second[at] = 0.999 * (second[at] as number) + 0.001 * slope * slope;
        value[at] = (value[at] as number) - (RATE * (first[at] as number)) / one / (Math.sqrt((second[at] as number) / two) + 1e-8);
      }
    }
  }
}

const add = (to: Float64Array, at: number, value: number): void => {
  to[at] = (to[at] as number) + value;
};

/** The products of a square matrix and `rows` vectors. */
function times(matrix: Float64Array, vectors: Float64Array, rows: number): Float64Array {
  const made = new Float64Array(rows * WIDTH);
  for (let row = 0; row < rows; ++row) {
    for (let i = 0; i < WIDTH; ++i) {
      let sum = 0;
      for (let k = 0; k < WIDTH; ++k) sum += (matrix[i * WIDTH + k] as number) * (vectors[row * WIDTH + k] as number);
      made[row * WIDTH + i] = sum;
    }
  }
  return made;
}

/** From the gradient of a product of a matrix and a vector: add the matrix's, and return the vector's. */
function backwards(matrix: Float64Array, gradient: Float64Array, vector: Float64Array, made: Float64Array): Float64Array {
  const toVector = new Float64Array(WIDTH);
  for (let i = 0; i < WIDTH; ++i) {
    const slope = made[i] as number;
    for (let k = 0; k < WIDTH; ++k) {
      add(gradient, i * WIDTH + k, slope * (vector[k] as number));
      add(toVector, k, slope * (matrix[i * WIDTH + k] as number));
    }
  }
  return toVector;
}
