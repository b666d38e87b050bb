import assert from "node:assert/strict";
import test from "node:test";

import { translatedName } from "../src/document_name";
import { AUTO, direction, hasPair, nameOf, type AvailableLanguages, resolvePair, swapPair, availableTargets } from "../src/languages";
import { batchesOf, isBlank, linesOf, missingLines, LruCache, matchStreamedLines } from "../src/lines";
import { toProblem, parseError } from "../src/problem";
import { fromFragment, toFragment } from "../src/share";
import { type Entry, readGlossary, readHistory, readSettings, addEntry } from "../src/store";
import { below, text, times } from "./random";

const CODES = ["en", "de", "fr", "ar", "zho_Hant"];
const language = (code: string) => ({ code, name: code });

function randomModels(): AvailableLanguages {
  const allPairs = CODES.flatMap((source) => CODES.filter((target) => target !== source).map((target) => [source, target] as const));
  const pairs = allPairs.filter(() => below(3) === 0);
  if (!pairs.length) pairs.push(["en", "de"]);
  const sources = [...new Set(pairs.map(([source]) => source))].map((code) => ({ ...language(code), isDetected: true }));
  const targets = [...new Set(pairs.map(([, two]) => two))].map(language);
  return { sources, targets, pairs, detects: sources.length > 1, remembers: false };
}

test("resolvePair returns an available pair, and keeps an available one", () => {
  times(300, () => {
    const models = randomModels();
    const [source, target] = [[...CODES, AUTO, "?"][below(7)]!, [...CODES, "?"][below(6)]!];
    const [reader, detected] = [CODES[below(5)]!, [...CODES, undefined][below(6)]];
    const pair = resolvePair(models, { source, target }, reader, detected);
    if (pair.source === AUTO) assert.ok(models.detects && models.targets.some((language) => language.code === pair.target));
    else assert.ok(hasPair(models, pair.source, pair.target));
    const expected = [detected, reader].find((code) => models.sources.some((language) => language.code === code));
    if (pair.source === AUTO && pair.target !== target && expected) {
      assert.ok(hasPair(models, expected, pair.target));
      assert.ok(pair.target === reader || !hasPair(models, expected, reader));
    }
    if (hasPair(models, source, target)) assert.deepEqual(pair, { source, target });
    assert.deepEqual(resolvePair(models, pair), pair);
    const back = swapPair(models, { source, target });
    if (back) assert.ok(hasPair(models, back.source, back.target));
    assert.ok(availableTargets(models, pair.source).some((language) => language.code === pair.target));
  });
});

test("directions and names of languages", () => {
  assert.deepEqual(["ar", "he", "en", "arb_Arab", "az-Arab", "zh", "ur"].map(direction), ["rtl", "rtl", "ltr", "rtl", "rtl", "ltr", "rtl"]);
  assert.equal(nameOf({ code: "de", name: "German" }, "pl"), "niemiecki");
  assert.equal(nameOf({ code: "x?", name: "Own" }, "pl"), "Own");
});

test("streamed lines are matched to the requested lines", () => {
  times(300, () => {
    const lines = linesOf(text(40));
    assert.equal(lines.join("\n").split("\n").length, lines.length);
    const known = new Set(lines.filter(() => below(2)));
    const open = missingLines(lines, (line) => known.has(line));
    assert.equal(new Set(open).size, open.length);
    for (const line of lines) assert.equal(open.includes(line), !known.has(line) && !isBlank(line));
    const translations = open.map((line) => line.toUpperCase());
    assert.deepEqual([...matchStreamedLines(open, translations.join("\n"))], open.map((line, index) => [line, translations[index]]));
  });
});

test("batches keep all lines in order, and exceed the limits only by one long line", () => {
  times(100, () => {
    const lines = Array.from({ length: below(30) }, () => text(40));
    const batches = batchesOf(lines, 5, 60);
    assert.deepEqual(batches.flat(), lines);
    for (const batch of batches) assert.ok(batch.length === 1 || (batch.length <= 5 && batch.join("").length <= 60));
    batches.slice(1).forEach(([first], index) => assert.ok(batches[index]!.length === 5 || `${batches[index]!.join("")}${first}`.length > 60));
  });
});

test("LruCache keeps the most recently used entries", () => {
  const cache = new LruCache<number>(2);
  cache.set("a", 1);
  cache.set("b", 2);
  cache.get("a");
  cache.set("c", 3);
  assert.deepEqual([cache.get("a"), cache.get("b"), cache.get("c")], [1, undefined, 3]);
});

test("fragments round-trip", () => {
  times(200, () => {
    const shared = { source: "en", target: "zho_Hant", text: `${text(30)}x` };
    assert.deepEqual(fromFragment(toFragment(shared)), shared);
  });
  assert.deepEqual(fromFragment("#%E0%A4%A"), {});
});

