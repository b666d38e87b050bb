/** The name of the page, and its settings. */

import type { Api } from "./api";
import { make, options, putAll } from "./dom";
import { OWN_NAMES, say, speak, spoken } from "./messages";
import type { Settings, Store } from "./store";

const THEMES = [
  ["auto", "themeAuto"],
  ["light", "themeLight"],
  ["dark", "themeDark"],
] as const;

/** Put the page into a language and into its colours. */
export function dress(settings: Settings, page: string): void {
  speak(page);
  document.documentElement.lang = page;
  document.documentElement.dataset.theme = settings.theme;
  document.title = say("title");
}

/** `again` is called when the page has another language, and when requests have another key. */
export function makeHeader(api: Api, store: Store, again: { language(): void; key(): void }): HTMLElement {
  const page = make("select", { id: "page-language" });
  const theme = make("select", { id: "theme" });
  const key = make("input", { id: "key", attributes: { type: "password", autocomplete: "off" } });
  const fill = () => {
    options(page, OWN_NAMES, spoken());
    options(theme, THEMES.map(([value, name]) => [value, say(name)] as const), store.settings.theme);
  };
  page.addEventListener("change", () => {
    store.change({ page: page.value });
    dress(store.settings, page.value);
    putAll(document);
    fill();
    again.language();
  });
  theme.addEventListener("change", () => {
    store.change({ theme: theme.value as Settings["theme"] });
    dress(store.settings, spoken());
  });
  key.value = api.key = store.settings.key;
  key.addEventListener("change", () => {
    store.change({ key: (api.key = key.value.trim()) });
    again.key();
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
