import assert from "node:assert/strict";
import test from "node:test";

import type { ServerTranslation } from "../src/api";
import type { ChoicePart } from "../src/choices";
import { decisionsOf, doubtsOf, type MissingTerm, missingTerms, notesOf, warningsOutside } from "../src/doubts";
import type { Pair } from "../src/glossary_file";
import type { Span } from "../src/words";

const SOURCE = "Reddish red cars don't cost 1,000 or 24.";
const TARGET = "Rote Autos kosten etwa 12.";

test("warnings are found at the words that they quote", () => {
  const warnings = [
    "not translated: 'red', \"don't\"",
    "number missing from the translation: '1,000', '24'",
    "number added by the translation: '12'",
    "added by the translation: 'etwa', 'elsewhere'",
    "signs of the text are missing: €",
    "cut at 512 tokens",
  ];
  const doubts = doubtsOf({ source: SOURCE, translation: { text: TARGET, warnings } }, "de");
  const quoted = doubts.map(({ side, span, reason }) => [(side === "source" ? SOURCE : TARGET).slice(...span), side, reason]);
  assert.deepEqual(quoted, [
    ["red", "source", "doubtOmitted"],
    ["don't", "source", "doubtOmitted"],
    ["1,000", "source", "doubtNumberMissing"],
    ["24", "source", "doubtNumberMissing"],
    ["etwa", "target", "doubtAdded"],
    ["12", "target", "doubtAdded"],
  ]);
  assert.equal(doubts[0]!.span[0], SOURCE.indexOf(" red") + 1); // not in "Reddish"
  assert.deepEqual(notesOf({ source: SOURCE, translation: { text: TARGET, warnings } }), [
    { key: "noteSigns", values: { signs: "€" } },
    { key: "warning", values: { detail: "cut at 512 tokens" } },
  ]);
});

test("numbers in words are marked where they are, not in longer words", () => {
  const source = "Fourteen men, twenty-five dogs, four cats";
  const warnings = ["number missing from the translation: 'twenty-five', 'four'"];
  const doubts = doubtsOf({ source, translation: { text: "Vierzehn Männer, Hunde, Katzen", warnings } }, "de");
  assert.deepEqual(doubts.map(({ span, reason }) => [source.slice(...span), reason]), [["twenty-five", "doubtNumberMissing"], ["four", "doubtNumberMissing"]]);
});

test("each omitted word is marked where it is, also if the text repeats it", () => {
  const source = "😀 He sees. She sees and sees. 24 or 24,000 or 24.";
  const quotes = (translation: Omit<ServerTranslation, "text">) =>
    doubtsOf({ source, translation: { text: TARGET, ...translation } }, "de").map(({ span, reason }) => [...span, source.slice(...span), reason]);
  const warnings = ["not translated: 'sees', 'sees'", "number missing from the translation: '24'"];
  const numbers = [...source.matchAll(/24(?![,])/g)].map(({ index }) => [index, index + 2, "24", "doubtNumberMissing"]);
  const omission = (start: number) => [start, start + 4, "sees", "doubtOmitted"];
  const starts = [source.indexOf("sees"), source.indexOf("sees and"), source.indexOf("sees.", 20)] as const;
  const points = (unit: number): Span => [unit - 1, unit + 3]; // the emoji has two code units
  const coverage = { omitted: ["sees", "sees"], omitted_spans: [points(starts[0]), points(starts[2])] };
  assert.deepEqual(quotes({ warnings, coverage }), [omission(starts[0]), omission(starts[2]), ...numbers]);
  assert.deepEqual(quotes({ warnings }), [omission(starts[0]), omission(starts[1]), ...numbers]); // it is not known which
  assert.deepEqual(quotes({ warnings: warnings.slice(0, 1), coverage: { ...coverage, omitted_spans: [] } }), [omission(starts[0]), omission(starts[1])]);
});

test("words below one half are doubtful, more so the less probable they are", () => {
  const words = [0.9, 0.4, 0.25, 0.1, 0.6].map((mean, index) => ({ text: TARGET.split(" ")[index]!, probability: mean, mean }));
  const doubts = doubtsOf({ source: SOURCE, translation: { text: TARGET, words } }, "de");
  assert.deepEqual(doubts.map(({ span, level, values }) => [TARGET.slice(...span), level, values.percent]), [["Autos", 1, 40], ["kosten", 2, 25], ["etwa", 3, 10]]);
});

