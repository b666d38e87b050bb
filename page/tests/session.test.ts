import assert from "node:assert/strict";
import test from "node:test";

import type { Api, RequestSettings, ServerTranslation } from "../src/api";
import type { ChoicePart } from "../src/choices";
import { overlaps } from "../src/doubts";
import type { Pair } from "../src/glossary_file";
import type { Memory } from "../src/memories";
import { RequestError, unreachable } from "../src/problem";
import { usesOf } from "../src/sentences";
import { type Line, Session } from "../src/session";
import { splitWords } from "../src/words";

const SETTINGS: RequestSettings = { source: "en", target: "de", beam: 5, glossary: [["a", "b"]], memory: null }; // a glossary prevents streaming
const soon = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** A server that translates into capitals when `answer` is called. */
class Capitals {
  requests: string[][] = [];
  private waiting: Array<() => void> = [];

  translate(texts: readonly string[], _: RequestSettings, options: { prefix?: string }, signal?: AbortSignal): Promise<ServerTranslation[]> {
    this.requests.push([...texts]);
    return new Promise((resolve, reject) => {
      const answer = () => resolve(texts.map((text) => ({ text: (options.prefix ?? "") + text.toUpperCase() })));
      this.waiting.push(answer);
      signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    });
  }

  async answer(): Promise<void> {
    for (const answer of this.waiting.splice(0)) answer();
    await soon();
  }
}

function session(server: unknown, failed: (problem: unknown) => void = () => {}): Session {
  return new Session(server as Api, { changed: () => {}, progressed: () => {}, detected: () => {}, failed });
}

/** Return a session in which the text "first" has been translated, and its server. */
async function translatedSession(): Promise<{ server: Capitals; lines: Session }> {
  const server = new Capitals();
  const lines = session(server);
  void lines.update("first", SETTINGS, 0);
  await soon();
  await server.answer();
  return { server, lines };
}

test("lines interrupted by a forced prefix are translated afterwards", async () => {
  const { server, lines } = await translatedSession();
  void lines.update("first\nsecond", SETTINGS, 0);
  await soon();
  void lines.force(lines.lines[0]!, 0, "so ", false);
  await soon();
  await server.answer();
  await soon();
  await server.answer();
  assert.deepEqual(server.requests, [["first"], ["second"], ["first"], ["second"]]);
  assert.equal(lines.text(), "so FIRST\nSECOND");
  assert.ok(lines.isDone());
});

test("a corrected sentence is final, even if the model would continue it", async () => {
  const { server, lines } = await translatedSession();
  void lines.force(lines.lines[0]!, 0, "my words", true, true);
  await soon();
  await server.answer();
  assert.equal(lines.text(), "my words");
  const others = lines.nbestTranslations(lines.lines[0]!, 0, true);
  await server.answer();
  assert.deepEqual((await others).map(({ text }) => text), ["FIRST"]);
});

test("forcing a text tells whether it succeeded", async () => {
  const { server, lines } = await translatedSession();
  const force = () => lines.force(lines.lines[0]!, 0, "my words", true, true);
  const superseded = force();
  void lines.update("first", { ...SETTINGS, target: "pl" }, 0); // the old translation stays until there is a new one
  assert.equal(await superseded, false);
  await soon();
  await server.answer();
  const succeeded = force();
  await server.answer();
  assert.equal(await succeeded, true);
  server.translate = () => Promise.reject(new RequestError(unreachable()));
  assert.equal(await force(), false);
});

test("other translations begin with the words that the reader has typed, and neither lengthen them nor repeat a mark unless all do", async () => {
  const endings = ["wagen fährt.", " fährt.", " fuhr."];
  const server = {
    translate: (texts: string[], _: RequestSettings, { prefix }: { prefix?: string }): Promise<ServerTranslation[]> => {
      const [text, ...others] = prefix === undefined ? ["Das Auto fährt.", "Ein Auto fährt."] : endings.map((ending) => prefix + ending);
      return Promise.resolve(texts.map(() => ({ text: text!, alternatives: others.map((other) => ({ text: other })) })));
    },
  };
  const lines = session(server);
  const others = async () => (await lines.nbestTranslations(lines.lines[0]!, 0, true)).map(({ text }) => text);
  await lines.update("A car.", SETTINGS, 0);
  await lines.force(lines.lines[0]!, 0, "Das Rot", true);
  assert.equal(lines.text(), "Das Rot fährt.");
  assert.deepEqual(await others(), ["Das Rot fährt.", "Das Rot fuhr."]);
  await lines.force(lines.lines[0]!, 0, "Ein Wagen.", true, true);
  assert.equal(lines.text(), "Ein Wagen.");
  assert.deepEqual(await others(), ["Das Auto fährt.", "Ein Auto fährt."]); // those of the sentence
  endings.splice(1);
  await lines.force(lines.lines[0]!, 0, "Das Rot", true);
  assert.equal(lines.text(), "Das Rotwagen fährt.");
  endings.splice(0, 1, " fährt..", " fährt.", " fährt!");
  await lines.force(lines.lines[0]!, 0, "Das Rad", true);
  assert.equal(lines.text(), "Das Rad fährt.");
  assert.deepEqual(await others(), ["Das Rad fährt.", "Das Rad fährt!"]);
});

