import assert from "node:assert/strict";
import test from "node:test";

import type { ServerTranslation } from "../src/api";
import { sentenceAt, sentencesOf, spliceSentence } from "../src/sentences";
import { sourceSpans, type Span } from "../src/words";
import { below, times } from "./random";

const WORDS = ["ja", "nein", "Haus😀", "漢字", "Weg", "rot"];

const word = () => WORDS[below(WORDS.length)]!;
const points = (text: string) => [...text].length;

/** Return random sentences with word-by-word translations and alignments, like responses of the server. */
function drawn(count: number): { source: string; made: ServerTranslation; parts: Array<{ source: string; made: ServerTranslation }> } {
  const parts = Array.from({ length: count }, () => {
    const source = Array.from({ length: 1 + below(4) }, word);
    const target = source.map(word);
    const spans = (words: string[]): Span[] => {
      let at = 0;
      return words.map((one) => {
        const span: Span = [at, at + points(one)];
        at = span[1] + 1;
        return span;
      });
    };
    const made: ServerTranslation = {
      text: target.join(" "),
      tokens: target.map((one) => `▁${one}`),
      source_tokens: source.map((one) => `▁${one}`),
      words: [...target, "</s>"].map((text) => ({ text, probability: 0.5, mean: Math.random() })),
      alignment: { source: spans(source), target: spans(target), links: source.map((_, at): Span => [at, at]) },
      alternatives: [],
    };
    return { source: source.join(" "), made };
  });
  return { source: parts.map((one) => one.source).join(" "), made: together(parts), parts };
}

function together(parts: ReadonlyArray<{ source: string; made: ServerTranslation }>): ServerTranslation {
  const made: ServerTranslation = { text: parts.map((one) => one.made.text).join(" "), alternatives: [] };
  const joined = (items: string[][]) => items.flatMap((some, at) => (at ? ["</s>", ...some] : some));
  made.tokens = joined(parts.map((one) => one.made.tokens!));
  made.source_tokens = joined(parts.map((one) => one.made.source_tokens!));
  made.words = parts.flatMap((one) => one.made.words!);
  let [from, to, words] = [0, 0, 0];
  const alignment = { source: [] as Span[], target: [] as Span[], links: [] as Span[] };
  for (const one of parts) {
    const here = one.made.alignment!;
    alignment.source.push(...here.source.map(([a, b]): Span => [a + from, b + from]));
    alignment.target.push(...here.target.map(([a, b]): Span => [a + to, b + to]));
    alignment.links.push(...here.links.map(([a, b]): Span => [a + words, b + words]));
    from += points(one.source) + 1;
    to += points(one.made.text) + 1;
    words += here.source.length;
  }
  return { ...made, alignment };
}

test("sentences are found by their pieces", () => {
  times(200, () => {
    const { source, made, parts } = drawn(1 + below(4));
    const found = sentencesOf(source, made);
    assert.deepEqual(found.map((one) => [one.source, one.target]), parts.map((one) => [one.source, one.made.text]));
    found.forEach((one, at) => assert.equal(sentenceAt(found, one.targetSpan[0]), at));
  });
});

test("spliceSentence equals a translation of the line with the other sentence", () => {
  times(200, () => {
    const { source, made, parts } = drawn(1 + below(4));
    const at = below(parts.length);
    const count = parts[at]!.source.split(" ").length;
    const target = Array.from({ length: count }, word);
    let place = 0;
    const spans = target.map((one): Span => {
      const span: Span = [place, place + points(one)];
      place = span[1] + 1;
      return span;
    });
    const other: ServerTranslation = {
      ...parts[at]!.made,
      text: target.join(" "),
      tokens: target.map((one) => `▁${one}`),
      words: [...target, "</s>"].map((text) => ({ text, probability: 1, mean: 1 })),
      alignment: { ...parts[at]!.made.alignment!, target: spans },
    };
    const expected = together(parts.map((one, index) => (index === at ? { ...one, made: other } : one)));
    const found = spliceSentence(source, made, at, other);
    assert.equal(found.text, expected.text);
    assert.deepEqual(found.tokens, expected.tokens);
    assert.deepEqual(found.alignment, expected.alignment);
    const shown = (words: ServerTranslation["words"]) => words!.filter((one) => one.text !== "</s>");
    assert.deepEqual(shown(found.words), shown(expected.words));
    const last = found.alignment!.target.length - 1;
    if (last >= 0) assert.ok(sourceSpans(found.alignment!, source, found.text, [0, found.text.length]).length > last);
  });
});

test("a line that its pieces do not spell is one sentence", () => {
  const made: ServerTranslation = { text: "A b", tokens: ["▁x", "</s>", "▁y"], source_tokens: ["▁q", "</s>", "▁r"] };
  assert.deepEqual(sentencesOf("a b", made).map((one) => one.target), ["A b"]);
});
