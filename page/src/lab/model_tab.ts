/** The first view: the Transformer with the sentence in it. A box opens what it computes, and a step shows its way. */

import { make } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import type { Translation } from "./model";
import { CANDIDATES, Panel } from "./panel";
import { translationAxes } from "./state";
import { StepBar } from "./step_bar";
import { Transformer } from "./transformer";

export function modelTab(lab: Lab): Tab {
  let shown: Translation | undefined;
  const panel = new Panel(lab, () => {
    drawing.focusBox();
    void lab.change({ array: "" });
  });
  const steps = new StepBar(lab, 0, () => draw());
  const drawing: Transformer = new Transformer(lab.model.info, panel.element, (box) => {
    const isOpen = drawing.boxesOf(lab.state.array).some(({ id }) => id === box.id);
    void lab.change({ array: isOpen ? "" : box.array }).then(() => drawing.reveal());
  }, (step) => steps.go(step === lab.state.step ? 0 : step));
  const cached = make("p", { class: "lab-cached" });
  const before = make("span", { class: "lab-before" });
  steps.element.append(before);

  function draw(): void {
    if (!shown) return;
    const axes = translationAxes(shown);
    const { array, edits } = lab.state;
    steps.show(axes);
    const { step } = steps;
    cached.textContent = step ? `${say("stepsCached", { step, source: axes.source.length, target: step - 1 })} ${say(step === 1 ? "stepEncoder" : "stepEncoderCached")}` : say("boxHint");
    const [box] = drawing.boxesOf(array);
    panel.show(box, shown, axes, step);
    drawing.show({ translation: shown, axes, edits, array, step });
  }

  return {
    element: make("div", { class: "lab-model" }, steps.element, cached, drawing.element),
    wants: ({ array }) => {
      const [box] = drawing.boxesOf(array);
      return { attention: true, ...(box ? { insight: [...new Set([...box.path, array])] } : {}), ...(box?.array === "logits" ? { steps: CANDIDATES } : {}) };
    },
    show(translation, plain) {
      shown = translation;
      before.hidden = translation === plain;
      before.replaceChildren(`${say("changeWithout")}: `, make("span", { attributes: { lang: lab.model.info.target_language } }, plain.text));
      draw();
    },
  };
}
