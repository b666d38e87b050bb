/** The laboratory: internals of a model for the reader's sentence, in the course and in the server's page. */

import { make, saveFile } from "../dom";
import { attentionTab } from "./attention_tab";
import { changeTab } from "./change_tab";
import { chooseTab } from "./choose_tab";
import { type Key, say } from "./messages";
import { type LabModel, totalLogProb, type Translation, type TranslationOptions } from "./model";
import { modelTab } from "./model_tab";
import { describePicture, type Picture, createPicture, toPng, toSvg } from "./picture";
import { DEFAULT_STATE, type LabState, python, toHash, type View, VIEWS } from "./state";
import { stepsTab } from "./steps_tab";

/** A view of a translation. */
export interface Tab {
  element: HTMLElement;
  /** Return what the view needs from the model besides the translation. */
  wants(state: LabState): TranslationOptions;
  /** Show a translation; `plain` is the translation without edits, the same object if there are none. */
  show(translation: Translation, plain: Translation): void | Promise<void>;
  /** Return Python code that computes what the view shows, if it differs from the laboratory's. */
  python?(state: LabState): string;
}

/** The context of a laboratory: example sentences, and the names of the languages. */
export interface LabContext {
  examples: string[];
  source: string;
  target: string;
}

const VIEW_NAMES: Record<View, Key> = { attention: "labAttention", steps: "labSteps", numbers: "labNumbers", change: "labChange", choose: "labChoose", compare: "labCompare" };
const BEAMS = [1, 2, 3, 5, 8, 12];
let labCount = 0;

export class Lab extends HTMLElement {
  state: LabState = { ...DEFAULT_STATE };
  model!: LabModel;
  last: Translation | undefined;
  protected readonly status = make("p", { class: "lab-status", attributes: { role: "status" } });
  private readonly id_ = `lab-${++labCount}`;
  private readonly source = make("textarea", { attributes: { rows: "1", id: `${this.id_}-source`, spellcheck: "false" } });
  private readonly target = make("textarea", { attributes: { rows: "1", id: `${this.id_}-target`, spellcheck: "false" } });
  private readonly forced = make("input", { attributes: { type: "checkbox", id: `${this.id_}-forced` } });
  private readonly stage = make("div", { class: "lab-stage", attributes: { role: "tabpanel", id: `${this.id_}-stage` } });
  private readonly tabs = new Map<View, Tab>();
  private readonly buttons = new Map<View, HTMLButtonElement>();
  private running: Promise<void> | undefined;
  private needsRun = false;
  private typing: ReturnType<typeof setTimeout> | undefined;
  private plain: { key: string; translation: Translation } | undefined;
  private addressTimer: ReturnType<typeof setTimeout> | undefined;

  /** Show a loaded model with the state of this laboratory. */
  show(model: LabModel, context: LabContext): void {
    this.model = model;
    this.plain = undefined;
    this.build(context);
    this.applyState();
  }

  focusText(): void {
    this.source.focus();
  }

  /** Change the state and run the model; the promise resolves when the result is shown. */
  change(changes: Partial<LabState>): Promise<void> {
    Object.assign(this.state, changes);
    if (this.state.target === undefined) delete this.state.target;
    return this.run();
  }

  /** Change what is shown of the translation, without another run. */
  note(changes: Partial<LabState>): void {
    Object.assign(this.state, changes);
    this.updateAddress();
  }

  /** Show the state after it was changed externally. */
  applyState(): void {
    this.source.value = this.state.text;
    this.forced.checked = this.state.target !== undefined;
    this.target.readOnly = !this.forced.checked;
    if (this.state.target !== undefined) this.target.value = this.state.target;
    this.open(this.state.view);
  }

  /** Translate with the settings of this laboratory and further options. */
  translateWith(options: TranslationOptions): Promise<Translation> {
    const { text, target, beam } = this.state;
    return this.model.translate(text, { ...(target === undefined ? { beam } : { forced: target }), ...options });
  }

