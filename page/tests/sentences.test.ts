import assert from "node:assert/strict";
import test from "node:test";

import type { ServerTranslation } from "../src/api";
import type { MemoryUse } from "../src/memories";
import { sentenceAt, sentencesOf, spliceSentence, usesOf, withSentences } from "../src/sentences";
import { sourceSpans, type Span, wordProbabilities } from "../src/words";
import { below, times } from "./random";

const WORDS = ["ja", "nein", "Haus😀", "漢字", "Weg", "rot"];

const word = () => WORDS[below(WORDS.length)]!;
const points = (text: string) => [...text].length;

/** Return random sentences with word-by-word translations and alignments, like responses of the server. */
function randomTranslation(count: number): { source: string; translation: ServerTranslation; parts: Array<{ source: string; translation: ServerTranslation }> } {
  const parts = Array.from({ length: count }, () => {
    const source = Array.from({ length: 1 + below(4) }, word);
    const target = source.map(word);
    const spans = (words: string[]): Span[] => {
      let start = 0;
      return words.map((word) => {
        const span: Span = [start, start + points(word)];
        start = span[1] + 1;
        return span;
      });
    };
    const translation: ServerTranslation = {
      text: target.join(" "),
      tokens: target.map((word) => `▁${word}`),
      source_tokens: source.map((word) => `▁${word}`),
      words: [...target, "</s>"].map((text) => ({ text, probability: 0.5, mean: Math.random() })),
      alignment: { source: spans(source), target: spans(target), links: source.map((_, index): Span => [index, index]) },
      alternatives: [],
    };
    return { source: source.join(" "), translation };
  });
  return { source: parts.map((part) => part.source).join(" "), translation: together(parts), parts };
}

function together(parts: ReadonlyArray<{ source: string; translation: ServerTranslation }>): ServerTranslation {
  const translation: ServerTranslation = { text: parts.map((part) => part.translation.text).join(" "), alternatives: [] };
  const joined = (items: string[][]) => items.flatMap((tokens, index) => (index ? ["</s>", ...tokens] : tokens));
  translation.tokens = joined(parts.map((part) => part.translation.tokens!));
  translation.source_tokens = joined(parts.map((part) => part.translation.source_tokens!));
  translation.words = parts.flatMap((part) => part.translation.words!);
  let [from, to, words] = [0, 0, 0];
  const alignment = { source: [] as Span[], target: [] as Span[], links: [] as Span[] };
  for (const part of parts) {
    const aligned = part.translation.alignment!;
    alignment.source.push(...aligned.source.map(([a, b]): Span => [a + from, b + from]));
    alignment.target.push(...aligned.target.map(([a, b]): Span => [a + to, b + to]));
    alignment.links.push(...aligned.links.map(([a, b]): Span => [a + words, b + words]));
    from += points(part.source) + 1;
    to += points(part.translation.text) + 1;
    words += aligned.source.length;
  }
  return { ...translation, alignment };
}

test("pairs of a memory belong to the sentence that is most similar to them, or to all", () => {
  const use = (target: string, source: string): MemoryUse => ({ source, target, score: 100, used: "verbatim" });
  const memory = [use("Ein Hund.", "a"), use("Zwei Hunde.", "b")];
  const line: ServerTranslation = { text: "Ein Hund. Zwei Hunde.", tokens: ["▁Ein", "▁Hund.", "</s>", "▁Zwei", "▁Hunde."], source_tokens: ["▁A.", "</s>", "▁B."], memory };
  assert.deepEqual(usesOf("A. B.", line, 1), [memory[1]]);
  assert.deepEqual(usesOf("A. B.", { ...line, tokens: [], source_tokens: [] }, 0), memory);
  assert.deepEqual(spliceSentence("A. B.", line, 0, { text: "Eine Hündin." }).memory, [memory[1]]);
  const whole = { ...line, memory: [use(line.text, "A. B.")] };
  assert.deepEqual([0, 1].map((index) => usesOf("A. B.", whole, index)), [whole.memory, whole.memory]);
  const fitted: MemoryUse = { source: "Two dogs, 5 euros.", target: "Zwei Hunde, 5 Euro.", score: 97, used: "fitted" };
  const [source, text] = ["A cat. Two dogs, 6 euros.", "Eine Katze. Zwei Hunde, 6 Euro."];
  const separated = withSentences(source, { text, memory: [fitted] });
  assert.deepEqual(sentencesOf(source, separated).map(({ target }) => target), ["Eine Katze.", "Zwei Hunde, 6 Euro."]);
  assert.deepEqual([0, 1].map((index) => usesOf(source, separated, index)), [[], [fitted]]);
});

test("sentences are found by their pieces", () => {
  times(200, () => {
    const { source, translation, parts } = randomTranslation(1 + below(4));
    const sentences = sentencesOf(source, translation);
    assert.deepEqual(sentences.map((sentence) => [sentence.source, sentence.target]), parts.map((part) => [part.source, part.translation.text]));
    sentences.forEach((sentence, index) => assert.equal(sentenceAt(sentences, sentence.targetSpan[0]), index));
  });
});