test("what the reader has chosen and typed is known until the text before it is chosen again", async () => {
  const lines = session({ translate: (texts: string[], _: RequestSettings, { prefix = "Der" }: { prefix?: string }) => Promise.resolve(texts.map(() => ({ text: `${prefix} Hund schläft.` }))) });
  const parts = () => lines.lines[0]!.choiceParts!.map(({ span, isTyped }) => [lines.text().slice(...span).trim(), isTyped]);
  await lines.update("A dog.", SETTINGS, 0);
  await lines.force(lines.lines[0]!, 0, "Mein", false);
  assert.deepEqual(parts(), [["Mein", false]]);
  await lines.force(lines.lines[0]!, 0, "Mein treuer", true);
  assert.deepEqual(parts(), [["Mein", false], ["treuer", true]]);
  await lines.force(lines.lines[0]!, 0, "Mein treuer Hund bellt", false);
  assert.deepEqual(parts(), [["Mein", false], ["treuer", true], ["bellt", false]]);
  await lines.force(lines.lines[0]!, 0, "Mein treuer Hund und Freund", true);
  const all = [["Mein", false], ["treuer", true], ["und Freund", true]];
  assert.deepEqual(parts(), all);
  await lines.force(lines.lines[0]!, 0, lines.text(), false, true); // confirmed as it is
  assert.deepEqual(parts(), all);
  await lines.force(lines.lines[0]!, 0, "Mein treuer Hund und Freund", true); // typed again
  assert.deepEqual(parts(), all);
  await lines.force(lines.lines[0]!, 0, "Ein", false);
  assert.deepEqual(parts(), [["Ein", false]]);
});

test("of another translation, the words that differ are chosen, or those around what it leaves out", async () => {
  for (const [before, after, expected] of [
    ["Der Hund schläft.", "Der Hund ruht.", ["ruht"]],
    ["Ein roter Apfel.", "Ein kleiner roter Apfel.", ["kleiner"]],
    ["Der Hund schläft tief.", "Der Hund schläft.", ["schläft"]],
    ["Ein roter Apfel.", "Ein Apfel.", ["Apfel"]],
    ["狗在睡觉。", "狗睡觉。", ["狗", "睡觉"]],
  ] as const) {
    const lines = session({ translate: (texts: string[]) => Promise.resolve(texts.map(() => ({ text: before }))) });
    await lines.update("A text.", SETTINGS, 0);
    await lines.choose(lines.lines[0]!, 0, { text: after });
    assert.equal(lines.text(), after);
    const [{ span, isTyped }] = lines.lines[0]!.choiceParts as [ChoicePart];
    const words = splitWords(after, "").filter(({ text, start, isWord }) => isWord && overlaps(span, [start, start + text.length]));
    assert.deepEqual([words.map(({ text }) => text), isTyped], [expected, false]);
  }
});

test("what another translation leaves out is requested, with the glossary; the translation stays if the server has another", async () => {
  const requests: unknown[] = [];
  const other = { text: "EIN HUND.", words: [{ text: "EIN", probability: 0.1, mean: 0.1 }, { text: "HUND.", probability: 0.9, mean: 0.9 }] };
  const described = { ...other, warnings: ["not translated: 'red'"] };
  let answer: ServerTranslation = described;
  const server = {
    translate: (texts: string[], _: RequestSettings, { prefix }: { prefix?: string }) => {
      requests.push(prefix);
      return Promise.resolve(texts.map(() => (prefix === undefined ? { text: "DER HUND." } : answer)));
    },
  };
  for (const [reply, warnings] of [[described, described.warnings], [{ text: "EIN HUND. ROT." }, []]] as const) {
    answer = reply as ServerTranslation;
    const lines = session(server);
    await lines.update("A red dog.", SETTINGS, 0);
    const chosen = lines.choose(lines.lines[0]!, 0, other);
    assert.equal(lines.text(), other.text); // before the server answers
    await chosen;
    assert.equal(lines.text(), other.text);
    assert.deepEqual(lines.lines[0]!.translation!.warnings, warnings);
  }
  assert.deepEqual(requests, [undefined, other.text, undefined, other.text]);
});

