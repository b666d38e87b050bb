/** Tables of numbers: shaded, editable, and masks. */

import { make } from "../dom";
import { say } from "./messages";

export const formatNumber = (value: number): string => (Number.isFinite(value) ? String(Number(value.toFixed(3))) : value === -Infinity ? "−∞" : "–").replace("-", "−");

/** Return a weight from 0 to 1 with two decimals and without the zero. */
export const shortWeight = (value: number): string => (value >= 0.995 ? "1" : value < 0.005 ? "0" : value.toFixed(2).slice(1));

/** What the vectors of a table are; each has a colour. */
export type VectorRole = "query" | "key" | "value";

/** Create a table of numbers; the colour of a cell depends on its value. */
export function numberTable(values: ArrayLike<number>[], rows: string[], columns: string[], caption: string, role?: VectorRole): HTMLElement {
  const largest = Math.max(1e-9, ...values.map((row) => Math.max(...Array.from(row, (value) => (Number.isFinite(value) ? Math.abs(value) : 0)))));
  const header = make("tr", {}, make("td"), ...columns.map((name) => make("th", { attributes: { scope: "col" } }, name)));
  const body = values.map((row, index) =>
    make("tr", {}, make("th", { attributes: { scope: "row" } }, rows[index] ?? ""), ...Array.from(row, (value) => cell(value, largest))),
  );
  return make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": caption } },
    make("table", { class: `lab-numbers ${role ?? ""}` }, make("caption", {}, caption), make("thead", {}, header), make("tbody", {}, ...body)));
}

function cell(value: number, largest: number): HTMLElement {
  const element = make("td", { attributes: { title: String(value) } }, formatNumber(value));
  const share = Number.isFinite(value) ? Math.abs(value) / largest : 0;
  element.style.setProperty("--share", share.toFixed(3));
  if (value < 0) element.classList.add("below");
  return element;
}

/** Create an editable table of numbers; `onChange` is called after each valid edit. */
export function editTable(values: number[][], rows: string[], columns: string[], caption: string, onChange: () => void, role?: VectorRole): HTMLElement {
  const header = make("tr", {}, make("td"), ...columns.map((name) => make("th", { attributes: { scope: "col" } }, name)));
  const body = values.map((row, index) =>
    make("tr", {}, ...(rows[index] ? [make("th", { attributes: { scope: "row" } }, rows[index])] : []), ...row.map((value, column) => {
      const label = `${caption}, ${rows[index] || say("tableRow", { row: index + 1 })}, ${columns[column] || say("tableColumn", { column: column + 1 })}`;
      const input = make("input", { attributes: { type: "number", step: "0.1", value: String(value), "aria-label": label } });
      input.addEventListener("input", () => {
        if (!Number.isFinite(input.valueAsNumber)) return;
        row[column] = input.valueAsNumber;
        onChange();
      });
      return make("td", {}, input);
    })),
  );
  const hasHeader = columns.some((name) => name !== "");
  const table = make("table", { class: `lab-edit ${role ?? ""}` }, make("caption", {}, caption), ...(hasHeader ? [make("thead", {}, header)] : []), make("tbody", {}, ...body));
  return make("div", { class: "lab-scroll" }, table);
}
