/** What the reader has chosen for sentences, and the translations to choose from. */

import type { ServerTranslation } from "./api";
import { wordPieces } from "./sentences";
import { commonEnd, commonLength, lengthensWord, repeatsMark, type Span } from "./words";

/** A part of the translation of a sentence that the reader has chosen or typed; the rest of it is the model's. */
export interface ChosenPart {
  span: Span;
  isTyped: boolean;
}

/** A part of the translation of a line that the reader has chosen. */
export interface ChoicePart extends ChosenPart {
  isConfirmed: boolean;
}

/** What the reader has chosen for a sentence; it is kept while the text around it and the settings change. */
export interface Choice {
  /** The start of the translation, or all of it. */
  prefix: string;
  isComplete: boolean;
  /** The parts of it that the reader has chosen, in the order of the text. */
  parts: readonly ChosenPart[];
  /** Translations to choose from instead; undefined for those of the sentence. */
  nbest?: ServerTranslation[] | undefined;
  translation: ServerTranslation;
  /** The settings with which the model continued the prefix; undefined if the translation does not depend on them. */
  settings?: string;
}

/**
 * Return the parts of a new text for a sentence that the reader has chosen: those of the present text, `known`, as far as the two
 * agree, and what differs from it, up to the end of the new text or, if that is another translation, to where they agree again.
 */
export function chosenParts(target: string, known: readonly ChosenPart[], text: string, isTyped: boolean, isAnother: boolean): ChosenPart[] {
  const start = commonLength(target, text);
  const parts = known
    .filter(({ span }) => span[0] < start)
    .map(({ span, ...part }) => ({ ...part, span: [span[0], Math.min(span[1], start)] as Span }));
  const isKnown = start === text.length && parts.at(-1)?.span[1] === start; // chosen again
  if (isKnown || (isAnother && text === target)) return parts;
  const end = isAnother ? text.length - commonEnd(target.slice(start), text.slice(start)) : text.length;
  const span: Span = start < end ? [start, end] : [Math.max(0, start - 1), Math.min(start + 1, text.length)]; // next to what is left out
  return [...parts, { span, isTyped }];
}

/** Return the translations of a sentence that begin with a prefix and neither lengthen its last word nor repeat a mark; all if each does. */
export function nbestOf(source: string, translation: ServerTranslation, prefix = ""): ServerTranslation[] {
  const all = [translation, ...(translation.alternatives ?? [])];
  const regular = all.filter(({ text }) => !lengthensWord(prefix, text) && !repeatsMark(source, text));
  return regular.length ? regular : all; // rather than no translation of the rest
}

/** Return a translation of which only the text is known; each word is a piece. */
export const untokenised = (text: string): ServerTranslation => ({ text, tokens: wordPieces(text) });
