/** The words of a translation: their positions, their probabilities, and their source words. */

import { tagOf } from "./languages";

/** A word between white space, or the end of a sentence. Only the model's words have probabilities. */
export interface Word {
  text: string;
  probability?: number;
  mean?: number;
}

/** The library's alignment: spans in Unicode code points, links (source word, target word). */
export interface Alignment {
  source: Array<[number, number]>;
  target: Array<[number, number]>;
  links: Array<[number, number]>;
}

/** A part of a text; `start` is in UTF-16 code units. */
export interface Part {
  text: string;
  start: number;
  isWord: boolean;
}

export type Span = [start: number, end: number];

/** The end of a sentence among pieces and words. */
export const END = "</s>";

/** Return the groups of items between those that end a group. */
export function splitGroups<Item>(items: readonly Item[], isEnd: (item: Item) => boolean): Item[][] {
  const groups: Item[][] = [[]];
  for (const item of items) {
    if (isEnd(item)) groups.push([]);
    else groups.at(-1)!.push(item);
  }
  if (groups.length > 1 && groups.at(-1)!.length === 0) groups.pop();
  return groups;
}

/** Return the offset of each code point in UTF-16 code units, and the length. */
export function codeUnitOffsets(text: string): number[] {
  const units: number[] = [];
  let offset = 0;
  for (const character of text) {
    units.push(offset);
    offset += character.length;
  }
  units.push(offset);
  return units;
}

/** A character of a script that does not separate words by spaces. */
export const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Khmer}\p{Script=Lao}\p{Script=Myanmar}\p{Script=Thai}]/u;

/** Return the number of code units in which two texts agree from their beginnings. */
export function commonLength(first: string, second: string): number {
  let length = 0;
  while (length < first.length && first[length] === second[length]) length++;
  return length;
}

/** Return the number of code units in which two texts agree at their ends. */
export function commonEnd(first: string, second: string): number {
  let length = 0;
  while (length < first.length && length < second.length && first.at(-1 - length) === second.at(-1 - length)) length++;
  return length;
}

/** Return whether a translation has a punctuation mark twice, as in "kaufen..", or a full stop after "!" or "?", unlike its source. */
export function repeatsMark(source: string, translation: string): boolean {
  const repeated = /([.,;:!?。，、；：！？])\s*\1|[!?]\s*\.|[！？]\s*。/u;
  return repeated.test(translation) && !repeated.test(source.replaceAll("…", "..."));
}

/** Return whether a text that begins with a prefix lengthens its last word, as "Rotwagen" does after "Rot". */
export function lengthensWord(prefix: string, text: string): boolean {
  const [next = ""] = text.slice(prefix.length);
  const around = ([...prefix].at(-1) ?? "") + next;
  return text.startsWith(prefix) && /^[\p{L}\p{M}\p{N}]{2}$/u.test(around) && !UNSPACED.test(around);
}

/** Split a text into words and the text between them; joined, the parts are the text. */
export function splitWords(text: string, language: string): Part[] {
  let segmenter: Intl.Segmenter;
  try {
    segmenter = new Intl.Segmenter(tagOf(language), { granularity: "word" });
  } catch {
    segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  }
  return Array.from(segmenter.segment(text), (segment) => ({
    text: segment.segment,
    start: segment.index,
    isWord: segment.isWordLike === true,
  }));
}

/** Return the words of a text with their positions; those of sentences that the model did not translate have no probability. */
export function placeWords(text: string, words: readonly Word[]): Array<{ start: number; word: Word }> {
  const placed = Array.from(text.matchAll(/\S+/gu), (match) => ({ start: match.index, word: { text: match[0] } as Word }));
  let next = 0;
  for (const sentence of splitGroups(words, (word) => word.text === END)) {
    const isAt = (index: number) => sentence.every((word, offset) => placed[index + offset]?.word.text === word.text);
    let first = next;
    while (first < placed.length && !isAt(first)) first++;
    if (first === placed.length) continue; // other words than the text's
    sentence.forEach((word, offset) => (placed[first + offset]!.word = word));
    next = first + sentence.length;
  }
  return placed;
}

/** Return a function that gives the mean probability of the pieces at a position; undefined if unknown. */
export function wordProbabilities(text: string, words: readonly Word[]): (place: number) => number | undefined {
  const placed = placeWords(text, words);
  return (position) => placed.find(({ start, word }) => start <= position && position < start + word.text.length)?.word.mean;
}

/** Return a level of uncertainty from 0 to 3; above 0 for mean probabilities below 0.5, as in the library's reports. */
export function doubtLevel(mean: number | undefined): 0 | 1 | 2 | 3 {
  if (mean === undefined || mean >= 0.5) return 0;
  if (mean >= 0.35) return 1;
  return mean >= 0.2 ? 2 : 3;
}

/** Return the spans of the source that are aligned with a span of the target. */
export function sourceSpans(alignment: Alignment, source: string, target: string, part: Span): Span[] {
  const inTarget = codeUnitOffsets(target);
  const inSource = codeUnitOffsets(source);
  const touched = new Set<number>();
  alignment.target.forEach(([start, end], index) => {
    if (inTarget[start]! < part[1] && part[0] < inTarget[end]!) touched.add(index);
  });
  const sourceIndices = new Set(alignment.links.filter(([, to]) => touched.has(to)).map(([from]) => from));
  return [...sourceIndices]
    .sort((first, second) => first - second)
    .map((index) => [inSource[alignment.source[index]![0]]!, inSource[alignment.source[index]![1]]!]);
}

/** Split a text at spans, which are in ascending order; what several of them cover is marked once. */
export function splitAtSpans(text: string, spans: readonly Span[]): Array<{ text: string; isMarked: boolean }> {
  const parts: Array<{ text: string; isMarked: boolean }> = [];
  let position = 0;
  for (const [start, end] of spans) {
    if (start > position) parts.push({ text: text.slice(position, start), isMarked: false });
    const from = Math.max(start, position);
    if (end > from) parts.push({ text: text.slice(from, end), isMarked: true });
    position = Math.max(end, position);
  }
  if (position < text.length) parts.push({ text: text.slice(position), isMarked: false });
  return parts;
}
