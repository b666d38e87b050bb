/** The header: the title of the page, and its settings. */

import type { Api } from "./api";
import { make, fillSelect, updateAll } from "./dom";
import { icon } from "./icons";
import { LANGUAGE_NAMES, say, setLanguage, currentLanguage } from "./messages";
import { BEAMS, type Settings, type Store } from "./store";

const THEMES = [
  ["auto", "themeAuto"],
  ["light", "themeLight"],
  ["dark", "themeDark"],
] as const;

export function applyTheme({ theme }: Settings): void {
  document.documentElement.dataset.theme = theme;
}

/** Apply a language to the page when its messages are loaded. */
export async function applyLanguage(code: string): Promise<void> {
  await setLanguage(code);
  document.documentElement.lang = currentLanguage();
  document.title = say("title");
}

/**
 * Create the header; `loading` is the first language, which may still be loaded, and `callbacks` are called when a setting for
 * translations, the page language or the API key has changed.
 */
export function makeHeader(api: Api, store: Store, loading: Promise<void>, callbacks: { refresh(): void; key(): void }): HTMLElement {
  const page = make("select", { id: "page-language" });
  const theme = make("select", { id: "theme" });
  const beam = make("select", { id: "beam" });
  const key = make("input", { id: "key", attributes: { type: "password", autocomplete: "off" } });
  const fill = () => {
    fillSelect(page, LANGUAGE_NAMES, currentLanguage());
    fillSelect(theme, THEMES.map(([value, name]) => [value, say(name)] as const), store.settings.theme);
    fillSelect(beam, BEAMS.map((size) => [String(size), String(size)] as const), String(store.settings.beam));
  };
  const showLanguage = (): void => {
    updateAll(document);
    fill();
    callbacks.refresh();
  };
  void loading.then(showLanguage);
  page.addEventListener("change", () => {
    store.change({ page: page.value });
    void applyLanguage(page.value).then(showLanguage);
  });
  theme.addEventListener("change", () => {
    store.change({ theme: theme.value as Settings["theme"] });
    applyTheme(store.settings);
  });
  beam.addEventListener("change", () => {
    store.change({ beam: Number(beam.value) });
    callbacks.refresh();
  });
  key.value = api.key = store.settings.key;
  key.addEventListener("change", () => {
    store.change({ key: (api.key = key.value.trim()) });
    callbacks.key();
  });
  fill();
  const field = (input: HTMLElement, name: "uiLanguage" | "theme" | "beam" | "key", help?: "beamHelp" | "keyHelp") =>
    make("div", { class: "field" }, make("label", { say: name, attributes: { for: input.id } }), input, ...(help ? [make("p", { say: help, class: "faint" })] : []));
  const settings = make("form", { id: "settings", class: "floating", label: "settings", attributes: { popover: "" } },
    field(page, "uiLanguage"), field(theme, "theme"), field(beam, "beam", "beamHelp"), field(key, "key", "keyHelp"),
    make("a", { say: "api", attributes: { href: "docs", target: "_blank" } }));
  settings.addEventListener("submit", (event) => event.preventDefault());
  const open = make("button", { class: "quiet", attributes: { type: "button", popovertarget: "settings" } }, icon("settings"), make("span", { say: "settings" }));
  const mark = make("img", { class: "mark", attributes: { src: "page/icon.svg", alt: "", width: "32", height: "32" } });
  return make("header", {}, mark, make("h1", {}, "uwaga"), make("p", { say: "about", class: "faint" }), open, settings);
}
