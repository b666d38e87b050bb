/** The laboratory: a model at work on the reader's sentence. The course and the server's page have the same one. */

import { make, save } from "../dom";
import { attentionTab } from "./attention_tab";
import { changeTab } from "./change_tab";
import { chooseTab } from "./choose_tab";
import { type Key, say } from "./messages";
import { type LabModel, total, type Translation, type Wanted } from "./model";
import { numbersTab } from "./numbers_tab";
import { inWords, type Picture, pictureOf, pngOf, svgOf } from "./picture";
import { FIRST, type LabState, python, toHash, type View, VIEWS } from "./state";
import { stepsTab } from "./steps_tab";

/** A view of a translation. */
export interface Tab {
  element: HTMLElement;
  /** What the model has to return for it, besides the translation. */
  wants(state: LabState): Wanted;
  /** Show a translation; `plain` is the one without edits, which is the same where there are none. */
  show(made: Translation, plain: Translation): void | Promise<void>;
  /** Lines of Python that compute what it shows, where these are other ones than of the laboratory's model. */
  python?(state: LabState): string;
}

/** Where a laboratory stands: example sentences, and the names of the languages. */
export interface Place {
  examples: string[];
  source: string;
  target: string;
}

const NAMES: Record<View, Key> = { attention: "labAttention", steps: "labSteps", numbers: "labNumbers", change: "labChange", choose: "labChoose", compare: "labCompare" };
const BEAMS = [1, 2, 3, 5, 8, 12];
let labs = 0;

export class Lab extends HTMLElement {
  state: LabState = { ...FIRST };
  own!: LabModel;
  last: Translation | undefined;
  protected readonly status = make("p", { class: "lab-status", attributes: { role: "status" } });
  private readonly id_ = `lab-${++labs}`;
  private readonly source = make("textarea", { attributes: { rows: "2", id: `${this.id_}-source`, spellcheck: "false" } });
  private readonly target = make("textarea", { attributes: { rows: "2", id: `${this.id_}-target`, spellcheck: "false" } });
  private readonly forced = make("input", { attributes: { type: "checkbox", id: `${this.id_}-forced` } });
  private readonly stage = make("div", { class: "lab-stage", attributes: { role: "tabpanel", id: `${this.id_}-stage` } });
  private readonly tabs = new Map<View, Tab>();
  private readonly buttons = new Map<View, HTMLButtonElement>();
  private running: Promise<void> | undefined;
  private again = false;
  private typing: ReturnType<typeof setTimeout> | undefined;

  /** Show a model that is loaded, with this laboratory's state. */
  show(model: LabModel, place: Place): void {
    this.own = model;
    this.build(place);
    this.put();
  }

  focusText(): void {
    this.source.focus();
  }

  /** Change what is shown, and run the model; the promise ends when all is shown. */
  change(changes: Partial<LabState>): Promise<void> {
    Object.assign(this.state, changes);
    if (this.state.target === undefined) delete this.state.target;
    return this.run();
  }

  /** Show the state after it was changed from outside. */
  put(): void {
    this.source.value = this.state.text;
    this.forced.checked = this.state.target !== undefined;
    this.target.readOnly = !this.forced.checked;
    if (this.state.target !== undefined) this.target.value = this.state.target;
    this.open(this.state.view);
  }

  /** Translate with this laboratory's settings and others. */
  translated(wanted: Wanted): Promise<Translation> {
    const { text, target, beam } = this.state;
    return this.own.translate(text, { ...(target === undefined ? { beam } : { forced: target }), ...wanted });
  }

  private build(place: Place): void {
    const { source_language: from, target_language: to } = this.own.info;
    this.source.lang = from;
    this.target.lang = to;
    this.source.addEventListener("input", () => this.typed());
    this.target.addEventListener("input", () => this.soon(() => this.change({ target: this.target.value })));
    this.forced.addEventListener("change", () => {
      this.target.readOnly = !this.forced.checked;
      void this.change(this.forced.checked ? { target: this.target.value } : ({ target: undefined } as unknown as Partial<LabState>));
    });
    this.replaceChildren(
      make("div", { class: "lab-texts" },
        make("div", {}, make("label", { attributes: { for: this.source.id } }, place.source), this.source),
        make("div", {}, make("label", { attributes: { for: this.target.id } }, place.target), this.target)),
      make("div", { class: "lab-bar" }, ...this.examples(place.examples), this.beams(), make("label", { attributes: { for: this.forced.id } }, this.forced, ` ${say("labForce")}`)),
      this.status, this.tabList(), this.stage, this.keep(),
    );
  }

  private examples(sentences: string[]): HTMLElement[] {
    if (!sentences.length) return [];
    const examples = make("select", { attributes: { "aria-label": say("labExamples") } }, make("option", { attributes: { value: "" } }, say("labExamplesChoose")), ...sentences.map((one) => make("option", {}, one)));
    examples.addEventListener("change", () => {
      if (examples.value) this.source.value = examples.value;
      examples.value = "";
      this.typed();
    });
    return [examples];
  }