/** A server that translates sentences, which end in a full stop, into capitals at once. */
const sentences = {
  translate: (texts: readonly string[], { glossary }: RequestSettings, { prefix = "" }: { prefix?: string }): Promise<ServerTranslation[]> =>
    Promise.resolve(texts.map((source) => {
      const parts = source.match(/[^.]+\./g)!.map((part) => part.trim());
      const targets = parts.map((part) => prefix + part.toUpperCase() + glossary[0]![1]);
      const pieces = (items: string[]) => items.flatMap((item, index) => [...(index ? ["</s>"] : []), ...item.split(" ").map((word) => `▁${word}`)]);
      return { text: targets.join(" "), tokens: pieces(targets), source_tokens: pieces(parts) };
    })),
};

test("a choice is kept while the text around its sentence and the settings change, until it is undone", async () => {
  const lines = session(sentences);
  const other: RequestSettings = { ...SETTINGS, glossary: [["a", "c"]] };
  await lines.update("a man. a dog.", SETTINGS, 0);
  await lines.force(lines.lines[0]!, 1, "so ", false);
  await lines.choose(lines.lines[0]!, 0, { text: "ONE MANb", tokens: ["▁ONE", "▁MANb"] });
  assert.equal(lines.text(), "ONE MANb so A DOG.b");
  assert.deepEqual(lines.lines[0]!.choiceParts?.map(({ span }) => span), [[0, 7], [9, 12]]);
  await lines.update("a cat. a dog. a man.", SETTINGS, 0);
  assert.equal(lines.text(), "A CAT.b so A DOG.b ONE MANb");
  await lines.update("a man. a dog.", other, 0);
  assert.equal(lines.text(), "ONE MANb so A DOG.c"); // only the model's part has other terms
  const restored = session(sentences);
  restored.restore({ ...other, choices: lines.choicePairs() });
  await restored.update("a man. a dog.", SETTINGS, 0);
  assert.equal(restored.text(), lines.text());
  assert.deepEqual(restored.lines[0]!.choiceParts?.map(({ span, isTyped }) => [span, isTyped]), [[[0, 8], true], [[9, 19], true]]); // it may be typed
  await lines.reset(lines.lines[0]!, 0);
  assert.equal(lines.text(), "A MAN.c so A DOG.c");
});

test("confirmed translations are used for the same sentences, until one goes back to the model's or removes them", async () => {
  let pairs: Pair[] = [["a dog.", "Ein Hund."]];
  const lines = new Session(sentences as Api, { changed: () => {}, progressed: () => {}, detected: () => {}, failed: () => {} }, (source, target) => (source === "en" && target === "de" ? pairs : []));
  const settings: RequestSettings = { ...SETTINGS, glossary: [["a", ""]] };
  await lines.update("a man. a dog.\n a dog. ", settings, 0);
  assert.equal(lines.text(), "A MAN. Ein Hund.\nEin Hund.");
  assert.deepEqual(lines.choicePairs().map(([, text]) => text), ["Ein Hund.", "Ein Hund."]);
  await lines.update("a dog. a cat.", { ...settings, source: "pl" }, 0);
  assert.equal(lines.text(), "A DOG. A CAT.");
  await lines.update("a dog. a cat.", settings, 0);
  await lines.reset(lines.lines[0]!, 0);
  assert.equal(lines.text(), "A DOG. A CAT.");
  lines.forget(["a dog."]);
  await lines.update("a dog.", settings, 0);
  assert.equal(lines.text(), "Ein Hund.");
  pairs = [];
  lines.forget(["a dog."]);
  await lines.update("a dog.", settings, 0);
  assert.equal(lines.text(), "A DOG.");
});

