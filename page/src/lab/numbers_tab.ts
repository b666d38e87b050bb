/** The arrays inside the model as tables: queries, keys, values, scores, weights, contexts, block outputs. */

import { make, fillSelect } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import { translationAxes, labelsOf } from "./state";
import { numberTable } from "./tables";

const ATTENTION_ARRAYS = ["query", "key", "value", "scores", "weights", "context", "attention"];

function arrayNames(lab: Lab): string[] {
  const { encoder_layers: encoder, decoder_layers: decoder, decoder_attention: hasDecoderAttention } = lab.model.info;
  const layers = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
  return [
    "encoder.embedding",
    ...layers(encoder).flatMap((layer) => [...ATTENTION_ARRAYS, "feed_forward"].map((kind) => `encoder.${layer}.${kind}`)),
    "encoder.output",
    "decoder.embedding",
    ...layers(decoder).flatMap((layer) => [...(hasDecoderAttention ? ATTENTION_ARRAYS : ["recurrence"]).map((kind) => `decoder.${layer}.${kind}`), ...ATTENTION_ARRAYS.map((kind) => `cross.${layer}.${kind}`), `decoder.${layer}.feed_forward`]),
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
    show(translation) {
      const { state } = lab;
      fillSelect(array, arrayNames(lab).map((name) => [name, name] as const), state.array);
      const insight = translation.insight?.[state.array];
      if (!insight) return;
      const heads = insight.shape.length === 3 ? (insight.shape[0] as number) : 1;
      const headIndex = Math.min(state.head, heads - 1);
      fillSelect(head, Array.from({ length: heads }, (_, i) => [String(i), String(i + 1)] as const), String(headIndex));
      head.disabled = heads < 2;
      const { rows, columns, values } = labelsOf(state.array, insight, translationAxes(translation), headIndex);
      const caption = heads > 1 ? say("numbersOfHead", { array: state.array, head: headIndex + 1 }) : state.array;
      table.replaceChildren(numberTable(values, rows, columns, `${caption}: (${insight.shape.join(", ")})`));
    },
  };
}
