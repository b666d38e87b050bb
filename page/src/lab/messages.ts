/** The messages of the laboratory, the calculators and the exercises, in the language of the page. */

import { setMessages } from "../say";
import { en, type Messages } from "./messages/en";

export { type Key, say, currentLanguage as spoken } from "../say";

/** The languages besides English, each in a file that is loaded on demand. */
const LANGUAGES = ["de", "es", "pl", "zh"];

setMessages("en", en);

/** Load the messages of a language code such as `pl` or `zh-CN`, or English if it is not supported. */
export async function loadMessages(code: string): Promise<void> {
  const supported = LANGUAGES.find((language) => language === code.toLowerCase().split("-")[0]);
  setMessages("en", en);
  if (!supported) return;
  const file = new URL(`messages/${supported}.js`, import.meta.url).href;
  try {
    const { messages } = (await import(file)) as { messages: Messages };
    setMessages(supported, messages);
  } catch {
    // English, if the file cannot be loaded
  }
}