test("terms that a confirmed or remembered translation lacks are missing, those of the model's part are not", async () => {
  const pairs: Pair[] = [["a dog.", "Ein Hund."]];
  const lines = new Session(sentences as Api, { changed: () => {}, progressed: () => {}, detected: () => {}, failed: () => {} }, () => pairs);
  const missing = () => lines.lines[0]!.missingTerms?.map(({ span, target }) => [lines.lines[0]!.source.slice(...span), span[0], target]);
  const settings: RequestSettings = { ...SETTINGS, glossary: [["dog", "Köter"], ["man", "Kerl"]] };
  await lines.update("a man. a dog.", settings, 0);
  assert.equal(lines.text(), "A MAN.Köter Ein Hund.");
  assert.deepEqual(missing(), [["dog", 9, "Köter"]]);
  await lines.reset(lines.lines[0]!, 1);
  assert.equal(missing(), undefined);
  await lines.force(lines.lines[0]!, 1, "So ", false);
  assert.equal(missing(), undefined);
  await lines.force(lines.lines[0]!, 1, "Ein Köter.", true, true);
  assert.equal(missing(), undefined);
  const translations = async (texts: string[], __: RequestSettings, { memory }: { memory?: string }) =>
    texts.map((text) => (memory ? { text: "Ein Hund.", memory: [{ source: text, target: "Ein Hund.", score: 100, used: "verbatim" }] } : { text: "EIN KÖTER." }));
  const remembering = session({ translate: translations });
  await remembering.update("a dog.", { ...settings, memory: MEMORY }, 0);
  assert.deepEqual(remembering.lines[0]!.missingTerms, [{ span: [2, 5], target: "Köter" }]);
});

const MEMORY: Memory = { id: "7", name: "Letters", source: "en-GB", target: "de", pairs: 1, shared: false };

test("a memory is sent with lines if it is for their language, but not for other translations", async () => {
  const sent: unknown[] = [];
  const server = {
    translate: (texts: string[], _: RequestSettings, options: { memory?: string }) => {
      sent.push(options.memory);
      const memory = options.memory ? [{ source: texts[0], target: "Hallo", score: 100, used: "verbatim" }] : [];
      return Promise.resolve([{ text: options.memory ? "Hallo" : "Guten Tag", memory }]);
    },
  };
  const lines = new Session(server as unknown as Api, { changed: () => {}, progressed: () => {}, detected: () => {}, failed: () => {} }, (source) => (source === "en" ? [["hello", "Servus"]] : []));
  await lines.update("hello", { ...SETTINGS, memory: MEMORY }, 0);
  assert.equal(lines.text(), "Hallo"); // not the confirmed translation
  assert.deepEqual(lines.lines[0]!.translation!.tokens, ["▁Hallo"]);
  assert.deepEqual((await lines.nbestTranslations(lines.lines[0]!, 0, true)).map(({ text }) => text), ["Guten Tag"]);
  await lines.update("hello", { ...SETTINGS, source: "pl", memory: MEMORY }, 0);
  assert.deepEqual(sent, ["7", undefined, undefined]);
});

test("lines are translated again when a memory gains pairs; the choices for other sentences are kept", async () => {
  const server = new Capitals();
  const lines = session(server);
  void lines.update("first\nsecond\nthird", SETTINGS, 0);
  await soon();
  await server.answer();
  for (const index of [0, 1]) {
    void lines.force(lines.lines[index]!, 0, "so ", false);
    await soon();
    await server.answer();
  }
  void lines.refresh("second", { ...SETTINGS, memory: MEMORY });
  await soon();
  await server.answer();
  assert.equal(lines.text(), "so FIRST\nSECOND\nTHIRD");
  assert.deepEqual(server.requests.at(-1), ["first", "second", "third"]);
});

