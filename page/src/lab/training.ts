/**
 * A small attention model that is trained in the page: a single attention over the symbols of a sequence, with manual
 * gradients and Adam. It learns to reverse, copy or sort sequences of different symbols.
 *
 * The query of step i is the embedding of the last target symbol and, with positions, of i; the keys, which are also the
 * values, are the embeddings of the source symbols and their positions. The output layer reads only the context.
 */

import { type Score, softmax, uniform } from "./math";

export type Task = "reverse" | "copy" | "sort";
export interface TrainSettings {
  task: Task;
  score: Score;
  positions: boolean;
  seed: number;
}
export interface Measurement {
  update: number;
  /** Loss of the training batches since the last measurement, in nats per symbol. */
  loss: number;
  /** Share of the held-out sequences that greedy search predicts correctly, and of their symbols. */
  right: number;
  symbols: number;
}
/** The intermediate results of the decoder for a sequence. */
interface ForwardPass {
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
const LEARNING_RATE = 0.002;
const INITIAL_DEVIATION = 0.7; // standard deviation of the initial embeddings

export const targetOf = (task: Task, source: number[]): number[] =>
  task === "copy" ? [...source] : task === "reverse" ? [...source].reverse() : [...source].sort((first, second) => first - second);

/** A parameter with its gradient and Adam's two moments. */
interface Parameter {
  value: Float64Array;
  gradient: Float64Array;
  first: Float64Array;
  second: Float64Array;
}

export class Trainee {
  readonly parameters = new Map<string, Parameter>();
  readonly heldOut: number[][] = [];
  update = 0;
  private readonly draw: () => number;
  private readonly heldOutKeys = new Set<string>();
  private lossSum = 0;
  private stepsSince = 0;

  constructor(readonly settings: TrainSettings) {
    this.draw = uniform(settings.seed);
    const { score } = settings;
    this.add("source", SYMBOLS * WIDTH, INITIAL_DEVIATION);
    this.add("target", (SYMBOLS + 1) * WIDTH, INITIAL_DEVIATION);
    if (settings.positions) {
      this.add("sourcePlaces", LENGTH * WIDTH, INITIAL_DEVIATION);
      this.add("targetPlaces", LENGTH * WIDTH, INITIAL_DEVIATION);
    }
    if (score === "general" || score === "additive") this.add("W", WIDTH * WIDTH, 1 / Math.sqrt(WIDTH));
    if (score === "additive") {
      this.add("U", WIDTH * WIDTH, 1 / Math.sqrt(WIDTH));
      this.add("v", WIDTH, 1 / Math.sqrt(WIDTH));
    }
    if (score === "location") this.add("W", LENGTH * WIDTH, 1 / Math.sqrt(WIDTH));
    this.add("output", SYMBOLS * WIDTH, 1 / Math.sqrt(WIDTH));
    this.add("bias", SYMBOLS, 0);
    while (this.heldOut.length < HELD_OUT) {
      const source = this.sequence();
      if (this.heldOutKeys.has(source.join())) continue;
      this.heldOutKeys.add(source.join());
      this.heldOut.push(source);
    }
  }

  /** Do an update with the gradient of the mean loss of a batch of sequences that are not held out. */
  step(): void {
    const batch: number[][] = [];
    while (batch.length < BATCH) {
      const source = this.sequence();
      if (!this.heldOutKeys.has(source.join())) batch.push(source);
    }
    this.lossSum += this.gradients(batch);
    this.stepsSince += 1;
    this.update += 1;
    this.adam();
  }

  /** Measure on the held-out sequences. */
  measure(): Measurement {
    let right = 0;
    let symbols = 0;
    for (const source of this.heldOut) {
      const target = targetOf(this.settings.task, source);
      const output = this.decode(source);
      const correct = target.filter((symbol, index) => symbol === output[index]).length;
      symbols += correct;
      if (correct === LENGTH) right += 1;
    }
    const loss = this.stepsSince ? this.lossSum / this.stepsSince : this.loss(this.heldOut);
    this.lossSum = this.stepsSince = 0;
    return { update: this.update, loss, right: right / HELD_OUT, symbols: symbols / (HELD_OUT * LENGTH) };
  }

