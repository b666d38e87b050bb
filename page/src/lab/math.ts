/** The arithmetic of attention for the calculator. */

export type Matrix = number[][];
export type Score = "dot" | "scaled" | "general" | "additive" | "location";

export interface Calculation {
  score: Score;
  queries: Matrix;
  keys: Matrix;
  values: Matrix;
  /** W of the queries in an additive score, between query and key in a general score, of the query in a location score. */
  w?: Matrix | undefined;
  /** U of the keys in an additive score. */
  u?: Matrix | undefined;
  v?: number[] | undefined;
  mask?: boolean[][] | undefined;
  temperature?: number | undefined;
}
export interface Attention {
  scores: Matrix;
  weights: Matrix;
  contexts: Matrix;
}

export const dot = (first: number[], second: number[]): number => first.reduce((sum, value, index) => sum + value * (second[index] ?? 0), 0);
export const transpose = (matrix: Matrix): Matrix => (matrix[0] ?? []).map((_, column) => matrix.map((row) => row[column] ?? 0));
/** Return the product of a matrix (rows, n) and a matrix (n, columns). */
export const product = (left: Matrix, right: Matrix): Matrix => {
  const columns = transpose(right);
  return left.map((row) => columns.map((column) => dot(row, column)));
};
const multiply = (matrix: Matrix, vector: number[]): number[] => matrix.map((row) => dot(row, vector));

/** Return the softmax of scores; masked positions are 0, and a fully masked row is all zeros. */
export function softmax(scores: number[], mask?: boolean[]): number[] {
  const unmasked = scores.map((score, index) => (mask?.[index] === false ? -Infinity : score));
  const largest = Math.max(...unmasked);
  if (largest === -Infinity) return scores.map(() => 0);
  const exponentials = unmasked.map((score) => Math.exp(score - largest));
  const sum = exponentials.reduce((total, value) => total + value, 0);
  return exponentials.map((value) => value / sum);
}

function scoreOf(calculation: Calculation, query: number[], key: number[], position: number): number {
  switch (calculation.score) {
    case "dot":
      return dot(query, key);
    case "scaled":
      return dot(query, key) / Math.sqrt(query.length);
    case "general":
      return dot(multiply(transpose(calculation.w ?? []), query), key);
    case "additive": {
      const [queryPart, keyPart] = [multiply(calculation.w ?? [], query), multiply(calculation.u ?? [], key)];
      return dot(calculation.v ?? [], queryPart.map((value, i) => Math.tanh(value + (keyPart[i] ?? 0))));
    }
    case "location":
      return multiply(calculation.w ?? [], query)[position] ?? 0;
  }
}

/** Return scores and weights (queries, keys) and contexts (queries, value width). */
export function attention(calculation: Calculation): Attention {
  const scores = calculation.queries.map((query) => calculation.keys.map((key, index) => scoreOf(calculation, query, key, index)));
  const temperature = calculation.temperature ?? 1;
  const weights = scores.map((row, index) => softmax(row.map((value) => value / temperature), calculation.mask?.[index]));
  return { scores, weights, contexts: product(weights, calculation.values) };
}

/** Return the largest gradient of a softmax, w (1 - w), which is at most 1/4. */
export const maxGradient = (weights: number[]): number => Math.max(...weights.map((weight) => weight * (1 - weight)));

/** Return a generator of numbers from 0 to below 1, reproducible by seed (mulberry32). */
export function uniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let hash = Math.imul(state ^ (state >>> 15), state | 1);
    hash ^= hash + Math.imul(hash ^ (hash >>> 7), hash | 61);
    return ((hash ^ (hash >>> 14)) >>> 0) / 4294967296;
  };
}

/** Return a generator of normally distributed numbers, reproducible by seed (Box-Muller transform). */
export function normal(seed: number): () => number {
  const draw = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}