  private build(context: LabContext): void {
    const { source_language: from, target_language: to } = this.model.info;
    this.source.lang = from;
    this.target.lang = to;
    this.source.addEventListener("input", () => this.onInput());
    this.target.addEventListener("input", () => this.scheduleChange(() => this.change({ target: this.target.value })));
    this.forced.addEventListener("change", () => {
      this.target.readOnly = !this.forced.checked;
      void this.change(this.forced.checked ? { target: this.target.value } : ({ target: undefined } as unknown as Partial<LabState>));
    });
    this.replaceChildren(
      make("div", { class: "lab-texts" },
        make("div", {}, make("label", { attributes: { for: this.source.id } }, context.source), this.source),
        make("div", {}, make("label", { attributes: { for: this.target.id } }, context.target), this.target)),
      make("div", { class: "lab-bar" }, ...this.examples(context.examples), this.beams(), make("label", { attributes: { for: this.forced.id } }, this.forced, ` ${say("labForce")}`)),
      this.status, this.tabList(), this.stage, this.exportPanel(),
    );
  }

  private examples(sentences: string[]): HTMLElement[] {
    if (!sentences.length) return [];
    const examples = make("select", { attributes: { "aria-label": say("labExamples") } }, make("option", { attributes: { value: "" } }, say("labExamplesChoose")), ...sentences.map((sentence) => make("option", {}, sentence)));
    examples.addEventListener("change", () => {
      if (examples.value) this.source.value = examples.value;
      examples.value = "";
      this.onInput();
    });
    return [examples];
  }

  private beams(): HTMLSelectElement {
    const beam = make("select", { attributes: { "aria-label": say("labBeam") } }, ...BEAMS.map((size) => make("option", { attributes: { value: String(size) } }, size === 1 ? say("labGreedy") : say("labBeamOf", { size: size }))));
    beam.value = String(this.state.beam);
    beam.addEventListener("change", () => void this.change({ beam: Number(beam.value) }));
    return beam;
  }

  /** Return the available views. */
  protected views(): Partial<Record<View, (lab: Lab) => Tab>> {
    return { numbers: modelTab, attention: attentionTab, steps: stepsTab, change: changeTab, choose: chooseTab };
  }

