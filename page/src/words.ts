/** The words of a translation: their positions, their probabilities, and their source words. */

export interface Word {
  text: string;
  probability: number;
  mean: number;
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

const END = "</s>";

/** Return the offset of each code point in UTF-16 code units, and the length. */
function codeUnitOffsets(text: string): number[] {
  const units: number[] = [];
  let offset = 0;
  for (const character of text) {
    units.push(offset);
    offset += character.length;
  }
  units.push(offset);
  return units;
}

/** Split a text into words and the text between them; joined, the parts are the text. */
export function splitWords(text: string, language: string): Part[] {
  let segmenter: Intl.Segmenter;
  try {
    segmenter = new Intl.Segmenter(language.replaceAll("_", "-"), { granularity: "word" });
  } catch {
    segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  }
  return Array.from(segmenter.segment(text), (segment) => ({
    text: segment.segment,
    start: segment.index,
    isWord: segment.isWordLike === true,
  }));
}

/** Return a function that gives the mean probability of the pieces at a position; undefined if unknown. */
export function wordProbabilities(text: string, words: readonly Word[]): (place: number) => number | undefined {
  const modelWords = words.filter((word) => word.text !== END);
  const pieces = [...text.matchAll(/\S+/gu)];
  const isSame = pieces.length === modelWords.length && pieces.every((piece, index) => piece[0] === modelWords[index]!.text);
  if (!isSame) return () => undefined; // a part was copied, so the words are not the model's
  return (position) => {
    const index = pieces.findIndex((piece) => piece.index <= position && position < piece.index + piece[0].length);
    return index < 0 ? undefined : modelWords[index]!.mean;
  };
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

/** Split a text at spans, which are in ascending order and do not overlap. */
export function splitAtSpans(text: string, spans: readonly Span[]): Array<{ text: string; isMarked: boolean }> {
  const parts: Array<{ text: string; isMarked: boolean }> = [];
  let position = 0;
  for (const [start, end] of spans) {
    if (start > position) parts.push({ text: text.slice(position, start), isMarked: false });
    parts.push({ text: text.slice(start, end), isMarked: true });
    position = end;
  }
  if (position < text.length) parts.push({ text: text.slice(position), isMarked: false });
  return parts;
}
