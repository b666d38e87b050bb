/** The sentences of a line, which the server translates separately; a prefix applies to one of them. */

import type { Coverage, ServerTranslation } from "./api";
import { isLocated, warningsOutside } from "./doubts";
import type { MemoryUse } from "./memories";
import { type Alignment, END, placeWords, type Span, splitGroups, type Word } from "./words";

const NO_LINKS: Alignment = { source: [], target: [], links: [] };
const NO_OMISSIONS: Coverage = { omitted: [], omitted_spans: [] };

/** A sentence and its translation, with their spans in the line and its translation. */
export interface Sentence {
  source: string;
  target: string;
  sourceSpan: Span;
  targetSpan: Span;
  tokens: string[];
}

const isEnd = (piece: string): boolean => piece === END;
const END_WORD: Word = { text: END };

/** Return the items of each sentence, with that of its end symbol. */
export function splitSentences<Item>(items: readonly Item[], pieceOf: (item: Item) => string): Item[][] {
  const ends = items.flatMap((item, index) => (isEnd(pieceOf(item)) ? [index + 1] : []));
  return ends.map((end, index) => items.slice(ends[index - 1] ?? 0, end));
}

/** Return the text of a subword piece, without the marker of a word start or of a continuation. */
export const spelling = (piece: string): string => piece.replace(/^[▁Ġ]+|^##/, "").replaceAll("▁", " ");

/** Return the spans of groups of pieces in a text, or null if the pieces do not spell the text. */
function findSpans(text: string, pieces: ReadonlyArray<readonly string[]>): Span[] | null {
  const spans: Span[] = [];
  let position = 0;
  const skip = () => {
    while (position < text.length && /\s/.test(text[position]!)) position++;
  };
  for (const group of pieces) {
    skip();
    const start = position;
    for (const piece of group) {
      const pieceText = spelling(piece).trim();
      if (pieceText) skip();
      if (!text.startsWith(pieceText, position)) return null;
      position += pieceText.length;
    }
    spans.push([start, position]);
  }
  return text.slice(position).trim() === "" ? spans : null;
}

/** Segment sentences with the browser; return null if their number differs. */
function segmentSentences(text: string, count: number): Span[] | null {
  const spans = segment(text);
  return spans.length === count ? spans : null;
}

function segment(text: string): Span[] {
  const parts = [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)];
  return parts.map(({ index, segment }): Span => [index, index + segment.trimEnd().length]);
}

/** Return the sentences of a line; the complete line if they cannot be separated. */
export function sentencesOf(source: string, translation: ServerTranslation): Sentence[] {
  const sources = splitGroups(translation.source_tokens ?? [], isEnd);
  const targets = splitGroups(translation.tokens ?? [], isEnd);
  const count = targets.length;
  const from = findSpans(source, sources) ?? segmentSentences(source, count);
  const to = findSpans(translation.text, targets) ?? segmentSentences(translation.text, count);
  const isSingle = count < 2 || from?.length !== count || to?.length !== count;
  const spans: Array<[Span, Span]> = isSingle
    ? [[[0, source.length], [0, translation.text.length]]]
    : from.map((span, index) => [span, to[index]!]);
  return spans.map(([sourceSpan, targetSpan], index) => ({
    source: source.slice(...sourceSpan),
    target: translation.text.slice(...targetSpan),
    sourceSpan,
    targetSpan,
    tokens: targets[index] ?? [],
  }));
}

/** Return pieces that spell a text: its words. */
export const wordPieces = (text: string): string[] => text.trim().split(/\s+/).map((word) => `▁${word}`);

/** Return a translation that is not, or not only, the model's, with the sentences that the browser finds. */
export function withSentences(source: string, translation: ServerTranslation): ServerTranslation {
  const { text } = translation;
  const [sources, targets] = [segment(source), segment(text)];
  const isSame = sources.length === targets.length;
  const pieces = (whole: string, spans: Span[]) => join(isSame ? spans.map((span) => wordPieces(whole.slice(...span))) : [wordPieces(whole)], END);
  const separated: ServerTranslation = { ...translation, tokens: pieces(text, targets), source_tokens: pieces(source, sources) };
  if (translation.words) {
    const placed = placeWords(text, translation.words);
    const isIn = ([start, end]: Span) => (place: { start: number }) => place.start >= start && place.start < end;
    const spans: Span[] = isSame ? targets : [[0, text.length]];
    separated.words = join(spans.map((span) => placed.filter(isIn(span)).map(({ word }) => word)), END_WORD);
  }
  return separated;
}

/** Return the pairs of a translation memory that a sentence of a line was made with: those most similar to it, or to the line. */
export function usesOf(source: string, translation: ServerTranslation, index: number): MemoryUse[] {
  if (!translation.memory) return [];
  const sentences = sentencesOf(source, translation);
  const line = { source, target: translation.text };
  return translation.memory.filter((use) => {
    const similarityTo = (other: { source: string; target: string }) => similarity(other.source, use.source) + similarity(other.target, use.target);
    return Math.max(similarityTo(line), ...sentences.map(similarityTo)) <= Math.max(similarityTo(line), similarityTo(sentences[index]!));
  });
}

/** Return the share of pairs of characters that texts have in common. */
function similarity(first: string, second: string): number {
  const pairsOf = (text: string) => new Set([...` ${text.trim().toLowerCase()}`].map((character, index, all) => character + (all[index + 1] ?? " ")));
  const [pairs, others] = [pairsOf(first), pairsOf(second)];
  return (2 * [...pairs].filter((pair) => others.has(pair)).length) / (pairs.size + others.size);
}