  /** Return the symbols of greedy search. */
  decode(source: number[]): number[] {
    const output: number[] = [];
    for (let step = 0; step < LENGTH; ++step) {
      const { probabilities } = this.pass(source, output, step, step + 1);
      let best = 0;
      for (let symbol = 1; symbol < SYMBOLS; ++symbol) if ((probabilities[step * SYMBOLS + symbol] as number) > (probabilities[step * SYMBOLS + best] as number)) best = symbol;
      output.push(best);
    }
    return output;
  }

  /** Return the weights (target, source) for the correct result. */
  matrix(source: number[]): number[][] {
    const { weights } = this.pass(source, targetOf(this.settings.task, source), 0, LENGTH);
    return Array.from({ length: LENGTH }, (_, row) => Array.from(weights.subarray(row * LENGTH, (row + 1) * LENGTH)));
  }

  /** Return the mean loss of a symbol, in nats. */
  loss(batch: number[][]): number {
    let sum = 0;
    for (const source of batch) {
      const target = targetOf(this.settings.task, source);
      const { probabilities } = this.pass(source, target, 0, LENGTH);
      target.forEach((symbol, step) => (sum -= Math.log(probabilities[step * SYMBOLS + symbol] as number)));
    }
    return sum / (batch.length * LENGTH);
  }

  /** Compute the gradients of the mean loss of a batch, and return the loss. */
  gradients(batch: number[][]): number {
    for (const { gradient } of this.parameters.values()) gradient.fill(0);
    let sum = 0;
    for (const source of batch) {
      const target = targetOf(this.settings.task, source);
      const pass = this.pass(source, target, 0, LENGTH);
      target.forEach((symbol, step) => (sum -= Math.log(pass.probabilities[step * SYMBOLS + symbol] as number)));
      this.backward(source, target, pass, 1 / (batch.length * LENGTH));
    }
    return sum / (batch.length * LENGTH);
  }

  private add(name: string, size: number, spread: number): void {
    const value = new Float64Array(size);
    for (let i = 0; i < size; ++i) {
      const radius = Math.sqrt(-2 * Math.log(1 - this.draw()));
      value[i] = spread * radius * Math.cos(2 * Math.PI * this.draw());
    }
    this.parameters.set(name, { value, gradient: new Float64Array(size), first: new Float64Array(size), second: new Float64Array(size) });
  }
  private value(name: string): Float64Array {
    return (this.parameters.get(name) as Parameter).value;
  }
  private gradient(name: string): Float64Array {
    return (this.parameters.get(name) as Parameter).gradient;
  }

  /** Return a random sequence of different symbols. */
  private sequence(): number[] {
    const symbols = Array.from({ length: SYMBOLS }, (_, index) => index);
    for (let i = 0; i < LENGTH; ++i) {
      const j = i + Math.floor(this.draw() * (SYMBOLS - i));
      [symbols[i], symbols[j]] = [symbols[j] as number, symbols[i] as number];
    }
    return symbols.slice(0, LENGTH);
  }

