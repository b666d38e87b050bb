/** <uwaga-lab>: the bundled model at work on the reader's sentence. */

import { make, save } from "../dom";
import { attentionTab } from "./attention_tab";
import { changeTab } from "./change_tab";
import { chooseTab } from "./choose_tab";
import { type LabModel, load, type TranslateOptions, type Translation } from "./engine";
import { type Key, say } from "./messages";
import { numbersTab } from "./numbers_tab";
import { FIRST, fromHash, type LabState, python, toHash, type View, VIEWS } from "./state";
import { stepsTab } from "./steps_tab";

/** A view of a translation. */
export interface Tab {
  element: HTMLElement;
  /** What the engine has to return for it, besides the translation. */
  wants(state: LabState): TranslateOptions;
  /** Show a translation; `plain` is the one without edits, which is the same where there are none. */
  show(made: Translation, plain: Translation, lab: Lab): void | Promise<void>;
}

const EXAMPLES = [
  "I want to buy a car.",
  "A dog chases a cat.",
  "The old man sits on the bench and reads a newspaper.",
  "I thought it would be a good concert, but it wasn't.",
  "She gave him the book that he had lost.",
  "Two young women are playing football in the park.",
];
const NAMES: Record<View, Key> = { attention: "labAttention", steps: "labSteps", numbers: "labNumbers", change: "labChange", choose: "labChoose" };
let labs = 0;

export class Lab extends HTMLElement {
  state: LabState = { ...FIRST };
  own!: LabModel;
  private readonly id_ = `lab-${++labs}`;
  private readonly status = make("p", { class: "lab-status", attributes: { role: "status" } });
  private readonly source = make("textarea", { attributes: { rows: "2", id: `${this.id_}-source`, spellcheck: "false", lang: "en" } });
  private readonly target = make("textarea", { attributes: { rows: "2", id: `${this.id_}-target`, spellcheck: "false", lang: "de" } });
  private readonly forced = make("input", { attributes: { type: "checkbox", id: `${this.id_}-forced` } });
  private readonly stage = make("div", { class: "lab-stage", attributes: { role: "tabpanel", id: `${this.id_}-stage` } });
  private readonly tabs = new Map<View, Tab>();
  private readonly buttons = new Map<View, HTMLButtonElement>();
  private running: Promise<void> | undefined;
  private again = false;

  connectedCallback(): void {
    if (this.dataset.started !== undefined) return;
    this.dataset.started = "";
    Object.assign(this.state, JSON.parse(this.dataset.lab ?? "{}"), this.dataset.address === undefined ? {} : fromHash(location.hash));
    const start = make("button", { class: "lab-button lab-start", attributes: { type: "button" }, on: { click: () => void this.start() } }, say("labStart"));
    const still = make("div", { class: "lab-still" }, ...this.childNodes);
    this.replaceChildren(still, start, this.status);
    if (this.dataset.address !== undefined) {
      if (fromHash(location.hash)) void this.start();
      addEventListener("hashchange", () => {
        const given = fromHash(location.hash);
        if (!given || toHash({ ...FIRST, ...given } as LabState) === toHash(this.state)) return;
        Object.assign(this.state, given);
        if (this.own) this.put();
        else void this.start();
      });
    }
  }

  /** Load the model and show the views. */
  async start(): Promise<void> {
    this.querySelector<HTMLButtonElement>(".lab-start")?.setAttribute("disabled", "");
    try {
      this.own = await load((share) => (this.status.textContent = say("labLoading", { percent: Math.round(100 * share) })));
    } catch (error) {
      this.status.textContent = say("labFailed", { detail: error instanceof Error ? error.message : String(error) });
      this.querySelector(".lab-start")?.removeAttribute("disabled");
      return;
    }
    this.build();
    this.put();
  }

  /** Change what is shown, and run the model; the promise ends when all is shown. */
  change(changes: Partial<LabState>): Promise<void> {
    Object.assign(this.state, changes);
    if (this.state.target === undefined) delete this.state.target;
    return this.run();
  }

  /** Translate with this laboratory's settings and others. */
  async translated(options: TranslateOptions): Promise<Translation> {
    const { text, target } = this.state;
    const forced = target === undefined ? { beam: this.state.beam } : { targets: [target], beam: 1 };
    return this.own.model.translate(text, { ...forced, ...options });
  }

