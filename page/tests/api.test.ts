import assert from "node:assert/strict";
import test from "node:test";

import { Api, type RequestSettings } from "../src/api";
import { isAborted, RequestError } from "../src/problem";

const SETTINGS: RequestSettings = { source: "en", target: "de", beam: 5, glossary: [], memory: null };

/** Return the pieces and the error of a stream whose connection fails after the first piece. */
async function broken(end: unknown, signal: AbortSignal): Promise<{ grown: string[]; error: unknown }> {
  const first = new TextEncoder().encode('event: piece\ndata: {"text": "Ein"}\n\n');
  let started = false;
  const body = new ReadableStream({
    pull(controller) {
      if (started) controller.error(end);
      else controller.enqueue(first);
      started = true;
    },
  });
  globalThis.fetch = () => Promise.resolve(new Response(body));
  const grown: string[] = [];
  const error = await new Api().stream("a", SETTINGS, (text) => grown.push(text), signal).catch((reason: unknown) => reason);
  return { grown, error };
}

test("a broken stream is reported as a problem", async () => {
  const { grown, error } = await broken(new TypeError("network error"), new AbortController().signal);
  assert.deepEqual(grown, ["Ein"]);
  assert.ok(error instanceof RequestError && error.problem.key === "errorNetwork");
});

test("an aborted stream is not a problem", async () => {
  const { error } = await broken(new DOMException("", "AbortError"), AbortSignal.abort());
  assert.ok(isAborted(error));
});

/** Translate with progress, where the server sends these events; return what is known of it. */
async function withProgress(events: ReadonlyArray<readonly [name: string, data: unknown]>) {
  let sent: unknown;
  globalThis.fetch = (_, init) => {
    sent = JSON.parse(String(init!.body));
    return Promise.resolve(new Response(events.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("")));
  };
  const shares: number[] = [];
  const pending = new Api().translate(["One. Two."], SETTINGS, { beam: 5 }, undefined, (share) => shares.push(share));
  const { translations, error } = await pending.then((translations) => ({ translations, error: undefined }), (error: unknown) => ({ translations: undefined, error }));
  return { translations, error, shares, sent };
}

test("the share of translated sentences is reported before the translations", async () => {
  const answer = { translations: [{ text: "Eins. Zwei." }], model: "m" };
  const { translations, shares, sent } = await withProgress([["progress", { done: 1, of: 2 }], ["progress", { done: 2, of: 2 }], ["done", answer]]);
  assert.deepEqual([translations, shares], [answer.translations, [0.5, 1]]);
  assert.deepEqual(sent, { text: ["One. Two."], source: "en", target: "de", beam: 5, progress: true });
});

test("a time limit that is exceeded after the first event is reported as such", async () => {
  const { error } = await withProgress([["progress", { done: 1, of: 2 }], ["error", { error: { code: "deadline_exceeded", message: "m" } }]]);
  assert.ok(error instanceof RequestError && error.problem.key === "errorTime");
});

test("a stream that ends without translations is reported as a problem", async () => {
  const { error } = await withProgress([["progress", { done: 1, of: 2 }]]);
  assert.ok(error instanceof RequestError && error.problem.key === "errorNetwork");
});
