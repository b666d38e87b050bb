/** The steps of the decoder: the input token, the candidates, the chosen token, and the attention of each head. */

import { make } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import { translationAxes, label } from "./state";
import { numberTable, formatNumber } from "./tables";

const CANDIDATES = 6;

export function stepsTab(lab: Lab): Tab {
  const list = make("ol", { class: "lab-steps" });
  const detail = make("div", { attributes: { role: "status" } });
  let selected = 0;
  return {
    element: make("div", {}, make("p", {}, say("stepsIntro")), list, detail),
    wants: () => ({ steps: CANDIDATES, attention: true }),
    show(translation) {
      const { source, inputs, predicted } = translationAxes(translation);
      selected = Math.min(selected, predicted.length - 1);
      const chosenToken = (step: number): number => translation.tokens[step] ?? lab.model.end;
      const rows = predicted.map((piece, step) => {
        const open = make("button", { class: "lab-button", attributes: { type: "button", "aria-expanded": String(step === selected) } }, say("stepsReads", { token: inputs[step] ?? "" }));
        open.addEventListener("click", () => {
          selected = step;
          list.querySelectorAll("button").forEach((button, index) => button.setAttribute("aria-expanded", String(index === step)));
          showDetails(step);
        });
        const bars = (translation.steps?.[step] ?? []).map(({ token, probability }) => candidateBar(name(token, lab), probability, token === chosenToken(step)));
        return make("li", {}, open, make("span", { class: "lab-bars" }, ...bars), make("strong", {}, ` → ${piece} (log p ${formatNumber(translation.logProbs[step] ?? NaN)})`));
      });
      const showDetails = (step: number): void => {
        const cross = translation.attention?.cross;
        const parts: HTMLElement[] = [make("p", {}, say("stepsCached", { step: step + 1, source: source.length, target: step }))];
        if (cross) {
          const [layers, heads, steps, keys] = cross.shape as [number, number, number, number];
          const rows = Array.from({ length: layers * heads }, (_, index) => cross.data.subarray((index * steps + step) * keys, (index * steps + step + 1) * keys));
          const names = rows.map((_, index) => `${Math.floor(index / heads) + 1}.${(index % heads) + 1}`);
          parts.push(numberTable(rows, names, source, say("stepsHeads", { step: step + 1 })));
        }
        detail.replaceChildren(...parts);
      };
      list.replaceChildren(...rows);
      showDetails(selected);
    },
  };
}

const name = (token: number, lab: Lab): string => {
  const piece = lab.model.piece(token);
  return piece.startsWith("\u2581") ? `␣${label(piece)}` : piece;
};

export function candidateBar(piece: string, probability: number, isChosen: boolean): HTMLElement {
  const element = make("span", { class: isChosen ? "lab-candidate chosen" : "lab-candidate" }, make("span", {}, piece), make("span", { class: "lab-share" }), make("span", {}, probability.toFixed(3)));
  element.style.setProperty("--share", probability.toFixed(4));
  return element;
}
