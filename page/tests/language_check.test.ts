import assert from "node:assert/strict";
import test from "node:test";

import type { Detection } from "../src/api";
import { LanguageCheck } from "../src/language_check";
import type { SourceLanguage } from "../src/languages";
import { RequestError } from "../src/problem";

const LONG = "Guten Tag, wie geht es Ihnen heute?";
const { signal } = new AbortController();

const languageOf = (code: string, isDetected = true): SourceLanguage => ({ code, name: code, isDetected });

/** Return what the check says of a text if the server detects this, and the number of requests. */
async function check(text: string, source: string, detection: Detection | null): Promise<[string | null | undefined, number]> {
  let requests = 0;
  const other = await new LanguageCheck({ detect: async () => (requests++, detection) }).otherLanguage(text, languageOf(source), signal);
  return [other, requests];
}

test("another language is reported only for texts of some length, if it is certain", async () => {
  const german = { code: "de", confidence: 1 };
  assert.deepEqual(await check(LONG, "en", german), ["de", 1]);
  assert.deepEqual(await check(LONG, "en", null), [null, 1]);
  assert.deepEqual(await check("你好，你今天过得怎么样？", "en", { code: "zh", confidence: 1 }), ["zh", 1]);
  assert.deepEqual(await check(LONG, "en", { code: "de", confidence: 0.9 }), [undefined, 1]);
  for (const short of ["", "Hamburg Altona", "1234567890 1234567890 1234567890"]) {
    assert.deepEqual(await check(short, "en", german), [undefined, 0]);
  }
});

test("a text in the selected language is not reported, whatever the form of its code", async () => {
  for (const source of ["de", "de-AT", "deu_Latn"]) assert.equal((await check(LONG, source, { code: "de", confidence: 1 }))[0], undefined);
});

test("texts are not examined if the server does not detect the selected language", async () => {
  const detect = async () => { throw new Error("a request was sent"); };
  assert.equal(await new LanguageCheck({ detect }).otherLanguage(LONG, languageOf("csb", false), signal), undefined);
});

test("a growing text in the selected language is seldom examined again", async () => {
  const samples: string[] = [];
  const growing = new LanguageCheck({ detect: async (text) => (samples.push(text), { code: "de", confidence: 1 }) });
  for (let length = 1; length <= 400; length++) await growing.otherLanguage("Guten Tag ".repeat(40).slice(0, length), languageOf("de"), signal);
  assert.ok(samples.length >= 2 && samples.length <= 7, samples.map((sample) => sample.length).join(" "));
});

test("a text is not reported if the server cannot examine it", async () => {
  const problem = { key: "errorNetwork", values: {}, canRetry: true } as const;
  const failing = new LanguageCheck({ detect: async () => { throw new RequestError(problem); } });
  assert.equal(await failing.otherLanguage(LONG, languageOf("en"), signal), undefined);
});
