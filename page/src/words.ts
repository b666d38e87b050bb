/** The words of a translation: where they stand, how sure the model was, where they come from. */

export interface Word {
  text: string;
  probability: number;
  mean: number;
}

/** As the library has it: places in Unicode code points, links (source word, target word). */
export interface Alignment {
  source: Array<[number, number]>;
  target: Array<[number, number]>;
  links: Array<[number, number]>;
}

/** A part of a text; `place` is that of a string, in UTF-16 code units. */
export interface Part {
  text: string;
  start: number;
  isWord: boolean;
}

export type Span = [start: number, end: number];

const END = "</s>";

/** The places of a string for those of its code points; one more, for its end. */
function unitsOf(text: string): number[] {
  const units: number[] = [];
  let at = 0;
  for (const letter of text) {
    units.push(at);
    at += letter.length;
  }
  units.push(at);
  return units;
}

/** A text cut into words and what stands between them; joined, the parts are the text. */
export function partsOf(text: string, language: string): Part[] {
  let segmenter: Intl.Segmenter;
  try {
    segmenter = new Intl.Segmenter(language.replaceAll("_", "-"), { granularity: "word" });
  } catch {
    segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  }
  return Array.from(segmenter.segment(text), (one) => ({
    text: one.segment,
    start: one.index,
    isWord: one.isWordLike === true,
  }));
}

/** The mean probability of the pieces of what stands at a place, undefined where nothing is known of it. */
export function certainties(text: string, words: readonly Word[]): (place: number) => number | undefined {
  const made = words.filter((word) => word.text !== END);
  const pieces = [...text.matchAll(/\S+/gu)];
  const same = pieces.length === made.length && pieces.every((piece, at) => piece[0] === made[at]!.text);
  if (!same) return () => undefined; // a part of it was copied: the words are not the model's
  return (place) => {
    const at = pieces.findIndex((piece) => piece.index <= place && place < piece.index + piece[0].length);
    return at < 0 ? undefined : made[at]!.mean;
  };
}

/** How unsure: 0 not at all, to 3. Below a mean probability of 0.5, as the library's reports have it. */
export function doubt(mean: number | undefined): 0 | 1 | 2 | 3 {
  if (mean === undefined || mean >= 0.5) return 0;
  if (mean >= 0.35) return 1;
  return mean >= 0.2 ? 2 : 3;
}

/** The parts of the source that a part of the target comes from. */
export function sourcesOf(alignment: Alignment, source: string, target: string, part: Span): Span[] {
  const inTarget = unitsOf(target);
  const inSource = unitsOf(source);
  const touched = new Set<number>();
  alignment.target.forEach(([start, end], at) => {
    if (inTarget[start]! < part[1] && part[0] < inTarget[end]!) touched.add(at);
  });
  const found = new Set(alignment.links.filter(([, to]) => touched.has(to)).map(([from]) => from));
  return [...found]
    .sort((one, other) => one - other)
    .map((at) => [inSource[alignment.source[at]![0]]!, inSource[alignment.source[at]![1]]!]);
}

/** A text cut where spans begin and end; the spans rise and are apart. */
export function marked(text: string, spans: readonly Span[]): Array<{ text: string; isMarked: boolean }> {
  const parts: Array<{ text: string; isMarked: boolean }> = [];
  let at = 0;
  for (const [start, end] of spans) {
    if (start > at) parts.push({ text: text.slice(at, start), isMarked: false });
    parts.push({ text: text.slice(start, end), isMarked: true });
    at = end;
  }
  if (at < text.length) parts.push({ text: text.slice(at), isMarked: false });
  return parts;
}