  private tabList(): HTMLElement {
    const factories = this.views();
    const views = VIEWS.filter((view) => factories[view]);
    const list = make("div", { class: "lab-tabs", attributes: { role: "tablist", "aria-label": say("labViews") } });
    for (const view of views) {
      const button = make("button", { id: `${this.id_}-${view}`, attributes: { type: "button", role: "tab", "aria-controls": this.stage.id } }, say(VIEW_NAMES[view]));
      button.addEventListener("click", () => this.open(view));
      this.buttons.set(view, button);
      list.append(button);
      this.tabs.set(view, (factories[view] as (lab: Lab) => Tab)(this));
    }
    list.addEventListener("keydown", (event) => {
      const index = views.indexOf(this.state.view);
      const target = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: views.length - 1 }[event.key];
      if (target === undefined) return;
      event.preventDefault();
      const view = views[(target + views.length) % views.length] as View;
      this.open(view);
      this.buttons.get(view)?.focus();
    });
    return list;
  }

  private exportPanel(): HTMLElement {
    const output = make("pre", { attributes: { tabindex: "0", "aria-label": say("labKeep") } });
    const button = (name: string, click: () => void): HTMLButtonElement => make("button", { class: "lab-button", attributes: { type: "button" }, on: { click } }, name);
    const picture = async (name: string, blob: (of: Picture) => Blob | Promise<Blob>): Promise<void> => {
      const result = createPicture(this.last?.attention ? this.last : await this.translateWith({ attention: true, edits: this.state.edits }));
      if (!result) return;
      saveFile(`laboratory.${name}`, await blob(result));
      output.textContent = say("labAlternative", { text: describePicture(result) });
    };
    const address = this.dataset.address ?? this.dataset.page;
    return make("details", { class: "lab-keep" }, make("summary", {}, say("labKeep")),
      ...(address === undefined ? [] : [button(say("labAddress"), () => void navigator.clipboard.writeText(this.address()).then(() => (this.status.textContent = say("labAddressCopied"))))]),
      button("JSON", () => saveFile("laboratory.json", new Blob([JSON.stringify({ state: this.state, made: toPlain(this.last) }, null, 1)], { type: "application/json" }))),
      button("CSV", () => saveFile("laboratory.csv", new Blob([this.csv()], { type: "text/csv" }))),
      button("SVG", () => void this.reportErrors(picture("svg", (of) => new Blob([toSvg(of)], { type: "image/svg+xml" })))),
      button("PNG", () => void this.reportErrors(picture("png", toPng))),
      button(say("labPython"), () => (output.textContent = this.tabs.get(this.state.view)?.python?.(this.state) ?? python(this.state, this.model.python))),
      output);
  }

  /** Set the source text, as if the reader had typed it. */
  setText(text: string): void {
    this.source.value = text;
    this.onInput();
  }

  private onInput(): void {
    this.scheduleChange(() => {
      // Masks and tables belong to a sentence and do not fit another.
      const edits = this.state.edits.filter((edit) => "side" in edit || (edit.mask === undefined && (edit.weights === undefined || typeof edit.weights === "string")));
      return this.change({ text: this.source.value, edits });
    });
  }

  /** Change something after the model's typing pause. */
  private scheduleChange(change: () => Promise<void>): void {
    clearTimeout(this.typing);
    if (this.model.pause) this.typing = setTimeout(() => void change(), this.model.pause);
    else void change();
  }

  private open(view: View): void {
    this.state.view = view;
    for (const [name, button] of this.buttons) {
      button.setAttribute("aria-selected", String(name === view));
      button.tabIndex = name === view ? 0 : -1;
    }
    this.stage.setAttribute("aria-labelledby", `${this.id_}-${view}`);
    this.stage.replaceChildren((this.tabs.get(view) as Tab).element);
    void this.run();
  }

  /** Run the model with the latest settings; later changes are run next. */
  private run(): Promise<void> {
    this.needsRun = true;
    this.running ??= this.runAll().finally(() => (this.running = undefined));
    return this.running;
  }

  private async runAll(): Promise<void> {
    while (this.needsRun) {
      this.needsRun = false;
      await this.reportErrors(this.runOnce());
    }
  }

  /** Show the error of a task, if any. */
  private async reportErrors(task: Promise<void>): Promise<void> {
    try {
      await task;
    } catch (error) {
      this.status.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private async runOnce(): Promise<void> {
    const start = performance.now();
    const tab = this.tabs.get(this.state.view) as Tab;
    this.updateAddress();
    if (!this.state.text.trim()) {
      this.status.textContent = say("labEmpty");
      return;
    }
    const options = tab.wants(this.state);
    const translation = await this.translateWith({ ...options, edits: this.state.edits });
    const plain = this.state.edits.length ? await this.withoutEdits(options) : translation;
    this.last = translation;
    if (this.state.target === undefined) this.target.value = translation.text;
    const changes = this.state.edits.length;
    this.status.textContent = say(changes ? "labStatusChanged" : "labStatus", { tokens: translation.tokens.length, logp: totalLogProb(translation).toFixed(2).replace("-", "−"), changes });
    await tab.show(translation, plain);
    this.dataset.milliseconds = (performance.now() - start).toFixed(1);
  }

  /** Translate without edits; the last of these translations is kept, since each edit needs it. */
  private async withoutEdits(options: TranslationOptions): Promise<Translation> {
    const { text, target, beam } = this.state;
    const key = JSON.stringify([text, target, beam, options]);
    if (this.plain?.key !== key) this.plain = { key, translation: await this.translateWith(options) };
    return this.plain.translation;
  }

  /** Store the state in the address. A browser may refuse that during a drag, with many changes in a second. */
  private updateAddress(): void {
    if (this.dataset.address === undefined) return;
    clearTimeout(this.addressTimer);
    try {
      history.replaceState(null, "", toHash(this.state));
    } catch {
      this.addressTimer = setTimeout(() => this.updateAddress(), 1000);
    }
  }

  private address(): string {
    const page = this.dataset.page ?? location.href.replace(/#.*/, "");
    return new URL(toHash(this.state), page).href;
  }

  private csv(): string {
    const quoted = (cell: string): string => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
    const tables = [...this.stage.querySelectorAll("table")].map((table) => [
      [table.caption?.textContent ?? ""],
      ...[...table.rows].map((row) => [...row.cells].map((cell) => cell.title || (cell.textContent ?? ""))),
    ]);
    return tables.map((rows) => rows.map((row) => row.map(quoted).join(",")).join("\n")).join("\n\n");
  }
}

function toPlain(translation: Translation | undefined): unknown {
  return JSON.parse(JSON.stringify(translation ?? null, (_, value: unknown) => (ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value)));
}