test("words that the reader has decided on are not doubtful", () => {
  const words = TARGET.split(" ").map((text) => ({ text, probability: 0.1, mean: 0.1 }));
  const terms = [{ source: "cars", target: "Autos", applied: true }, { source: "red", target: "12", applied: false }];
  const translation = { text: TARGET, words, terms, warnings: ["not translated: 'red'", "added by the translation: 'Rote'"] };
  const choiceParts = (isConfirmed: boolean): ChoicePart[] => [{ span: [0, 4], isConfirmed, isTyped: false }];
  const line = { source: SOURCE, translation, choiceParts: choiceParts(false) };
  const texts = doubtsOf(line, "de").map(({ side, span }) => (side === "source" ? SOURCE : TARGET).slice(...span));
  assert.deepEqual(texts, ["red", "kosten", "etwa", "12"]);
  assert.deepEqual(decisionsOf(line).map(({ span, reason }) => [TARGET.slice(...span), reason]), [["Rote", "wordChosen"], ["Autos", "wordTerm"]]);
  assert.deepEqual(decisionsOf({ ...line, choiceParts: choiceParts(true) }).map(({ reason }) => reason), ["wordConfirmed", "wordTerm"]);
});

test("a term is missing if its sentence has it as a separate word and the translation has none of its forms", () => {
  const glossary: Pair[] = [["car", "Wagen|Wagens"], ["red car", "Rotwagen"], ["in may", "im Mai"], ["词", "Wort"]];
  const missing = (source: string, translation: string) => missingTerms(source, translation, glossary).map(({ span, target }) => [source.slice(...span), target]);
  assert.deepEqual(missing("A car, a cart and a Car.", "Ein Auto, ein Karren und ein Auto."), [["car", "Wagen|Wagens"]]);
  assert.deepEqual(missing("“Car” is a word.", "„Auto“ ist ein Wort."), [["Car", "Wagen|Wagens"]]);
  assert.deepEqual(missing("The key of the car.", "Der Schlüssel des Wagens."), []);
  assert.deepEqual(missing("A red car.", "Ein Rotwagen."), []);
  assert.deepEqual(missing("A red car.", "Ein Wagen."), [["red car", "Rotwagen"]]);
  assert.deepEqual(missing("A car.", "Ein Lastwagen."), [["car", "Wagen|Wagens"]]);
  assert.deepEqual(missing("In May", "Im Mai"), []);
  assert.deepEqual(missing("这个词很长。", "Das ist lang."), [["词", "Wort"]]);
});

test("a new translation of a sentence removes the warnings about the old one only", () => {
  const warnings = ["not translated: 'red'", "not translated: 'blue'", "added by the translation: 'etwa'", "general"];
  assert.deepEqual(warningsOutside(warnings, "a red car", "ein Auto"), warnings.slice(1));
  assert.deepEqual(warningsOutside(warnings, "a car", "etwa ein Auto"), [warnings[0], warnings[1], warnings[3]]);
  assert.deepEqual(warningsOutside(["not translated: 'red', \"don't\", 'blue'"], "a red car", ""), ["not translated: \"don't\", 'blue'"]);
});

test("a term that is marked in the text is not reported again, and not after its sentence has changed", () => {
  const source = "A car. That's what I don't need.";
  const warnings = ["the term 'car' was not translated as 'Wagen'", "the term \"don't\" was not translated as 'kein'"];
  const notes = (missing: MissingTerm[]) => notesOf({ source, translation: { text: TARGET, warnings }, missingTerms: missing }).map(({ values }) => values);
  assert.deepEqual(notes([]), [{ term: "'car'", target: "'Wagen'" }, { term: "\"don't\"", target: "'kein'" }]);
  assert.deepEqual(notes([{ span: [2, 5], target: "Wagen" }]), [{ term: "\"don't\"", target: "'kein'" }]);
  assert.deepEqual(warningsOutside(warnings, "A car.", "Ein Auto."), warnings.slice(1));
  assert.deepEqual(warningsOutside(warnings, "That's what I don't need.", ""), warnings.slice(0, 1));
  assert.deepEqual(warningsOutside(warnings, "A cart.", "Ein Karren."), warnings);
});
