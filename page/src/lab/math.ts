/** The arithmetic of attention over rows of numbers, for the calculator. */

export type Matrix = number[][];
export type Score = "dot" | "scaled" | "general" | "additive" | "location";

export interface Calculation {
  score: Score;
  queries: Matrix;
  keys: Matrix;
  values: Matrix;
  /** Of the queries in an additive score, between query and key in a general one, of the query in a location score. */
  w?: Matrix | undefined;
  /** Of the keys in an additive score. */
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

export const dot = (one: number[], other: number[]): number => one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0);
export const transposed = (matrix: Matrix): Matrix => (matrix[0] ?? []).map((_, column) => matrix.map((row) => row[column] ?? 0));
/** The product of a matrix (rows, n) and one of (n, columns). */
export const product = (one: Matrix, other: Matrix): Matrix => {
  const columns = transposed(other);
  return one.map((row) => columns.map((column) => dot(row, column)));
};
const times = (matrix: Matrix, vector: number[]): number[] => matrix.map((row) => dot(row, vector));

/** The softmax of scores; masked ones get 0, and a row without any other is all zeros. */
export function softmax(scores: number[], mask?: boolean[]): number[] {
  const open = scores.map((score, at) => (mask?.[at] === false ? -Infinity : score));
  const largest = Math.max(...open);
  if (largest === -Infinity) return scores.map(() => 0);
  const raised = open.map((score) => Math.exp(score - largest));
  const sum = raised.reduce((all, one) => all + one, 0);
  return raised.map((one) => one / sum);
}

function score(given: Calculation, query: number[], key: number[], at: number): number {
  switch (given.score) {
    case "dot":
      return dot(query, key);
    case "scaled":
      return dot(query, key) / Math.sqrt(query.length);
    case "general":
      return dot(times(transposed(given.w ?? []), query), key);
    case "additive": {
      const [ofQuery, ofKey] = [times(given.w ?? [], query), times(given.u ?? [], key)];
      return dot(given.v ?? [], ofQuery.map((value, i) => Math.tanh(value + (ofKey[i] ?? 0))));
    }
    case "location":
      return times(given.w ?? [], query)[at] ?? 0;
  }
}

/** Scores and weights (queries, keys) and contexts (queries, value width). */
export function attention(given: Calculation): Attention {
  const scores = given.queries.map((query) => given.keys.map((key, at) => score(given, query, key, at)));
  const warm = given.temperature ?? 1;
  const weights = scores.map((row, at) => softmax(row.map((one) => one / warm), given.mask?.[at]));
  return { scores, weights, contexts: product(weights, given.values) };
}

/** The largest gradient of a softmax: w (1 - w) of its weights, the most of which is 1/4. */
export const steepest = (weights: number[]): number => Math.max(...weights.map((one) => one * (1 - one)));

/** Numbers from 0 to below 1, the same for a seed (mulberry32). */
export function uniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Numbers of a normal distribution, the same for a seed (Box and Muller's transform). */
export function normal(seed: number): () => number {
  const draw = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}
