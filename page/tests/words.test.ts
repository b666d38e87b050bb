import assert from "node:assert/strict";
import test from "node:test";

import { alternativesAt, piecesBefore, wordBehind } from "../src/alternatives";
import { certainties, doubt, marked, partsOf, type Span, sourcesOf } from "../src/words";
import { below, text, times } from "./random";

test("parts and marks join to the text", () => {
  times(300, () => {
    const whole = text(30);
    assert.equal(partsOf(whole, "de").map((part) => part.text).join(""), whole);
    for (const part of partsOf(whole, "xx_bad_code")) assert.equal(whole.substr(part.start, part.text.length), part.text);
    const places = Array.from({ length: 4 }, () => below(whole.length + 1)).sort((one, two) => one - two);
    const spans: Span[] = [[places[0]!, places[1]!], [places[2]!, places[3]!]];
    const parts = marked(whole, spans);
    assert.equal(parts.map((part) => part.text).join(""), whole);
    assert.equal(parts.filter((part) => part.isMarked).map((part) => part.text).join(""), spans.map((span) => whole.slice(...span)).join(""));
  });
});

test("the certainty of a word is its own, and none where a part was copied", () => {
  const word = (text: string, mean: number) => ({ text, probability: mean, mean });
  const words = [word("Ein", 0.9), word("Auto.", 0.3), word("</s>", 1), word("Ja", 0.1)];
  const at = certainties("Ein  Auto.\nJa", words);
  assert.deepEqual([0, 2, 5, 9, 11, 3].map(at), [0.9, 0.9, 0.3, 0.3, 0.1, undefined]);
  assert.equal(certainties("Ein Auto", words)(0), undefined);
});

test("doubt rises as the probability falls", () => {
  times(100, () => {
    const [low, high] = [Math.random(), Math.random()].sort((one, two) => one - two);
    assert.ok(doubt(low) >= doubt(high));
  });
  assert.deepEqual([undefined, 1, 0.5, 0.49, 0.3, 0.1].map(doubt), [0, 0, 0, 1, 2, 3]);
});

test("places of links are code points, those of a page code units", () => {
  const source = "😀 red 😀 car";
  const target = "😀 rotes Auto";
  const alignment = {
    source: [[2, 5], [8, 11]] as Span[],
    target: [[2, 7], [8, 12]] as Span[],
    links: [[0, 0], [1, 1]] as Span[],
  };
  const found = sourcesOf(alignment, source, target, [9, 13]);
  assert.deepEqual(found.map((span) => source.slice(...span)), ["car"]);
  assert.deepEqual(sourcesOf(alignment, source, target, [3, 13]).map((span) => source.slice(...span)), ["red", "car"]);
  assert.deepEqual(sourcesOf(alignment, source, target, [0, 2]), []);
});

test("alternatives differ in the word behind the prefix, and go on from it", () => {
  const texts = ["Ich will ein Auto.", "Ich will einen Wagen.", "Ich will ein Boot.", "Ich mag es."];
  assert.deepEqual(alternativesAt(texts, "Ich will ", "ein", "de"), [
    { word: "einen", prefix: "Ich will einen", text: "Ich will einen Wagen." },
  ]);
  for (const one of alternativesAt(texts, "Ich ", "will", "de")) {
    assert.ok(one.text.startsWith(one.prefix) && one.prefix.endsWith(one.word));
  }
  assert.equal(wordBehind("Ich will.", "Ich", "de"), " will");
  assert.equal(wordBehind("Ich will.", "Ich will.", "de"), "");
});

test("the pieces before a place spell what stands before it", () => {
  const tokens = ["▁Das", "▁kl", "eine", "▁Haus", "."];
  const whole = "Das kleine Haus.";
  for (const [place, pieces] of [[0, 0], [4, 1], [11, 3], [15, 4], [16, 5]] as const) {
    assert.equal(piecesBefore(tokens, whole, place), pieces, `place ${place}`);
  }
});
