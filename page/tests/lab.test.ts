import assert from "node:assert/strict";
import test from "node:test";
import { boxesOf, layout, segmentsOf } from "../src/lab/boxes";
import { gruSteps, sinusoid } from "../src/lab/calculators";
import { packRows } from "../src/lab/choose_tab";
import { recurrent, selfAttention } from "../src/lab/clock";
import { pick } from "../src/lab/engine";
import { check } from "../src/lab/exercise";
import { setMessages } from "../src/say";
import { en } from "../src/lab/messages/en";
import { describe } from "../src/lab/program";
import { chapterOf } from "../src/lab/progress";
import { readNumber, UnclearNumber } from "../src/lab/read_number";
import { attention, dot, normal, softmax, maxGradient } from "../src/lab/math";
import { changedWords, editOf, maskCells, maskOf, meanWeights, positionsEdit, positionsOf, rescaled, setRow, tableSize, withEdit } from "../src/lab/matrix_edits";
import { frozen, skipped } from "../src/lab/positions";
import { DEFAULT_STATE, fromHash, labelsOf, python, toHash, translationAxes } from "../src/lab/state";
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

test("fragments round-trip the state, and other texts have no state", () => {
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

test("numbers are read as people write them", () => {
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

const SHAPE = { encoder_layers: 4, decoder_layers: 2, decoder_attention: true };

test("every array has a box that opens it, and every box opens an array", () => {
  const segments = segmentsOf(SHAPE);
  const attention = ["query", "key", "value", "scores", "weights", "context", "attention"];
  const layers = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
  const names = [
    ...["encoder", "decoder"].flatMap((lane) => [`${lane}.embedding`, `${lane}.output`]), "logits",
    ...layers(4).flatMap((layer) => [...attention, "feed_forward"].map((array) => `encoder.${layer}.${array}`)),
    ...layers(2).flatMap((layer) => [...attention.flatMap((array) => [`decoder.${layer}.${array}`, `cross.${layer}.${array}`]), `decoder.${layer}.feed_forward`]),
  ];
  for (const name of names) assert.ok(boxesOf(segments, name).length, name);
  for (const { array, path } of segments.flatMap(({ boxes }) => boxes)) {
    for (const name of [array, ...path]) assert.ok(names.includes(name), name);
  }
  assert.deepEqual(boxesOf(segments, "cross.2.value").map(({ id }) => id), ["decoder.2.cross"]);
  assert.deepEqual(boxesOf(segments, "encoder.1.attention").map(({ kind }) => kind), ["add"]);
  assert.deepEqual(boxesOf(segments, ""), []);
  assert.equal(boxesOf(segmentsOf({ ...SHAPE, decoder_attention: false }), "decoder.1.recurrence").length, 1);
});

test("the boxes of a drawing are in their order, in its width, and do not overlap", () => {
  for (let round = 0; round < 400; ++round) {
    const shape = { encoder_layers: 1 + below(12), decoder_layers: 1 + below(12), decoder_attention: below(4) > 0 };
    const segments = segmentsOf(shape);
    const [width, tokens] = [266 + below(1100), { encoder: 1 + below(60), decoder: 1 + below(60) }];
    const rows = layout(segments, tokens, width);
    assert.deepEqual(rows.flatMap(({ boxes }) => boxes.map(({ id }) => id)), segments.flatMap(({ boxes }) => boxes.map(({ id }) => id)));
    for (const row of rows) {
      let end = row.from;
      for (const box of row.boxes) {
        assert.ok(box.x >= end && box.width >= 24, `${box.id} in ${width}`);
        end = box.x + box.width;
      }
      assert.ok(end <= row.to + 1 && row.to <= width, `${row.lane} in ${width}: ${end} of ${row.to}`);
    }
  }
  assert.equal(layout(segmentsOf(SHAPE), { encoder: 8, decoder: 7 }, 1140).length, 2);
});

test("rows are named by what the decoder reads and writes", () => {
  const pieces = ["\u2581Ich", "\u2581m\u00f6chte"];
  const axes = translationAxes({ pieces, truncated: false, source: { pieces: ["\u2581I"] } } as never);
  assert.deepEqual(axes.rows, ["<s> → Ich", "Ich → möchte", "möchte → </s>"]);
  const table = { shape: [1, 3, 1], data: Float32Array.of(1, 2, 3) };
  assert.deepEqual(labelsOf("cross.1.weights", table, axes, 0).rows, axes.rows);
  assert.deepEqual(labelsOf("decoder.1.key", table, axes, 0).rows, axes.rows);
  assert.deepEqual(labelsOf("cross.1.key", table, axes, 0).rows, axes.source);
});

test("a row is rescaled to sum to one, and masked cells stay 0", () => {
  for (let round = 0; round < 200; ++round) {
    const row = softmax(Array.from({ length: 2 + below(9) }, () => 6 * chance()));
    const column = below(row.length);
    const isOpen = row.map((_, index) => index === column || chance() < 0.8);
    const weight = round % 10 ? chance() : round % 20 ? 1 : 0;
    const changed = rescaled(row, column, weight, isOpen);
    near(changed[column]!, weight, 1e-6);
    near(changed.reduce((sum, value) => sum + value, 0), isOpen.filter(Boolean).length > 1 ? 1 : weight, 1e-5);
    changed.forEach((value, index) => assert.ok(value >= 0 && (isOpen[index] || value === 0)));
  }
  assert.deepEqual(rescaled([1, 0, 0], 0, 0.5, [true, true, true]), [0.5, 0.25, 0.25]); // nothing to rescale: shared evenly
});

test("a cell is masked and unmasked; the remaining edit changes nothing and is removed", () => {
  const target = { kind: "cross", layer: 2, head: 1 } as const;
  const size = tableSize("cross", 3);
  assert.deepEqual(size, [30, 3]);
  const masked = withEdit([{ side: "source", places: [1, 0] }], target, (edit) => maskCells(edit, size, [[0, 1], [2, 2]], false));
  assert.equal(masked.length, 2);
  const mask = maskOf(editOf(masked, target), size);
  assert.deepEqual([mask[0], mask[2], mask[29]], [[true, false, true], [true, true, false], [true, true, true]]);
  assert.deepEqual(withEdit(masked, target, (edit) => maskCells(edit, size, [[0, 1], [2, 2]], true)), [{ side: "source", places: [1, 0] }]);
  assert.equal(editOf(masked, { kind: "cross" }), undefined);
});

test("a set row leaves the other rows as they are; later rows of a decoder see only earlier positions", () => {
  const current = [[1, 0], [0.25, 0.75]];
  const { weights } = setRow({ kind: "decoder" }, "decoder", tableSize("decoder", 1), current, 1, [0.5, 0.5]) as { weights: number[][] };
  assert.deepEqual(weights.map((row) => row.slice(0, 3)).slice(0, 3), [[1, 0, 0], [0.5, 0.5, 0], [0.333333, 0.333333, 0.333333]]);
  assert.equal(weights[3]![4], 0);
  const again = setRow({ kind: "decoder", weights }, "decoder", tableSize("decoder", 1), [[0, 1], [0, 1]], 0, [1, 0]) as { weights: number[][] };
  assert.deepEqual(again.weights, weights);
});

test("the mean of heads, and one head exactly", () => {
  const table = { shape: [2, 2, 1, 2], data: Float32Array.from([0.1, 0.9, 0.3, 0.7, 0.5, 0.5, 0.7, 0.3]) };
  assert.deepEqual(meanWeights(table, { kind: "cross", layer: 2, head: 1 }), [Float32Array.from([0.5, 0.5])]);
  near(meanWeights(table, { kind: "cross" })[0]![0]!, 0.4, 1e-6);
  near(meanWeights(table, { kind: "cross", layer: 1 })[0]![0]!, 0.2, 1e-6);
});

test("words that are new in a translation are marked", () => {
  const marked = (before: string, after: string): string => changedWords(before, after).map(({ text, isChanged }) => (isChanged ? `[${text}]` : text)).join("");
  assert.equal(marked("Ich möchte ein Auto kaufen.", "Ich will ein Haus kaufen."), "Ich [will] ein [Haus] kaufen.");
  assert.equal(marked("Ein Hund läuft.", "Ein Hund läuft."), "Ein Hund läuft.");
  assert.equal(marked("", "Ja!"), "[Ja][!]");
  assert.equal(marked("Ein Hund jagt eine Katze.", "Eine Katze jagt einen Hund."), "[Eine] [Katze] jagt [einen] [Hund].");
});

test("positions are frozen or skipped, and the default positions are not an edit", () => {
  assert.deepEqual(frozen([0, 1, 2, 3], 1), [0, 1, 1, 1]);
  assert.deepEqual(skipped([0, 1, 2, 3], 2), [0, 1, 3, 4]);
  assert.equal(positionsEdit("source", [0, 1, 2]), undefined);
  assert.deepEqual(positionsOf([{ side: "source", places: [1, 0] }, { side: "target", places: [5] }], "source", 3), [1, 0, 2]);
});

test("in a packed tree no two nodes of a depth are closer than a row, and parents are in the middle of their children", () => {
  for (let round = 0; round < 100; ++round) {
    const parents = Array.from({ length: 1 + below(40) }, (_, index) => (index < 3 ? -1 : below(index)));
    const children = (node: number): number[] => parents.flatMap((parent, index) => (parent === node ? [index] : []));
    const rows = packRows(children(-1), children);
    assert.equal(rows.size, parents.length);
    const depth = (node: number): number => (node < 0 ? 0 : 1 + depth(parents[node]!));
    for (let level = 1; level <= parents.length; ++level) {
      const sorted = parents.flatMap((_, index) => (depth(index) === level ? [rows.get(index)!] : [])).sort((first, second) => first - second);
      sorted.forEach((row, index) => assert.ok(index === 0 || row - sorted[index - 1]! >= 1 - 1e-9));
    }
    for (let node = 0; node < parents.length; ++node) {
      const [first, last] = [children(node)[0], children(node).pop()];
      if (first !== undefined && last !== undefined) near(rows.get(node)!, (rows.get(first)! + rows.get(last)!) / 2, 1e-9);
    }
  }
});

test("the clock times attention and a gated recurrence", () => {
  const draw = normal(3);
  const floats = (length: number): Float32Array => Float32Array.from({ length }, draw);
  const [count, width] = [5, 4];
  const words = floats(count * width);
  const eye = Float32Array.from({ length: width * width }, (_, index) => Number(index % (width + 1) === 0));
  const rows = Array.from({ length: count }, (_, row) => Array.from(words.subarray(row * width, (row + 1) * width)));
  const expected = attention({ score: "scaled", queries: rows, keys: rows, values: rows }).contexts.flat();
  selfAttention(words, count, [eye, eye, eye, eye], width).forEach((value, index) => near(value, expected[index]!, 1e-5));
  const ones = [Float32Array.of(1), Float32Array.of(1), Float32Array.of(1), Float32Array.of(1), Float32Array.of(1), Float32Array.of(1)];
  near(recurrent(Float32Array.from([1, 0, 0]), 3, ones, 1)[0]!, gruSteps({ inputs: [1, 0, 0], w: 1, u: 1 })[2]![3]!, 1e-6);
});
