/** The server's translation memories: which of them is used, and what a translation came from. */

import type { App } from "./app";
import { fillSelect, make } from "./dom";
import { AUTO, baseLanguage } from "./languages";
import { currentLanguage, type Key, say } from "./messages";

export interface Memory {
  id: string;
  name: string;
  source: string;
  target: string;
  /** Number of pairs. */
  pairs: number;
  /** Whether it is for all clients, and cannot be changed by them. */
  shared: boolean;
}

/** A pair of a memory that a translation was made with. */
export interface MemoryUse {
  source: string;
  target: string;
  /** Similarity in percent. */
  score: number;
  used: "verbatim" | "fitted" | "retrieved";
  origin?: string;
}

const USES: Record<MemoryUse["used"], Key> = { verbatim: "fromMemory", fitted: "fittedMemory", retrieved: "similarMemory" };

/** Return whether a memory is for a pair of languages. */
export function supportsPair(memory: Memory, source: string, target: string): boolean {
  const isSource = source === AUTO || baseLanguage(memory.source) === baseLanguage(source);
  return isSource && baseLanguage(memory.target) === baseLanguage(target);
}

/** Return what a translation came from. */
export function describeUse({ used, score, origin }: MemoryUse): string {
  return say(USES[used], { score: Math.floor(score) }) + (origin ? ` (${origin})` : "");
}

/** The selection of a memory, shown if the server has one for the languages. */
export class MemoryChoice {
  readonly element: HTMLElement;
  private readonly select = make("select", { id: "memory" });

  constructor(
    private readonly app: App,
    onChange: () => void,
  ) {
    this.select.addEventListener("change", () => {
      this.app.chooseMemory(this.select.value);
      onChange();
    });
    this.element = make("div", { class: "row memories" }, make("label", { say: "memory", class: "faint", attributes: { for: "memory" } }), this.select);
    app.listeners.push(() => this.refresh());
    this.refresh();
  }

  refresh(): void {
    const memories = this.app.suitableMemories();
    const options = memories.map(({ id, name, pairs, shared }): [string, string] => {
      const count = pairs.toLocaleString(currentLanguage());
      return [id, `${name} (${shared ? `${count}, ${say("memoryReadOnly")}` : count})`];
    });
    fillSelect(this.select, [["", say("memoryNone")], ...options], this.app.memory()?.id ?? "");
    this.element.hidden = !memories.length;
  }
}
