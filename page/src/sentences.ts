/** The sentences of a line, which the server translates apart: a prefix is that of one of them. */

import type { Made } from "./api";
import type { Alignment, Span } from "./words";

const END = "</s>";

/** A sentence and its translation, with their places in the line and its translation. */
export interface Sentence {
  source: string;
  target: string;
  sourceSpan: Span;
  targetSpan: Span;
  tokens: string[];
}

function groups<Item>(items: readonly Item[], isEnd: (item: Item) => boolean): Item[][] {
  const found: Item[][] = [[]];
  for (const item of items) {
    if (isEnd(item)) found.push([]);
    else found.at(-1)!.push(item);
  }
  if (found.length > 1 && found.at(-1)!.length === 0) found.pop();
  return found;
}

const isEnd = (piece: string): boolean => piece === END;

/** What a subword piece spells: without the mark of a word's beginning, or of its going on. */
export const spelling = (piece: string): string => piece.replace(/^[▁Ġ]+|^##/, "").replaceAll("▁", " ");

/** Where groups of pieces stand in a text; null where the text is not spelt by them. */
function spans(text: string, pieces: ReadonlyArray<readonly string[]>): Span[] | null {
  const found: Span[] = [];
  let at = 0;
  const skip = () => {
    while (at < text.length && /\s/.test(text[at]!)) at++;
  };
  for (const group of pieces) {
    skip();
    const start = at;
    for (const piece of group) {
      const spelt = spelling(piece).trim();
      if (spelt) skip();
      if (!text.startsWith(spelt, at)) return null;
      at += spelt.length;
    }
    found.push([start, at]);
  }
  return text.slice(at).trim() === "" ? found : null;
}

/** The sentences as a browser sees them, where they are as many. */
function guessed(text: string, count: number): Span[] | null {
  const parts = [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)];
  if (parts.length !== count) return null;
  return parts.map(({ index, segment }): Span => [index, index + segment.trimEnd().length]);
}

/** The sentences of a line; one, the whole line, where they cannot be told apart. */
export function sentencesOf(source: string, made: Made): Sentence[] {
  const sources = groups(made.source_tokens ?? [], isEnd);
  const targets = groups(made.tokens ?? [], isEnd);
  const count = targets.length;
  const from = spans(source, sources) ?? guessed(source, count);
  const to = spans(made.text, targets) ?? guessed(made.text, count);
  const isWhole = count < 2 || from?.length !== count || to?.length !== count;
  const every: Array<[Span, Span]> = isWhole
    ? [[[0, source.length], [0, made.text.length]]]
    : from.map((span, at) => [span, to[at]!]);
  return every.map(([sourceSpan, targetSpan], at) => ({
    source: source.slice(...sourceSpan),
    target: made.text.slice(...targetSpan),
    sourceSpan,
    targetSpan,
    tokens: targets[at] ?? [],
  }));
}

/** Which sentence a place of the translation is in. */
export function sentenceAt(sentences: readonly Sentence[], place: number): number {
  const found = sentences.findIndex((one) => place < one.targetSpan[1]);
  return found < 0 ? sentences.length - 1 : found;
}

/** A line's translation with another one of a sentence in it. */
export function splice(source: string, made: Made, index: number, other: Made): Made {
  const sentences = sentencesOf(source, made);
  const sentence = sentences[index]!;
  const [start, end] = sentence.targetSpan;
  const within = (one: string) => made.text.slice(0, start) + one + made.text.slice(end);
  const spliced: Made = { ...made, text: within(other.text), warnings: other.warnings ?? made.warnings ?? [] };
  spliced.tokens = join(replaced(groups(made.tokens ?? [], isEnd), index, other.tokens ?? []), END);
  if (made.words && other.words) {
    const wordEnd = other.words.find((word) => word.text === END) ?? { text: END, probability: 1, mean: 1 };
    const theirs = other.words.filter((word) => word.text !== END);
    spliced.words = join(replaced(groups(made.words, (word) => word.text === END), index, theirs), wordEnd);
  }
  if (made.alignment && other.alignment) {
    spliced.alignment = joinAlignments(made.alignment, other.alignment, source, made.text, sentence, other.text);
  } else {
    delete spliced.alignment;
  }
  spliced.alternatives = (other.alternatives ?? []).map((one) => splice(source, made, index, { ...one, alternatives: [] }));
  return spliced;
}

function replaced<Item>(all: Item[][], index: number, items: Item[]): Item[][] {
  return all.map((old, at) => (at === index ? items : old));
}

function join<Item>(parts: Item[][], end: Item): Item[] {
  return parts.flatMap((part, at) => (at ? [end, ...part] : part));
}

const points = (text: string): number => [...text].length;

/** The links outside a sentence, and in it those of its other translation. */
function joinAlignments(
  old: Alignment,
  other: Alignment,
  source: string,
  target: string,
  sentence: Sentence,
  text: string,
): Alignment {
  const from = sentence.sourceSpan.map((at) => points(source.slice(0, at))) as Span;
  const to = sentence.targetSpan.map((at) => points(target.slice(0, at))) as Span;
  const grown = points(text) - points(sentence.target);
  const moved = (spans: Span[], inside: Span, by: number): Array<Span | null> =>
    spans.map(([start, end]) => {
      if (start >= inside[0] && start < inside[1]) return null;
      return start >= inside[1] ? [start + by, end + by] : [start, end];
    });
  const shifted = (spans: Span[], by: number): Span[] => spans.map(([start, end]) => [start + by, end + by]);
  const oldSource = moved(old.source, from, 0);
  const oldTarget = moved(old.target, to, grown);
  const newSource = shifted(other.source, from[0]);
  const newTarget = shifted(other.target, to[0]);
  const sources = sorted([...oldSource, ...newSource]);
  const targets = sorted([...oldTarget, ...newTarget]);
  const place = (spans: Span[], span: Span) => spans.findIndex((one) => one[0] === span[0]);
  const links: Span[] = [];
  for (const [one, two] of old.links) {
    const ends = [oldSource[one], oldTarget[two]] as const;
    if (ends[0] && ends[1]) links.push([place(sources, ends[0]), place(targets, ends[1])]);
  }
  for (const [one, two] of other.links) links.push([place(sources, newSource[one]!), place(targets, newTarget[two]!)]);
  return { source: sources, target: targets, links: links.sort((one, two) => one[0] - two[0] || one[1] - two[1]) };
}

function sorted(spans: Array<Span | null>): Span[] {
  return spans.filter((span): span is Span => span !== null).sort((one, two) => one[0] - two[0]);
}
