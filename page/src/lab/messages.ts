/** The messages of the laboratory, the calculators and the exercises, in the language of the page. */

import * as page from "../say";
import { en } from "./messages/en";

export { type Key, say, currentLanguage as spoken } from "../say";

page.setMessages("en", en);

/** Load the messages of a language code such as `pl` or `zh-CN`, or English if it is not supported. */
export const loadMessages = (code: string): Promise<void> => page.loadMessages(code, en, "messages");
