/** What may be wrong in a translation, and where: improbable words, and words that the server's warnings name. */

import type { Key } from "./say";
import type { Line } from "./session";
import { doubtLevel, type Span, splitWords, wordProbabilities } from "./words";

export interface Doubt {
  side: "source" | "target";
  span: Span;
  /** 1 to 3; 3 for a warning of the server. */
  level: number;
  reason: Key;
  values: Record<string, number>;
}

/** A part of a translation that the reader has decided: what they chose, or a term of their glossary. */
export interface Decision {
  span: Span;
  reason: "wordChosen" | "wordTerm";
}

export interface Note {
  key: Key;
  values: Record<string, string>;
}

/** The server's warnings about words, which follow in quotes. */
const WARNINGS: Record<string, { side: Doubt["side"]; reason: Key }> = {
  "not translated": { side: "source", reason: "doubtOmitted" },
  "number missing from the translation": { side: "source", reason: "doubtNumberMissing" },
  "number added by the translation": { side: "target", reason: "doubtAdded" },
  "added by the translation": { side: "target", reason: "doubtAdded" },
  copied: { side: "target", reason: "doubtCopied" },
};

/** The server's warnings about complete texts. */
const NOTES: ReadonlyArray<[pattern: RegExp, key: Key]> = [
  [/^unlike what the model knows: /u, "noteUnlike"],
  [/^the translation repeats itself/u, "noteRepeats"],
  [/^the text is already in the target language$/u, "noteSame"],
  [/^signs of the text are missing: (?<signs>.*)$/u, "noteSigns"],
  [/^the term (?<term>.*) was not translated as (?<target>.*)$/u, "noteTerm"],
];

/** Return the words of a warning that names words, and what is wrong with them. */
function parseWarning(warning: string): { words: string[]; side: Doubt["side"]; reason: Key } | undefined {
  const colon = warning.indexOf(": ");
  const kind = warning.slice(0, colon);
  if (colon < 0 || !Object.hasOwn(WARNINGS, kind)) return undefined;
  const quoted = warning.slice(colon + 2).matchAll(/'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/gu);
  const words = [...quoted].map((match) => (match[1] ?? match[2]!).replace(/\\(['"\\])/g, "$1"));
  return { words, ...WARNINGS[kind]! };
}

/** Return notes of the warnings that do not name words. */
export const notesOf = (warnings: readonly string[]): Note[] => warnings.filter((warning) => !parseWarning(warning)).map(toNote);

function toNote(warning: string): Note {
  for (const [pattern, key] of NOTES) {
    const match = pattern.exec(warning);
    if (match) return { key, values: { ...match.groups } };
  }
  return { key: "warning", values: { detail: warning } };
}

/** Return the warnings without those that name a word of a sentence. */
export function warningsOutside(warnings: readonly string[], source: string, target: string): string[] {
  return warnings.filter((warning) => {
    const parsed = parseWarning(warning);
    const sentence = parsed?.side === "source" ? source : target;
    return !parsed?.words.some((word) => findWord(sentence, word));
  });
}

/** Return the span of the first occurrence of a word that is not a part of a longer one. */
function findWord(text: string, word: string): Span | undefined {
  const isLetter = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
  const isSeparated = /^[\p{L}\p{N}]*$/u.test(word) && !/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Thai}]/u.test(word);
  for (let start = text.indexOf(word); start >= 0 && word; start = text.indexOf(word, start + 1)) {
    const end = start + word.length;
    if (!isSeparated || !(isLetter(text[start - 1]) || isLetter(text[end]))) return [start, end];
  }
  return undefined;
}

/** Return what the reader has decided in the translation of a line. */
export function decisionsOf({ translation, choiceSpans = [] }: Pick<Line, "translation" | "choiceSpans">): Decision[] {
  const decisions = choiceSpans.map((span): Decision => ({ span, reason: "wordChosen" }));
  for (const { target, applied } of translation?.terms ?? []) {
    const span = applied ? findWord(translation!.text, target) : undefined;
    if (span) decisions.push({ span, reason: "wordTerm" });
  }
  return decisions;
}

/** Return the doubts about the translation of a line, in the order of the texts, those of the source first. */
export function doubtsOf(line: Pick<Line, "source" | "translation" | "choiceSpans">, language: string): Doubt[] {
  const { source, translation } = line;
  if (!translation) return [];
  const doubts: Doubt[] = [];
  for (const warning of translation.warnings ?? []) {
    const { words = [], side = "source", reason = "doubtOmitted" } = parseWarning(warning) ?? {};
    for (const word of words) {
      const span = findWord(side === "source" ? source : translation.text, word);
      if (span) doubts.push({ side, span, level: 3, reason, values: {} });
    }
  }
  const probabilityAt = wordProbabilities(translation.text, translation.words ?? []);
  for (const { text, start, isWord } of splitWords(translation.text, language)) {
    const mean = isWord ? probabilityAt(start) : undefined;
    const level = doubtLevel(mean);
    if (level === 0) continue;
    const reason = (["unsure1", "unsure2", "unsure3"] as const)[level - 1]!;
    doubts.push({ side: "target", span: [start, start + text.length], level, reason, values: { percent: Math.round(100 * mean!) } });
  }
  const decisions = decisionsOf(line);
  const isOpen = ({ side, span }: Doubt) => side === "source" || !decisions.some((decision) => overlaps(decision.span, span));
  return doubts.filter(isOpen).sort((first, second) => first.side.localeCompare(second.side) || first.span[0] - second.span[0]);
}

export const overlaps = (first: Span, second: Span): boolean => first[0] < second[1] && second[0] < first[1];
