/** Calculators besides attention: a GRU with one unit, sinusoids, a softmax over named scores. */

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

/** Return reset gate, update gate, candidate and state of each step (Cho 2014): h = z h + (1 - z) tanh(w x + u r h). */
export function gruSteps({ inputs, w, u }: Gru): number[][] {
  let h = 0;
  return inputs.map((x) => {
    const gate = sigmoid(w * x + u * h);
    const candidate = Math.tanh(w * x + u * gate * h);
    h = gate * h + (1 - gate) * candidate;
    return [gate, gate, candidate, h];
  });
}

/** Return the sinusoids of a position (Vaswani 2017 §3.5): sine and cosine alternate, with decreasing frequency. */
export const sinusoid = (position: number, width: number): number[] =>
  Array.from({ length: width }, (_, i) => {
    const angle = position / 10000 ** ((i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });

export function gruToy(settings: Gru): HTMLElement {
  const results = make("div", { class: "lab-results" });
  const [inputs, weights] = [[[...settings.inputs]], [[settings.w, settings.u]]];
  const compute = (): void => {
    const [w = 1, u = 1] = weights[0] ?? [];
    const steps = gruSteps({ inputs: inputs[0] ?? [], w, u });
    results.replaceChildren(numberTable(steps, steps.map((_, index) => say("toyStep", { step: index + 1 })), [say("toyReset"), say("toyUpdate"), say("toyCandidate"), say("toyState")], say("toyGates")));
  };
  compute();
  return make("div", {},
    make("div", { class: "lab-inputs" }, editTable(inputs, ["x"], settings.inputs.map((_, index) => say("toyStep", { step: index + 1 })), say("toyInputs"), compute), editTable(weights, [say("toyWeight")], ["w", "u"], say("toyWeights"), compute)),
    results);
}

export function positionsToy(settings: Positions): HTMLElement {
  const results = make("div", { class: "lab-results" });
  const current = { ...settings };
  const compute = (): void => {
    const rows = Array.from({ length: current.count }, (_, index) => sinusoid(index, current.width));
    const names = rows.map((_, index) => String(index));
    results.replaceChildren(
      numberTable(rows, names, Array.from({ length: current.width }, (_, index) => String(index + 1)), say("toySinusoids")),
      numberTable(rows.map((row) => rows.map((other) => dot(row, other))), names, names, say("toyDots")),
    );
  };
  const slider = (name: "count" | "width", min: number, max: number, step: number): HTMLElement => {
    const output = make("output", {}, String(current[name]));
    const input = make("input", { attributes: { type: "range", min: String(min), max: String(max), step: String(step), value: String(current[name]) } });
    input.addEventListener("input", () => {
      current[name] = input.valueAsNumber;
      output.textContent = input.value;
      compute();
    });
    return make("label", {}, `${say(name === "count" ? "toyCount" : "toyWidth")} `, input, " ", output);
  };
  compute();
  return make("div", {}, make("div", { class: "lab-bar" }, slider("count", 2, 32, 1), slider("width", 2, 32, 2)), results);
}

export function softmaxToy(settings: Softmax): HTMLElement {
  const results = make("div", { class: "lab-results" });
  const scores = [[...settings.scores]];
  let temperature = 1;
  const output = make("output", {}, "1");
  const input = make("input", { attributes: { type: "range", min: "0.1", max: "5", step: "0.1", value: "1" } });
  const compute = (): void => {
    const probabilities = softmax((scores[0] ?? []).map((score) => score / temperature));
    results.replaceChildren(numberTable([probabilities, probabilities.map(Math.log)], [say("toyProbability"), say("toyLogProbability")], settings.names, say("toySoftmax")));
  };
  input.addEventListener("input", () => {
    temperature = input.valueAsNumber;
    output.textContent = input.value;
    compute();
  });
  compute();
  return make("div", {},
    make("div", { class: "lab-inputs" }, editTable(scores, [say("toyScore")], settings.names, say("toyScores"), compute)),
    make("div", { class: "lab-bar" }, make("label", {}, `${say("toyTemperature")} `, input, " ", output)), results);
}
