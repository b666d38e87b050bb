import assert from "node:assert/strict";
import test from "node:test";

import { wordAlternatives, countPiecesBefore, nextWord } from "../src/alternatives";
import { commonEnd, commonLength, lengthensWord, repeatsMark, wordProbabilities, doubtLevel, placeWords, splitAtSpans, splitWords, type Span, sourceSpans } from "../src/words";
import { below, text, times } from "./random";

test("parts and marked spans join to the text", () => {
  times(300, () => {
    const sentence = text(30);
    assert.equal(splitWords(sentence, "de").map((part) => part.text).join(""), sentence);
    for (const part of splitWords(sentence, "xx_bad_code")) assert.equal(sentence.substr(part.start, part.text.length), part.text);
    const bounds = Array.from({ length: 4 }, () => below(sentence.length + 1)).sort((first, second) => first - second);
    const spans: Span[] = [[bounds[0]!, bounds[1]!], [bounds[2]!, bounds[3]!]];
    const parts = splitAtSpans(sentence, spans);
    assert.equal(parts.map((part) => part.text).join(""), sentence);
    assert.equal(parts.filter((part) => part.isMarked).map((part) => part.text).join(""), spans.map((span) => sentence.slice(...span)).join(""));
    const overlapping: Span[] = [[bounds[0]!, bounds[2]!], [bounds[0]!, bounds[2]!], [bounds[1]!, bounds[3]!]];
    const marked = splitAtSpans(sentence, overlapping);
    assert.equal(marked.map((part) => part.text).join(""), sentence);
    assert.equal(marked.filter((part) => part.isMarked).map((part) => part.text).join(""), sentence.slice(bounds[0], bounds[3]));
  });
});

test("word probabilities, undefined if a part was copied", () => {
  const word = (text: string, mean: number) => ({ text, probability: mean, mean });
  const words = [word("Ein", 0.9), word("Auto.", 0.3), word("</s>", 1), word("Ja", 0.1)];
  const probabilityAt = wordProbabilities("Ein  Auto.\nJa", words);
  assert.deepEqual([0, 2, 5, 9, 11, 3].map(probabilityAt), [0.9, 0.9, 0.3, 0.3, 0.1, undefined]);
  assert.equal(wordProbabilities("Ein Auto", words)(0), undefined);
  const partly = placeWords("Nein, danke. Ein Auto. So. Ja", words);
  assert.deepEqual(partly.map(({ word }) => word.mean), [undefined, undefined, 0.9, 0.3, undefined, 0.1]);
});

test("doubt increases as the probability decreases", () => {
  times(100, () => {
    const [low, high] = [Math.random(), Math.random()].sort((first, second) => first - second);
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
  const spans = sourceSpans(alignment, source, target, [9, 13]);
  assert.deepEqual(spans.map((span) => source.slice(...span)), ["car"]);
  assert.deepEqual(sourceSpans(alignment, source, target, [3, 13]).map((span) => source.slice(...span)), ["red", "car"]);
  assert.deepEqual(sourceSpans(alignment, source, target, [0, 2]), []);
});

test("alternatives differ in the word after the prefix", () => {
  const texts = ["Ich will ein Auto.", "Ich will einen Wagen.", "Ich will ein Boot.", "Ich mag es."];
  assert.deepEqual(wordAlternatives(texts, "Ich will ", "ein", "de"), [
    { word: "einen", prefix: "Ich will einen", text: "Ich will einen Wagen." },
  ]);
  for (const alternative of wordAlternatives(texts, "Ich ", "will", "de")) {
    assert.ok(alternative.text.startsWith(alternative.prefix) && alternative.prefix.endsWith(alternative.word));
  }
  assert.equal(nextWord("Ich will.", "Ich", "de"), " will");
  assert.equal(nextWord("Ich will.", "Ich will.", "de"), "");
});

test("the pieces before a position spell the text before it", () => {
  const tokens = ["▁Das", "▁kl", "eine", "▁Haus", "."];
  const sentence = "Das kleine Haus.";
  for (const [position, pieces] of [[0, 0], [4, 1], [11, 3], [15, 4], [16, 5]] as const) {
    assert.equal(countPiecesBefore(tokens, sentence, position), pieces, `position ${position}`);
  }
});

test("a text lengthens the last word of its beginning only within the word", () => {
  for (const [prefix, text] of [["Rot", "Rotwagen fährt"], ["x²", "x²y"], ["24", "240"], ["cafe", "cafe\u0301"]] as const) assert.ok(lengthensWord(prefix, text));
  for (const [prefix, text] of [["Rot", "Rot und"], ["Rot ", "Rot und"], ["Rot,", "Rot, und"], ["Rot", "Rot."], ["Rot", "Rot"], ["", "Rot"], ["Rot", "Grün"], ["红", "红车"], ["サ", "サーバ"], ["ラン", "ランプ"], ["ខ្ញុំ", "ខ្ញុំទៅ"], ["ຂ້ອຍ", "ຂ້ອຍໄປ"], ["ကျွန်တော်", "ကျွန်တော်သွား"]] as const) {
    assert.ok(!lengthensWord(prefix, text), text);
  }
  assert.deepEqual([commonLength("abc", "abd"), commonLength("ab", "abc"), commonLength("", "a"), commonLength("abc", "ab")], [2, 2, 0, 2]);
});

test("texts agree at their ends as far as their reversals at their beginnings", () => {
  const reverse = (characters: string) => characters.split("").reverse().join("");
  times(300, () => {
    const [first, second] = [text(6), text(6)];
    assert.equal(commonEnd(first, second), commonLength(reverse(first), reverse(second)));
    assert.ok(commonEnd(first + second, second) === second.length);
  });
});

test("a translation repeats a mark only if its source does not", () => {
  for (const ending of ["..", ". .", "!!", "!.", "?.", "。。", "！。"]) {
    assert.ok(repeatsMark("He buys.", `Er kauft${ending}`), ending);
    assert.ok(!repeatsMark(`He buys${ending}`, `Er kauft${ending}`), ending);
  }
  for (const translation of ["Er kauft.", "Er kauft usw., z. B. Äpfel.", "Er kauft?!", "Er kauft. Gut!", "他买。"]) assert.ok(!repeatsMark("He buys.", translation), translation);
  assert.ok(!repeatsMark("Well…", "Nun..."));
});
