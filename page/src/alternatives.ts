/** What else could stand at a place of a translation. */

import { spelling } from "./sentences";
import { partsOf } from "./words";

export interface Alternative {
  /** What stands at the place: a word, with what belongs to it in front. */
  word: string;
  /** The translation up to and with it. */
  prefix: string;
  /** The whole translation that goes on from it. */
  text: string;
}

/** The first word behind a prefix, with what stands before it; empty where none comes. */
export function wordBehind(text: string, prefix: string, language: string): string {
  const rest = text.slice(prefix.length);
  let word = "";
  for (const part of partsOf(rest, language)) {
    word += part.text;
    if (part.isWord) return word;
  }
  return word.trim() ? word : "";
}

/** The best translation of each different word behind a prefix, the present word left out. */
export function alternativesAt(
  texts: readonly string[],
  prefix: string,
  present: string,
  language: string,
): Alternative[] {
  const found = new Map<string, Alternative>();
  for (const text of texts) {
    if (!text.startsWith(prefix)) continue;
    const word = wordBehind(text, prefix, language);
    const key = word.trim();
    if (!key || key === present.trim() || found.has(key)) continue;
    found.set(key, { word: key, prefix: prefix + word, text });
  }
  return [...found.values()];
}

/** How many pieces of a translation lie before a place: what a prefix that long is made of. */
export function piecesBefore(tokens: readonly string[], text: string, place: number): number {
  let at = 0;
  for (let index = 0; index < tokens.length; index++) {
    while (at < text.length && /\s/.test(text[at]!)) at++;
    if (at >= place) return index;
    at += spelling(tokens[index]!).length;
  }
  return tokens.length;
}
