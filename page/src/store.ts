/** What the page keeps, in this browser and nowhere else. */

import type { Pair } from "./glossary_file";
import { isRecord } from "./problem";

export interface Entry {
  time: number;
  source: string;
  target: string;
  text: string;
  translation: string;
}

export interface Settings {
  page: string;
  theme: "auto" | "light" | "dark";
  key: string;
  source: string;
  target: string;
  marksUnsure: boolean;
  keepsHistory: boolean;
  usesGlossary: boolean;
}

const USUAL: Settings = {
  page: "",
  theme: "auto",
  key: "",
  source: "",
  target: "",
  marksUnsure: true,
  keepsHistory: true,
  usesGlossary: true,
};
const MOST_ENTRIES = 200;
const AGAIN = 60_000; // milliseconds in which a text that grows is one entry

/** What was stored, where it has the kinds of the usual values. */
export function readSettings(stored: unknown): Settings {
  const found: Record<string, unknown> = { ...USUAL };
  for (const [name, usual] of Object.entries(USUAL)) {
    if (isRecord(stored) && typeof stored[name] === typeof usual) found[name] = stored[name];
  }
  if (!["auto", "light", "dark"].includes(String(found.theme))) found.theme = USUAL.theme;
  return found as unknown as Settings;
}

/** The history with one more; a text that goes on from the newest, or goes back, takes its place. */
export function withEntry(history: readonly Entry[], entry: Entry): Entry[] {
  const [newest] = history;
  const grows =
    newest !== undefined &&
    newest.source === entry.source &&
    newest.target === entry.target &&
    entry.time - newest.time < AGAIN &&
    (entry.text.startsWith(newest.text) || newest.text.startsWith(entry.text));
  const rest = (grows ? history.slice(1) : history).filter(
    (old) => old.text !== entry.text || old.source !== entry.source || old.target !== entry.target,
  );
  return [entry, ...rest].slice(0, MOST_ENTRIES);
}

/** What was stored as a history, without what is none. */
export function readHistory(stored: unknown): Entry[] {
  const isEntry = (one: unknown): one is Entry =>
    isRecord(one) &&
    typeof one.time === "number" &&
    ["source", "target", "text", "translation"].every((name) => typeof one[name] === "string");
  return Array.isArray(stored) ? stored.filter(isEntry) : [];
}

export function readGlossary(stored: unknown): Pair[] {
  const isPair = (one: unknown): one is Pair =>
    Array.isArray(one) && one.length === 2 && one.every((term) => typeof term === "string");
  return Array.isArray(stored) ? stored.filter(isPair) : [];
}

export class Store {
  readonly settings: Settings;
  /** Whether the browser lets the page keep anything. */
  keeps = true;
  private readonly unkept = new Map<string, unknown>();

  constructor() {
    this.settings = readSettings(this.read("settings"));
  }

  change(changes: Partial<Settings>): void {
    Object.assign(this.settings, changes);
    this.write("settings", this.settings);
  }

  history(): Entry[] {
    return readHistory(this.read("history"));
  }

  add(entry: Entry): void {
    if (this.settings.keepsHistory) this.write("history", withEntry(this.history(), entry));
  }

  clearHistory(): void {
    this.write("history", []);
  }

  glossary(source: string, target: string): Pair[] {
    return readGlossary(this.read(`glossary ${source} ${target}`));
  }

  setGlossary(source: string, target: string, pairs: readonly Pair[]): void {
    this.write(`glossary ${source} ${target}`, pairs);
  }

  private read(name: string): unknown {
    if (this.unkept.has(name)) return this.unkept.get(name);
    try {
      return JSON.parse(localStorage.getItem(`uwaga ${name}`) ?? "null");
    } catch {
      return null; // forbidden, or not what this page wrote
    }
  }

  private write(name: string, value: unknown): void {
    try {
      localStorage.setItem(`uwaga ${name}`, JSON.stringify(value));
      this.unkept.delete(name);
    } catch {
      this.keeps = false;
      this.unkept.set(name, value);
    }
  }
}
