/** What the page says, in the reader's language. */

import { de } from "./messages/de";
import { en, type Messages } from "./messages/en";
import { es } from "./messages/es";
import { pl } from "./messages/pl";
import { zh } from "./messages/zh";
import { use } from "./say";

export { type Key, say } from "./say";
export const LANGUAGES: Record<string, Messages> = { en, pl, zh, de, es };
export const OWN_NAMES: Array<[code: string, name: string]> = [
  ["en", "English"],
  ["pl", "Polski"],
  ["zh", "中文"],
  ["de", "Deutsch"],
  ["es", "Español"],
];

let chosen = "en";
use(chosen, en);

/** The first of the browser's languages that the page speaks; English where there is none. */
export function preferred(languages: readonly string[]): string {
  const bases = languages.map((one) => one.toLowerCase().split("-")[0]!);
  return bases.find((base) => Object.hasOwn(LANGUAGES, base)) ?? "en";
}

export function speak(code: string): void {
  chosen = Object.hasOwn(LANGUAGES, code) ? code : "en";
  use(chosen, LANGUAGES[chosen]!);
}

export const spoken = (): string => chosen;
