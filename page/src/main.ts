/** Builds the page. */

import { Api } from "./api";
import { App } from "./app";
import { DocumentTab } from "./document_tab";
import { button, make } from "./dom";
import { GlossaryTab } from "./glossary_tab";
import { applyLanguage, applyTheme, makeHeader } from "./header";
import { icon } from "./icons";
import { HistoryTab } from "./history_tab";
import { InsideTab } from "./inside_tab";
import { preferredLanguage, say } from "./messages";
import { RequestError } from "./problem";
import { Store } from "./store";
import { Tabs } from "./tabs";
import { TextTab } from "./text_tab";

/** Milliseconds for the messages of the language; the page is in English until they arrive. */
const MAX_LANGUAGE_WAIT = 3000;

const api = new Api();
const store = new Store();
const main = make("main", { id: "main" }, make("p", { say: "loading", class: "empty loading", attributes: { role: "status" } }));
let refresh = () => {};
let retryTimer: ReturnType<typeof setTimeout> | undefined;

function build(app: App): void {
  const text = new TextTab(app, () => {
    inside.nextView = "choose";
    tabs.show(1, true);
  });
  const inside = new InsideTab(app, text.session, text);
  const documents = new DocumentTab(app);
  const glossary = new GlossaryTab(app, () => text.refresh(), text.session);
  const history = new HistoryTab(app, (entry) => {
    app.choose({ source: entry.source, target: entry.target });
    tabs.show(0);
    text.refresh();
    text.session.restore(entry);
    text.open(entry.text);
    text.focus();
  });
  const tabs = new Tabs([{ key: "tabText", element: text.element }, inside, documents, glossary, history]);
  main.replaceChildren(tabs.element);
  if (!store.canStore) main.prepend(make("p", { say: "errorStored", class: "note" }));
  refresh = () => {
    text.refresh();
    for (const tab of [documents, glossary, history]) tab.refresh();
    if (inside.element.offsetParent) inside.onShow();
  };
  text.focus();
}

/** Request the languages of the server, until it responds. */
async function start(): Promise<void> {
  clearTimeout(retryTimer); // it would rebuild the page and lose the text typed meanwhile
  try {
    const languages = await api.loadLanguages();
    build(new App(api, store, languages, languages.remembers ? await api.loadMemories() : []));
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    const { problem } = error;
    const message = make("p", { attributes: { role: "alert" } }, say(problem.key, problem.values));
    main.replaceChildren(make("div", { class: "empty" }, icon("offline"), message, button("retry", () => void start())));
    if (problem.retrySeconds !== undefined) retryTimer = setTimeout(() => void start(), problem.retrySeconds * 1000);
    refresh = () => void start();
  }
}

applyTheme(store.settings);
const language = applyLanguage(store.settings.page || preferredLanguage(navigator.languages));
await Promise.race([language, new Promise((resolve) => setTimeout(resolve, MAX_LANGUAGE_WAIT))]);
const skip = make("a", { say: "skip", class: "skip", attributes: { href: "#main" } });
skip.addEventListener("click", (event) => {
  event.preventDefault(); // the fragment holds a shared text
  document.querySelector<HTMLElement>("#source")?.focus();
});
document.body.append(skip, makeHeader(api, store, language, { refresh: () => refresh(), key: () => void start() }), main);
addEventListener("online", () => refresh());
void start();
