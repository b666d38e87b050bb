import assert from "node:assert/strict";
import test from "node:test";
import { gruSteps, sinusoid } from "../src/lab/calculators";
import { pick } from "../src/lab/engine";
import { check } from "../src/lab/exercise";
import { setMessages } from "../src/say";
import { en } from "../src/lab/messages/en";
import { describe } from "../src/lab/program";
import { chapterOf } from "../src/lab/progress";
import { readNumber, UnclearNumber } from "../src/lab/read_number";
import { attention, dot, normal, softmax, maxGradient } from "../src/lab/math";
import { DEFAULT_STATE, fromHash, python, toHash } from "../src/lab/state";
import { below } from "./random";

setMessages("en", en);

const chance = (): number => below(1_000_000) / 1_000_000;
const near = (actual: number, expected: number, tolerance = 5e-4): void =>
  assert.ok(Math.abs(actual - expected) <= tolerance, `${actual} is not ${expected}`);

test("attention by hand: Bahdanau's step", () => {
  const keys = [[1, 0], [0, 1], [1, 1]];
  const eye = [[1, 0], [0, 1]];
  const { scores, weights, contexts } = attention({ score: "additive", queries: [[1, 0]], keys, values: keys, w: eye, u: eye, v: [1, 1] });
  [0.964, 1.523, 1.726].forEach((expected, index) => near(scores[0]![index]!, expected));
  [0.204, 0.358, 0.438].forEach((expected, index) => near(weights[0]![index]!, expected));
  [0.642, 0.796].forEach((expected, index) => near(contexts[0]![index]!, expected));
});

test("scores of 112 and 96 with d = 64: weights of 0.88 and 0.12", () => {
  const keys = [Array(64).fill(112 / 64), Array(64).fill(96 / 64)];
  const { scores, weights } = attention({ score: "scaled", queries: [Array(64).fill(1)], keys, values: keys });
  assert.deepEqual(scores, [[14, 12]]);
  near(weights[0]![0]!, 0.8808);
  near(maxGradient(weights[0]!), 0.105);
});

test("a softmax sums to one, masked positions are exactly zero, a masked row is all zeros", () => {
  for (let round = 0; round < 200; ++round) {
    const scores = Array.from({ length: 1 + Math.floor(chance() * 9) }, () => 200 * (chance() - 0.5));
    const mask = scores.map(() => chance() < 0.7);
    const weights = softmax(scores, mask);
    const sum = weights.reduce((total, weight) => total + weight, 0);
    near(sum, mask.some(Boolean) ? 1 : 0, 1e-12);
    weights.forEach((weight, index) => assert.ok(mask[index] ? weight >= 0 : weight === 0));
  }
});

test("the state of a GRU with one unit decays: 0.205, 0.163, 0.129", () => {
  const states = gruSteps({ inputs: [1, 0, 0], w: 1, u: 1 }).map((step) => step[3]!);
  [0.205, 0.163, 0.129].forEach((expected, index) => near(states[index]!, expected));
});

test("sinusoids: neighbours have the same dot product everywhere", () => {
  const rows = Array.from({ length: 20 }, (_, position) => sinusoid(position, 4));
  [0.841, 0.54, 0.01, 1].forEach((expected, index) => near(rows[1]![index]!, expected));
  for (let index = 1; index < rows.length; ++index) near(dot(rows[index - 1]!, rows[index]!), 1.54);
});

test("random numbers are reproducible by seed, with mean 0 and variance 1", () => {
  const [first, second] = [normal(7), normal(7)];
  const samples = Array.from({ length: 20_000 }, first);
  assert.deepEqual(samples.slice(0, 9), Array.from({ length: 9 }, second));
  near(samples.reduce((sum, value) => sum + value, 0) / samples.length, 0, 0.03);
  near(samples.reduce((sum, value) => sum + value * value, 0) / samples.length, 1, 0.05);
});

