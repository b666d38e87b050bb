/** The state shared by the parts of the page: the server, the stored data, and the selected languages. */

import { Api, type Dictionary, type RequestSettings } from "./api";
import { mergePairs, type Pair } from "./glossary_file";
import { AUTO, hasPair, isSameLanguage, nameOf, type AvailableLanguages, type LanguagePair, resolvePair, swapPair } from "./languages";
import { supportsPair, type Memory } from "./memories";
import { currentLanguage, say } from "./messages";
import { fromFragment } from "./share";
import type { Store } from "./store";

export class App {
  /** Called when the selected languages have changed. */
  readonly listeners: Array<() => void> = [];
  /** The selected languages: those that the reader has chosen, or else languages between which a model translates. */
  pair: LanguagePair = { source: "", target: "" };
  /** The detected language of the text. */
  private detected: string | undefined;

  constructor(
    readonly api: Api,
    readonly store: Store,
    readonly languages: AvailableLanguages,
    private readonly memories: Memory[],
  ) {
    this.choose(fromFragment(location.hash));
  }

  /** Select languages; what is not named stays. */
  choose(changes: Partial<LanguagePair>): void {
    const { source, target } = { ...this.store.settings, ...changes };
    this.store.change({ source, target });
    this.resolve();
  }

  /** The languages of the text: the detected one instead of one to be detected. */
  get textPair(): LanguagePair {
    const { source, target } = this.pair;
    return { source: source === AUTO ? (this.detected ?? AUTO) : source, target };
  }

  /** Set the detected language of the text; undefined if it was not detected. Return whether it has changed. */
  setDetected(code: string | undefined): boolean {
    const isNew = this.detected !== code;
    this.detected = code;
    if (isNew) this.resolve();
    return isNew;
  }

  private resolve(): void {
    this.pair = this.pairFor(this.detected);
    for (const listener of this.listeners) listener();
  }

  /** Return the selected languages if a language is detected: the target language is the default if the reader has not chosen any. */
  pairFor(detected?: string): LanguagePair {
    const { source, target } = this.store.settings;
    const requested = { source: source || (this.languages.detects ? AUTO : ""), target };
    return resolvePair(this.languages, requested, currentLanguage(), detected);
  }

  /** Whether the target language is the default for the language of a text or document that is to be detected. */
  get isTargetOpen(): boolean {
    return this.pair.source === AUTO && this.store.settings.target !== this.pair.target;
  }

  /** Return the settings of requests for the text. */
  requestSettings(): RequestSettings {
    const { beam } = this.store.settings;
    const { source, target } = this.textPair;
    return { ...this.pair, beam, glossary: this.termsFrom(source, target), memory: this.memory() };
  }

  /** Return the terms for texts in a language: those of any language, unless the language has other translations of them. */
  private termsFrom(source: string, target: string): Pair[] {
    if (!this.store.settings.usesGlossary) return [];
    return mergePairs(this.store.glossary(AUTO, target), this.store.glossary(source, target));
  }

  /** Return the terms of documents: for each language that may be detected if none is selected. */
  dictionaries({ source, target }: LanguagePair): Dictionary[] {
    const detectable = this.languages.sources.filter(({ code, isDetected }) => isDetected && hasPair(this.languages, code, target));
    const distinct = detectable.filter(({ code }, index) => index === detectable.findIndex((other) => isSameLanguage(other.code, code)));
    const codes = source === AUTO ? distinct.map(({ code }) => code) : [source];
    return codes.map((code) => ({ source: code, target, terms: this.termsFrom(code, target) })).filter(({ terms }) => terms.length);
  }

  /** Return the memories for the selected languages. */
  suitableMemories(): Memory[] {
    const { source, target } = this.pair;
    return this.memories.filter((memory) => supportsPair(memory, source, target));
  }

  /** Return the selected memory for a pair of languages, by default those of the text, if any. */
  memory({ source, target } = this.textPair): Memory | null {
    const ids = this.store.memories();
    return this.memories.find((memory) => ids.includes(memory.id) && supportsPair(memory, source, target)) ?? null;
  }

  /** Select a memory, or none, instead of the others for the selected languages. */
  chooseMemory(id: string): void {
    const suitable = this.suitableMemories();
    const others = this.store.memories().filter((selected) => !suitable.some((memory) => memory.id === selected));
    this.store.setMemories(others.concat(id || []));
  }

  /** Add a translation to the selected memory, or to one that is then selected, and created if there is none. */
  async remember(source: string, target: string, text: string, translation: string): Promise<Memory> {
    let memory = this.memory({ source, target }) ?? this.memories.find((other) => !other.shared && supportsPair(other, source, target));
    if (!memory) {
      memory = await this.api.createMemory(`${this.nameOf(source)} – ${this.nameOf(target)}`, source, target);
      this.memories.push(memory);
    }
    await this.api.remember(memory, text, translation);
    memory.pairs += 1;
    this.chooseMemory(memory.id);
    return memory;
  }

  /** Return the languages of the text swapped, or null if no model translates in that direction. */
  swappedPair(): LanguagePair | null {
    return swapPair(this.languages, this.textPair);
  }

  /** Return whether the bundled model translates the selected languages. */
  isDemonstration(): boolean {
    const { sources = [], targets = [] } = this.languages.demonstration ?? {};
    const { source, target } = this.pair;
    return (source === AUTO || sources.includes(source)) && targets.includes(target);
  }

  nameOf(code: string): string {
    const language = [...this.languages.sources, ...this.languages.targets].find((entry) => entry.code === code);
    return code === AUTO ? say("anyLanguage") : nameOf(language ?? { code, name: code }, currentLanguage());
  }

  /** Return the values of a message, with language codes replaced by names. */
  withLanguageNames(values: Record<string, string | number>): Record<string, string | number> {
    const { from, to, ...others } = values;
    const names: Record<string, string> = {};
    if (from !== undefined) names.from = this.nameOf(String(from));
    if (to !== undefined) names.to = this.nameOf(String(to));
    return { ...others, ...names };
  }

  /** Add a translation to the history. */
  addToHistory(text: string, translation: string, choices: Pair[], settings: RequestSettings): void {
    const { source, target } = settings;
    this.store.add({ time: Date.now(), source, target, text, translation, choices });
  }
}
