/** Four models of four papers on one sentence: their translations, log-probabilities and matrices side by side. */

import { make, options } from "../dom";
import type { Lab, Tab } from "./lab";
import { say } from "./messages";
import { total, type Translation } from "./model";
import { listed, loadAll, type Running } from "./models";
import { heatMap, told } from "./drawing";
import { axesOf, COMPARED, type LabState } from "./state";
import { numberTable, short } from "./tables";

/** What makes a sentence longer, before its full stop. The models know sentences of at most 12 words. */
const LONGER = [" in the city", " with my friends", " because it is cheap", " and then I go home", " when the rain stops", " before the night comes"];

export function compareTab(lab: Lab): Tab {
  const status = make("p", { class: "lab-status", attributes: { role: "status" } });
  const start = make("button", { class: "lab-button lab-start", attributes: { type: "button" }, on: { click: () => void load() } });
  const names = make("div", { class: "lab-bar", attributes: { role: "group", "aria-label": say("compareModels") } });
  const heads = make("select", { attributes: { "aria-label": say("compareHeads") } });
  const table = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("compareTable") } });
  const matrices = make("div", { class: "lab-matrices" });
  const after = make("div", { attributes: { hidden: "" } },
    make("div", { class: "lab-bar" },
      make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => lengthen() } }, say("compareLonger")),
      make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => shorten() } }, say("compareShorter")),
      make("label", {}, `${say("compareHeads")} `, heads)),
    names, table, matrices);
  let models: Running[] | undefined;

  heads.addEventListener("change", () => void lab.change({ heads: heads.value as LabState["heads"] }));
  void listed().then(
    (found) => (start.textContent = say("compareStart", { count: found.length, size: Math.round(found.reduce((sum, one) => sum + one.bytes, 0) / 1e6) })),
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
    const next = LONGER.find((one) => !body().includes(one)) ?? " and so on";
    lab.type(`${body()}${next}.`);
  }
  function shorten(): void {
    const added = LONGER.find((one) => body().endsWith(one));
    lab.type(`${added ? body().slice(0, -added.length) : body().replace(/\s*\S+$/, "")}.`);
  }

  function choices(): void {
    if (names.childElementCount || !models) return;
    for (const { name, title } of models) {
      const box = make("input", { attributes: { type: "checkbox", value: name } });
      box.addEventListener("change", () => {
        const chosen = [...names.querySelectorAll("input")].filter((one) => one.checked).map((one) => one.value);
        void lab.change({ models: chosen });
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
      const chosen = models.filter(({ name }) => state.models.length === 0 || state.models.includes(name));
      names.querySelectorAll("input").forEach((box) => (box.checked = chosen.some(({ name }) => name === box.value)));
      options(heads, [["mean", say("compareMean")], ["head", say("compareHead")]], state.heads);
      const target = state.target ?? plain.text;
      const found = await Promise.all(chosen.map((one) => translated(one, state, target)));
      table.replaceChildren(resultTable(found, target));
      matrices.replaceChildren(...found.map((one) => drawn(one, state)));
    },
    python: (state) => python(state, models ?? []),
  };
}

interface Result {
  of: Running;
  free?: Translation;
  forced?: Translation;
  error?: string;
}

async function translated(of: Running, { text, beam }: LabState, target: string): Promise<Result> {
  try {
    const free = await of.model.translate(text, { beam, attention: true });
    const forced = await of.model.translate(text, { targets: [target], attention: true });
    return { of, free, forced };
  } catch (error) {
    return { of, error: error instanceof Error ? error.message : String(error) };
  }
}

function resultTable(found: Result[], target: string): HTMLTableElement {
  const cell = (text: string, title = ""): HTMLElement => make("td", title ? { attributes: { title } } : {}, text);
  const sum = (made?: Translation): HTMLElement => (made ? cell(short(total(made)), String(total(made))) : cell("–"));
  const heads = [say("compareModel"), say("changeTranslation"), say("compareLogp"), say("compareLogpOf", { target }), say("compareWeights"), say("compareBleu")];
  const rows = found.map(({ of, free, forced, error }) => make("tr", {},
    make("th", { attributes: { scope: "row" } }, of.title), make("td", { attributes: { lang: error ? "" : "de" } }, error ?? free?.text ?? ""),
    sum(free), sum(forced), cell((of.weights / 1e6).toFixed(2)), cell(of.bleu.toFixed(1))));
  return make("table", { class: "lab-effect" }, make("caption", {}, say("compareTable")),
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { attributes: { scope: "col" } }, head)))), make("tbody", {}, ...rows));
}

