/** A comparison of four models of four papers: translations, log-probabilities and matrices of a sentence. */

import { make, fillSelect } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import { totalLogProb, type Translation } from "./model";
import { listModels, loadAll, type LoadedModel } from "./models";
import { heatMap, describeWeights } from "./drawing";
import { translationAxes, COMPARED, type LabState } from "./state";
import { numberTable, formatNumber } from "./tables";

/** Phrases that lengthen a sentence, before its full stop. The models were trained on sentences of at most 12 words. */
const LONGER = [" in the city", " with my friends", " because it is cheap", " and then I go home", " when the rain stops", " before the night comes"];

// Pixels of a cell, the same in all pictures, which are compared; on a phone two stand side by side.
const [CELL, SMALL_CELL, PHONE] = [18, 12, 500];

export function compareTab(lab: Lab): Tab {
  const status = make("p", { class: "lab-status", attributes: { role: "status" } });
  const start = make("button", { class: "lab-button lab-start", attributes: { type: "button" }, on: { click: () => void load() } });
  const names = make("div", { class: "lab-bar", attributes: { role: "group", "aria-label": say("compareModels") } });
  const heads = make("select", { attributes: { "aria-label": say("compareHeads") } });
  const table = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("compareTable") } });
  const matrices = make("div", { class: "lab-models" });
  const after = make("div", { attributes: { hidden: "" } },
    make("div", { class: "lab-bar" },
      make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => lengthen() } }, say("compareLonger")),
      make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => shorten() } }, say("compareShorter")),
      make("label", {}, `${say("compareHeads")} `, heads)),
    names, table, matrices);
  let models: LoadedModel[] | undefined;

  heads.addEventListener("change", () => void lab.change({ heads: heads.value as LabState["heads"] }));
  void listModels().then(
    (available) => (start.textContent = say("compareStart", { count: available.length, size: Math.round(available.reduce((sum, model) => sum + model.bytes, 0) / 1e6) })),
    (error: unknown) => (status.textContent = say("labFailed", { detail: String(error) })),
  );

  async function load(): Promise<void> {
    start.disabled = true;
    try {
      models = await loadAll((share) => (status.textContent = say("compareLoading", { percent: Math.round(100 * share) })));
      status.textContent = "";
      start.hidden = true;
      after.hidden = false;
      await lab.change({});
      names.querySelector("input")?.focus();
    } catch (error) {
      status.textContent = say("labFailed", { detail: error instanceof Error ? error.message : String(error) });
      start.disabled = false;
    }
  }

  const body = (): string => lab.state.text.trim().replace(/[.!?]$/, "");
  function lengthen(): void {
    const next = LONGER.find((phrase) => !body().includes(phrase)) ?? " and so on";
    lab.setText(`${body()}${next}.`);
  }
  function shorten(): void {
    const added = LONGER.find((phrase) => body().endsWith(phrase));
    lab.setText(`${added ? body().slice(0, -added.length) : body().replace(/\s*\S+$/, "")}.`);
  }

  function choices(): void {
    if (names.childElementCount || !models) return;
    for (const { name, title } of models) {
      const box = make("input", { attributes: { type: "checkbox", value: name } });
      box.addEventListener("change", () => {
        const selected = [...names.querySelectorAll("input")].filter((input) => input.checked).map((input) => input.value);
        void lab.change({ models: selected });
      });
      names.append(make("label", {}, box, ` ${title}`));
    }
  }

  return {
    element: make("div", {}, make("p", {}, say("compareIntro")), start, status, after),
    wants: () => ({}),
    async show(_made, plain) {
      if (!models) return;
      choices();
      const { state } = lab;
      const selected = models.filter(({ name }) => state.models.length === 0 || state.models.includes(name));
      names.querySelectorAll("input").forEach((box) => (box.checked = selected.some(({ name }) => name === box.value)));
      fillSelect(heads, [["mean", say("compareMean")], ["head", say("compareHead")]], state.heads);
      const target = state.target ?? plain.text;
      const results = await Promise.all(selected.map((model) => translateAndScore(model, state, target)));
      table.replaceChildren(resultTable(results, target));
      matrices.replaceChildren(...results.map((result) => drawResult(result, state, matrices.clientWidth < PHONE ? SMALL_CELL : CELL)));
      const widest = Math.max(0, ...[...matrices.querySelectorAll("svg")].map((picture) => Number(picture.getAttribute("width"))));
      matrices.style.setProperty("--model-width", `${Math.max(160, Math.ceil(widest))}px`);
    },
    python: (state) => python(state, models ?? []),
  };
}

interface Result {
  of: LoadedModel;
  free?: Translation;
  forced?: Translation;
  error?: string;
}

