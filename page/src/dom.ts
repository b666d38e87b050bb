/** Elements made by hand. Text only ever becomes text nodes: nothing here reads HTML. */

import { say, type Key } from "./say";

type Child = Node | string;
interface Settings {
  class?: string;
  id?: string;
  /** What it says, in the reader's language. */
  say?: Key;
  /** Its accessible name, likewise. */
  label?: Key;
  title?: Key;
  placeholder?: Key;
  attributes?: Record<string, string>;
  on?: { [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void };
}

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  settings: Settings = {},
  ...inside: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (settings.class) element.className = settings.class;
  if (settings.id) element.id = settings.id;
  for (const [name, value] of Object.entries(settings.attributes ?? {})) element.setAttribute(name, value);
  for (const name of ["say", "label", "title", "placeholder"] as const) {
    if (settings[name]) element.dataset[name] = settings[name];
  }
  put(element);
  element.append(...inside);
  for (const [name, listener] of Object.entries(settings.on ?? {})) {
    element.addEventListener(name, listener as EventListener);
  }
  return element;
}

/** Give an element other words. */
export function tell(element: HTMLElement, key: Key): void {
  element.dataset.say = key;
  put(element);
}

function put(element: HTMLElement): void {
  const { say: said, label, title, placeholder } = element.dataset;
  if (said) element.textContent = say(said as Key);
  if (label) element.setAttribute("aria-label", say(label as Key));
  if (title) element.title = say(title as Key);
  if (placeholder) element.setAttribute("placeholder", say(placeholder as Key));
}

/** Say everything again, after the reader has chosen another language. */
export function putAll(root: ParentNode): void {
  root.querySelectorAll<HTMLElement>("[data-say], [data-label], [data-title], [data-placeholder]").forEach(put);
}

export function button(key: Key, click: () => void, look = "button"): HTMLButtonElement {
  return make("button", { say: key, class: look, attributes: { type: "button" }, on: { click } });
}

export function checkbox(key: Key, checked: boolean, change: (on: boolean) => void): HTMLLabelElement {
  const box = make("input", { attributes: { type: "checkbox" } });
  box.checked = checked;
  box.addEventListener("change", () => change(box.checked));
  return make("label", { class: "check" }, box, make("span", { say: key }));
}

export function options(select: HTMLSelectElement, values: ReadonlyArray<readonly [string, string]>, chosen: string): void {
  select.replaceChildren(
    ...values.map(([value, text]) => {
      const option = make("option", { attributes: { value } }, text);
      option.selected = value === chosen;
      return option;
    }),
  );
}

/** Let a browser save a file. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = make("a", { attributes: { href: address, download: name } });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
