/** Creation of elements. Text is only inserted as text nodes; nothing here parses HTML. */

import { say, type Key } from "./say";

type Child = Node | string;
interface Settings {
  class?: string;
  id?: string;
  /** The key of its text. */
  say?: Key;
  /** The key of its accessible name. */
  label?: Key;
  title?: Key;
  placeholder?: Key;
  attributes?: Record<string, string>;
  on?: { [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void };
}

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  settings: Settings = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (settings.class) element.className = settings.class;
  if (settings.id) element.id = settings.id;
  for (const [name, value] of Object.entries(settings.attributes ?? {})) element.setAttribute(name, value);
  for (const name of ["say", "label", "title", "placeholder"] as const) {
    if (settings[name]) element.dataset[name] = settings[name];
  }
  updateElement(element);
  element.append(...children);
  for (const [name, listener] of Object.entries(settings.on ?? {})) {
    element.addEventListener(name, listener as EventListener);
  }
  return element;
}

/** Create an element of a picture. */
export function svgElement<Name extends keyof SVGElementTagNameMap>(name: Name, attributes: Record<string, string | number>, text = ""): SVGElementTagNameMap[Name] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.textContent = text;
  return element;
}

/** Set the message of an element. */
export function setMessage(element: HTMLElement, key: Key): void {
  element.dataset.say = key;
  updateElement(element);
}

/** Set the text of an element that is not a message of its own. */
export function setText(element: HTMLElement, text: string): void {
  delete element.dataset.say;
  element.textContent = text;
}

function updateElement(element: HTMLElement): void {
  const { say: key, label, title, placeholder } = element.dataset;
  if (key) element.textContent = say(key as Key);
  if (label) element.setAttribute("aria-label", say(label as Key));
  if (title) element.title = say(title as Key);
  if (placeholder) element.setAttribute("placeholder", say(placeholder as Key));
}

/** Replace the children of an element; if one of them has the focus, it goes to the control with the same text, or to the first. */
export function replaceContent(parent: HTMLElement, ...children: Child[]): void {
  const focused = parent.contains(document.activeElement) ? document.activeElement!.textContent : null;
  parent.replaceChildren(...children);
  if (focused === null) return;
  const controls = [...parent.querySelectorAll<HTMLElement>("button:not(:disabled), textarea")];
  (controls.find(({ textContent }) => textContent === focused) ?? controls[0])?.focus();
}

/** Update all messages after the language has changed. */
export function updateAll(root: ParentNode): void {
  root.querySelectorAll<HTMLElement>("[data-say], [data-label], [data-title], [data-placeholder]").forEach(updateElement);
}

export function button(key: Key, click: () => void, className = "button"): HTMLButtonElement {
  return make("button", { say: key, class: className, attributes: { type: "button" }, on: { click } });
}

export function checkbox(key: Key, checked: boolean, change: (isChecked: boolean) => void): HTMLLabelElement {
  const box = make("input", { attributes: { type: "checkbox" } });
  box.checked = checked;
  box.addEventListener("change", () => change(box.checked));
  return make("label", { class: "check" }, box, make("span", { say: key }));
}

export function fillSelect(select: HTMLSelectElement, values: ReadonlyArray<readonly [string, string]>, selected: string): void {
  select.replaceChildren(
    ...values.map(([value, text]) => {
      const option = make("option", { attributes: { value } }, text);
      option.selected = value === selected;
      return option;
    }),
  );
}

/** Download content as a file. */
export function saveFile(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = make("a", { attributes: { href: address, download: name } });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
