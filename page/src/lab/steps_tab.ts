/** The steps of the decoder: the input token, the candidates, the chosen token, and the attention of each head. */

import { make } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import type { Translation } from "./model";
import { translationAxes, label } from "./state";
import { StepBar } from "./step_bar";
import { numberTable, formatNumber } from "./tables";

const CANDIDATES = 6;

export function stepsTab(lab: Lab): Tab {
  const list = make("ol", { class: "lab-steps" });
  const steps = new StepBar(lab, 1, () => showDetails());
  const detail = make("div", { class: "lab-step-detail" });
  let shown: Translation | undefined;

  /** Mark the chosen step and show its details below it. */
  function showDetails(): void {
    if (!shown) return;
    const axes = translationAxes(shown);
    steps.show(axes);
    const { step } = steps;
    [...list.children].forEach((item, index) => {
      item.classList.toggle("now", index === step - 1);
      item.querySelector("button")?.setAttribute("aria-expanded", String(index === step - 1));
      if (index === step - 1) item.append(detail);
    });
    const parts: HTMLElement[] = [make("p", {}, say("stepsCached", { step, source: axes.source.length, target: step - 1 }))];
    const cross = shown.attention?.cross;
    if (cross) {
      const [layers, heads, count, keys] = cross.shape as [number, number, number, number];
      const rows = Array.from({ length: layers * heads }, (_, index) => cross.data.subarray((index * count + step - 1) * keys, (index * count + step) * keys));
      const names = rows.map((_, index) => `${Math.floor(index / heads) + 1}.${(index % heads) + 1}`);
      parts.push(numberTable(rows, names, axes.source, say("stepsHeads", { step })));
    }
    detail.replaceChildren(...parts);
  }

  return {
    element: make("div", {}, make("p", {}, say("stepsIntro")), steps.element, list),
    wants: () => ({ steps: CANDIDATES, attention: true }),
    show(translation) {
      shown = translation;
      const { inputs, predicted } = translationAxes(translation);
      const chosenToken = (step: number): number => translation.tokens[step] ?? lab.model.end;
      list.replaceChildren(...predicted.map((piece, step) => {
        const open = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => steps.go(step + 1) } }, say("stepReadsWrites", { read: inputs[step] ?? "", written: piece }));
        const bars = (translation.steps?.[step] ?? []).map(({ token, probability }) => candidateBar(name(token, lab), probability, token === chosenToken(step)));
        return make("li", {}, open, make("span", { class: "lab-faint" }, ` log p ${formatNumber(translation.logProbs[step] ?? NaN)} `), make("span", { class: "lab-bars" }, ...bars));
      }));
      showDetails();
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