  /** Compute the steps from `from` to `to`, given the symbols of earlier steps in `target`. */
  private pass(source: number[], target: number[], from: number, to: number): ForwardPass {
    const { score, positions } = this.settings;
    const pass: ForwardPass = {
      keys: new Float64Array(LENGTH * WIDTH), queries: new Float64Array(LENGTH * WIDTH), projected: new Float64Array(LENGTH * WIDTH),
      tanh: new Float64Array(score === "additive" ? LENGTH * LENGTH * WIDTH : 0), weights: new Float64Array(LENGTH * LENGTH),
      contexts: new Float64Array(LENGTH * WIDTH), probabilities: new Float64Array(LENGTH * SYMBOLS),
    };
    const { keys, queries, projected, tanh, weights, contexts } = pass;
    const [sourceVectors, targetVectors, output, bias] = [this.value("source"), this.value("target"), this.value("output"), this.value("bias")];
    const [sourcePositions, targetPositions] = positions ? [this.value("sourcePlaces"), this.value("targetPlaces")] : [];
    const scale = score === "scaled" ? 1 / Math.sqrt(WIDTH) : 1;
    for (let j = 0; j < LENGTH; ++j) {
      for (let k = 0; k < WIDTH; ++k) keys[j * WIDTH + k] = (sourceVectors[(source[j] as number) * WIDTH + k] as number) + (sourcePositions?.[j * WIDTH + k] ?? 0);
    }
    // The keys of an additive score are projected once for all steps.
    const projectedKeys = score === "additive" ? multiply(this.value("U"), keys, LENGTH) : keys;
    for (let i = from; i < to; ++i) {
      const last = i === 0 ? SYMBOLS : (target[i - 1] as number);
      const query = queries.subarray(i * WIDTH, (i + 1) * WIDTH);
      for (let k = 0; k < WIDTH; ++k) query[k] = (targetVectors[last * WIDTH + k] as number) + (targetPositions?.[i * WIDTH + k] ?? 0);
      const projectedQuery = projected.subarray(i * WIDTH, (i + 1) * WIDTH);
      if (score === "general" || score === "additive") projectedQuery.set(multiply(this.value("W"), query, 1));
      else projectedQuery.set(query);
      const scores: number[] = [];
      for (let j = 0; j < LENGTH; ++j) {
        let sum = 0;
        if (score === "additive") {
          const v = this.value("v");
          for (let k = 0; k < WIDTH; ++k) {
            const hidden = Math.tanh((projectedQuery[k] as number) + (projectedKeys[j * WIDTH + k] as number));
            tanh[(i * LENGTH + j) * WIDTH + k] = hidden;
            sum += (v[k] as number) * hidden;
          }
        } else {
          const vectors = score === "location" ? this.value("W") : keys;
          for (let k = 0; k < WIDTH; ++k) sum += (projectedQuery[k] as number) * (vectors[j * WIDTH + k] as number);
        }
        scores.push(scale * sum);
      }
      weights.set(softmax(scores), i * LENGTH);
      for (let j = 0; j < LENGTH; ++j) {
        const weight = weights[i * LENGTH + j] as number;
        for (let k = 0; k < WIDTH; ++k) contexts[i * WIDTH + k] = (contexts[i * WIDTH + k] as number) + weight * (keys[j * WIDTH + k] as number);
      }
      const logits = Array.from(bias, (value, symbol) => {
        let sum = value;
        for (let k = 0; k < WIDTH; ++k) sum += (output[symbol * WIDTH + k] as number) * (contexts[i * WIDTH + k] as number);
        return sum;
      });
      pass.probabilities.set(softmax(logits), i * SYMBOLS);
    }
    return pass;
  }

