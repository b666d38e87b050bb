import assert from "node:assert/strict";
import test from "node:test";

import type { Api, RequestSettings, ServerTranslation } from "../src/api";
import { RequestError, unreachable } from "../src/problem";
import { Session } from "../src/session";

const ASKED: RequestSettings = { source: "en", target: "de", glossary: [["a", "b"]] }; // a glossary prevents streaming
const soon = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** A server that translates into capitals when `answer` is called. */
class Capitals {
  asked: string[][] = [];
  private waiting: Array<() => void> = [];

  translate(texts: readonly string[], _: RequestSettings, options: { prefix?: string }, signal: AbortSignal): Promise<ServerTranslation[]> {
    this.asked.push([...texts]);
    return new Promise((resolve, reject) => {
      const made = () => resolve(texts.map((text) => ({ text: (options.prefix ?? "") + text.toUpperCase() })));
      this.waiting.push(made);
      signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    });
  }

  async answer(): Promise<void> {
    for (const made of this.waiting.splice(0)) made();
    await soon();
  }
}

function session(server: unknown, failed: (problem: unknown) => void = () => {}): Session {
  return new Session(server as Api, { changed: () => {}, detected: () => {}, failed });
}

test("lines interrupted by a forced prefix are translated afterwards", async () => {
  const server = new Capitals();
  const one = session(server);
  void one.update("first", ASKED, 0);
  await soon();
  await server.answer();
  void one.update("first\nsecond", ASKED, 0);
  await soon();
  void one.force(one.lines[0]!, 0, "so ");
  await soon();
  await server.answer();
  await soon();
  await server.answer();
  assert.deepEqual(server.asked, [["first"], ["second"], ["first"], ["second"]]);
  assert.equal(one.text(), "so FIRST\nSECOND");
  assert.ok(one.isDone());
});

test("problems are reported, except of aborted requests", async () => {
  const told: unknown[] = [];
  const broken = { translate: () => Promise.reject(new RequestError(unreachable())) };
  const one = session(broken, (problem) => told.push(problem));
  await one.update("first", ASKED, 0);
  assert.deepEqual(told, [null, unreachable()]);
  void one.update("second", ASKED, 1000);
  void one.update("", ASKED, 0);
  await soon();
  assert.deepEqual(told, [null, unreachable(), null, null]);
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
  const asked = { ...ASKED, glossary: [] };
  const one = session(server);
  for (const text of ["a man", "a man sleeps", "a man", "other words"]) await one.update(text, asked, 0);
  assert.deepEqual(drafts, ["A MAN"]);
  assert.deepEqual(streamed, ["a man", "other words"]);
  void one.update("other words and", asked, 1000); // the displayed translation is of a prefix
  await one.update("other words and more", asked, 0);
  assert.deepEqual(drafts, ["A MAN", "OTHER WORDS"]);
  void one.update("new", asked, 1000); // the displayed translation is of another text
  await one.update("new text", asked, 0);
  assert.deepEqual(streamed.at(-1), "new text");
});
