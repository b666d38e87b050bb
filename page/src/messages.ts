/** The messages of the page, in the reader's language. */

import { en } from "./messages/en";
import { loadMessages, setMessages, supported } from "./say";

export { currentLanguage, LANGUAGE_NAMES, type Key, say } from "./say";

setMessages("en", en);

/** Return the first of the browser's languages that the page supports, or English. */
export const preferredLanguage = (languages: readonly string[]): string => languages.map(supported).find(Boolean) ?? "en";

/** Use a language from now on; its messages are loaded on demand. */
export const setLanguage = (code: string): Promise<void> => loadMessages(code, en, "messages/page");
