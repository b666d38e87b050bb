/** What the laboratory, the calculators and the exercises say, in the language of the page. */

import { use } from "../say";
import { en, type Messages } from "./messages/en";

export { type Key, say } from "../say";

/** The languages besides English: each a file beside the script, loaded only where it is needed. */
const LANGUAGES = ["de", "es", "pl", "zh"];
/** The texts of the view of attention, by its English ones. */
export let phrases: Record<string, string> | undefined;

use("en", en);

/** Say everything in the language of a code, such as `pl` or `zh-CN`; English where there is none. */
export async function speak(code: string): Promise<void> {
  const found = LANGUAGES.find((one) => one === code.toLowerCase().split("-")[0]);
  use("en", en);
  phrases = undefined;
  if (!found) return;
  const file = new URL(`messages/${found}.js`, import.meta.url).href;
  try {
    const { messages, attention } = (await import(file)) as { messages: Messages; attention: Record<string, string> };
    use(found, messages);
    phrases = attention;
  } catch {
    // without a network, and not opened before: English
  }
}