test("spliceSentence equals a translation of the line with the other sentence", () => {
  times(200, () => {
    const { source, translation, parts } = randomTranslation(1 + below(4));
    const index = below(parts.length);
    const count = parts[index]!.source.split(" ").length;
    const target = Array.from({ length: count }, word);
    let start = 0;
    const spans = target.map((token): Span => {
      const span: Span = [start, start + points(token)];
      start = span[1] + 1;
      return span;
    });
    const replacement: ServerTranslation = {
      ...parts[index]!.translation,
      text: target.join(" "),
      tokens: target.map((word) => `▁${word}`),
      words: [...target, "</s>"].map((text) => ({ text, probability: 1, mean: 1 })),
      alignment: { ...parts[index]!.translation.alignment!, target: spans },
    };
    const expected = together(parts.map((part, number) => (number === index ? { ...part, translation: replacement } : part)));
    const spliced = spliceSentence(source, translation, index, replacement);
    assert.equal(spliced.text, expected.text);
    assert.deepEqual(spliced.tokens, expected.tokens);
    assert.deepEqual(spliced.alignment, expected.alignment);
    const visibleWords = (words: ServerTranslation["words"]) => words!.filter((token) => token.text !== "</s>");
    assert.deepEqual(visibleWords(spliced.words), visibleWords(expected.words));
    const last = spliced.alignment!.target.length - 1;
    if (last >= 0) assert.ok(sourceSpans(spliced.alignment!, source, spliced.text, [0, spliced.text.length]).length > last);
  });
});

test("a sentence of which only the text is known takes nothing from the others", () => {
  times(200, () => {
    const { source, parts, translation: random } = randomTranslation(2 + below(3));
    const starts = parts.map((_, number) => points(parts.slice(0, number).map((part) => `${part.source} `).join("")));
    const omitted = parts.map((part) => part.source.split(" ")[0]!);
    const translation: ServerTranslation = { ...random, coverage: { omitted, omitted_spans: starts.map((start, number): Span => [start, start + points(omitted[number]!)]) } };
    const index = below(parts.length);
    const typed = parts[below(parts.length)]!.translation.text; // may repeat another sentence
    const spliced = spliceSentence(source, translation, index, { text: typed, tokens: typed.split(" ").map((word) => `▁${word}`) });
    const probabilityAt = wordProbabilities(spliced.text, spliced.words!);
    sentencesOf(source, spliced).forEach(({ source: part, sourceSpan, target, targetSpan }, number) => {
      const { text, words, alignment } = parts[number]!.translation;
      const isTyped = number === index;
      assert.equal(target, isTyped ? typed : text);
      target.split(" ").forEach((_, word, all) => {
        const start = all.slice(0, word).join(" ").length + (word ? 1 : 0);
        const position = targetSpan[0] + start;
        assert.equal(probabilityAt(position), isTyped ? undefined : words![word]!.mean);
        const spans = sourceSpans(spliced.alignment!, source, spliced.text, [position, position + 1]);
        const expected = isTyped ? [] : sourceSpans(alignment!, part, target, [start, start + 1]);
        assert.deepEqual(spans, expected.map(([first, end]): Span => [first + sourceSpan[0], end + sourceSpan[0]]));
      });
    });
    const others = omitted.filter((_, number) => number !== index);
    assert.deepEqual(spliced.coverage!.omitted, others);
    assert.deepEqual(spliced.coverage!.omitted_spans.map(([start, end]) => [...source].slice(start, end).join("")), others);
  });
});

test("the model's sentences keep their words next to sentences from a memory", () => {
  const means = [0.1, 0.2, 0.3, 0.4];
  const words = ["Zwei", "Hunde.", "</s>", "Drei", "Katzen."].map((text, index) => ({ text, mean: means[index > 2 ? index - 1 : index]! }));
  const { text, ...other } = { text: "Ein Mann. Zwei Hunde. Eine Frau. Drei Katzen.", words };
  const translation = withSentences("A man. Two dogs. A woman. Three cats.", { text, ...other });
  const spliced = spliceSentence("A man. Two dogs. A woman. Three cats.", translation, 2, { text: "Zwei Hunde." });
  for (const [result, typed] of [[translation, ["Eine", "Frau."]], [spliced, ["Zwei", "Hunde."]]] as const) {
    assert.deepEqual(result.words!.filter(({ text: word }) => word !== "</s>").map((word) => [word.text, word.mean]), [
      ["Ein", undefined], ["Mann.", undefined], ["Zwei", 0.1], ["Hunde.", 0.2], [typed[0], undefined], [typed[1], undefined], ["Drei", 0.3], ["Katzen.", 0.4],
    ]);
  }
});

test("a line that differs from its pieces is one sentence", () => {
  const translation: ServerTranslation = { text: "A b", tokens: ["▁x", "</s>", "▁y"], source_tokens: ["▁q", "</s>", "▁r"] };
  assert.deepEqual(sentencesOf("a b", translation).map((sentence) => sentence.target), ["A b"]);
});
