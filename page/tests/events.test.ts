import assert from "node:assert/strict";
import test from "node:test";

import { EventParser } from "../src/events";
import { below, text, times } from "./random";

test("events do not depend on the chunks of the stream", () => {
  times(300, () => {
    const events = Array.from({ length: 1 + below(4) }, (_, index) => ({ name: `e${index}`, data: JSON.stringify(text(12)) }));
    const end = ["\n", "\r\n"][below(2)]!;
    const stream = events.map(({ name, data }) => [": alive", `event: ${name}`, `data: ${data}`, "", ""].join(end)).join("");
    const parser = new EventParser();
    const parsed = [];
    for (let position = 0; position < stream.length; ) {
      const next = position + 1 + below(5);
      parsed.push(...parser.add(stream.slice(position, next)));
      position = next;
    }
    assert.deepEqual(parsed, events);
  });
});

test("data lines are joined, events without data are ignored, names are optional", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.add("data:a\ndata: b\n\nevent: x\n\ndata\n\n"), [
    { name: "message", data: "a\nb" },
    { name: "message", data: "" },
  ]);
});
