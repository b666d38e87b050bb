/** Edits of heads in the matrix itself and of positions: both matrices, both translations, the change of log p. */

import { make, fillSelect } from "../dom";
import { Grid } from "./edit_grid";
import { headGrid } from "./head_grid";
import type { Lab, Tab } from "./lab";
import { changedWords, editOf, isVisibleIn, type Kind, maskOf, meanWeights, positionsEdit, positionsOf, tableSize, type Target, withEdit } from "./matrix_edits";
import { type Key, say } from "./messages";
import { type Edit, type HeadsEdit, totalLogProb, type Translation } from "./model";
import { frozen, Positions, skipped } from "./positions";
import { translationAxes } from "./state";
import { formatNumber } from "./tables";

const KINDS: Record<Kind, Key> = { cross: "changeCross", encoder: "changeEncoder", decoder: "changeDecoder" };
const CHANGES: Record<string, Key> = { silent: "changeSilent", uniform: "changeUniform", diagonal: "changeDiagonal", alone: "changeAlone" };
const SIDES: Record<string, Key> = { source: "changeSource", target: "changeTarget" };
const VISIBLE_CHANGE = 0.005; // of a weight

export function describe(edit: Edit): string {
  if ("side" in edit) return `${say(SIDES[edit.side] as Key)}: ${edit.places.join(", ")}`;
  const { kind = "cross", layer, head, scale, weights, mask } = edit;
  const changes = [
    ...(typeof weights === "string" ? [say(CHANGES[weights] as Key)] : weights ? [say("changeWeights")] : []),
    ...(mask ? [say("editMaskOf", { cells: mask.flat(2).filter((isOpen) => !isOpen).length })] : []),
    ...(scale === undefined ? [] : [scale === 1 ? say("changeScale") : say("changeScaleOf", { scale })]),
  ];
  return `${describeTarget({ kind, ...(layer ? { layer } : {}), ...(head ? { head } : {}) })}: ${changes.join(", ")}`;
}

function describeTarget({ kind, layer, head }: Target): string {
  return [
    say(KINDS[kind]),
    layer ? say("changeLayerOf", { layer }) : say("changeAllLayers"),
    head ? say("changeHeadOf", { head }) : say("changeAllHeads"),
  ].join(", ");
}

