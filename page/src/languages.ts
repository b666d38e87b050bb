/** The language pairs of a server, and their selection. */

export interface Language {
  code: string;
  name: string;
}

export interface SourceLanguage extends Language {
  /** Whether the server tells texts in the language from those in others. */
  isDetected: boolean;
}

export interface AvailableLanguages {
  sources: SourceLanguage[];
  targets: Language[];
  pairs: ReadonlyArray<readonly [source: string, target: string]>;
  /** The languages of the bundled model, if the server has it. */
  demonstration?: { sources: string[]; targets: string[] } | undefined;
  /** Whether the server can detect the language of a text. */
  detects: boolean;
  /** Whether the server has translation memories. */
  remembers: boolean;
}

export const AUTO = "auto";

const RIGHT_TO_LEFT = new Set(
  "ar arc arz ckb dv fa glk he ks mzn nqo pnb ps sd ug ur yi Arab Hebr Syrc Thaa Nkoo Adlm Rohg".split(" "),
);

/** Return the subtags of a code such as `pt-BR`, `pt_BR` or `arb_Arab`. */
const subtags = (code: string): string[] => code.split(/[-_]/);

/** Return the language tag (BCP 47) of a code. */
export const tagOf = (code: string): string => code.replaceAll("_", "-");

export const baseLanguage = (code: string): string => subtags(code)[0]!.toLowerCase();

export function direction(code: string): "rtl" | "ltr" {
  const [language = "", ...others] = subtags(code);
  const script = others.find((tag) => /^[A-Z][a-z]{3}$/.test(tag));
  return RIGHT_TO_LEFT.has(script ?? language) ? "rtl" : "ltr";
}

/** Return the shortest code of a language: `de` for `deu_Latn`. */
function shortestCode(code: string): string {
  try {
    return new Intl.Locale(baseLanguage(code)).language;
  } catch {
    return baseLanguage(code); // the code is not a language tag
  }
}

export const isSameLanguage = (first: string, second: string): boolean => shortestCode(first) === shortestCode(second);

/** Return the name of a language in the reader's language, or the server's name for it. */
export function nameOf(language: Language, reader: string): string {
  try {
    return new Intl.DisplayNames([reader], { type: "language", fallback: "none" }).of(tagOf(language.code)) ?? language.name;
  } catch {
    return language.name; // the code is not a language tag
  }
}

export function hasPair(available: AvailableLanguages, source: string, target: string): boolean {
  return available.pairs.some(([from, to]) => from === source && to === target);
}

/** Return the target languages of a source language, or all for an unknown source. */
export function availableTargets(available: AvailableLanguages, source: string): Language[] {
  if (source === AUTO) return available.targets;
  const reached = new Set(available.pairs.flatMap(([from, to]) => (from === source ? [to] : [])));
  return available.targets.filter(({ code }) => reached.has(code));
}

export interface LanguagePair {
  source: string;
  target: string;
}

/**
 * Return an available pair that is as close as possible to the requested one. Another target than the requested one is the
 * reader's language, or else the first, to which a model translates from the source. A source to be detected is taken to be
 * the detected language, or else the reader's, or else the first.
 */
export function resolvePair(available: AvailableLanguages, { source, target }: LanguagePair, reader = "", detected = ""): LanguagePair {
  const isKnown = available.sources.some((language) => language.code === source) || (source === AUTO && available.detects);
  const from = isKnown ? source : (available.sources[0]?.code ?? AUTO);
  if (availableTargets(available, from).some(({ code }) => code === target)) return { source: from, target };
  const sources = from === AUTO ? [detected, reader, ...available.sources.map(({ code }) => code)] : [from];
  const expected = sources.find((code) => available.pairs.some(([other]) => other === code));
  const targets = expected === undefined ? [] : availableTargets(available, expected);
  return { source: from, target: (targets.find(({ code }) => code === reader) ?? targets[0])?.code ?? "" };
}

/** Return the pair with its sides swapped, or null if no model translates in that direction. */
export function swapPair(available: AvailableLanguages, { source, target }: LanguagePair): LanguagePair | null {
  return hasPair(available, target, source) ? { source: target, target: source } : null;
}
