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

/** Apply the language and the theme to the page. */
export async function applySettings(settings: Settings, language: string): Promise<void> {
  await setLanguage(language);
  document.documentElement.lang = currentLanguage();
  document.documentElement.dataset.theme = settings.theme;
  document.title = say("title");
}

/** Create the header; `callbacks` are called when a setting for translations, the page language or the API key has changed. */
export function makeHeader(api: Api, store: Store, callbacks: { refresh(): void; key(): void }): HTMLElement {
  const page = make("select", { id: "page-language" });
  const theme = make("select", { id: "theme" });
  const beam = make("select", { id: "beam" });
  const key = make("input", { id: "key", attributes: { type: "password", autocomplete: "off" } });
  const fill = () => {
    fillSelect(page, LANGUAGE_NAMES, currentLanguage());
    fillSelect(theme, THEMES.map(([value, name]) => [value, say(name)] as const), store.settings.theme);
    fillSelect(beam, BEAMS.map((size) => [String(size), String(size)] as const), String(store.settings.beam));
  };
  page.addEventListener("change", () => {
    store.change({ page: page.value });
    void applySettings(store.settings, page.value).then(() => {
      updateAll(document);
      fill();
      callbacks.refresh();
    });
  });
  theme.addEventListener("change", () => {
    store.change({ theme: theme.value as Settings["theme"] });
    void applySettings(store.settings, currentLanguage());
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
