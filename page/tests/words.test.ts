import assert from "node:assert/strict";
import test from "node:test";

import { wordAlternatives, countPiecesBefore, nextWord } from "../src/alternatives";
import { wordProbabilities, doubtLevel, splitAtSpans, splitWords, type Span, sourceSpans } from "../src/words";
import { below, text, times } from "./random";

test("parts and marked spans join to the text", () => {
  times(300, () => {
    const whole = text(30);
    assert.equal(splitWords(whole, "de").map((part) => part.text).join(""), whole);
    for (const part of splitWords(whole, "xx_bad_code")) assert.equal(whole.substr(part.start, part.text.length), part.text);
    const places = Array.from({ length: 4 }, () => below(whole.length + 1)).sort((one, two) => one - two);
    const spans: Span[] = [[places[0]!, places[1]!], [places[2]!, places[3]!]];
    const parts = splitAtSpans(whole, spans);
    assert.equal(parts.map((part) => part.text).join(""), whole);
    assert.equal(parts.filter((part) => part.isMarked).map((part) => part.text).join(""), spans.map((span) => whole.slice(...span)).join(""));
  });
});

test("word probabilities, undefined if a part was copied", () => {
  const word = (text: string, mean: number) => ({ text, probability: mean, mean });
  const words = [word("Ein", 0.9), word("Auto.", 0.3), word("</s>", 1), word("Ja", 0.1)];
  const at = wordProbabilities("Ein  Auto.\nJa", words);
  assert.deepEqual([0, 2, 5, 9, 11, 3].map(at), [0.9, 0.9, 0.3, 0.3, 0.1, undefined]);
  assert.equal(wordProbabilities("Ein Auto", words)(0), undefined);
});

test("doubt increases as the probability decreases", () => {
  times(100, () => {
    const [low, high] = [Math.random(), Math.random()].sort((one, two) => one - two);
    assert.ok(doubtLevel(low) >= doubtLevel(high));
  });
  assert.deepEqual([undefined, 1, 0.5, 0.49, 0.3, 0.1].map(doubtLevel), [0, 0, 0, 1, 2, 3]);
});

test("spans of links are in code points, spans of the page in code units", () => {
  const source = "😀 red 😀 car";
  const target = "😀 rotes Auto";
  const alignment = {
    source: [[2, 5], [8, 11]] as Span[],
    target: [[2, 7], [8, 12]] as Span[],
    links: [[0, 0], [1, 1]] as Span[],
  };
  const found = sourceSpans(alignment, source, target, [9, 13]);
  assert.deepEqual(found.map((span) => source.slice(...span)), ["car"]);
  assert.deepEqual(sourceSpans(alignment, source, target, [3, 13]).map((span) => source.slice(...span)), ["red", "car"]);
  assert.deepEqual(sourceSpans(alignment, source, target, [0, 2]), []);
});

test("alternatives differ in the word after the prefix", () => {
  const texts = ["Ich will ein Auto.", "Ich will einen Wagen.", "Ich will ein Boot.", "Ich mag es."];
  assert.deepEqual(wordAlternatives(texts, "Ich will ", "ein", "de"), [
    { word: "einen", prefix: "Ich will einen", text: "Ich will einen Wagen." },
  ]);
  for (const one of wordAlternatives(texts, "Ich ", "will", "de")) {
    assert.ok(one.text.startsWith(one.prefix) && one.prefix.endsWith(one.word));
  }
  assert.equal(nextWord("Ich will.", "Ich", "de"), " will");
  assert.equal(nextWord("Ich will.", "Ich will.", "de"), "");
});

test("the pieces before a position spell the text before it", () => {
  const tokens = ["▁Das", "▁kl", "eine", "▁Haus", "."];
  const whole = "Das kleine Haus.";
  for (const [place, pieces] of [[0, 0], [4, 1], [11, 3], [15, 4], [16, 5]] as const) {
    assert.equal(countPiecesBefore(tokens, whole, place), pieces, `place ${place}`);
  }
});
