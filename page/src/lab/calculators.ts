/** Calculators that are not of attention: a GRU of one unit, sinusoids, a softmax over named scores. */

import { make } from "../dom";
import { dot, softmax } from "./math";
import { say } from "./messages";
import { editTable, numberTable } from "./tables";

export interface Gru {
  inputs: number[];
  w: number;
  u: number;
}
export interface Positions {
  count: number;
  width: number;
}
export interface Softmax {
  names: string[];
  scores: number[];
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** Reset gate, update gate, candidate and state of each step (Cho 2014): h = z h + (1 - z) tanh(w x + u r h). */
export function gruSteps({ inputs, w, u }: Gru): number[][] {
  let h = 0;
  return inputs.map((x) => {
    const gate = sigmoid(w * x + u * h);
    const candidate = Math.tanh(w * x + u * gate * h);
    h = gate * h + (1 - gate) * candidate;
    return [gate, gate, candidate, h];
  });
}

/** Sinusoids of a position (Vaswani 2017 §3.5): sine and cosine in turn, slower from pair to pair. */
export const sinusoid = (position: number, width: number): number[] =>
  Array.from({ length: width }, (_, i) => {
    const angle = position / 10000 ** ((i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });

export function gruToy(given: Gru): HTMLElement {
  const results = make("div", { class: "lab-results" });
  const [inputs, weights] = [[[...given.inputs]], [[given.w, given.u]]];
  const compute = (): void => {
    const [w = 1, u = 1] = weights[0] ?? [];
    const steps = gruSteps({ inputs: inputs[0] ?? [], w, u });
    results.replaceChildren(numberTable(steps, steps.map((_, at) => say("toyStep", { step: at + 1 })), [say("toyReset"), say("toyUpdate"), say("toyCandidate"), say("toyState")], say("toyGates")));
  };
  compute();
  return make("div", {},
    make("div", { class: "lab-inputs" }, editTable(inputs, ["x"], given.inputs.map((_, at) => say("toyStep", { step: at + 1 })), say("toyInputs"), compute), editTable(weights, [say("toyWeight")], ["w", "u"], say("toyWeights"), compute)),
    results);
}

export function positionsToy(given: Positions): HTMLElement {
  const results = make("div", { class: "lab-results" });
  const chosen = { ...given };
  const compute = (): void => {
    const rows = Array.from({ length: chosen.count }, (_, at) => sinusoid(at, chosen.width));
    const names = rows.map((_, at) => String(at));
    results.replaceChildren(
      numberTable(rows, names, Array.from({ length: chosen.width }, (_, at) => String(at + 1)), say("toySinusoids")),
      numberTable(rows.map((row) => rows.map((other) => dot(row, other))), names, names, say("toyDots")),
    );
  };
  const slider = (name: "count" | "width", least: number, most: number, step: number): HTMLElement => {
    const shown = make("output", {}, String(chosen[name]));
    const input = make("input", { attributes: { type: "range", min: String(least), max: String(most), step: String(step), value: String(chosen[name]) } });
    input.addEventListener("input", () => {
      chosen[name] = input.valueAsNumber;
      shown.textContent = input.value;
      compute();
    });
    return make("label", {}, `${say(name === "count" ? "toyCount" : "toyWidth")} `, input, " ", shown);
  };
  compute();
  return make("div", {}, make("div", { class: "lab-bar" }, slider("count", 2, 32, 1), slider("width", 2, 32, 2)), results);
}

export function softmaxToy(given: Softmax): HTMLElement {
  const results = make("div", { class: "lab-results" });
  const scores = [[...given.scores]];
  let temperature = 1;
  const shown = make("output", {}, "1");
  const input = make("input", { attributes: { type: "range", min: "0.1", max: "5", step: "0.1", value: "1" } });
  const compute = (): void => {
    const probabilities = softmax((scores[0] ?? []).map((one) => one / temperature));
    results.replaceChildren(numberTable([probabilities, probabilities.map(Math.log)], [say("toyProbability"), say("toyLogProbability")], given.names, say("toySoftmax")));
  };
  input.addEventListener("input", () => {
    temperature = input.valueAsNumber;
    shown.textContent = input.value;
    compute();
  });
  compute();
  return make("div", {},
    make("div", { class: "lab-inputs" }, editTable(scores, [say("toyScore")], given.names, say("toyScores"), compute)),
    make("div", { class: "lab-bar" }, make("label", {}, `${say("toyTemperature")} `, input, " ", shown)), results);
}
