/** Edits of heads and positions: the translations before and after, the change of log p, and a description. */

import { make, fillSelect } from "../dom";
import type { Lab, Tab } from "./lab";
import { type Key, say } from "./messages";
import { type Edit, type HeadsEdit, totalLogProb, type Translation } from "./model";
import { translationAxes, type Axes } from "./state";
import { maskTable, formatNumber } from "./tables";

const KINDS: Record<string, Key> = { cross: "changeCross", encoder: "changeEncoder", decoder: "changeDecoder" };
const CHANGES: Record<string, Key> = {
  silent: "changeSilent", uniform: "changeUniform", diagonal: "changeDiagonal", alone: "changeAlone", scale: "changeScale", mask: "changeMask",
};
const EXTRA_STEPS = 21; // steps besides three for each source token: the length limit of the model
const SIDES: Record<string, Key> = { source: "changeSource", target: "changeTarget" };
const POSITION_CHANGES: Record<string, Key> = { swap: "changeSwap", first: "changeFirst", reverse: "changeReverse" };

export function describe(edit: Edit): string {
  if ("side" in edit) return `${say(SIDES[edit.side] as Key)}: ${edit.places.join(", ")}`;
  const { kind = "cross", layer, head, scale, weights } = edit;
  const target = [
    say(KINDS[kind] as Key),
    layer ? say("changeLayerOf", { layer }) : say("changeAllLayers"),
    head ? say("changeHeadOf", { head }) : say("changeAllHeads"),
  ].join(", ");
  const message = typeof weights === "string" ? CHANGES[weights] : edit.mask ? CHANGES.mask : undefined;
  return `${target}: ${message ? say(message) : scale !== undefined ? say("changeScaleOf", { scale }) : say("changeWeights")}`;
}

export function changeTab(lab: Lab): Tab {
  const kind = createSelect("changeKind", KINDS);
  const layer = createSelect("changeLayer", { "": "changeAllLayers" });
  const head = createSelect("changeHead", { "": "changeAllHeads" });
  const change = createSelect("changeWhat", CHANGES);
  const positionChange = createSelect("changePositions", POSITION_CHANGES);
  const side = createSelect("changeSide", SIDES);
  const list = make("ul", { class: "lab-edits" });
  const effect = make("div", { attributes: { role: "status" } });
  const mask = make("div");
  const axes = (): Axes | undefined => lab.last && translationAxes(lab.last);

  const add = (edit: Edit): void => void lab.change({ edits: [...lab.state.edits, edit] });
  const heads = make("button", { class: "lab-button", attributes: { type: "button" } }, say("changeAdd"));
  heads.addEventListener("click", () => {
    const edit: HeadsEdit = { kind: kind.value as "cross" };
    if (layer.value) edit.layer = Number(layer.value);
    if (head.value || change.value === "alone") edit.head = Number(head.value || 1);
    if (change.value === "scale") edit.scale = 1;
    else if (change.value === "mask") edit.mask = openMask(kind.value);
    else edit.weights = change.value as "silent";
    add(edit);
  });
  const positions = make("button", { class: "lab-button", attributes: { type: "button" } }, say("changeAdd"));
  positions.addEventListener("click", () => {
    const count = (side.value === "source" ? axes()?.source : axes()?.inputs)?.length ?? 2;
    const all = Array.from({ length: count }, (_, position) => position);
    add({ side: side.value as "source", places: positionChange.value === "swap" ? [1, 0] : positionChange.value === "first" ? all.map(() => 0) : all.reverse() });
  });
  const clear = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => void lab.change({ edits: [] }) } }, say("changeClear"));

  // Large enough for a longer translation; only the first rows are shown.
  function openMask(kindName: string): boolean[][] {
    const source = axes()?.source.length ?? 0;
    const steps = EXTRA_STEPS + 3 * source;
    const [rows, columns] = [kindName === "encoder" ? source : steps, kindName === "decoder" ? steps : source];
    return Array.from({ length: rows }, () => Array.from({ length: columns }, () => true));
  }

  function maskTables(edit: HeadsEdit): HTMLElement[] {
    const maskValues = edit.mask as boolean[][] | undefined;
    const currentAxes = axes();
    if (!maskValues || !currentAxes) return [];
    const rows = edit.kind === "encoder" ? currentAxes.source : currentAxes.inputs;
    const columns = edit.kind === "decoder" ? currentAxes.inputs : currentAxes.source;
    return [maskTable(maskValues, rows, columns, describe(edit), () => void lab.change({}))];
  }

  return {
    element: make("div", {},
      make("div", { class: "lab-bar" }, kind, layer, head, change, heads),
      make("div", { class: "lab-bar" }, side, positionChange, positions, clear),
      list, effect, mask),
    wants: () => ({}),
    async show(translation, plain) {
      const { info } = lab.model;
      const count = kind.value === "encoder" ? info.encoder_layers : info.decoder_layers;
      fillSelect(layer, [["", say("changeAllLayers")], ...numberedOptions(count, (number) => say("changeLayerOf", { layer: number }))], layer.value);
      fillSelect(head, [["", say("changeAllHeads")], ...numberedOptions(kind.value === "encoder" ? info.encoder_heads : info.decoder_heads, (number) => say("changeHeadOf", { head: number }))], head.value);
      list.replaceChildren(...lab.state.edits.map((edit, index) => {
        const remove = make("button", { class: "lab-button", attributes: { type: "button", "aria-label": say("changeRemove", { change: describe(edit) }) } }, "✕");
        remove.addEventListener("click", () => {
          heads.focus(); // the button is removed with its edit
          void lab.change({ edits: lab.state.edits.filter((_, i) => i !== index) });
        });
        return make("li", {}, remove, ` ${describe(edit)}`);
      }));
      const masks = lab.state.edits.flatMap((edit) => ("side" in edit ? [] : maskTables(edit)));
      if (!mask.contains(document.activeElement)) mask.replaceChildren(...masks);
      if (lab.state.edits.length === 0) {
        effect.replaceChildren(make("p", {}, say("changeNone")));
        return;
      }
      const forced = await lab.model.translate(lab.state.text, { forced: plain.text, edits: lab.state.edits });
      const unchanged = await lab.model.translate(lab.state.text, { forced: plain.text });
      effect.replaceChildren(...describeEffect(plain, translation, totalLogProb(unchanged), totalLogProb(forced), info.target_language));
    },
  };
}