test("choices for sentences are kept next to sentences from a memory", async () => {
  const pair = { source: "A dog.", target: "Ein Hund." };
  const server = {
    translate: async (texts: string[], settings: RequestSettings, options: { memory?: string; prefix?: string }) => {
      const made = await sentences.translate(texts, settings, options);
      if (!options.memory) return made;
      const memory = [{ ...pair, score: 100, used: "verbatim" as const }];
      return made.map(({ text }) => ({ text: text.replace("A DOG.", pair.target), tokens: ["▁A", "▁MAN.b"], source_tokens: ["▁A", "▁man."], memory }));
    },
  };
  const lines = session(server);
  const plain: RequestSettings = { ...SETTINGS, glossary: [["a", ""]] };
  await lines.update("A man. A dog.", plain, 0);
  await lines.force(lines.lines[0]!, 0, "So ", false);
  await lines.force(lines.lines[0]!, 1, pair.target, true, true);
  assert.equal(lines.text(), "So A MAN. Ein Hund.");
  await lines.refresh("A dog.", { ...plain, memory: MEMORY });
  assert.equal(lines.text(), "So A MAN. Ein Hund.");
  const [{ source, translation, choiceParts }] = lines.lines as [Line];
  assert.deepEqual(choiceParts?.map(({ span }) => span), [[0, 3]]);
  assert.deepEqual([0, 1].map((index) => usesOf(source, translation!, index).length), [0, 1]);
  await lines.reset(lines.lines[0]!, 0);
  assert.equal(lines.text(), "A MAN. Ein Hund.");
});

test("the share of a text grows with each sentence, and does not fall when more become known", async () => {
  const long = "A sentence. ".repeat(50).trim();
  const sent: string[][] = [];
  const server = {
    translate: (texts: string[], _: RequestSettings, __: unknown, ___: AbortSignal, onShare?: (share: number) => void) => {
      if (!onShare) sent.push(texts);
      for (const share of [0, 0.5, 0.25, 1]) onShare?.(share);
      return Promise.resolve(texts.map((text) => ({ text })));
    },
  };
  const shares: number[] = [];
  const lines = new Session(server as unknown as Api, { changed: () => {}, progressed: (share) => shares.push(share), detected: () => {}, failed: () => {} });
  await lines.update(long, SETTINGS, 0);
  assert.deepEqual(shares, [0, 0.5, 0.5, 1]);
  assert.equal(lines.share(), 1);
  await lines.update(`${long}\n${long}!`, SETTINGS, 0);
  assert.ok(shares.slice(4).every((share) => share > 0.499), String(shares)); // the first line is known
  await lines.update("A short text.", SETTINGS, 0);
  assert.deepEqual(sent, [["A short text."]]);
});

test("the end of the translation is reported once", async () => {
  const states: boolean[] = [];
  const server = { translate: (texts: string[]) => Promise.resolve(texts.map((text) => ({ text }))) };
  const lines = new Session(server as unknown as Api, { changed: (_, isWorking) => states.push(isWorking), progressed: () => {}, detected: () => {}, failed: () => {} });
  await lines.update(Array.from({ length: 20 }, (_, index) => `line ${index}`).join("\n"), SETTINGS, 0); // two batches
  assert.deepEqual(states, [true, true, true, false]);
});

test("problems are reported, except those of aborted requests", async () => {
  const problems: unknown[] = [];
  const broken = { translate: () => Promise.reject(new RequestError(unreachable())) };
  const lines = session(broken, (problem) => problems.push(problem));
  await lines.update("first", SETTINGS, 0);
  assert.deepEqual(problems, [null, unreachable()]);
  void lines.update("second", SETTINGS, 1000);
  void lines.update("", SETTINGS, 0);
  await soon();
  assert.deepEqual(problems, [null, unreachable(), null, null]);
});

test("the displayed translation is the draft of a growing line only", async () => {
  const drafts: unknown[] = [];
  const streamed: string[] = [];
  const server = {
    stream(text: string, _: RequestSettings, grown: (text: string) => void): Promise<void> {
      streamed.push(text);
      grown(text.toUpperCase());
      return Promise.resolve();
    },
    translate(texts: readonly string[], _: RequestSettings, options: { draft?: string[] }): Promise<ServerTranslation[]> {
      if (options.draft) drafts.push(...options.draft);
      return Promise.resolve(texts.map((text) => ({ text: text.toUpperCase() })));
    },
  };
  const settings = { ...SETTINGS, glossary: [] };
  const lines = session(server);
  for (const text of ["a man", "a man sleeps", "a man", "other words"]) await lines.update(text, settings, 0);
  assert.deepEqual(drafts, ["A MAN"]);
  assert.deepEqual(streamed, ["a man", "other words"]);
  void lines.update("other words and", settings, 1000); // the displayed translation is of a prefix
  await lines.update("other words and more", settings, 0);
  assert.deepEqual(drafts, ["A MAN", "OTHER WORDS"]);
  void lines.update("new", settings, 1000); // the displayed translation is of another text
  await lines.update("new text", settings, 0);
  assert.deepEqual(streamed.at(-1), "new text");
});
