import assert from "node:assert/strict";
import test from "node:test";

import { mergePairs, type Pair, readPairs, writePairs } from "../src/glossary_file";
import { below, text, times } from "./random";

const term = () => text(8).replace(/\s+/g, " ").trim() || "x";

test("pairs round-trip as TSV", () => {
  times(300, () => {
    const pairs = Array.from({ length: 1 + below(5) }, (): Pair => [term(), term()]);
    assert.deepEqual(readPairs(writePairs(pairs)), { pairs, bad: [] });
  });
});

test("quoted CSV", () => {
  times(300, () => {
    const pairs = Array.from({ length: 1 + below(5) }, (): Pair => [`${text(6)}x`.trim(), `${text(6)}y`.trim()]);
    const quoted = (cell: string) => `"${cell.replaceAll('"', '""')}"`;
    const file = "a,b\n" + pairs.map((pair) => pair.map(quoted).join(",")).join("\n");
    assert.deepEqual(readPairs(file).pairs, [["a", "b"], ...pairs]);
  });
});

test("semicolons, byte order marks, further columns and lines without a pair", () => {
  assert.deepEqual(readPairs("\uFEFFcar;Auto;noun\r\n\r\nonly\r\ndog;Hund\r\n"), {
    pairs: [["car", "Auto"], ["dog", "Hund"]],
    bad: [3],
  });
});

test("later pairs replace earlier ones", () => {
  assert.deepEqual(mergePairs([["a", "1"], ["b", "2"]], [["a", "3"]]), [["a", "3"], ["b", "2"]]);
});