  private beams(): HTMLSelectElement {
    const beam = make("select", { attributes: { "aria-label": say("labBeam") } }, ...BEAMS.map((one) => make("option", { attributes: { value: String(one) } }, one === 1 ? say("labGreedy") : say("labBeamOf", { size: one }))));
    beam.value = String(this.state.beam);
    beam.addEventListener("change", () => void this.change({ beam: Number(beam.value) }));
    return beam;
  }

  /** The views that there are here. */
  protected views(): Partial<Record<View, (lab: Lab) => Tab>> {
    return { attention: attentionTab, steps: stepsTab, numbers: numbersTab, change: changeTab, choose: chooseTab };
  }

  private tabList(): HTMLElement {
    const made = this.views();
    const views = VIEWS.filter((view) => made[view]);
    const list = make("div", { class: "lab-tabs", attributes: { role: "tablist", "aria-label": say("labViews") } });
    for (const view of views) {
      const button = make("button", { id: `${this.id_}-${view}`, attributes: { type: "button", role: "tab", "aria-controls": this.stage.id } }, say(NAMES[view]));
      button.addEventListener("click", () => this.open(view));
      this.buttons.set(view, button);
      list.append(button);
      this.tabs.set(view, (made[view] as (lab: Lab) => Tab)(this));
    }
    list.addEventListener("keydown", (event) => {
      const at = views.indexOf(this.state.view);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const view = views[(to + views.length) % views.length] as View;
      this.open(view);
      this.buttons.get(view)?.focus();
    });
    return list;
  }

  private keep(): HTMLElement {
    const shown = make("pre", { attributes: { tabindex: "0", "aria-label": say("labKeep") } });
    const button = (name: string, click: () => void): HTMLButtonElement => make("button", { class: "lab-button", attributes: { type: "button" }, on: { click } }, name);
    const picture = async (name: string, blob: (of: Picture) => Blob | Promise<Blob>): Promise<void> => {
      const made = pictureOf(this.last?.attention ? this.last : await this.translated({ attention: true, edits: this.state.edits }));
      if (!made) return;
      save(`laboratory.${name}`, await blob(made));
      shown.textContent = say("labAlternative", { text: inWords(made) });
    };
    const address = this.dataset.address ?? this.dataset.page;
    return make("details", { class: "lab-keep" }, make("summary", {}, say("labKeep")),
      ...(address === undefined ? [] : [button(say("labAddress"), () => void navigator.clipboard.writeText(this.address()).then(() => (this.status.textContent = say("labAddressCopied"))))]),
      button("JSON", () => save("laboratory.json", new Blob([JSON.stringify({ state: this.state, made: plainOf(this.last) }, null, 1)], { type: "application/json" }))),
      button("CSV", () => save("laboratory.csv", new Blob([this.csv()], { type: "text/csv" }))),
      button("SVG", () => void this.tell(picture("svg", (of) => new Blob([svgOf(of)], { type: "image/svg+xml" })))),
      button("PNG", () => void this.tell(picture("png", pngOf))),
      button(say("labPython"), () => (shown.textContent = this.tabs.get(this.state.view)?.python?.(this.state) ?? python(this.state, this.own.python))),
      shown);
  }

  /** Put a text into the source, as if the reader had typed it. */
  type(text: string): void {
    this.source.value = text;
    this.typed();
  }

  private typed(): void {
    this.soon(() => {
      // Masks and tables are of one sentence: they do not fit another.
      const edits = this.state.edits.filter((edit) => "side" in edit || (edit.mask === undefined && (edit.weights === undefined || typeof edit.weights === "string")));
      return this.change({ text: this.source.value, edits });
    });
  }

  /** Change something after the pause that the model wants. */
  private soon(change: () => Promise<void>): void {
    clearTimeout(this.typing);
    if (this.own.pause) this.typing = setTimeout(() => void change(), this.own.pause);
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

  /** Run the model on the newest settings; those that come meanwhile are run next. */
  private run(): Promise<void> {
    this.again = true;
    this.running ??= this.all().finally(() => (this.running = undefined));
    return this.running;
  }

  private async all(): Promise<void> {
    while (this.again) {
      this.again = false;
      await this.tell(this.once());
    }
  }

  /** Say what went wrong, if anything. */
  private async tell(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.status.textContent = error instanceof Error ? error.message : String(error);
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
    const wanted = tab.wants(this.state);
    const made = await this.translated({ ...wanted, edits: this.state.edits });
    const plain = this.state.edits.length ? await this.translated(wanted) : made;
    this.last = made;
    if (this.state.target === undefined) this.target.value = made.text;
    const changes = this.state.edits.length;
    this.status.textContent = say(changes ? "labStatusChanged" : "labStatus", { tokens: made.tokens.length, logp: total(made).toFixed(2), changes });
    await tab.show(made, plain);
    this.dataset.milliseconds = (performance.now() - began).toFixed(1);
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

function plainOf(made: Translation | undefined): unknown {
  return JSON.parse(JSON.stringify(made ?? null, (_, value: unknown) => (ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value)));
}
