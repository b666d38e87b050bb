/** The pairs that a server offers, and what may be chosen of them. */

export interface Language {
  code: string;
  name: string;
}

export interface Offer {
  sources: Language[];
  targets: Language[];
  pairs: ReadonlyArray<readonly [source: string, target: string]>;
  /** Whether the server tells which language a text is in. */
  detects: boolean;
}

export const AUTO = "auto";

const RIGHT_TO_LEFT = new Set(
  "ar arc arz ckb dv fa glk he ks mzn nqo pnb ps sd ug ur yi Arab Hebr Syrc Thaa Nkoo Adlm Rohg".split(" "),
);

/** The subtags of a code, written `pt-BR`, `pt_BR` or `arb_Arab`. */
const subtags = (code: string): string[] => code.split(/[-_]/);

export function direction(code: string): "rtl" | "ltr" {
  const [language = "", ...rest] = subtags(code);
  const script = rest.find((tag) => /^[A-Z][a-z]{3}$/.test(tag));
  return RIGHT_TO_LEFT.has(script ?? language) ? "rtl" : "ltr";
}

/** The name of a language in another, or as the server calls it. */
export function nameOf(language: Language, reader: string): string {
  try {
    const tag = subtags(language.code).join("-");
    return new Intl.DisplayNames([reader], { type: "language", fallback: "none" }).of(tag) ?? language.name;
  } catch {
    return language.name; // a code that is no language tag
  }
}

export function hasPair(offer: Offer, source: string, target: string): boolean {
  return offer.pairs.some(([one, other]) => one === source && other === target);
}

/** The targets of a source; of an unknown one all. */
export function targetsOf(offer: Offer, source: string): Language[] {
  if (source === AUTO) return offer.targets;
  return offer.targets.filter((target) => hasPair(offer, source, target.code));
}

/** A choice that the server can serve, as near as can be to the one wanted. */
export function settle(offer: Offer, source: string, target: string): { source: string; target: string } {
  const known = offer.sources.some((one) => one.code === source) || (source === AUTO && offer.detects);
  const from = known ? source : (offer.sources[0]?.code ?? AUTO);
  const targets = targetsOf(offer, from);
  const to = targets.some((one) => one.code === target) ? target : (targets[0]?.code ?? "");
  return { source: from, target: to };
}

/** The choice with its sides exchanged, null where there is no model that way. */
export function swapped(offer: Offer, source: string, target: string): { source: string; target: string } | null {
  return hasPair(offer, target, source) ? { source: target, target: source } : null;
}
