import assert from "node:assert/strict";
import test from "node:test";

import { Api, type Asked } from "../src/api";
import { isAborted, Refused } from "../src/problem";

const ASKED: Asked = { source: "en", target: "de", glossary: [] };

/** What comes of a stream whose connection ends so, after a first piece. */
async function broken(end: unknown, signal: AbortSignal): Promise<{ grown: string[]; error: unknown }> {
  const first = new TextEncoder().encode('event: piece\ndata: {"text": "Ein"}\n\n');
  let begun = false;
  const body = new ReadableStream({
    pull(controller) {
      if (begun) controller.error(end);
      else controller.enqueue(first);
      begun = true;
    },
  });
  globalThis.fetch = () => Promise.resolve(new Response(body));
  const grown: string[] = [];
  const error = await new Api().stream("a", ASKED, (text) => grown.push(text), signal).catch((one: unknown) => one);
  return { grown, error };
}

test("a stream that breaks off is a problem that the reader is told of", async () => {
  const { grown, error } = await broken(new TypeError("network error"), new AbortController().signal);
  assert.deepEqual(grown, ["Ein"]);
  assert.ok(error instanceof Refused && error.problem.key === "errorNetwork");
});

test("a stream that nobody wants any longer is none", async () => {
  const { error } = await broken(new DOMException("", "AbortError"), AbortSignal.abort());
  assert.ok(isAborted(error));
});
