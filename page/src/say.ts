/** Messages of the page and the laboratory by key, in the reader's language. */

import type { Messages as Laboratory } from "./lab/messages/en";
import type { Messages as Page } from "./messages/en";
import LANGUAGES from "./page_languages.json";

export type Key = keyof Page | keyof Laboratory;

/** The languages and their names; the messages of each besides English are in a file that is loaded on demand. */
export const LANGUAGE_NAMES = Object.entries(LANGUAGES);

let language = "en";
/** The code that was last asked for; its messages may not have arrived yet. */
let requested = language;
const current: Partial<Record<Key, string>> = {};

export const currentLanguage = (): string => language;

/** Return the code of the language of a tag such as `pl` or `zh-CN`; undefined if there are no messages in it. */
export function supported(tag: string): string | undefined {
  const base = tag.toLowerCase().split("-")[0];
  return LANGUAGE_NAMES.find(([code]) => code === base)?.[0];
}

/** Use these messages, in a language, from now on. */
export function setMessages(code: string, messages: Partial<Record<Key, string>>): void {
  language = code;
  Object.assign(current, messages);
}

/**
 * Load the messages of a language code such as `pl` or `zh-CN` from a folder, or use English if it is not supported or
 * cannot be loaded. Messages that arrive after another language was asked for are not used.
 */
export async function loadMessages(code: string, english: Partial<Record<Key, string>>, folder: string): Promise<void> {
  requested = code;
  const known = supported(code) ?? "en";
  if (known === "en") return setMessages("en", english);
  const file = new URL(`${folder}/${known}.js`, import.meta.url).href;
  try {
    const { messages } = (await import(file)) as { messages: typeof english };
    if (requested === code) setMessages(known, messages);
  } catch {
    if (requested === code) setMessages("en", english);
  }
}

/**
 * Return a message: `{name}` is replaced by a value, and `{name:token|tokens}` by the form of a word for a number (one,
 * few, many).
 */
export function say(key: Key, values: Record<string, string | number> = {}): string {
  return (current[key] ?? key).replace(/\{(\w+)(?::([^}]*))?\}/g, (placeholder, name: string, forms?: string) => {
    if (!Object.hasOwn(values, name)) return placeholder;
    return forms === undefined ? String(values[name]) : selectForm(forms.split("|"), Number(values[name]));
  });
}

function selectForm(forms: string[], count: number): string {
  const rule = new Intl.PluralRules(language).select(count);
  return forms[rule === "one" ? 0 : rule === "few" ? 1 : forms.length - 1]!;
}