function describeEffect(before: Translation, after: Translation, oldLogProb: number, newLogProb: number, language: string): HTMLElement[] {
  const lost = oldLogProb - newLogProb;
  const perToken = lost / Math.max(before.logProbs.length, 1);
  const change: Key = Math.abs(perToken) < 0.01 ? "changeHardly" : perToken < 0.1 ? "changeLittle" : perToken < 1 ? "changeSome" : "changeMuch";
  const row = (name: string, text: string, number: string): HTMLElement => make("tr", {}, make("th", { attributes: { scope: "row" } }, name), make("td", { attributes: { lang: language } }, text), make("td", {}, number));
  return [
    make("table", { class: "lab-effect" }, make("caption", {}, say("changeTable")), make("thead", {}, make("tr", {}, make("td"), make("th", { attributes: { scope: "col" } }, say("changeTranslation")), make("th", { attributes: { scope: "col" } }, say("changeLogp")))),
      make("tbody", {}, row(say("changeWithout"), before.text, formatNumber(oldLogProb)), row(say("changeWith"), after.text, formatNumber(newLogProb)))),
    make("p", {}, `${say(before.text === after.text ? "changeSame" : "changeOther")} ${say(change, { lost: formatNumber(lost), each: formatNumber(perToken) })}`),
  ];
}

function createSelect(name: Key, values: Record<string, Key>): HTMLSelectElement {
  const select = make("select", { label: name });
  const entries = Object.entries(values).map(([value, key]) => [value, say(key)] as const);
  fillSelect(select, entries, entries[0]?.[0] ?? "");
  return select;
}
const numberedOptions = (count: number, name: (number: number) => string): Array<[string, string]> => Array.from({ length: count }, (_, index) => [String(index + 1), name(index + 1)]);
