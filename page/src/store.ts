/** Data of the page that is stored in this browser only. */

import type { Pair } from "./glossary_file";
import { isRecord } from "./problem";

export interface Entry {
  time: number;
  source: string;
  target: string;
  text: string;
  translation: string;
  /** Sentences whose translations the reader has chosen, with these. */
  choices: Pair[];
}

export interface Settings {
  page: string;
  theme: "auto" | "light" | "dark";
  key: string;
  source: string;
  target: string;
  beam: number;
  marksUnsure: boolean;
  keepsHistory: boolean;
  usesGlossary: boolean;
}

const DEFAULTS: Settings = {
  page: "",
  theme: "auto",
  key: "",
  source: "",
  target: "",
  beam: 5,
  marksUnsure: true,
  keepsHistory: true,
  usesGlossary: true,
};
/** Numbers of hypotheses to choose from. */
export const BEAMS = [1, 2, 3, 5, 8, 12];
const MAX_ENTRIES = 200;
const MERGE_INTERVAL = 60_000; // milliseconds within which a growing text is one entry

/** Validate stored settings; values of the wrong type are replaced by defaults. */
export function readSettings(stored: unknown): Settings {
  const settings: Record<string, unknown> = { ...DEFAULTS };
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (isRecord(stored) && typeof stored[name] === typeof value) settings[name] = stored[name];
  }
  if (!["auto", "light", "dark"].includes(String(settings.theme))) settings.theme = DEFAULTS.theme;
  if (!BEAMS.includes(Number(settings.beam))) settings.beam = DEFAULTS.beam;
  return settings as unknown as Settings;
}

/** Add an entry to the history; a text that extends or shortens the newest entry replaces it. */
export function addEntry(history: readonly Entry[], entry: Entry): Entry[] {
  const [newest] = history;
  const isContinuation =
    newest !== undefined &&
    newest.source === entry.source &&
    newest.target === entry.target &&
    entry.time - newest.time < MERGE_INTERVAL &&
    (entry.text.startsWith(newest.text) || newest.text.startsWith(entry.text));
  const others = (isContinuation ? history.slice(1) : history).filter(
    (old) => old.text !== entry.text || old.source !== entry.source || old.target !== entry.target,
  );
  return [entry, ...others].slice(0, MAX_ENTRIES);
}

/** Validate a stored history; invalid entries are dropped. */
export function readHistory(stored: unknown): Entry[] {
  const isEntry = (value: unknown): value is Entry =>
    isRecord(value) &&
    typeof value.time === "number" &&
    ["source", "target", "text", "translation"].every((name) => typeof value[name] === "string");
  return (Array.isArray(stored) ? stored.filter(isEntry) : []).map((entry) => ({ ...entry, choices: readGlossary(entry.choices) }));
}

export function readGlossary(stored: unknown): Pair[] {
  const isPair = (value: unknown): value is Pair =>
    Array.isArray(value) && value.length === 2 && value.every((term) => typeof term === "string");
  return Array.isArray(stored) ? stored.filter(isPair) : [];
}

export class Store {
  readonly settings: Settings;
  /** Whether the browser allows the page to store data. */
  canStore = true;
  private readonly unsaved = new Map<string, unknown>();

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
    if (this.settings.keepsHistory) this.write("history", addEntry(this.history(), entry));
  }

  setHistory(entries: readonly Entry[]): void {
    this.write("history", entries);
  }

  glossary(source: string, target: string): Pair[] {
    return readGlossary(this.read(`glossary ${source} ${target}`));
  }

  setGlossary(source: string, target: string, pairs: readonly Pair[]): void {
    this.write(`glossary ${source} ${target}`, pairs);
  }

  /** Return the translations that the reader has confirmed. */
  confirmed(source: string, target: string): Pair[] {
    return readGlossary(this.read(`confirmed ${source} ${target}`));
  }

  setConfirmed(source: string, target: string, pairs: readonly Pair[]): void {
    this.write(`confirmed ${source} ${target}`, pairs);
  }

  /** Return the ids of the translation memories that the reader has selected: one for each pair of languages. */
  memories(): string[] {
    const ids = this.read("memories");
    return Array.isArray(ids) ? ids : [];
  }

  setMemories(ids: readonly string[]): void {
    this.write("memories", ids);
  }

  private read(name: string): unknown {
    if (this.unsaved.has(name)) return this.unsaved.get(name);
    try {
      return JSON.parse(localStorage.getItem(`uwaga ${name}`) ?? "null");
    } catch {
      return null; // forbidden, or not written by this page
    }
  }

  private write(name: string, value: unknown): void {
    try {
      localStorage.setItem(`uwaga ${name}`, JSON.stringify(value));
      this.unsaved.delete(name);
    } catch {
      this.canStore = false;
      this.unsaved.set(name, value);
    }
  }
}