test("error responses become problems", () => {
  const meaning = (status: number, body: unknown, retry: string | null = null, hasKey = false, path = "") =>
    toProblem(parseError(status, body, retry), { from: "en", to: "fr", path, hasKey });
  const error = (code: string, parameter = "") => ({ error: { code, message: "m", parameter } });
  assert.equal(meaning(401, null).key, "errorKey");
  assert.equal(meaning(403, null, null, true).key, "errorKeyWrong");
  assert.equal(meaning(403, error("quota_exceeded"), null, true).key, "errorQuota");
  assert.equal(meaning(403, error("wrong_origin")).key, "errorOrigin");
  assert.equal(meaning(403, error("another_reason")).key, "errorOther");
  assert.equal(meaning(413, error("text_too_large")).key, "errorLong");
  assert.deepEqual(meaning(429, null, "7").retrySeconds, 7);
  assert.deepEqual(meaning(503, error("busy"), "1000").retrySeconds, 60);
  assert.equal(meaning(503, error("model_unavailable"), "30").retrySeconds, undefined);
  assert.deepEqual(meaning(400, error("unsupported_languages")).values, { from: "en", to: "fr" });
  assert.deepEqual([meaning(400, error("equal_languages"))].map(({ key, values }) => [key, values]), [["errorSame", { to: "fr" }]]);
  assert.equal(meaning(400, error("invalid_text", "glossary")).key, "errorGlossary");
  assert.equal(meaning(400, error("invalid_text"), null, false, "v1/translate").key, "errorGlossary");
  assert.equal(meaning(400, error("invalid_text"), null, false, "v1/inside").key, "errorOther");
  assert.equal(meaning(400, error("invalid_entries", "entries"), null, false, "v1/glossaries").key, "errorGlossary");
  assert.equal(meaning(400, error("unknown_language")).key, "errorTextLanguage");
  assert.equal(meaning(404, error("not_found"), null, false, "v1/translate").key, "errorMemory");
  assert.equal(meaning(500, "<html>").key, "errorServer");
  const internal = { error: { code: "internal_error", message: "m", request_id: "5f" } };
  assert.deepEqual([meaning(500, internal).key, meaning(500, internal).values], ["errorInternal", { number: "5f" }]);
  assert.equal(meaning(500, error("busy")).retrySeconds, 2); // in a stream
  assert.equal(meaning(501, null, null, false, "v1/documents/x").key, "errorDocuments");
  const documents = "v1/documents";
  assert.equal(meaning(400, error("unsupported_format", "file"), null, false, documents).key, "errorFormat");
  assert.equal(meaning(413, error("body_too_large"), null, false, documents).key, "errorFileLarge");
  assert.equal(meaning(400, error("unknown_language", "source"), null, false, documents).key, "errorLanguage");
  assert.equal(meaning(403, error("quota_exceeded"), null, true, documents).key, "errorDocumentQuota");
  assert.equal(meaning(404, error("not_found"), null, false, documents).key, "errorMemory"); // or a glossary
  assert.equal(meaning(404, error("not_found"), null, false, `${documents}/x/result`).key, "errorDocumentGone");
  const unreadable = (code: string) => meaning(400, { error: { code, message: "line 3" } }, null, false, documents);
  assert.deepEqual([unreadable("invalid_text").key, unreadable("invalid_text").detail], ["errorUnreadable", "line 3."]);
  assert.deepEqual([unreadable("damaged_file").key, unreadable("damaged_file").detail], ["errorUnreadable", undefined]);
  assert.deepEqual(meaning(400, { error: "plain words" }).values, { detail: "plain words." });
});

test("history: a growing text is one entry, the newest is first, without duplicates", () => {
  times(100, () => {
    let history: Entry[] = [];
    for (let index = 0; index < 20; index++) {
      const entry = { time: index * 40_000, source: "en", target: "de", text: text(3), translation: "t", choices: [] };
      history = addEntry(history, entry);
      assert.deepEqual(history[0], entry);
    }
    assert.equal(new Set(history.map((entry) => entry.text)).size, history.length);
  });
  const entry = (time: number, text: string): Entry => ({ time, source: "en", target: "de", text, translation: "", choices: [] });
  const grown = addEntry(addEntry([], entry(0, "I am")), entry(1, "I am here"));
  assert.deepEqual(grown.map((entry) => entry.text), ["I am here"]);
});

test("invalid stored data is ignored", () => {
  for (const stored of [null, 3, "x", [], {}, { theme: 4, page: "de" }, { theme: "pink" }]) {
    const settings = readSettings(stored);
    assert.equal(settings.theme, "auto");
    assert.equal(typeof settings.marksUnsure, "boolean");
  }
  assert.deepEqual(readHistory([{ time: 1 }, null, 4]), []);
  const entry = { time: 1, source: "en", target: "de", text: "a", translation: "b" };
  assert.deepEqual(readHistory([entry, { ...entry, choices: [["a", "b"], 3] }]).map(({ choices }) => choices), [[], [["a", "b"]]]);
  assert.deepEqual(readGlossary([["a", "b"], ["a"], "ab", null]), [["a", "b"]]);
});

test("file names of translated documents contain the language", () => {
  assert.deepEqual(["a.docx", "a.b.srt", ".env", "LIESMICH"].map((name) => translatedName(name, "de")), ["a.de.docx", "a.b.de.srt", ".env.de", "LIESMICH.de"]);
});
