/** Any array inside the model as a table: queries, keys, values, scores, weights, contexts, block outputs. */

import { make, options } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import { axesOf, labelsOf } from "./state";
import { numberTable } from "./tables";

const OF_BLOCKS = ["query", "key", "value", "scores", "weights", "context", "attention"];

function names(lab: Lab): string[] {
  const { encoder_layers: encoder, decoder_layers: decoder, decoder_attention: attends } = lab.own.info;
  const layers = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);
  return [
    "encoder.embedding",
    ...layers(encoder).flatMap((layer) => [...OF_BLOCKS, "feed_forward"].map((what) => `encoder.${layer}.${what}`)),
    "encoder.output",
    "decoder.embedding",
    ...layers(decoder).flatMap((layer) => [...(attends ? OF_BLOCKS : ["recurrence"]).map((what) => `decoder.${layer}.${what}`), ...OF_BLOCKS.map((what) => `cross.${layer}.${what}`), `decoder.${layer}.feed_forward`]),
    "decoder.output",
  ];
}

export function numbersTab(lab: Lab): Tab {
  const array = make("select", { attributes: { "aria-label": say("numbersArray") } });
  const head = make("select", { attributes: { "aria-label": say("numbersHead") } });
  const table = make("div");
  array.addEventListener("change", () => void lab.change({ array: array.value }));
  head.addEventListener("change", () => void lab.change({ head: Number(head.value) }));
  return {
    element: make("div", {}, make("div", { class: "lab-bar" }, make("label", {}, `${say("numbersArray")} `, array), make("label", {}, `${say("numbersHead")} `, head)), table),
    wants: (state) => ({ insight: [state.array] }),
    show(made) {
      const { state } = lab;
      options(array, names(lab).map((name) => [name, name] as const), state.array);
      const found = made.insight?.[state.array];
      if (!found) return;
      const heads = found.shape.length === 3 ? (found.shape[0] as number) : 1;
      const at = Math.min(state.head, heads - 1);
      options(head, Array.from({ length: heads }, (_, one) => [String(one), String(one + 1)] as const), String(at));
      head.disabled = heads < 2;
      const { rows, columns, values } = labelsOf(state.array, found, axesOf(made), at);
      const caption = heads > 1 ? say("numbersOfHead", { array: state.array, head: at + 1 }) : state.array;
      table.replaceChildren(numberTable(values, rows, columns, `${caption}: (${found.shape.join(", ")})`));
    },
  };
}
