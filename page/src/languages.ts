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
    const tag = subtags(language.code).join("-");
    return new Intl.DisplayNames([reader], { type: "language", fallback: "none" }).of(tag) ?? language.name;
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
  return available.targets.filter((target) => hasPair(available, source, target.code));
}

/** Return an available pair that is as close as possible to the requested one. */
export function resolvePair(available: AvailableLanguages, source: string, target: string): { source: string; target: string } {
  const isKnown = available.sources.some((language) => language.code === source) || (source === AUTO && available.detects);
  const from = isKnown ? source : (available.sources[0]?.code ?? AUTO);
  const targets = availableTargets(available, from);
  const to = targets.some((language) => language.code === target) ? target : (targets[0]?.code ?? "");
  return { source: from, target: to };
}

/** Return the pair with its sides swapped, or null if no model translates in that direction. */
export function swapPair(available: AvailableLanguages, source: string, target: string): { source: string; target: string } | null {
  return hasPair(available, target, source) ? { source: target, target: source } : null;
}
