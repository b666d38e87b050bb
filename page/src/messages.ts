/** The messages of the page, in the reader's language. */

import { de } from "./messages/de";
import { en, type Messages } from "./messages/en";
import { es } from "./messages/es";
import { pl } from "./messages/pl";
import { zh } from "./messages/zh";
import { setMessages } from "./say";

export { type Key, say } from "./say";
export const LANGUAGES: Record<string, Messages> = { en, pl, zh, de, es };
export const LANGUAGE_NAMES: Array<[code: string, name: string]> = [
  ["en", "English"],
  ["pl", "Polski"],
  ["zh", "中文"],
  ["de", "Deutsch"],
  ["es", "Español"],
];

let currentCode = "en";
setMessages(currentCode, en);

/** Return the first of the browser's languages that the page supports, or English. */
export function preferredLanguage(languages: readonly string[]): string {
  const bases = languages.map((language) => language.toLowerCase().split("-")[0]!);
  return bases.find((base) => Object.hasOwn(LANGUAGES, base)) ?? "en";
}

export function setLanguage(code: string): void {
  currentCode = Object.hasOwn(LANGUAGES, code) ? code : "en";
  setMessages(currentCode, LANGUAGES[currentCode]!);
}

export const currentLanguage = (): string => currentCode;