  /** Add the gradients of a sequence's summed loss times `share`. */
  private backward(source: number[], target: number[], pass: ForwardPass, share: number): void {
    const { score, positions } = this.settings;
    const { keys, queries, projected, tanh, weights, contexts, probabilities } = pass;
    const output = this.value("output");
    const [outputGradient, biasGradient] = [this.gradient("output"), this.gradient("bias")];
    const scale = score === "scaled" ? 1 / Math.sqrt(WIDTH) : 1;
    const keyGradient = new Float64Array(LENGTH * WIDTH);
    const projectedKeyGradient = new Float64Array(LENGTH * WIDTH); // of the projected keys of an additive score
    for (let i = 0; i < LENGTH; ++i) {
      const contextGradient = new Float64Array(WIDTH);
      for (let symbol = 0; symbol < SYMBOLS; ++symbol) {
        const error = share * ((probabilities[i * SYMBOLS + symbol] as number) - (symbol === target[i] ? 1 : 0));
        add(biasGradient, symbol, error);
        for (let k = 0; k < WIDTH; ++k) {
          add(outputGradient, symbol * WIDTH + k, error * (contexts[i * WIDTH + k] as number));
          add(contextGradient, k, error * (output[symbol * WIDTH + k] as number));
        }
      }
      const weightGradient = Array.from({ length: LENGTH }, (_, j) => {
        let sum = 0;
        const weight = weights[i * LENGTH + j] as number;
        for (let k = 0; k < WIDTH; ++k) {
          sum += (contextGradient[k] as number) * (keys[j * WIDTH + k] as number);
          add(keyGradient, j * WIDTH + k, weight * (contextGradient[k] as number));
        }
        return sum;
      });
      const mean = weightGradient.reduce((sum, value, j) => sum + value * (weights[i * LENGTH + j] as number), 0);
      const projectedQueryGradient = new Float64Array(WIDTH);
      for (let j = 0; j < LENGTH; ++j) {
        const scoreGradient = scale * (weights[i * LENGTH + j] as number) * ((weightGradient[j] as number) - mean);
        if (score === "additive") {
          const [v, vGradient] = [this.value("v"), this.gradient("v")];
          for (let k = 0; k < WIDTH; ++k) {
            const hidden = tanh[(i * LENGTH + j) * WIDTH + k] as number;
            add(vGradient, k, scoreGradient * hidden);
            const hiddenGradient = scoreGradient * (v[k] as number) * (1 - hidden * hidden);
            add(projectedQueryGradient, k, hiddenGradient);
            add(projectedKeyGradient, j * WIDTH + k, hiddenGradient);
          }
        } else {
          const [vectors, vectorGradient] = score === "location" ? [this.value("W"), this.gradient("W")] : [keys, keyGradient];
          for (let k = 0; k < WIDTH; ++k) {
            add(projectedQueryGradient, k, scoreGradient * (vectors[j * WIDTH + k] as number));
            add(vectorGradient, j * WIDTH + k, scoreGradient * (projected[i * WIDTH + k] as number));
          }
        }
      }
      const query = queries.subarray(i * WIDTH, (i + 1) * WIDTH);
      const queryGradient = score === "general" || score === "additive" ? multiplyBackward(this.value("W"), this.gradient("W"), query, projectedQueryGradient) : projectedQueryGradient;
      const last = i === 0 ? SYMBOLS : (target[i - 1] as number);
      for (let k = 0; k < WIDTH; ++k) {
        add(this.gradient("target"), last * WIDTH + k, queryGradient[k] as number);
        if (positions) add(this.gradient("targetPlaces"), i * WIDTH + k, queryGradient[k] as number);
      }
    }
    for (let j = 0; j < LENGTH; ++j) {
      if (score === "additive") {
        const [key, projectedGradient] = [keys.subarray(j * WIDTH, (j + 1) * WIDTH), projectedKeyGradient.subarray(j * WIDTH, (j + 1) * WIDTH)];
        multiplyBackward(this.value("U"), this.gradient("U"), key, projectedGradient).forEach((value, k) => add(keyGradient, j * WIDTH + k, value));
      }
      for (let k = 0; k < WIDTH; ++k) {
        add(this.gradient("source"), (source[j] as number) * WIDTH + k, keyGradient[j * WIDTH + k] as number);
        if (positions) add(this.gradient("sourcePlaces"), j * WIDTH + k, keyGradient[j * WIDTH + k] as number);
      }
    }
  }

  private adam(): void {
    const [firstCorrection, secondCorrection] = [1 - 0.9 ** this.update, 1 - 0.999 ** this.update];
    for (const { value, gradient, first, second } of this.parameters.values()) {
      for (let i = 0; i < value.length; ++i) {
        const slope = gradient[i] as number;
        first[i] = 0.9 * (first[i] as number) + 0.1 * slope;
        second[i] = 0.999 * (second[i] as number) + 0.001 * slope * slope;
        value[i] = (value[i] as number) - (LEARNING_RATE * (first[i] as number)) / firstCorrection / (Math.sqrt((second[i] as number) / secondCorrection) + 1e-8);
      }
    }
  }
}

const add = (array: Float64Array, index: number, value: number): void => {
  array[index] = (array[index] as number) + value;
};

/** Return the products of a square matrix and `rows` vectors. */
function multiply(matrix: Float64Array, vectors: Float64Array, rows: number): Float64Array {
  const result = new Float64Array(rows * WIDTH);
  for (let row = 0; row < rows; ++row) {
    for (let i = 0; i < WIDTH; ++i) {
      let sum = 0;
      for (let k = 0; k < WIDTH; ++k) sum += (matrix[i * WIDTH + k] as number) * (vectors[row * WIDTH + k] as number);
      result[row * WIDTH + i] = sum;
    }
  }
  return result;
}

/** Given the gradient of a matrix-vector product, add the gradient of the matrix and return that of the vector. */
function multiplyBackward(matrix: Float64Array, gradient: Float64Array, vector: Float64Array, outputGradient: Float64Array): Float64Array {
  const vectorGradient = new Float64Array(WIDTH);
  for (let i = 0; i < WIDTH; ++i) {
    const slope = outputGradient[i] as number;
    for (let k = 0; k < WIDTH; ++k) {
      add(gradient, i * WIDTH + k, slope * (vector[k] as number));
      add(vectorGradient, k, slope * (matrix[i * WIDTH + k] as number));
    }
  }
  return vectorGradient;
}
