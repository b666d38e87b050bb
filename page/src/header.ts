/** The header: the title of the page, and its settings. */

import type { Api } from "./api";
import { make, fillSelect, updateAll } from "./dom";
import { LANGUAGE_NAMES, say, setLanguage, currentLanguage } from "./messages";
import type { Settings, Store } from "./store";

const THEMES = [
  ["auto", "themeAuto"],
  ["light", "themeLight"],
  ["dark", "themeDark"],
] as const;

/** Apply the language and the theme to the page. */
export function applySettings(settings: Settings, language: string): void {
  setLanguage(language);
  document.documentElement.lang = language;
  document.documentElement.dataset.theme = settings.theme;
  document.title = say("title");
}

/** Create the header; `callbacks` are called when the page language or the API key has changed. */
export function makeHeader(api: Api, store: Store, callbacks: { language(): void; key(): void }): HTMLElement {
  const page = make("select", { id: "page-language" });
  const theme = make("select", { id: "theme" });
  const key = make("input", { id: "key", attributes: { type: "password", autocomplete: "off" } });
  const fill = () => {
    fillSelect(page, LANGUAGE_NAMES, currentLanguage());
    fillSelect(theme, THEMES.map(([value, name]) => [value, say(name)] as const), store.settings.theme);
  };
  page.addEventListener("change", () => {
    store.change({ page: page.value });
    applySettings(store.settings, page.value);
    updateAll(document);
    fill();
    callbacks.language();
  });
  theme.addEventListener("change", () => {
    store.change({ theme: theme.value as Settings["theme"] });
    applySettings(store.settings, currentLanguage());
  });
  key.value = api.key = store.settings.key;
  key.addEventListener("change", () => {
    store.change({ key: (api.key = key.value.trim()) });
    callbacks.key();
  });
  fill();
  const field = (name: "uiLanguage" | "theme" | "key", input: HTMLElement) =>
    make("div", { class: "field" }, make("label", { say: name, attributes: { for: input.id } }), input);
  const settings = make("details", { class: "settings" },
    make("summary", { say: "settings" }),
    make("form", { class: "fields" }, field("uiLanguage", page), field("theme", theme), field("key", key),
      make("p", { say: "keyHelp", class: "faint" })));
  settings.addEventListener("submit", (event) => event.preventDefault());
  return make("header", {},
    make("div", {}, make("h1", {}, "uwaga"), make("p", { say: "about", class: "faint" })), settings);
}
