/** Messages of the page and the laboratory by key, in the reader's language. */

import type { Messages as Laboratory } from "./lab/messages/en";
import type { Messages as Page } from "./messages/en";

export type Key = keyof Page | keyof Laboratory;

let language = "en";
const messages: Partial<Record<Key, string>> = {};

export const currentLanguage = (): string => language;

/** Use these messages, in a language, from now on. */
export function setMessages(code: string, newMessages: Partial<Record<Key, string>>): void {
  language = code;
  Object.assign(messages, newMessages);
}

/**
 * Return a message: `{name}` is replaced by a value, and `{name:token|tokens}` by the form of a word for a number (one,
 * few, many).
 */
export function say(key: Key, values: Record<string, string | number> = {}): string {
  return (messages[key] ?? key).replace(/\{(\w+)(?::([^}]*))?\}/g, (placeholder, name: string, forms?: string) => {
    if (!Object.hasOwn(values, name)) return placeholder;
    return forms === undefined ? String(values[name]) : selectForm(forms.split("|"), Number(values[name]));
  });
}

function selectForm(forms: string[], count: number): string {
  const rule = new Intl.PluralRules(language).select(count);
  return forms[rule === "one" ? 0 : rule === "few" ? 1 : forms.length - 1]!;
}
