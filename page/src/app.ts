/** What the parts of the page share: the server, what is kept, and the languages that are chosen. */

import { Api, type Asked } from "./api";
import { AUTO, nameOf, type Offer, settle, swapped } from "./languages";
import { spoken } from "./messages";
import { fromFragment } from "./share";
import type { Store } from "./store";

export class App {
  /** Called when the languages have changed. */
  readonly chosen: Array<() => void> = [];

  constructor(
    readonly api: Api,
    readonly store: Store,
    readonly offer: Offer,
  ) {
    const shared = fromFragment(location.hash);
    const { source, target } = store.settings;
    this.choose(shared.source ?? (source || (offer.detects ? AUTO : "")), shared.target ?? target);
  }

  choose(source: string, target: string): void {
    this.store.change(settle(this.offer, source, target));
    for (const tell of this.chosen) tell();
  }

  /** What requests are asked with. */
  asked(): Asked {
    const { source, target, usesGlossary } = this.store.settings;
    return { source, target, glossary: usesGlossary ? this.store.glossary(source, target) : [] };
  }

  /** The choice with its sides exchanged, null where there is no model that way. */
  swapped(source: string | undefined): { source: string; target: string } | null {
    return source === undefined ? null : swapped(this.offer, source, this.store.settings.target);
  }

  /** Exchange the sides; says whether there is a model that way. */
  swap(source: string): boolean {
    const way = this.swapped(source);
    if (way) this.choose(way.source, way.target);
    return way !== null;
  }

  nameOf(code: string): string {
    const known = [...this.offer.sources, ...this.offer.targets].find((one) => one.code === code);
    return code === AUTO ? "…" : nameOf(known ?? { code, name: code }, spoken());
  }

  /** The values of a message, languages by their names. */
  named(values: Record<string, string | number>): Record<string, string | number> {
    const { from, to, ...rest } = values;
    const names: Record<string, string> = {};
    if (from !== undefined) names.from = this.nameOf(String(from));
    if (to !== undefined) names.to = this.nameOf(String(to));
    return { ...rest, ...names };
  }

  /** A translation that the reader has stopped at. */
  settled(text: string, translation: string, asked: Asked): void {
    const { source, target } = asked;
    this.store.add({ time: Date.now(), source, target, text, translation });
  }
}
