import assert from "node:assert/strict";
import test from "node:test";

import { messages as de } from "../src/lab/messages/de";
import { en } from "../src/lab/messages/en";
import { messages as es } from "../src/lab/messages/es";
import { messages as pl } from "../src/lab/messages/pl";
import { messages as zh } from "../src/lab/messages/zh";
import { LANGUAGE_NAMES, preferredLanguage } from "../src/messages";
import { messages as pageDe } from "../src/messages/de";
import { en as pageEn } from "../src/messages/en";
import { messages as pageEs } from "../src/messages/es";
import { messages as pagePl } from "../src/messages/pl";
import { messages as pageZh } from "../src/messages/zh";
import { currentLanguage, loadMessages, say, setMessages } from "../src/say";

const PAGE = { de: pageDe, en: pageEn, es: pageEs, pl: pagePl, zh: pageZh };
const LAB: Record<string, Record<string, string>> = { de, en, es, pl, zh };
const FORMS: Record<string, number> = { en: 2, de: 2, es: 2, pl: 3, zh: 1 };
const values = (message: string) => [...new Set([...message.matchAll(/\{(\w+)(?::[^}]*)?\}/g)].map((match) => match[1]))].sort();

for (const [name, languages] of [["page", PAGE], ["laboratory", LAB]] as const) {
  test(`all languages of the ${name} have all messages, with the same values`, () => {
    const english: Record<string, string> = languages.en!;
    for (const [language, messages] of Object.entries(languages)) {
      assert.deepEqual(Object.keys(messages).sort(), Object.keys(english).sort());
      for (const [key, message] of Object.entries<string>(messages)) {
        assert.ok(message.trim(), `${language} ${key}`);
        assert.deepEqual(values(message), values(english[key]!), `${language} ${key}`);
        for (const [, forms] of message.matchAll(/\{\w+:([^}]*)\}/g)) assert.equal(forms!.split("|").length, FORMS[language], `${language} ${key}`);
      }
    }
  });
}

test("the page and the laboratory have messages in the languages that can be selected", () => {
  const codes = LANGUAGE_NAMES.map(([code]) => code).sort();
  for (const languages of [PAGE, LAB]) assert.deepEqual(Object.keys(languages).sort(), codes);
});

test("the options of a list begin with a letter of the same case", () => {
  for (const [language, messages] of Object.entries(PAGE)) {
    for (const option of [messages.themeAuto, messages.themeLight, messages.themeDark]) {
      assert.equal(option[0], option[0]!.toUpperCase(), `${language} ${option}`);
    }
  }
});

test("buttons that remove different things have different labels", () => {
  for (const messages of Object.values(PAGE)) {
    const labels = [messages.clear, messages.remove, messages.glossaryClear, messages.confirmedClear, messages.historyClear];
    assert.equal(new Set(labels).size, labels.length, String(labels));
  }
});

test("page and laboratory have no common keys", () => {
  assert.deepEqual(Object.keys(en).filter((key) => key in pageEn), []);
});

test("the preferred language is the first supported one of the browser, or English", () => {
  assert.equal(preferredLanguage(["fr-FR", "zh-TW", "de"]), "zh");
  assert.equal(preferredLanguage(["fr", "constructor"]), "en");
  setMessages("de", pageDe);
  assert.equal(say("errorBusy", { seconds: 3 }), "Der Server ist ausgelastet. Die Seite versucht es in 3 Sekunden noch einmal.");
  setMessages("en", pageEn);
});

test("messages that arrive after another language was asked for are not used", async () => {
  const folder = (program: string) => `data:text/javascript,${encodeURIComponent(program)}//`; // the file's name is a comment
  const slow = "await new Promise((resolve) => setTimeout(resolve, 20));";
  const messages = "export const messages = { title: 'loaded' };";
  await loadMessages("zh", pageEn, folder(slow + messages));
  assert.deepEqual([currentLanguage(), say("title")], ["zh", "loaded"]);
  const late = loadMessages("pl", pageEn, folder(slow + messages + "// pl"));
  await loadMessages("en", pageEn, "");
  await late;
  assert.deepEqual([currentLanguage(), say("title")], ["en", pageEn.title]);
  const failed = loadMessages("pl", pageEn, folder(`${slow}throw "";`));
  await loadMessages("de", pageEn, folder(messages));
  await failed;
  assert.deepEqual([currentLanguage(), say("title")], ["de", "loaded"]);
  setMessages("en", pageEn);
});

test("plural forms", () => {
  const tokenCount = (language: string, tokens: number) => {
    setMessages(language, LAB[language]!);
    return say("labStatus", { tokens, logp: "−1" }).split(/[,，]/)[0];
  };
  const texts = [1, 2, 5, 12, 22, 25].map((count) => tokenCount("pl", count));
  assert.deepEqual(texts, ["1 token", "2 tokeny", "5 tokenów", "12 tokenów", "22 tokeny", "25 tokenów"]);
  assert.deepEqual([tokenCount("zh", 1), tokenCount("zh", 2), tokenCount("es", 1), tokenCount("es", 2)], ["1 个子词", "2 个子词", "1 token", "2 tokens"]);
  assert.deepEqual([tokenCount("en", 0), tokenCount("en", 1)], ["0 tokens", "1 token"]);
});