export function changeTab(lab: Lab): Tab {
  const kind = make("select", { label: "changeKind" });
  const layer = make("select", { label: "changeLayer" });
  const head = make("select", { label: "changeHead" });
  const side = make("select", { label: "changeSide" });
  fillSelect(side, Object.entries(SIDES).map(([value, key]) => [value, say(key)] as const), "source");
  const list = make("ul", { class: "lab-edits" });
  const effect = make("div", { class: "lab-outcome", attributes: { role: "status" } });
  const hint = make("p", { class: "lab-faint" }, say("editHintMask"));
  const before = new Grid();
  const heads = make("div", { class: "lab-bar" });
  const positions = new Positions((places) => setPlaces(places));
  const scored = { text: "", target: "", logProb: 0 }; // of the translation without changes

  let target: Target = { kind: "cross" };
  let current: { translation: Translation; plain: Translation } | undefined;
  let weights: Float32Array[] = []; // that are shown, with the changes

  const size = (): [number, number] => tableSize(target.kind, current?.translation.source.tokens.length ?? 0);
  const change = (edits: Edit[]): void => void lab.change({ edits });
  const changeHeads = (edit: (old: HeadsEdit) => HeadsEdit): void => change(withEdit(lab.state.edits, target, edit));

  const { grid, modes } = headGrid(lab, () => ({ target, weights, size: size() }), (isWeighing) => (hint.textContent = say(isWeighing ? "editHintWeight" : "editHintMask")));

  for (const select of [kind, layer, head]) {
    select.addEventListener("change", () => {
      const values: Target = { kind: kind.value as Kind };
      if (layer.value) values.layer = Number(layer.value);
      if (head.value) values.head = Number(head.value);
      target = values;
      drawMatrices();
    });
  }

  const presets = new Map<string, HTMLButtonElement>();
  for (const [name, key] of [...Object.entries(CHANGES), ["scale", "changeScale"] as const]) {
    const preset = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => togglePreset(name) } }, say(key));
    presets.set(name, preset);
    heads.append(preset);
  }
  function togglePreset(name: string): void {
    const isOn = presets.get(name)?.getAttribute("aria-pressed") === "true";
    changeHeads((edit) => {
      const { weights: _, scale: __, ...rest } = edit;
      const kept = name === "scale" ? { ...rest, ...(edit.weights === undefined ? {} : { weights: edit.weights }) } : { ...rest, ...(edit.scale === undefined ? {} : { scale: edit.scale }) };
      return isOn ? kept : name === "scale" ? { ...kept, scale: 1 } : { ...kept, weights: name as "silent" };
    });
  }

  function setPlaces(places: number[]): void {
    const others = lab.state.edits.filter((edit) => !("side" in edit) || edit.side !== side.value);
    const edit = positionsEdit(side.value as "source", places);
    change(edit ? [...others, edit] : others);
  }
  const places = (): number[] => positionsOf(lab.state.edits, side.value as "source", tokens().length);
  function tokens(): string[] {
    if (!current) return [];
    const axes = translationAxes(current.translation);
    return side.value === "source" ? axes.source : axes.inputs;
  }
  const placeButton = (key: Key, edit: (places: number[]) => number[]): HTMLElement =>
    make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => setPlaces(edit(places())) } }, say(key));
  side.addEventListener("change", () => drawPositions());
  const clear = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => change([]) } }, say("changeClear"));

  function drawMatrices(): void {
    if (!current) return;
    const { translation, plain } = current;
    const { info } = lab.model;
    const available = (Object.keys(KINDS) as Kind[]).filter((name) => translation.attention?.[name]);
    if (!available.includes(target.kind) && available[0]) target = { kind: available[0] };
    const [old, made] = [plain.attention?.[target.kind], translation.attention?.[target.kind]];
    fillSelect(kind, available.map((name) => [name, say(KINDS[name])] as const), target.kind);
    const [layers, count] = target.kind === "encoder" ? [info.encoder_layers, info.encoder_heads] : [info.decoder_layers, info.decoder_heads];
    fillSelect(layer, [["", say("changeAllLayers")], ...numberedOptions(layers, (number) => say("changeLayerOf", { layer: number }))], String(target.layer ?? ""));
    fillSelect(head, [["", say("changeAllHeads")], ...numberedOptions(count, (number) => say("changeHeadOf", { head: number }))], String(target.head ?? ""));
    const edit = editOf(lab.state.edits, target);
    for (const [name, preset] of presets) {
      preset.setAttribute("aria-pressed", String(name === "scale" ? edit?.scale === 1 : edit?.weights === name));
      preset.disabled = name === "alone" && target.head === undefined;
    }
    if (!made || !old) return;
    const mask = maskOf(edit, size());
    const isMasked = (row: number, column: number): boolean => mask[row]?.[column] === false;
    const plainWeights = meanWeights(old, target);
    weights = meanWeights(made, target);
    const name = describeTarget(target);
    const isVisible = isVisibleIn(target.kind);
    before.show({ values: plainWeights, ...labels(plain, target.kind), caption: say("editBefore"), corner: cornerText(), isVisible });
    grid.show({
      values: weights, ...labels(translation, target.kind), caption: say("editAfter"), corner: cornerText(), isMasked, isVisible,
      isChanged: (row, column) => Math.abs((weights[row]?.[column] ?? 0) - (plainWeights[row]?.[column] ?? 0)) > VISIBLE_CHANGE,
    });
    grid.name(`${name}: ${say("editAfter")}`);
  }
  const cornerText = (): string => say(target.kind === "encoder" ? "editReads" : "editReadsWrites");

  function drawPositions(): void {
    positions.show(tokens(), places());
  }

  function drawList(): void {
    list.replaceChildren(...lab.state.edits.map((edit, index) => {
      const remove = make("button", { class: "lab-button", attributes: { type: "button", "aria-label": say("changeRemove", { change: describe(edit) }) } }, "✕");
      remove.addEventListener("click", () => {
        presets.get("silent")?.focus(); // the button is removed with its edit
        change(lab.state.edits.filter((_, i) => i !== index));
      });
      return make("li", {}, remove, ` ${describe(edit)}`);
    }));
    clear.disabled = lab.state.edits.length === 0;
  }

  return {
    element: make("div", { class: "lab-change" },
      make("div", { class: "lab-bar" }, kind, layer, head, modes),
      heads, hint,
      make("div", { class: "lab-pair" }, before.element, grid.element, effect),
      list, clear,
      make("div", { class: "lab-bar" }, make("label", {}, `${say("changePositions")} `, side), make("span", { class: "lab-faint" }, say("editHintPositions"))),
      positions.chips,
      make("div", { class: "lab-bar" },
        placeButton("editFreeze", (old) => frozen(old, positions.chosen)),
        placeButton("editSkip", (old) => skipped(old, positions.chosen)),
        placeButton("changeSwap", (old) => [old[1] ?? 0, old[0] ?? 0, ...old.slice(2)].slice(0, old.length)),
        placeButton("changeFirst", (old) => old.map(() => 0)),
        placeButton("changeReverse", (old) => [...old].reverse()))),
    wants: () => ({ attention: true }),
    async show(translation, plain) {
      const isFirst = !current;
      current = { translation, plain };
      const edited = lab.state.edits.filter((edit): edit is HeadsEdit => !("side" in edit)).pop();
      if (isFirst && edited) target = { kind: edited.kind ?? "cross", ...(edited.layer ? { layer: edited.layer } : {}), ...(edited.head ? { head: edited.head } : {}) };
      drawMatrices();
      drawPositions();
      drawList();
      if (lab.state.edits.length === 0) {
        effect.replaceChildren(make("p", {}, say("changeNone")));
        return;
      }
      const { text, edits } = lab.state;
      const forced = await lab.model.translate(text, { forced: plain.text, edits });
      if (scored.text !== text || scored.target !== plain.text) {
        scored.logProb = totalLogProb(await lab.model.translate(text, { forced: plain.text }));
        [scored.text, scored.target] = [text, plain.text];
      }
      effect.replaceChildren(...describeEffect(plain, translation, scored.logProb, totalLogProb(forced), lab.model.info.target_language));
    },
  };
}

