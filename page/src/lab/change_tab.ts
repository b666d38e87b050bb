/** Edits of heads and positions: before and after side by side, with the change of log p, and in words. */

import { make, options } from "../dom";
import type { Edit, HeadsEdit, Translation } from "./engine";
import type { Lab, Tab } from "./lab";
import { axesOf, type Axes } from "./state";
import { maskTable, short } from "./tables";

const DONE: Record<string, string> = {
  silent: "silence", uniform: "spread evenly", diagonal: "look at the own position", alone: "silence the other heads", scale: "leave out the scale 1/√d_k", mask: "mask",
};
const ROOM = 21; // steps of a translation besides three for each source token: as many as the model makes
const PLACES: Record<string, string> = { swap: "exchange the first two positions", first: "all positions 0", reverse: "positions backwards" };

export function describe(edit: Edit): string {
  if ("side" in edit) return `positions of the ${edit.side}: ${edit.places.join(", ")}`;
  const where = `${edit.kind ?? "cross"} attention, ${edit.layer ? `layer ${edit.layer}` : "all layers"}, ${edit.head ? `head ${edit.head}` : "all heads"}`;
  const what = typeof edit.weights === "string" ? DONE[edit.weights] : edit.mask ? DONE.mask : edit.scale !== undefined ? `scale ${edit.scale}` : "other weights";
  return `${where}: ${what}`;
}

export function changeTab(): Tab {
  const kind = choice("kind", [["cross", "cross"], ["encoder", "encoder"], ["decoder", "decoder"]]);
  const layer = choice("layer", [["", "all layers"]]);
  const head = choice("head", [["", "all heads"]]);
  const what = choice("change", Object.entries(DONE));
  const places = choice("positions", Object.entries(PLACES));
  const side = choice("side", [["source", "source"], ["target", "target"]]);
  const list = make("ul", { class: "lab-edits" });
  const effect = make("div", { attributes: { role: "status" } });
  const mask = make("div");
  let lab: Lab | undefined;
  let axes: Axes | undefined;

  const add = (edit: Edit): void => void lab?.change({ edits: [...lab.state.edits, edit] });
  const heads = make("button", { class: "lab-button", attributes: { type: "button" } }, "Add");
  heads.addEventListener("click", () => {
    const edit: HeadsEdit = { kind: kind.value as "cross" };
    if (layer.value) edit.layer = Number(layer.value);
    if (head.value || what.value === "alone") edit.head = Number(head.value || 1);
    if (what.value === "scale") edit.scale = 1;
    else if (what.value === "mask") edit.mask = open(kind.value);
    else edit.weights = what.value as "silent";
    add(edit);
  });
  const positions = make("button", { class: "lab-button", attributes: { type: "button" } }, "Add");
  positions.addEventListener("click", () => {
    const count = (side.value === "source" ? axes?.source : axes?.fed)?.length ?? 2;
    const all = Array.from({ length: count }, (_, at) => at);
    add({ side: side.value as "source", places: places.value === "swap" ? [1, 0] : places.value === "first" ? all.map(() => 0) : all.reverse() });
  });
  const clear = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => void lab?.change({ edits: [] }) } }, "Remove all");

  // With room for a longer translation, of which the first rows are shown.
  function open(of: string): boolean[][] {
    const source = axes?.source.length ?? 0;
    const steps = ROOM + 3 * source;
    const [rows, columns] = [of === "encoder" ? source : steps, of === "decoder" ? steps : source];
    return Array.from({ length: rows }, () => Array.from({ length: columns }, () => true));
  }

  function painted(edit: HeadsEdit): HTMLElement[] {
    const given = edit.mask as boolean[][] | undefined;
    if (!given || !axes) return [];
    const rows = edit.kind === "encoder" ? axes.source : axes.fed;
    const columns = edit.kind === "decoder" ? axes.fed : axes.source;
    return [maskTable(given, rows, columns, describe(edit), () => void lab?.change({}))];
  }

  return {
    element: make("div", {},
      make("div", { class: "lab-bar" }, named("attention", kind), layer, head, what, heads),
      make("div", { class: "lab-bar" }, named("positions of the", side), places, positions, clear),
      list, effect, mask),
    wants: () => ({}),
    async show(made, plain, own) {
      lab = own;
      axes = axesOf(made);
      const { info } = own.own.model;
      const count = kind.value === "encoder" ? info.encoder_layers : info.decoder_layers;
      options(layer, [["", "all layers"], ...numbered("layer", count)], layer.value);
      options(head, [["", "all heads"], ...numbered("head", kind.value === "encoder" ? info.encoder_heads : info.decoder_heads)], head.value);
      list.replaceChildren(...own.state.edits.map((edit, at) => {
        const remove = make("button", { class: "lab-button", attributes: { type: "button", "aria-label": `Remove: ${describe(edit)}` } }, "✕");
        remove.addEventListener("click", () => void own.change({ edits: own.state.edits.filter((_, one) => one !== at) }));
        return make("li", {}, remove, ` ${describe(edit)}`);
      }));
      const masks = own.state.edits.flatMap((edit) => ("side" in edit ? [] : painted(edit)));
      if (!mask.contains(document.activeElement)) mask.replaceChildren(...masks);
      if (own.state.edits.length === 0) {
        effect.replaceChildren(make("p", {}, "Add a change: the translation without it and with it appear side by side."));
        return;
      }
      const forced = await own.own.model.translate(own.state.text, { targets: [plain.text], edits: own.state.edits });
      const itself = await own.own.model.translate(own.state.text, { targets: [plain.text] });
      effect.replaceChildren(...told(plain, made, total(itself), total(forced)));
    },
  };
}

const total = (made: Translation): number => Array.from(made.logProbs).reduce((sum, one) => sum + one, 0);

function told(before: Translation, after: Translation, own: number, changed: number): HTMLElement[] {
  const lost = own - changed;
  const per = lost / Math.max(before.logProbs.length, 1);
  const words = Math.abs(per) < 0.01 ? "hardly changes" : per < 0.1 ? "changes a little" : per < 1 ? "loses some of its probability" : "is no longer expected";
  const row = (name: string, text: string, number: string): HTMLElement => make("tr", {}, make("th", { attributes: { scope: "row" } }, name), make("td", { attributes: { lang: "de" } }, text), make("td", {}, number));
  return [
    make("table", { class: "lab-effect" }, make("caption", {}, "before and after"), make("thead", {}, make("tr", {}, make("td"), make("th", { attributes: { scope: "col" } }, "translation"), make("th", { attributes: { scope: "col" } }, "log p of the first"))),
      make("tbody", {}, row("without the changes", before.text, short(own)), row("with them", after.text, short(changed)))),
    make("p", {}, `${before.text === after.text ? "The translation stays the same" : "The translation changes"}; the first one ${words}: ${short(lost)} nats are lost, ${short(per)} for each token.`),
  ];
}

function choice(name: string, values: Array<readonly [string, string]>): HTMLSelectElement {
  const select = make("select", { attributes: { "aria-label": name } });
  options(select, values, values[0]?.[0] ?? "");
  return select;
}
const named = (name: string, select: HTMLElement): HTMLElement => make("label", {}, `${name} `, select);
const numbered = (name: string, count: number): Array<[string, string]> => Array.from({ length: count }, (_, at) => [String(at + 1), `${name} ${at + 1}`]);
