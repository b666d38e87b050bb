/** What the page and the laboratory say: messages by their keys, in the reader's language. */

import type { Messages as Laboratory } from "./lab/messages/en";
import type { Messages as Page } from "./messages/en";

export type Key = keyof Page | keyof Laboratory;

let language = "en";
const messages: Partial<Record<Key, string>> = {};

export const spoken = (): string => language;

/** Say these messages, of a language, from now on. */
export function use(code: string, added: Partial<Record<Key, string>>): void {
  language = code;
  Object.assign(messages, added);
}

/**
 * A message: `{name}` in it becomes the value of that name, and `{name:token|tokens}` the form of a word that this number
 * takes: one, few, many.
 */
export function say(key: Key, values: Record<string, string | number> = {}): string {
  return (messages[key] ?? key).replace(/\{(\w+)(?::([^}]*))?\}/g, (whole, name: string, forms?: string) => {
    if (!Object.hasOwn(values, name)) return whole;
    return forms === undefined ? String(values[name]) : form(forms.split("|"), Number(values[name]));
  });
}

function form(forms: string[], count: number): string {
  const rule = new Intl.PluralRules(language).select(count);
  return forms[rule === "one" ? 0 : rule === "few" ? 1 : forms.length - 1]!;
}
