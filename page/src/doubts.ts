/** What may be wrong in a translation, and where: improbable words, and words that the server's warnings name. */

import type { ServerTranslation } from "./api";
import type { Pair } from "./glossary_file";
import type { Key } from "./say";
import type { Line } from "./session";
import { codeUnitOffsets, doubtLevel, type Span, splitWords, UNSPACED, wordProbabilities } from "./words";

export interface Doubt {
  side: "source" | "target";
  span: Span;
  /** 1 to 3; 3 for a warning of the server. */
  level: number;
  reason: Key;
  values: Record<string, number | string>;
}

/** A term of the glossary in a text whose translation lacks it: where the term is, and its translation. */
export interface MissingTerm {
  span: Span;
  target: string;
}

/** A part of a translation that the reader has decided: what they chose, or a term of their glossary. */
export interface Decision {
  span: Span;
  reason: "wordChosen" | "wordConfirmed" | "wordTerm";
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

/** The server's warning that a translation lacks a term of the glossary. */
const TERM_WARNING = /^the term (?<term>.*) was not translated as (?<target>.*)$/u;
/** The server's warnings about complete texts. */
const NOTES: ReadonlyArray<[pattern: RegExp, key: Key]> = [
  [/^unlike what the model knows: /u, "noteUnlike"],
  [/^the translation repeats itself/u, "noteRepeats"],
  [/^the text is already in the target language$/u, "noteSame"],
  [/^signs of the text are missing: (?<signs>.*)$/u, "noteSigns"],
  [TERM_WARNING, "noteTerm"],
];

/** A warning that names words, and what is wrong with them. */
interface NamingWarning {
  kind: string;
  words: Array<{ text: string; quoted: string }>;
  side: Doubt["side"];
  reason: Key;
}

const unquote = (quoted: string): string => quoted.slice(1, -1).replace(/\\(['"\\])/g, "$1");

/** Return whether a warning says that a translation lacks a term which a text contains. */
function isAboutTermIn(text: string, warning: string): boolean {
  const term = TERM_WARNING.exec(warning)?.[1];
  return term !== undefined && missingTerms(text, "", [[unquote(term), ""]]).length > 0;
}

/** Parse a warning; undefined if it does not name words. */
function parseWarning(warning: string): NamingWarning | undefined {
  const colon = warning.indexOf(": ");
  const kind = warning.slice(0, colon);
  if (colon < 0 || !Object.hasOwn(WARNINGS, kind)) return undefined;
  const matches = warning.slice(colon + 2).matchAll(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/gu);
  const words = Array.from(matches, (match) => ({ text: unquote(match[0]), quoted: match[0] }));
  return { kind, words, ...WARNINGS[kind]! };
}

/** Return notes of the warnings about a line that are not marked in it. */
export function notesOf({ source, translation, missingTerms: marked = [] }: Pick<Line, "source" | "translation" | "missingTerms">): Note[] {
  const isMarked = (warning: string) => parseWarning(warning) || marked.some(({ span }) => isAboutTermIn(source.slice(...span), warning));
  return (translation?.warnings ?? []).filter((warning) => !isMarked(warning)).map(toNote);
}

function toNote(warning: string): Note {
  for (const [pattern, key] of NOTES) {
    const match = pattern.exec(warning);
    if (match) return { key, values: { ...match.groups } };
  }
  return { key: "warning", values: { detail: warning } };
}

/** Return the warnings without the words of a sentence that they name. */
export function warningsOutside(warnings: readonly string[], source: string, target: string): string[] {
  return warnings.flatMap((warning) => {
    const parsed = parseWarning(warning);
    if (!parsed) return isAboutTermIn(source, warning) ? [] : [warning];
    const sentence = parsed.side === "source" ? source : target;
    const others = parsed.words.filter(({ text }) => !findWords(sentence, text).length);
    if (others.length === parsed.words.length) return [warning];
    return others.length ? [`${parsed.kind}: ${others.map(({ quoted }) => quoted).join(", ")}`] : [];
  });
}

/** Return the spans of the occurrences of a word or number that are not a part of a longer one. */
function findWords(text: string, word: string): Span[] {
  const isSeparated = /^[\p{L}\p{N}.,]*$/u.test(word) && !UNSPACED.test(word);
  const spans: Span[] = [];
  for (let start = text.indexOf(word); start >= 0 && word; start = text.indexOf(word, start + 1)) {
    const end = start + word.length;
    const isPart = /[\p{L}\p{N}]$|\p{N}[.,]$/u.test(text.slice(0, start).slice(-3)) || /^[\p{L}\p{N}]|^[.,]\p{N}/u.test(text.slice(end, end + 3));
    if (!isSeparated || !isPart) spans.push([start, end]);
  }
  return spans;
}

/**
 * Return the terms of a glossary that a sentence contains and its translation does not. As on the server, terms are separate words,
 * the longer of two overlapping ones counts, a term may be capitalised at the start of the sentence, and its translation may be one
 * of several forms.
 */
export function missingTerms(source: string, translation: string, glossary: readonly Pair[]): MissingTerm[] {
  const capitalised = (term: string): string => term.slice(0, 1).toUpperCase() + term.slice(1);
  const isFirst = ([start]: Span): boolean => !/[\p{L}\p{N}]/u.test(source.slice(0, start));
  const matches = glossary.flatMap(([term, target]) => {
    const spans = [...findWords(source, term), ...(capitalised(term) === term ? [] : findWords(source, capitalised(term)).filter(isFirst))];
    return spans.map((span): MissingTerm => ({ span, target }));
  });
  const length = ({ span }: MissingTerm): number => span[1] - span[0];
  const isCovered = (term: MissingTerm): boolean => matches.some((other) => overlaps(other.span, term.span) && length(other) > length(term));
  const isUsed = (form: string): boolean => [form, capitalised(form)].some((spelling) => findWords(translation, spelling).length > 0);
  return matches.filter((term) => !isCovered(term) && !term.target.split("|").some(isUsed)).sort((first, second) => first.span[0] - second.span[0]);
}

/** Return the spans of words, of which a text contains each as often as it is listed, or more often. */
function findListed(text: string, words: readonly string[]): Span[] {
  const counts = new Map<string, number>();
  return words.flatMap((word) => {
    const count = counts.get(word) ?? 0;
    counts.set(word, count + 1);
    return findWords(text, word).slice(count, count + 1);
  });
}

/** Return whether it is known where the omitted words of a translation are. */
export const isLocated = ({ coverage }: ServerTranslation): boolean => coverage !== undefined && coverage.omitted_spans?.length === coverage.omitted.length;

/** Return the spans of the words of a text that its translation omits. */
function omissionsOf(source: string, translation: ServerTranslation, warnings: readonly NamingWarning[]): Span[] {
  if (isLocated(translation)) {
    const units = codeUnitOffsets(source);
    return translation.coverage!.omitted_spans.map(([start, end]) => [units[start]!, units[end]!]);
  }
  return findListed(source, warnings.filter(({ reason }) => reason === "doubtOmitted").flatMap(({ words }) => words.map(({ text }) => text)));
}

/** Return what the reader has decided in the translation of a line. */
export function decisionsOf({ translation, choiceParts = [] }: Pick<Line, "translation" | "choiceParts">): Decision[] {
  const decisions = choiceParts.map(({ span, isConfirmed }): Decision => ({ span, reason: isConfirmed ? "wordConfirmed" : "wordChosen" }));
  const terms = (translation?.terms ?? []).filter(({ applied }) => applied).map(({ target }) => target);
  for (const span of findListed(translation?.text ?? "", terms)) decisions.push({ span, reason: "wordTerm" });
  return decisions;
}

/** Return the doubts about the translation of a line, in the order of the texts, those of the source first. */
export function doubtsOf(line: Pick<Line, "source" | "translation" | "choiceParts" | "missingTerms">, language: string): Doubt[] {
  const { source, translation } = line;
  if (!translation) return [];
  const warnings = (translation.warnings ?? []).flatMap((warning) => parseWarning(warning) ?? []);
  const doubts = omissionsOf(source, translation, warnings).map((span): Doubt => ({ side: "source", span, level: 3, reason: "doubtOmitted", values: {} }));
  doubts.push(...(line.missingTerms ?? []).map(({ span, target }): Doubt => ({ side: "source", span, level: 3, reason: "doubtTerm", values: { target } })));
  for (const { words, side, reason } of warnings) {
    if (reason === "doubtOmitted") continue; // found above
    const spans = words.flatMap(({ text }) => findWords(side === "source" ? source : translation.text, text));
    doubts.push(...spans.map((span): Doubt => ({ side, span, level: 3, reason, values: {} })));
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
