/** Edits of heads and positions: before and after side by side, with the change of log p, and in words. */

import { make, options } from "../dom";
import type { Lab, Tab } from "./lab";
import { type Key, say } from "./messages";
import { type Edit, type HeadsEdit, total, type Translation } from "./model";
import { axesOf, type Axes } from "./state";
import { maskTable, short } from "./tables";

const KINDS: Record<string, Key> = { cross: "changeCross", encoder: "changeEncoder", decoder: "changeDecoder" };
const DONE: Record<string, Key> = {
  silent: "changeSilent", uniform: "changeUniform", diagonal: "changeDiagonal", alone: "changeAlone", scale: "changeScale", mask: "changeMask",
};
const ROOM = 21; // steps of a translation besides three for each source token: as many as the model makes
const SIDES: Record<string, Key> = { source: "changeSource", target: "changeTarget" };
const PLACES: Record<string, Key> = { swap: "changeSwap", first: "changeFirst", reverse: "changeReverse" };

export function describe(edit: Edit): string {
  if ("side" in edit) return `${say(SIDES[edit.side] as Key)}: ${edit.places.join(", ")}`;
  const { kind = "cross", layer, head, scale, weights } = edit;
  const where = [
    say(KINDS[kind] as Key),
    layer ? say("changeLayerOf", { layer }) : say("changeAllLayers"),
    head ? say("changeHeadOf", { head }) : say("changeAllHeads"),
  ].join(", ");
  const known = typeof weights === "string" ? DONE[weights] : edit.mask ? DONE.mask : undefined;
  return `${where}: ${known ? say(known) : scale !== undefined ? say("changeScaleOf", { scale }) : say("changeWeights")}`;
}

export function changeTab(lab: Lab): Tab {
  const kind = choice("changeKind", KINDS);
  const layer = choice("changeLayer", { "": "changeAllLayers" });
  const head = choice("changeHead", { "": "changeAllHeads" });
  const what = choice("changeWhat", DONE);
  const places = choice("changePositions", PLACES);
  const side = choice("changeSide", SIDES);
  const list = make("ul", { class: "lab-edits" });
  const effect = make("div", { attributes: { role: "status" } });
  const mask = make("div");
  const axes = (): Axes | undefined => lab.last && axesOf(lab.last);

  const add = (edit: Edit): void => void lab.change({ edits: [...lab.state.edits, edit] });
  const heads = make("button", { class: "lab-button", attributes: { type: "button" } }, say("changeAdd"));
  heads.addEventListener("click", () => {
    const edit: HeadsEdit = { kind: kind.value as "cross" };
    if (layer.value) edit.layer = Number(layer.value);
    if (head.value || what.value === "alone") edit.head = Number(head.value || 1);
    if (what.value === "scale") edit.scale = 1;
    else if (what.value === "mask") edit.mask = open(kind.value);
    else edit.weights = what.value as "silent";
    add(edit);
  });
  const positions = make("button", { class: "lab-button", attributes: { type: "button" } }, say("changeAdd"));
  positions.addEventListener("click", () => {
    const count = (side.value === "source" ? axes()?.source : axes()?.fed)?.length ?? 2;
    const all = Array.from({ length: count }, (_, at) => at);
    add({ side: side.value as "source", places: places.value === "swap" ? [1, 0] : places.value === "first" ? all.map(() => 0) : all.reverse() });
  });
  const clear = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => void lab.change({ edits: [] }) } }, say("changeClear"));

  // With room for a longer translation, of which the first rows are shown.
  function open(of: string): boolean[][] {
    const source = axes()?.source.length ?? 0;
    const steps = ROOM + 3 * source;
    const [rows, columns] = [of === "encoder" ? source : steps, of === "decoder" ? steps : source];
    return Array.from({ length: rows }, () => Array.from({ length: columns }, () => true));
  }

  function painted(edit: HeadsEdit): HTMLElement[] {
    const given = edit.mask as boolean[][] | undefined;
    const shown = axes();
    if (!given || !shown) return [];
    const rows = edit.kind === "encoder" ? shown.source : shown.fed;
    const columns = edit.kind === "decoder" ? shown.fed : shown.source;
    return [maskTable(given, rows, columns, describe(edit), () => void lab.change({}))];
  }

  return {
    element: make("div", {},
      make("div", { class: "lab-bar" }, kind, layer, head, what, heads),
      make("div", { class: "lab-bar" }, side, places, positions, clear),
      list, effect, mask),
    wants: () => ({}),
    async show(made, plain) {
      const { info } = lab.own;
      const count = kind.value === "encoder" ? info.encoder_layers : info.decoder_layers;
      options(layer, [["", say("changeAllLayers")], ...numbered(count, (one) => say("changeLayerOf", { layer: one }))], layer.value);
      options(head, [["", say("changeAllHeads")], ...numbered(kind.value === "encoder" ? info.encoder_heads : info.decoder_heads, (one) => say("changeHeadOf", { head: one }))], head.value);
      list.replaceChildren(...lab.state.edits.map((edit, at) => {
        const remove = make("button", { class: "lab-button", attributes: { type: "button", "aria-label": say("changeRemove", { change: describe(edit) }) } }, "✕");
        remove.addEventListener("click", () => {
          heads.focus(); // the button goes with its edit
          void lab.change({ edits: lab.state.edits.filter((_, one) => one !== at) });
        });
        return make("li", {}, remove, ` ${describe(edit)}`);
      }));
      const masks = lab.state.edits.flatMap((edit) => ("side" in edit ? [] : painted(edit)));
      if (!mask.contains(document.activeElement)) mask.replaceChildren(...masks);
      if (lab.state.edits.length === 0) {
        effect.replaceChildren(make("p", {}, say("changeNone")));
        return;
      }
      const forced = await lab.own.translate(lab.state.text, { forced: plain.text, edits: lab.state.edits });
      const itself = await lab.own.translate(lab.state.text, { forced: plain.text });
      effect.replaceChildren(...told(plain, made, total(itself), total(forced), info.target_language));
    },
  };
}

function told(before: Translation, after: Translation, own: number, changed: number, language: string): HTMLElement[] {
  const lost = own - changed;
  const per = lost / Math.max(before.logProbs.length, 1);
  const change: Key = Math.abs(per) < 0.01 ? "changeHardly" : per < 0.1 ? "changeLittle" : per < 1 ? "changeSome" : "changeMuch";
  const row = (name: string, text: string, number: string): HTMLElement => make("tr", {}, make("th", { attributes: { scope: "row" } }, name), make("td", { attributes: { lang: language } }, text), make("td", {}, number));
  return [
    make("table", { class: "lab-effect" }, make("caption", {}, say("changeTable")), make("thead", {}, make("tr", {}, make("td"), make("th", { attributes: { scope: "col" } }, say("changeTranslation")), make("th", { attributes: { scope: "col" } }, say("changeLogp")))),
      make("tbody", {}, row(say("changeWithout"), before.text, short(own)), row(say("changeWith"), after.text, short(changed)))),
    make("p", {}, `${say(before.text === after.text ? "changeSame" : "changeOther")} ${say(change, { lost: short(lost), each: short(per) })}`),
  ];
}

function choice(name: Key, values: Record<string, Key>): HTMLSelectElement {
  const select = make("select", { label: name });
  const named = Object.entries(values).map(([value, key]) => [value, say(key)] as const);
  options(select, named, named[0]?.[0] ?? "");
  return select;
}
const numbered = (count: number, name: (one: number) => string): Array<[string, string]> => Array.from({ length: count }, (_, at) => [String(at + 1), name(at + 1)]);