  private build(): void {
    const made: Record<View, () => Tab> = { attention: attentionTab, steps: stepsTab, numbers: numbersTab, change: changeTab, choose: chooseTab };
    const examples = make("select", { attributes: { "aria-label": say("labExamples") } }, make("option", { attributes: { value: "" } }, say("labExamplesChoose")), ...EXAMPLES.map((one) => make("option", {}, one)));
    examples.addEventListener("change", () => {
      if (examples.value) this.source.value = examples.value;
      examples.value = "";
      void this.typed();
    });
    this.source.addEventListener("input", () => void this.typed());
    this.target.addEventListener("input", () => void this.change({ target: this.target.value }));
    this.forced.addEventListener("change", () => {
      this.target.readOnly = !this.forced.checked;
      void this.change(this.forced.checked ? { target: this.target.value } : ({ target: undefined } as unknown as Partial<LabState>));
    });
    const beam = make("select", { attributes: { "aria-label": say("labBeam") } }, ...[1, 2, 3, 5, 8, 12].map((one) => make("option", { attributes: { value: String(one) } }, one === 1 ? say("labGreedy") : say("labBeamOf", { size: one }))));
    beam.value = String(this.state.beam);
    beam.addEventListener("change", () => void this.change({ beam: Number(beam.value) }));
    const list = make("div", { class: "lab-tabs", attributes: { role: "tablist", "aria-label": say("labViews") } });
    for (const view of VIEWS) {
      const button = make("button", { attributes: { type: "button", role: "tab", "aria-controls": this.stage.id } }, say(NAMES[view]));
      button.addEventListener("click", () => this.open(view));
      this.buttons.set(view, button);
      list.append(button);
      this.tabs.set(view, made[view]());
    }
    list.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const to = VIEWS[(VIEWS.indexOf(this.state.view) + by + VIEWS.length) % VIEWS.length] as View;
      this.open(to);
      this.buttons.get(to)?.focus();
    });
    const keep = make("details", { class: "lab-keep" }, make("summary", {}, say("labKeep")));
    const shown = make("pre", { attributes: { tabindex: "0" } });
    keep.append(
      this.button(say("labAddress"), () => void navigator.clipboard.writeText(this.address()).then(() => (this.status.textContent = say("labAddressCopied")))),
      this.button("JSON", () => save("laboratory.json", new Blob([JSON.stringify({ state: this.state, made: plainOf(this.last) }, null, 1)], { type: "application/json" }))),
      this.button("CSV", () => save("laboratory.csv", new Blob([this.csv()], { type: "text/csv" }))),
      this.button("SVG", () => save("laboratory.svg", new Blob([this.svg()], { type: "image/svg+xml" }))),
      this.button(say("labPython"), () => (shown.textContent = python(this.state))),
      shown,
    );
    this.replaceChildren(
      make("div", { class: "lab-texts" },
        make("div", {}, make("label", { attributes: { for: this.source.id } }, say("labEnglish")), this.source),
        make("div", {}, make("label", { attributes: { for: this.target.id } }, say("labGerman")), this.target)),
      make("div", { class: "lab-bar" }, examples, beam, make("label", { attributes: { for: this.forced.id } }, this.forced, ` ${say("labForce")}`)),
      this.status, list, this.stage, keep,
    );
  }

  private button(name: string, click: () => void): HTMLButtonElement {
    return make("button", { class: "lab-button", attributes: { type: "button" }, on: { click } }, name);
  }

  private put(): void {
    this.source.value = this.state.text;
    this.forced.checked = this.state.target !== undefined;
    this.target.readOnly = !this.forced.checked;
    if (this.state.target !== undefined) this.target.value = this.state.target;
    this.open(this.state.view);
  }

  private typed(): Promise<void> {
    // Masks and tables are of one sentence: they do not fit another.
    const edits = this.state.edits.filter((edit) => "side" in edit || (edit.mask === undefined && (edit.weights === undefined || typeof edit.weights === "string")));
    return this.change({ text: this.source.value, edits });
  }

  private open(view: View): void {
    this.state.view = view;
    for (const [name, button] of this.buttons) {
      button.setAttribute("aria-selected", String(name === view));
      button.tabIndex = name === view ? 0 : -1;
    }
    this.stage.replaceChildren((this.tabs.get(view) as Tab).element);
    void this.run();
  }

  last: Translation | undefined;

  /** Run the model on the newest settings; those that come meanwhile are run next. */
  private run(): Promise<void> {
    this.again = true;
    this.running ??= this.all().finally(() => (this.running = undefined));
    return this.running;
  }

  private async all(): Promise<void> {
    while (this.again) {
      this.again = false;
      await this.once();
    }
  }

  private async once(): Promise<void> {
    const began = performance.now();
    const tab = this.tabs.get(this.state.view) as Tab;
    if (this.dataset.address !== undefined) history.replaceState(null, "", toHash(this.state));
    if (!this.state.text.trim()) {
      this.status.textContent = say("labEmpty");
      return;
    }
    try {
      const options = tab.wants(this.state);
      const made = await this.translated({ ...options, edits: this.state.edits });
      const plain = this.state.edits.length ? await this.translated(options) : made;
      this.last = made;
      if (this.state.target === undefined) this.target.value = made.text;
      const logProb = Array.from(made.logProbs).reduce((sum, one) => sum + one, 0);
      const changes = this.state.edits.length;
      this.status.textContent = say(changes ? "labStatusChanged" : "labStatus", { tokens: made.tokens.length, logp: logProb.toFixed(2), changes });
      await tab.show(made, plain, this);
      this.dataset.milliseconds = (performance.now() - began).toFixed(1);
    } catch (error) {
      this.status.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private address(): string {
    const page = this.dataset.page ?? location.href.replace(/#.*/, "");
    return new URL(toHash(this.state), page).href;
  }

  private tables(): Array<{ caption: string; rows: string[][] }> {
    return [...this.stage.querySelectorAll("table")].map((table) => ({
      caption: table.caption?.textContent ?? "",
      rows: [...table.rows].map((row) => [...row.cells].map((cell) => cell.title || (cell.textContent ?? ""))),
    }));
  }

  private csv(): string {
    const quoted = (cell: string): string => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
    return this.tables().map(({ caption, rows }) => [[caption], ...rows].map((row) => row.map(quoted).join(",")).join("\n")).join("\n\n");
  }

  private svg(): string {
    const { last } = this;
    const matrix = last?.attention?.cross;
    if (!last || !matrix) return heatMap([], [], []);
    const [layers, heads, rows, columns] = matrix.shape as [number, number, number, number];
    const mean = Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => {
      let sum = 0;
      for (let head = 0; head < heads; ++head) sum += matrix.data[(((layers - 1) * heads + head) * rows + row) * columns + column] ?? 0;
      return sum / heads;
    }));
    return heatMap(mean, [...last.pieces, "</s>"], last.source.pieces);
  }
}

function plainOf(made: Translation | undefined): unknown {
  return JSON.parse(JSON.stringify(made ?? null, (_, value: unknown) => (ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value)));
}

function heatMap(values: number[][], rows: string[], columns: string[]): string {
  const escaped = (text: string): string => text.replace(/^\u2581/, "").replace(/[<>&"]/g, (one) => `&#${one.charCodeAt(0)};`);
  const cells = values.flatMap((row, y) => row.map((value, x) => `<rect x="${100 + 28 * x}" y="${100 + 28 * y}" width="28" height="28" fill="#0b5cad" fill-opacity="${value.toFixed(4)}"><title>${value}</title></rect>`));
  const left = values.map((_, y) => `<text x="94" y="${118 + 28 * y}" text-anchor="end">${escaped(rows[y] ?? "")}</text>`);
  const top = (values[0] ?? []).map((_, x) => `<text transform="translate(${118 + 28 * x} 94) rotate(-60)">${escaped(columns[x] ?? "")}</text>`);
  const [width, height] = [120 + 28 * columns.length, 110 + 28 * rows.length];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui" font-size="13"><title>${say("labPicture")}</title>${cells.join("")}${left.join("")}${top.join("")}</svg>`;
}
