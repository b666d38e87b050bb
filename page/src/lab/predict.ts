/** Predictions: the reader chooses an option before the answer opens, and sees the choice again in the recap. */

import { make } from "../dom";
import { say } from "./messages";
import { prediction, storePrediction } from "./progress";

/** Turn the lists of options of a page, `<ul class="predict">`, into choices that open the answers after them. */
export function bindPredictions(root: ParentNode): void {
  root.querySelectorAll<HTMLUListElement>("ul.predict").forEach(bind);
}

function answerAfter(list: Element): HTMLDetailsElement | null {
  for (let next = list.nextElementSibling; next; next = next.nextElementSibling) {
    if (next instanceof HTMLDetailsElement) return next;
    if (/^H\d$/.test(next.tagName)) return null;
  }
  return null;
}

function bind(list: HTMLUListElement): void {
  const name = list.dataset.predict ?? "";
  const answer = answerAfter(list);
  const items = [...list.children] as HTMLLIElement[];
  const isRight = items.map((item) => item.dataset.right !== undefined);
  const texts = items.map((item) => [...item.childNodes]);
  const hint = make("p", { class: "predict-hint", attributes: { role: "status" } }, say("exercisePredict"));
  const inputs = items.map((item, index) => {
    const input = make("input", { attributes: { type: "radio", name: `predict-${name}`, value: String(index) } });
    item.replaceChildren(make("label", {}, input, make("span", {}, ...texts[index]!)));
    input.addEventListener("change", () => {
      storePrediction(name, { choice: index, opened: false });
      hint.textContent = answer ? say("exercisePredicted") : "";
      answer?.classList.remove("locked");
    });
    return input;
  });
  const options = make("fieldset", { class: "predict" }, make("legend", {}, say("exercisePrediction")));
  list.replaceWith(options);
  options.append(list, hint);
  const stored = prediction(name);
  if (stored && inputs[stored.choice]) inputs[stored.choice]!.checked = true;
  if (!answer) return;
  if (!stored) answer.classList.add("locked");
  const chosen = (): number => inputs.findIndex((input) => input.checked);
  const reveal = (): void => {
    const choice = chosen();
    items.forEach((item, index) => {
      item.classList.toggle("right", isRight[index]);
      item.classList.toggle("wrong", index === choice && !isRight[index]);
    });
    for (const input of inputs) input.disabled = true;
    hint.textContent = say(isRight[choice] ? "exercisePredictRight" : "exercisePredictWrong");
    recap(options, texts[choice] ?? [], isRight[choice] ?? false);
  };
  answer.querySelector("summary")?.addEventListener("click", (event) => {
    if (chosen() >= 0) return;
    event.preventDefault();
    hint.textContent = say("exercisePredictFirst");
    hint.classList.add("asked");
    inputs[0]?.focus();
  });
  answer.addEventListener("toggle", () => {
    const choice = chosen();
    if (!answer.open || choice < 0) return;
    storePrediction(name, { choice, opened: true });
    reveal();
  });
  if (stored?.opened) reveal();
}

/** Repeat a prediction under the heading of the recap. */
function recap(options: HTMLElement, text: Node[], right: boolean): void {
  const name = options.querySelector("input")?.name ?? "";
  document.querySelectorAll<HTMLElement>("p.predicted").forEach((shown) => shown.dataset.of === name && shown.remove());
  const [before, after] = say(right ? "exerciseRecapRight" : "exerciseRecapWrong", { choice: "\0" }).split("\0");
  const quoted = make("span", {}, ...text.map((node) => node.cloneNode(true)));
  const paragraph = make("p", { class: "predicted" }, before ?? "", quoted, after ?? "");
  paragraph.dataset.of = name;
  document.getElementById("recap")?.after(paragraph);
}
