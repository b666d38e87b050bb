/** Lines, heat map and all heads: the library's own view of attention. */

import { make } from "../dom";
import type { Tab } from "./lab";
import { spoken } from "./messages";
import type { Table, Translation } from "./model";
import { axesOf } from "./state";

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
    async show(made) {
      module_ ??= import(new URL("attention.js", import.meta.url).href) as Promise<ViewModule>;
      const { attentionView, phrases, style } = await module_;
      const kinds = kindsOf(made);
      if (view) return view.update(kinds);
      root.append(make("div", { attributes: { "data-still": "" } }));
      view = attentionView(root, { style, kinds }, phrases[spoken()]);
    },
  };
}

function kindsOf(made: Translation): Kind[] {
  const { source, fed, predicted } = axesOf(made);
  const kinds: Kind[] = [];
  const add = (kind: string, table: Table | undefined, rows: string[], columns: string[]): void => {
    if (!table) return;
    const [layers, heads] = table.shape as [number, number];
    const weights = Uint8Array.from(table.data, (one) => Math.round(255 * Math.min(1, Math.max(0, one))));
    kinds.push({ kind, layers, heads, rows, columns, weights });
  };
  add("cross", made.attention?.cross, predicted, source);
  add("encoder", made.attention?.encoder, source, source);
  add("decoder", made.attention?.decoder, predicted, fed);
  return kinds;
}
