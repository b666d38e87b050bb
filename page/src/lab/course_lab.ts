/** <uwaga-lab> in the course: the laboratory with the bundled model, loaded when the reader starts it. */

import { make } from "../dom";
import { load } from "./engine";
import { Lab, type Tab } from "./lab";
import { say } from "./messages";
import { DEFAULT_STATE, fromHash, type LabState, toHash, type View } from "./state";

const EXAMPLES = [
  "I want to buy a car.",
  "A dog chases a cat.",
  "The old man sits on the bench and reads a newspaper.",
  "I thought it would be a good concert, but it wasn't.",
  "She gave him the book that he had lost.",
  "Two young women are playing football in the park.",
];

/** The view that compares models; its script is loaded when it is opened. */
function compareTab(lab: Lab): Tab {
  const element = make("div");
  let opened: Tab | undefined;
  return {
    element,
    wants: () => ({}),
    async show(...translations) {
      if (!opened) {
        opened = (await import("./more")).compareTab(lab);
        element.append(opened.element);
      }
      await opened.show(...translations);
    },
    python: (state) => opened?.python?.(state) ?? "",
  };
}

/** The laboratories of the page, which start together. */
const labs = new Set<CourseLab>();
let started = false;

export class CourseLab extends Lab {
  connectedCallback(): void {
    if (this.dataset.started !== undefined) return;
    this.dataset.started = "";
    if (this.dataset.address === undefined) this.dataset.page ??= new URL("../learn/laboratory/", import.meta.url).href;
    Object.assign(this.state, JSON.parse(this.dataset.lab ?? "{}"), this.dataset.address === undefined ? {} : fromHash(location.hash));
    const start = make("button", { class: "lab-button lab-start", attributes: { type: "button" }, on: { click: () => void this.start() } }, say("labStart"));
    // Until the start, only the pictures of the text for readers without JavaScript.
    const still = make("div", { class: "lab-still" }, ...this.querySelectorAll("img"));
    this.replaceChildren(still, start, this.status);
    labs.add(this);
    if (started) void this.start();
    if (this.dataset.address !== undefined) {
      if (fromHash(location.hash)) void this.start();
      addEventListener("hashchange", () => {
        const hashState = fromHash(location.hash);
        if (!hashState || toHash({ ...DEFAULT_STATE, ...hashState } as LabState) === toHash(this.state)) return;
        Object.assign(this.state, hashState);
        if (this.model) this.applyState();
        else void this.start();
      });
    }
  }

  protected override views(): Partial<Record<View, (lab: Lab) => Tab>> {
    return { ...super.views(), compare: compareTab };
  }

  /** Load the model and show the views, here and in the other laboratories of the page. */
  async start(): Promise<void> {
    if (this.model) return;
    const start = this.querySelector<HTMLButtonElement>(".lab-start");
    const wasFocused = start !== null && start === document.activeElement;
    start?.setAttribute("aria-disabled", "true");
    try {
      const model = await load((share) => (this.status.textContent = say("labLoading", { percent: Math.round(100 * share) })));
      if (this.model) return; // it was started twice
      this.show(model, { examples: EXAMPLES, source: say("labEnglish"), target: say("labGerman") });
      started = true;
    } catch (error) {
      this.status.textContent = say("labFailed", { detail: error instanceof Error ? error.message : String(error) });
      start?.removeAttribute("aria-disabled");
      return;
    }
    if (wasFocused && (document.activeElement === document.body || document.activeElement === null)) this.focusText();
    for (const lab of labs) if (!lab.model) void lab.start();
  }
}
