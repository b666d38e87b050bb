/** A clock: a recurrent pass against a self-attention over more and more words, timed in the reader's browser. */

import { make } from "../dom";
import { normal } from "./math";
import { say } from "./messages";
import { formatNumber } from "./tables";

const WIDTH = 64; // of a word's vector
const BUDGET = 40; // milliseconds for one size of one pass
const LONGEST = 150; // milliseconds after which a pass is not timed again
const WARM_UP = 30; // milliseconds, in which the browser compiles a pass

type Floats = Float32Array;
const random = normal(7);
const floats = (length: number): Floats => Float32Array.from({ length }, () => random() / Math.sqrt(WIDTH));
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** Return the product of (rows, inner) and (inner, columns), all row-major. */
export function multiply(left: Floats, right: Floats, rows: number, inner: number, columns: number): Floats {
  const result = new Float32Array(rows * columns);
  for (let row = 0; row < rows; ++row) {
    const sum = result.subarray(row * columns, (row + 1) * columns);
    for (let k = 0; k < inner; ++k) {
      const factor = left[row * inner + k] as number;
      const from = k * columns;
      for (let column = 0; column < columns; ++column) sum[column]! += factor * right[from + column]!;
    }
  }
  return result;
}

/** Return the last state of a recurrence with gates, (1, width): each word waits for the state of the one before. */
export function recurrent(words: Floats, count: number, weights: Floats[], width = WIDTH): Floats {
  const [wr, wz, wc, ur, uz, uc] = weights as [Floats, Floats, Floats, Floats, Floats, Floats];
  const product = (vector: Floats, matrix: Floats): Floats => multiply(vector, matrix, 1, width, width);
  let state: Floats = new Float32Array(width);
  for (let index = 0; index < count; ++index) {
    const word = words.subarray(index * width, (index + 1) * width);
    const [r, z, c] = [product(word, wr), product(word, wz), product(word, wc)];
    const [sr, sz, sc] = [product(state, ur), product(state, uz), product(state, uc)];
    state = state.map((old, i) => {
      const update = sigmoid(z[i]! + sz[i]!);
      return update * old + (1 - update) * Math.tanh(c[i]! + sigmoid(r[i]! + sr[i]!) * sc[i]!);
    });
  }
  return state;
}

/** Return softmax(Q Kᵀ / √d) V W, (words, width): a few products of matrices, with all words in each. */
export function selfAttention(words: Floats, count: number, weights: Floats[], width = WIDTH): Floats {
  const [q, k, v] = weights.slice(0, 3).map((matrix) => multiply(words, matrix, count, width, width)) as [Floats, Floats, Floats];
  const keys = new Float32Array(count * width);
  for (let row = 0; row < count; ++row) for (let i = 0; i < width; ++i) keys[i * count + row] = k[row * width + i]!;
  const scores = multiply(q, keys, count, width, count);
  for (let row = 0; row < count; ++row) {
    const values = scores.subarray(row * count, (row + 1) * count);
    let [largest, sum] = [-Infinity, 0];
    for (const value of values) largest = Math.max(largest, value);
    for (let i = 0; i < count; ++i) sum += values[i] = Math.exp((values[i]! - largest) / Math.sqrt(width));
    for (let i = 0; i < count; ++i) values[i]! /= sum;
  }
  return multiply(multiply(scores, v, count, count, width), weights[3] as Floats, count, width, width);
}

const PASSES = [recurrent, selfAttention];

/** Return the shortest time of a pass in milliseconds, of as many runs as a budget allows, and at least two. */
function measure(pass: typeof recurrent, words: Floats, count: number, weights: Floats[], budget: number): number {
  let shortest = Infinity;
  const start = performance.now();
  for (let [now, runs] = [start, 0]; now - start < (runs < 2 ? LONGEST : budget); ++runs) {
    pass(words, count, weights);
    const end = performance.now();
    shortest = Math.min(shortest, end - now);
    now = end;
  }
  return shortest;
}

export function clockToy([smallest, largest]: [number, number]): HTMLElement {
  const counts: number[] = [];
  for (let count = smallest; count <= largest; count *= 2) counts.push(count);
  const header = (text: string, attributes: Record<string, string> = { scope: "col" }): HTMLElement => make("th", { attributes }, text);
  const rows = counts.map((count) => {
    const bars = PASSES.map((_, index) => make("td", { class: `lab-time ${index ? "query" : "source"}` }, "–"));
    return { count, bars, row: make("tr", {}, header(String(count), { scope: "row" }), bars[0]!, make("td", {}, String(count)), bars[1]!, make("td", {}, "1")) };
  });
  const table = make("table", { class: "lab-clock" }, make("caption", {}, say("toyClockTable", { width: WIDTH })),
    make("thead", {},
      make("tr", {}, header(say("toyClockWords"), { scope: "col", rowspan: "2" }), header(say("toyClockRecurrent"), { scope: "colgroup", colspan: "2" }), header(say("toyClockAttention"), { scope: "colgroup", colspan: "2" })),
      make("tr", {}, ...[0, 1].flatMap(() => [header(say("toyClockTime")), header(say("toyClockSteps"))]))),
    make("tbody", {}, ...rows.map(({ row }) => row)));
  const status = make("p", { class: "lab-status", attributes: { role: "status" } });
  const start = make("button", { class: "lab-button lab-start", attributes: { type: "button" }, on: { click: () => void run() } }, say("toyClockStart"));
  let isRunning = false;

  async function run(): Promise<void> {
    if (isRunning) return;
    isRunning = true;
    start.setAttribute("aria-disabled", "true");
    status.textContent = say("toyClockRunning");
    const weights = Array.from({ length: 6 }, () => floats(WIDTH * WIDTH));
    const words = floats(largest * WIDTH);
    for (const pass of PASSES) measure(pass, words, Math.min(64, largest), weights, WARM_UP);
    const times: number[][] = [];
    for (const { count } of rows) {
      times.push(PASSES.map((pass) => measure(pass, words, count, weights, BUDGET)));
      const longest = Math.max(...times.flat());
      times.forEach((pair, index) => pair.forEach((time, pass) => {
        const bar = rows[index]!.bars[pass]!;
        bar.textContent = say("toyClockMilliseconds", { time: formatNumber(Number(time.toPrecision(2))) });
        bar.style.setProperty("--share", (time / longest).toFixed(3));
      }));
      await new Promise((resolve) => setTimeout(resolve)); // the page shows the row
    }
    const [first = 0, second = 0] = times[times.length - 1] ?? [];
    status.textContent = say("toyClockDone", { words: counts[counts.length - 1]!, recurrent: formatNumber(Number(first.toPrecision(2))), attention: formatNumber(Number(second.toPrecision(2))) });
    start.removeAttribute("aria-disabled");
    isRunning = false;
  }

  return make("div", {}, start, status,
    make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("toyClockTable", { width: WIDTH }) } }, table),
    make("p", { class: "lab-faint" }, say("toyClockNote")));
}
