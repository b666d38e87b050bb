/** Alternative words at a position of a translation. */

import { spelling } from "./sentences";
import { splitWords } from "./words";

export interface Alternative {
  /** The word, with preceding punctuation. */
  word: string;
  /** The translation up to the end of the word. */
  prefix: string;
  /** The complete translation. */
  text: string;
}

/** Return the first word after a prefix, with the text before it; an empty string if there is none. */
export function nextWord(text: string, prefix: string, language: string): string {
  const remaining = text.slice(prefix.length);
  let word = "";
  for (const part of splitWords(remaining, language)) {
    word += part.text;
    if (part.isWord) return word;
  }
  return word.trim() ? word : "";
}

/** Return the best translation for each different word after a prefix, without the current word. */
export function wordAlternatives(
  texts: readonly string[],
  prefix: string,
  current: string,
  language: string,
): Alternative[] {
  const alternatives = new Map<string, Alternative>();
  for (const text of texts) {
    if (!text.startsWith(prefix)) continue;
    const word = nextWord(text, prefix, language);
    const key = word.trim();
    if (!key || key === current.trim() || alternatives.has(key)) continue;
    alternatives.set(key, { word: key, prefix: prefix + word, text });
  }
  return [...alternatives.values()];
}

/** Return the number of pieces of a translation before a position. */
export function countPiecesBefore(tokens: readonly string[], text: string, position: number): number {
  let offset = 0;
  for (let index = 0; index < tokens.length; index++) {
    while (offset < text.length && /\s/.test(text[offset]!)) offset++;
    if (offset >= position) return index;
    offset += spelling(tokens[index]!).length;
  }
  return tokens.length;
}