/** The matrix (target, source) of one model: of its only head, of the mean of its last layer, or of the aligning head. */
export function matrixOf(cross: { shape: number[]; data: Float32Array }, heads: LabState["heads"], aligning?: { layer: number; head: number }): Float32Array[] {
  const [layers, count, rows, columns] = cross.shape as [number, number, number, number];
  const alone = heads === "head" && aligning && count > 1;
  const layer = alone ? aligning.layer - 1 : layers - 1;
  const from = (head: number, row: number): number => ((layer * count + head) * rows + row) * columns;
  return Array.from({ length: rows }, (_, row) => {
    if (alone) return cross.data.slice(from(aligning.head - 1, row), from(aligning.head - 1, row) + columns);
    const sum = new Float32Array(columns); // added in float32, as in Python
    for (let head = 0; head < count; ++head) sum.forEach((one, at) => (sum[at] = one + (cross.data[from(head, row) + at] as number)));
    return sum.map((one) => one / count);
  });
}

function drawn({ of, free, forced, error }: Result, state: LabState): HTMLElement {
  const made = state.target === undefined ? free : forced;
  const heading = make("figcaption", {}, make("strong", {}, of.title));
  if (error || !made) return make("figure", {}, heading, make("p", {}, error ?? ""));
  const cross = made.attention?.cross;
  if (!cross) return make("figure", {}, heading, make("p", {}, say("compareNone", { count: made.source.tokens.length })));
  const { source, predicted } = axesOf(made);
  const values = matrixOf(cross, state.heads, of.head);
  const title = say("comparePicture", { model: of.title });
  const scroll = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": title } }, heatMap(values, predicted, source, title));
  return make("figure", {}, heading, scroll, make("p", { class: "lab-faint" }, told(values, predicted, source)),
    make("details", {}, make("summary", {}, say("pictureTable")), numberTable(values, predicted, source, title)));
}

/** Lines of Python that compute what is shown. */
function python({ text, target, beam, models, heads }: LabState, known: Running[]): string {
  const names = models.length ? models : known.length ? known.map(({ name }) => name) : COMPARED;
  const wanted = target === undefined ? `uwaga.load(dtype="int8").translate(text, beam=${beam}, split="never").text` : JSON.stringify(target);
  const aligning = known.find(({ head }) => head)?.head;
  const alone = heads === "head" && aligning;
  return [
    "import uwaga",
    "",
    `text = ${JSON.stringify(text)}`,
    `target = ${wanted}`,
    `for name in ${JSON.stringify(names).replaceAll(",", ", ")}:`,
    '    translator = uwaga.load(f"docs/learn/models/{name}")',
    `    made = translator.translate(text, beam=${beam}, split="never")`,
    "    [forced] = translator.score([(text, target)])",
    "    print(name, made.text, made.log_prob, forced.log_prob)",
    '    if name != "cho":  # which has no attention',
    `        cross = translator.attend(text, ${target === undefined ? "made.text" : "target"}).attentions.cross`,
    alone ? `        print(cross[${aligning.layer - 1}, ${aligning.head - 1}] if name == "transformer" else cross[0, 0])` : "        print(cross[-1].mean(axis=0))",
    "",
  ].join("\n");
}
