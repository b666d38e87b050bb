/** What the laboratory, the calculators and the exercises say, in the language of the page. */

import { use } from "../say";
import { en, type Messages } from "./messages/en";

export { type Key, say, spoken } from "../say";

/** The languages besides English: each a file beside the script, loaded only where it is needed. */
const LANGUAGES = ["de", "es", "pl", "zh"];

use("en", en);

/** Say everything in the language of a code, such as `pl` or `zh-CN`; English where there is none. */
export async function speak(code: string): Promise<void> {
  const found = LANGUAGES.find((one) => one === code.toLowerCase().split("-")[0]);
  use("en", en);
  if (!found) return;
  const file = new URL(`messages/${found}.js`, import.meta.url).href;
  try {
    const { messages } = (await import(file)) as { messages: Messages };
    use(found, messages);
  } catch {
    // without a network, and not opened before: English
  }
}
