import assert from "node:assert/strict";
import test from "node:test";

import { describeLookUp, lookUpsOf } from "../src/look_up";

const lookUp = (piece: string) => ({ piece, pair: 0, position: 0, remembered: "▁Herr", distance: 1.184, weight: 0.5, model_probability: 0.662, probability: 0.9 });
const lookUps = ["▁Ein", "▁Tag", ".", "</s>", "▁Er", "▁sch", "läft", ".", "</s>"].map(lookUp);

test("the look-ups of a sentence are found by its translation, in pieces or words", () => {
  assert.deepEqual(lookUpsOf("Er schläft.", lookUps), lookUps.slice(4));
  assert.deepEqual(lookUpsOf(" Ein Tag.", lookUps), lookUps.slice(0, 4));
});

test("a translation that matches no sentence has all look-ups, with or without an end symbol", () => {
  assert.deepEqual(lookUpsOf("Er ruht.", lookUps), lookUps);
  assert.deepEqual(lookUpsOf("Er", lookUps.slice(4, 5)), lookUps.slice(4, 5));
});

test("a piece is described with its numbers", () => {
  assert.equal(
    describeLookUp(lookUp("▁Tag")),
    "Tag: the nearest remembered piece is Herr, distance / radius 1.18, weight λ 0.50. Probability by the model alone: 66%; with the memory: 90%.",
  );
});
