/** The messages of the page, in the reader's language. */

import { en } from "./messages/en";
import { loadMessages, setMessages } from "./say";

export { currentLanguage, type Key, say } from "./say";
export const LANGUAGE_NAMES: Array<[code: string, name: string]> = [
  ["en", "English"],
  ["pl", "Polski"],
  ["zh", "中文"],
  ["de", "Deutsch"],
  ["es", "Español"],
];

setMessages("en", en);

/** Return the first of the browser's languages that the page supports, or English. */
export function preferredLanguage(languages: readonly string[]): string {
  const bases = languages.map((language) => language.toLowerCase().split("-")[0]!);
  return bases.find((base) => LANGUAGE_NAMES.some(([code]) => code === base)) ?? "en";
}

/** Use a language from now on; its messages are loaded on demand. */
export const setLanguage = (code: string): Promise<void> => loadMessages(code, en, "messages/page");
