/** The library's attention view: lines, heat map and all heads. */

import { make } from "../dom";
import type { Tab } from "./lab";
import { spoken } from "./messages";
import type { Table, Translation } from "./model";
import { translationAxes } from "./state";

interface Kind {
  kind: string;
  layers: number;
  heads: number;
  rows: string[];
  columns: string[];
  weights: Uint8Array;
}
interface ViewModule {
  style: string;
  phrases: Record<string, Record<string, string>>;
  attentionView(root: HTMLElement, data: { style: string; kinds: Kind[] }, phrases?: Record<string, string>): { update(kinds: Kind[]): Promise<void> };
}

let module_: Promise<ViewModule> | undefined;

export function attentionTab(): Tab {
  const root = make("div", { class: "uwaga-attention" });
  let view: { update(kinds: Kind[]): Promise<void> } | undefined;
  return {
    element: root,
    wants: () => ({ attention: true }),
    async show(translation) {
      module_ ??= import(new URL("attention.js", import.meta.url).href) as Promise<ViewModule>;
      const { attentionView, phrases, style } = await module_;
      const kinds = attentionKinds(translation);
      if (view) return view.update(kinds);
      root.append(make("div", { attributes: { "data-still": "" } }));
      view = attentionView(root, { style, kinds }, phrases[spoken()]);
    },
  };
}

function attentionKinds(translation: Translation): Kind[] {
  const { source, inputs, rows } = translationAxes(translation);
  const kinds: Kind[] = [];
  const add = (kind: string, table: Table | undefined, queries: string[], keys: string[]): void => {
    if (!table) return;
    const [layers, heads] = table.shape as [number, number];
    const weights = Uint8Array.from(table.data, (weight) => Math.round(255 * Math.min(1, Math.max(0, weight))));
    kinds.push({ kind, layers, heads, rows: queries, columns: keys, weights });
  };
  add("cross", translation.attention?.cross, rows, source);
  add("encoder", translation.attention?.encoder, source, source);
  add("decoder", translation.attention?.decoder, rows, inputs);
  return kinds;
}