test("sampling respects top-k and top-p", () => {
  const probabilities = [0.1, 0.5, 0.25, 0.15];
  for (let point = 0; point < 1; point += 0.01) {
    assert.equal(pick(probabilities, 1, 1, point), 1);
    assert.ok([1, 2].includes(pick(probabilities, 2, 1, point)));
    assert.ok([1, 2].includes(pick(probabilities, 0, 0.7, point)));
  }
  const counts = [0, 0, 0, 0];
  for (let point = 0.0005; point < 1; point += 0.001) counts[pick(probabilities, 0, 1, point)]! += 1;
  counts.forEach((count, index) => near(count / 1000, probabilities[index]!, 0.002));
});

test("fragments round-trip the state, and other texts give none", () => {
  const state = { ...DEFAULT_STATE, text: 'a "b" # % ü 漢', target: "c", edits: [{ kind: "cross", layer: 1 }] as never[] };
  assert.deepEqual(fromHash(toHash(state)), state);
  for (const hash of ["", "#", "#lab", "#lab=", "#lab=%", "#lab=[", "#other", "#lab=5", "#lab=null", `#lab=${"%5B".repeat(5000)}`]) {
    assert.ok(fromHash(hash) === null || Object.keys(fromHash(hash)!).length === 0, hash);
  }
});

test("invalid edits in a fragment are dropped", () => {
  const edits = [{ side: "source", places: 5 }, { kind: "other" }, { layer: "1" }, { mask: [1] }, { weights: [[true]] }, null, { scale: 2 }];
  assert.deepEqual(fromHash(`#lab=${encodeURIComponent(JSON.stringify({ edits }))}`), { edits: [{ scale: 2 }] });
});

test("Python code of a state contains its edits", () => {
  const mask = [[true, false], [true, true]];
  const code = python({ ...DEFAULT_STATE, edits: [{ kind: "encoder", head: 2, mask }, { side: "target", places: [0] }] }, "uwaga.load()");
  for (const line of ["mask = np.ones((2, 2), dtype=bool)", "mask[0, 1] = False", 'Heads("encoder", head=2, mask=mask)', 'Positions("target", (0,))']) assert.ok(code.includes(line), line);
});

test("numbers as people write them", () => {
  const read: Array<[string, number]> = [[" 0,5 ", 0.5], ["−1", -1], ["2/7", 2 / 7], ["50 %", 0.5], ["1,048,576", 1048576], ["1\u00a0048\u202f576", 1048576], ["1.048", 1.048]];
  for (const [text, value] of read) assert.equal(readNumber(text), value);
  for (const text of ["", "a", "nan", "1 2", "2/0", "1 2/7", "٣"]) assert.throws(() => readNumber(text), UnclearNumber);
  assert.throws(() => readNumber("1,048"), (error: UnclearNumber) => error.readings.join() === "1048,1.048");
  assert.equal(check({ number: "1.1", kind: "choice", options: [{ text: "a", remark: "no" }, { text: "b" }] }, [0]).remark, "no");
});

test("verdicts on programs name the line or the test", () => {
  const exercise = { number: "1.5", kind: "code" as const, start: "", tests: "", messages: { "Too long.": "Demasiado largo." } };
  assert.equal(describe({ kind: "right", text: "", line: 0 }, exercise), "");
  assert.equal(describe({ kind: "remark", text: "Too long.", line: 0 }, exercise), "Demasiado largo.");
  assert.equal(describe({ kind: "error", text: "SyntaxError: invalid syntax", line: 3 }, exercise), "Line 3: SyntaxError: invalid syntax");
  assert.equal(describe({ kind: "error", text: "TypeError: no", line: 0 }, exercise), "The tests end with TypeError: no");
});

test("chapters are recognised by their addresses", () => {
  const addresses = ["https://a.org/learn/03-looking-back/", "/x/learn/zh/11-training/#recap", "/learn/es/03-a/index.html", "/learn/glossary/", "/guides/03-a/"];
  assert.deepEqual(addresses.map(chapterOf), ["3", "11", "3", undefined, undefined]);
});