async function translateAndScore(of: LoadedModel, { text, beam }: LabState, target: string): Promise<Result> {
  try {
    const free = await of.model.translate(text, { beam, attention: true });
    const forced = await of.model.translate(text, { targets: [target], attention: true });
    return { of, free, forced };
  } catch (error) {
    return { of, error: error instanceof Error ? error.message : String(error) };
  }
}

function resultTable(results: Result[], target: string): HTMLTableElement {
  const cell = (text: string, title = ""): HTMLElement => make("td", title ? { attributes: { title } } : {}, text);
  const sum = (translation?: Translation): HTMLElement => (translation ? cell(formatNumber(totalLogProb(translation)), String(totalLogProb(translation))) : cell("–"));
  const headers = [say("compareModel"), say("changeTranslation"), say("compareLogp"), say("compareLogpOf", { target }), say("compareWeights"), say("compareBleu")];
  const rows = results.map(({ of, free, forced, error }) => make("tr", {},
    make("th", { attributes: { scope: "row" } }, of.title), make("td", { attributes: { lang: error ? "" : "de" } }, error ?? free?.text ?? ""),
    sum(free), sum(forced), cell((of.weights / 1e6).toFixed(2)), cell(of.bleu.toFixed(1))));
  return make("table", { class: "lab-effect" }, make("caption", {}, say("compareTable")),
    make("thead", {}, make("tr", {}, ...headers.map((head) => make("th", { attributes: { scope: "col" } }, head)))), make("tbody", {}, ...rows));
}

/** Return a matrix (target, source) of a model: its only head, the mean of its last layer, or the alignment head. */
export function matrixOf(cross: { shape: number[]; data: Float32Array }, heads: LabState["heads"], aligning?: { layer: number; head: number }): Float32Array[] {
  const [layers, count, rows, columns] = cross.shape as [number, number, number, number];
  const isSingleHead = heads === "head" && aligning && count > 1;
  const layer = isSingleHead ? aligning.layer - 1 : layers - 1;
  const from = (head: number, row: number): number => ((layer * count + head) * rows + row) * columns;
  return Array.from({ length: rows }, (_, row) => {
    if (isSingleHead) return cross.data.slice(from(aligning.head - 1, row), from(aligning.head - 1, row) + columns);
    const sum = new Float32Array(columns); // added in float32, as in Python
    for (let head = 0; head < count; ++head) sum.forEach((value, column) => (sum[column] = value + (cross.data[from(head, row) + column] as number)));
    return sum.map((value) => value / count);
  });
}

function drawResult({ of, free, forced, error }: Result, state: LabState, cell: number): HTMLElement {
  const translation = state.target === undefined ? free : forced;
  const heading = make("figcaption", {}, make("strong", {}, of.title));
  if (error || !translation) return make("figure", {}, heading, make("p", {}, error ?? ""));
  const cross = translation.attention?.cross;
  if (!cross) return make("figure", {}, heading, make("p", {}, say("compareNone", { count: translation.source.tokens.length })));
  const { source, rows } = translationAxes(translation);
  const values = matrixOf(cross, state.heads, of.head);
  const title = say("comparePicture", { model: of.title });
  const scroll = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": title } }, heatMap(values, rows, source, title, cell));
  return make("figure", {}, heading, scroll,
    make("details", {}, make("summary", {}, say("pictureTable")), make("p", { class: "lab-faint" }, describeWeights(values, rows, source)), numberTable(values, rows, source, title)));
}

/** Return Python code that computes what is shown. */
function python({ text, target, beam, models, heads }: LabState, known: LoadedModel[]): string {
  const names = models.length ? models : known.length ? known.map(({ name }) => name) : COMPARED;
  const targetCode = target === undefined ? `uwaga.load(dtype="int8").translate(text, beam=${beam}, split="never").text` : JSON.stringify(target);
  const aligning = known.find(({ head }) => head)?.head;
  const isSingleHead = heads === "head" && aligning;
  return [
    "import uwaga",
    "",
    `text = ${JSON.stringify(text)}`,
    `target = ${targetCode}`,
    `for name in ${JSON.stringify(names).replaceAll(",", ", ")}:`,
    '    translator = uwaga.load(f"docs/learn/models/{name}")',
    `    made = translator.translate(text, beam=${beam}, split="never")`,
    "    [forced] = translator.score([(text, target)])",
    "    print(name, made.text, made.log_prob, forced.log_prob)",
    '    if name != "cho":  # which has no attention',
    `        cross = translator.attend(text, ${target === undefined ? "made.text" : "target"}).attentions.cross`,
    isSingleHead ? `        print(cross[${aligning.layer - 1}, ${aligning.head - 1}] if name == "transformer" else cross[0, 0])` : "        print(cross[-1].mean(axis=0))",
    "",
  ].join("\n");
}
