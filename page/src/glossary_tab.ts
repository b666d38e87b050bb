/** The tab for glossaries, typed or read from a file and stored in the browser for each pair of languages. */

import type { App } from "./app";
import { button, checkbox, make, saveFile, setMessage } from "./dom";
import { mergePairs, type Pair, readPairs, writePairs } from "./glossary_file";
import { say } from "./messages";

export class GlossaryTab {
  readonly key = "tabGlossary" as const;
  readonly element: HTMLElement;
  private readonly intro = make("p", { class: "faint" });
  private readonly rows = make("tbody");
  private readonly note = make("p", { class: "faint", attributes: { role: "status" } });
  private readonly source = make("input", { label: "glossarySource", placeholder: "glossarySource", attributes: { autocomplete: "off", dir: "auto" } });
  private readonly target = make("input", { label: "glossaryTarget", placeholder: "glossaryTarget", attributes: { autocomplete: "off", dir: "auto" } });

  constructor(
    private readonly app: App,
    private readonly onChange: () => void,
  ) {
    const form = make("form", { class: "row" }, this.source, this.target, make("button", { say: "glossaryAdd", class: "button" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
    const file = make("input", { id: "glossary-file", class: "unseen", attributes: { type: "file", accept: ".tsv,.csv,.txt,text/*" } });
    file.addEventListener("change", () => void this.read(file));
    const uses = checkbox("glossaryUse", app.store.settings.usesGlossary, (isChecked) => {
      app.store.change({ usesGlossary: isChecked });
      this.onChange();
    });
    const tools = make("div", { class: "row" }, uses, file,
      make("label", { say: "glossaryFile", class: "button", attributes: { for: "glossary-file" } }),
      button("glossarySave", () => this.save()),
      button("glossaryClear", () => this.set([])));
    const head = make("thead", {}, make("tr", {}, make("th", { say: "glossarySource" }), make("th", { say: "glossaryTarget" }), make("td")));
    this.element = make("div", {}, this.intro, tools, form, this.note, make("table", {}, head, this.rows));
    app.listeners.push(() => this.onShow());
    this.onShow();
  }

  onShow(): void {
    const { source, target } = this.app.store.settings;
    this.intro.textContent = say("glossaryIntro", this.app.withLanguageNames({ from: source, to: target }));
    const pairs = this.pairs();
    this.rows.replaceChildren(...pairs.map((pair) => this.row(pair)));
    if (!pairs.length) setMessage(this.note, "glossaryEmpty");
    else if (this.note.dataset.say === "glossaryEmpty") this.clearNote();
  }

  private pairs(): Pair[] {
    const { source, target } = this.app.store.settings;
    return this.app.store.glossary(source, target);
  }

  private set(pairs: Pair[]): void {
    const { source, target } = this.app.store.settings;
    this.app.store.setGlossary(source, target, pairs);
    this.onShow();
    this.onChange();
  }

  private row([source, target]: Pair): HTMLElement {
    const remove = button("remove", () => this.set(this.pairs().filter(([term]) => term !== source)), "quiet");
    const cell = (text: string) => make("td", { attributes: { dir: "auto" } }, text);
    return make("tr", {}, cell(source), cell(target), make("td", {}, remove));
  }

  private add(): void {
    const pair: Pair = [this.source.value.trim(), this.target.value.trim()];
    if (!pair[0] || !pair[1]) return setMessage(this.note, "glossaryHalf");
    this.clearNote();
    this.set(mergePairs(this.pairs(), [pair]));
    this.source.value = this.target.value = "";
    this.source.focus();
  }

  private async read(input: HTMLInputElement): Promise<void> {
    const [file] = input.files ?? [];
    if (!file) return;
    const { pairs, bad } = readPairs(await file.text());
    input.value = "";
    this.clearNote();
    this.set(mergePairs(this.pairs(), pairs));
    const skipped = bad.length ? ` ${say("glossaryBad", { lines: bad.join(", ") })}` : "";
    delete this.note.dataset.say;
    this.note.textContent = say("glossaryRead", { count: pairs.length }) + skipped;
  }

  private save(): void {
    const { source, target } = this.app.store.settings;
    saveFile(`glossary.${source}-${target}.tsv`, new Blob([writePairs(this.pairs())], { type: "text/tab-separated-values" }));
  }

  private clearNote(): void {
    delete this.note.dataset.say;
    this.note.replaceChildren();
  }
}
