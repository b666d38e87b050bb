/** Each step of the decoder: what it read, its candidates, what it chose, and where each head looked. */

import { make } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import { axesOf, label } from "./state";
import { numberTable, short } from "./tables";

const CANDIDATES = 6;

export function stepsTab(lab: Lab): Tab {
  const list = make("ol", { class: "lab-steps" });
  const detail = make("div", { attributes: { role: "status" } });
  let chosen = 0;
  return {
    element: make("div", {}, make("p", {}, say("stepsIntro")), list, detail),
    wants: () => ({ steps: CANDIDATES, attention: true }),
    show(made) {
      const { source, fed, predicted } = axesOf(made);
      chosen = Math.min(chosen, predicted.length - 1);
      const chosenToken = (step: number): number => made.tokens[step] ?? lab.own.end;
      const rows = predicted.map((piece, step) => {
        const open = make("button", { class: "lab-button", attributes: { type: "button", "aria-expanded": String(step === chosen) } }, say("stepsReads", { token: fed[step] ?? "" }));
        open.addEventListener("click", () => {
          chosen = step;
          list.querySelectorAll("button").forEach((one, at) => one.setAttribute("aria-expanded", String(at === step)));
          cached(step);
        });
        const bars = (made.steps?.[step] ?? []).map(({ token, probability }) => bar(name(token, lab), probability, token === chosenToken(step)));
        return make("li", {}, open, make("span", { class: "lab-bars" }, ...bars), make("strong", {}, ` → ${piece} (log p ${short(made.logProbs[step] ?? NaN)})`));
      });
      const cached = (step: number): void => {
        const cross = made.attention?.cross;
        const parts: HTMLElement[] = [make("p", {}, say("stepsCached", { step: step + 1, source: source.length, target: step }))];
        if (cross) {
          const [layers, heads, steps, keys] = cross.shape as [number, number, number, number];
          const rows = Array.from({ length: layers * heads }, (_, at) => cross.data.subarray((at * steps + step) * keys, (at * steps + step + 1) * keys));
          const names = rows.map((_, at) => `${Math.floor(at / heads) + 1}.${(at % heads) + 1}`);
          parts.push(numberTable(rows, names, source, say("stepsHeads", { step: step + 1 })));
        }
        detail.replaceChildren(...parts);
      };
      list.replaceChildren(...rows);
      cached(chosen);
    },
  };
}

const name = (token: number, lab: Lab): string => {
  const piece = lab.own.piece(token);
  return piece.startsWith("\u2581") ? `␣${label(piece)}` : piece;
};

export function bar(piece: string, probability: number, isChosen: boolean): HTMLElement {
  const made = make("span", { class: isChosen ? "lab-candidate chosen" : "lab-candidate" }, make("span", {}, piece), make("span", { class: "lab-share" }), make("span", {}, probability.toFixed(3)));
  made.style.setProperty("--share", probability.toFixed(4));
  return made;
}