/** Return the names of rows and columns: a row of the decoder reads a token and writes another. */
function labels(translation: Translation, kind: Kind): { rows: string[]; columns: string[] } {
  const { source, inputs, rows } = translationAxes(translation);
  if (kind === "encoder") return { rows: source, columns: source };
  return { rows, columns: kind === "cross" ? source : inputs };
}

function describeEffect(before: Translation, after: Translation, oldLogProb: number, newLogProb: number, language: string): HTMLElement[] {
  const lost = oldLogProb - newLogProb;
  const perToken = lost / Math.max(before.logProbs.length, 1);
  const change: Key = Math.abs(perToken) < 0.01 ? "changeHardly" : perToken < 0.1 ? "changeLittle" : perToken < 1 ? "changeSome" : "changeMuch";
  const marked = (text: string, other: string): Array<HTMLElement | string> => changedWords(other, text).map(({ text: word, isChanged }) => (isChanged ? make("mark", {}, word) : word));
  const row = (name: string, words: Array<HTMLElement | string>, logProb: number): HTMLElement =>
    make("tr", {}, make("th", { attributes: { scope: "row" } }, name), make("td", { attributes: { lang: language } }, ...words), make("td", { attributes: { title: String(logProb) } }, formatNumber(logProb)));
  return [
    make("table", { class: "lab-effect" }, make("caption", {}, say("changeTable")), make("thead", {}, make("tr", {}, make("td"), make("th", { attributes: { scope: "col" } }, say("changeTranslation")), make("th", { attributes: { scope: "col" } }, say("changeLogp")))),
      make("tbody", {}, row(say("changeWithout"), [before.text], oldLogProb), row(say("changeWith"), marked(after.text, before.text), newLogProb))),
    make("p", {}, `${say(before.text === after.text ? "changeSame" : "changeOther")} ${say(change, { lost: formatNumber(lost), each: formatNumber(perToken) })}`),
  ];
}

const numberedOptions = (count: number, name: (number: number) => string): Array<[string, string]> => Array.from({ length: count }, (_, index) => [String(index + 1), name(index + 1)]);