/** Return the index of the sentence that contains a position of the translation, or of the source. */
export function sentenceAt(sentences: readonly Sentence[], position: number, side: "sourceSpan" | "targetSpan" = "targetSpan"): number {
  const index = sentences.findIndex((sentence) => position < sentence[side][1]);
  return index < 0 ? sentences.length - 1 : index;
}

/**
 * Return the translation of a line with the translation of a sentence replaced. If the words and links of the other translation are
 * not known, as of one that the reader has typed, those of this sentence are unknown.
 */
export function spliceSentence(source: string, translation: ServerTranslation, index: number, other: ServerTranslation): ServerTranslation {
  const sentences = sentencesOf(source, translation);
  const sentence = sentences[index]!;
  const [start, end] = sentence.targetSpan;
  const replaceSentence = (text: string) => translation.text.slice(0, start) + text + translation.text.slice(end);
  const spliced: ServerTranslation = { ...translation, text: replaceSentence(other.text) };
  if (translation.memory) {
    const uses = usesOf(source, translation, index);
    spliced.memory = [...translation.memory.filter((use) => !uses.includes(use)), ...(other.memory ?? [])];
  }
  if (other.terms) spliced.terms = [...(translation.terms ?? []), ...other.terms];
  spliced.warnings = [...warningsOutside(translation.warnings ?? [], sentence.source, sentence.target), ...(other.warnings ?? [])];
  spliced.tokens = join(replaceAt(splitGroups(translation.tokens ?? [], isEnd), index, other.tokens ?? []), END);
  if (translation.words) {
    const isLast = (word: Word) => word.text === END;
    const otherWords = placeWords(other.text, other.words ?? []).map(({ word }) => word);
    spliced.words = join(replaceAt(splitGroups(translation.words, isLast), index, otherWords), END_WORD);
  }
  if (translation.alignment ?? other.alignment) {
    spliced.alignment = joinAlignments(translation.alignment ?? NO_LINKS, other.alignment ?? NO_LINKS, source, translation.text, sentence, other.text);
  }
  const coverage = joinCoverage(translation, other, source, sentence);
  if (coverage) spliced.coverage = coverage;
  else delete spliced.coverage;
  return spliced;
}

/** Return the omitted words outside a sentence and those of its other translation; undefined if it is not known where they are. */
function joinCoverage(translation: ServerTranslation, other: ServerTranslation, source: string, sentence: Sentence): Coverage | undefined {
  const parts = [translation, other].filter(({ coverage }) => coverage);
  if (!parts.length || !parts.every(isLocated)) return undefined;
  const [from, to] = sentence.sourceSpan.map((offset) => points(source.slice(0, offset))) as Span;
  const { omitted, omitted_spans } = translation.coverage ?? NO_OMISSIONS;
  const added = other.coverage ?? NO_OMISSIONS;
  const outside = omitted_spans.flatMap(([start, end], index) => (start >= from && start < to ? [] : [{ word: omitted[index]!, span: [start, end] as Span }]));
  const inside = added.omitted_spans.map(([start, end], index) => ({ word: added.omitted[index]!, span: [start + from, end + from] as Span }));
  const all = [...outside, ...inside];
  return { omitted: all.map(({ word }) => word), omitted_spans: all.map(({ span }) => span) };
}

function replaceAt<Item>(all: Item[][], index: number, items: Item[]): Item[][] {
  return all.map((old, i) => (i === index ? items : old));
}

function join<Item>(parts: Item[][], end: Item): Item[] {
  return parts.flatMap((part, i) => (i ? [end, ...part] : part));
}

const points = (text: string): number => [...text].length;

/** Combine the links outside a sentence with those of its other translation. */
function joinAlignments(
  old: Alignment,
  other: Alignment,
  source: string,
  target: string,
  sentence: Sentence,
  text: string,
): Alignment {
  const from = sentence.sourceSpan.map((offset) => points(source.slice(0, offset))) as Span;
  const to = sentence.targetSpan.map((offset) => points(target.slice(0, offset))) as Span;
  const growth = points(text) - points(sentence.target);
  const shiftOutside = (spans: Span[], range: Span, offset: number): Array<Span | null> =>
    spans.map(([start, end]) => {
      if (start >= range[0] && start < range[1]) return null;
      return start >= range[1] ? [start + offset, end + offset] : [start, end];
    });
  const shifted = (spans: Span[], offset: number): Span[] => spans.map(([start, end]) => [start + offset, end + offset]);
  const oldSource = shiftOutside(old.source, from, 0);
  const oldTarget = shiftOutside(old.target, to, growth);
  const newSource = shifted(other.source, from[0]);
  const newTarget = shifted(other.target, to[0]);
  const sources = sortSpans([...oldSource, ...newSource]);
  const targets = sortSpans([...oldTarget, ...newTarget]);
  const indexOf = (spans: Span[], span: Span) => spans.findIndex((candidate) => candidate[0] === span[0]);
  const links: Span[] = [];
  for (const [sourceIndex, targetIndex] of old.links) {
    const ends = [oldSource[sourceIndex], oldTarget[targetIndex]] as const;
    if (ends[0] && ends[1]) links.push([indexOf(sources, ends[0]), indexOf(targets, ends[1])]);
  }
  for (const [sourceIndex, targetIndex] of other.links) links.push([indexOf(sources, newSource[sourceIndex]!), indexOf(targets, newTarget[targetIndex]!)]);
  return { source: sources, target: targets, links: links.sort((first, second) => first[0] - second[0] || first[1] - second[1]) };
}

function sortSpans(spans: Array<Span | null>): Span[] {
  return spans.filter((span): span is Span => span !== null).sort((first, second) => first[0] - second[0]);
}
