/** Tables of numbers: shown, edited, shaded. */

import { make } from "../dom";
import { say } from "./messages";

export const short = (value: number): string => (Number.isFinite(value) ? String(Number(value.toFixed(3))) : value === -Infinity ? "−∞" : "–").replace("-", "−");

/** A table of numbers whose cells are as strong in colour as they are large. */
export function numberTable(values: ArrayLike<number>[], rows: string[], columns: string[], caption: string): HTMLElement {
  const largest = Math.max(1e-9, ...values.map((row) => Math.max(...Array.from(row, (one) => (Number.isFinite(one) ? Math.abs(one) : 0)))));
  const head = make("tr", {}, make("td"), ...columns.map((name) => make("th", { attributes: { scope: "col" } }, name)));
  const body = values.map((row, at) =>
    make("tr", {}, make("th", { attributes: { scope: "row" } }, rows[at] ?? ""), ...Array.from(row, (one) => cell(one, largest))),
  );
  return make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": caption } },
    make("table", { class: "lab-numbers" }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)));
}

function cell(value: number, largest: number): HTMLElement {
  const made = make("td", { attributes: { title: String(value) } }, short(value));
  const share = Number.isFinite(value) ? Math.abs(value) / largest : 0;
  made.style.setProperty("--share", share.toFixed(3));
  if (value < 0) made.classList.add("below");
  return made;
}

/** A table of numbers that can be edited; `change` is called after each edit that is a number. */
export function editTable(values: number[][], rows: string[], columns: string[], caption: string, change: () => void): HTMLElement {
  const head = make("tr", {}, make("td"), ...columns.map((name) => make("th", { attributes: { scope: "col" } }, name)));
  const body = values.map((row, at) =>
    make("tr", {}, ...(rows[at] ? [make("th", { attributes: { scope: "row" } }, rows[at])] : []), ...row.map((one, column) => {
      const label = `${caption}, ${rows[at] || say("tableRow", { row: at + 1 })}, ${columns[column] || say("tableColumn", { column: column + 1 })}`;
      const input = make("input", { attributes: { type: "number", step: "0.1", value: String(one), "aria-label": label } });
      input.addEventListener("input", () => {
        if (!Number.isFinite(input.valueAsNumber)) return;
        row[column] = input.valueAsNumber;
        change();
      });
      return make("td", {}, input);
    })),
  );
  const named = columns.some((name) => name !== "");
  const table = make("table", { class: "lab-edit" }, make("caption", {}, caption), ...(named ? [make("thead", {}, head)] : []), make("tbody", {}, ...body));
  return make("div", { class: "lab-scroll" }, table);
}

/** A mask whose cells are toggled; true is open. Rows and columns without a name are not shown. */
export function maskTable(mask: boolean[][], rows: string[], columns: string[], caption: string, change: () => void): HTMLElement {
  const head = make("tr", {}, make("td"), ...columns.map((name) => make("th", { attributes: { scope: "col" } }, name)));
  const body = mask.slice(0, rows.length).map((row, at) =>
    make("tr", {}, make("th", { attributes: { scope: "row" } }, rows[at] ?? ""), ...row.slice(0, columns.length).map((open, column) => {
      const box = make("input", { attributes: { type: "checkbox", "aria-label": `${caption}: ${say("tableOpen", { row: rows[at] ?? "", column: columns[column] ?? "" })}` } });
      box.checked = open;
      box.addEventListener("change", () => {
        row[column] = box.checked;
        change();
      });
      return make("td", {}, box);
    })),
  );
  return make("div", { class: "lab-scroll" }, make("table", { class: "lab-mask" }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)));
}
