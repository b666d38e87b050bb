/** The exercises of a page: answers checked, progress kept in the browser. src/uwaga/learn/check.py checks the same. */

import { make } from "../dom";
import { say } from "./messages";

interface Shared {
  number: string;
}
export type Exercise = Shared &
  (
    | { kind: "number"; answer: number; tolerance: number; wrong: Array<{ answer: number; remark: string }>; otherwise: string }
    | { kind: "table"; rows: string[]; columns: string[]; answer: number[][]; tolerance: number; wrong: Array<{ answer: number[][]; remark: string }>; otherwise: string }
    | { kind: "choice"; options: Array<{ text: string; remark?: string }> }
    | { kind: "order"; items: string[]; wrong: Array<{ answer: string[]; remark: string }>; otherwise: string }
    | { kind: "code" }
  );
export interface Verdict {
  right: boolean;
  remark: string;
}
const right = (): Verdict => ({ right: true, remark: say("exerciseRight") });

const near = (one: number[], other: number[], tolerance: number): boolean => one.every((value, at) => Math.abs(value - (other[at] ?? NaN)) <= tolerance);

/** The verdict on an answer: numbers, the place of an option, or items in an order. */
export function check(exercise: Exercise, answer: number[] | string[]): Verdict {
  if (exercise.kind === "choice") {
    const remark = exercise.options[answer[0] as number]?.remark;
    return remark === undefined ? right() : { right: false, remark };
  }
  if (exercise.kind === "code") return { right: false, remark: "" };
  const equal = (wanted: number | number[][] | string[]): boolean =>
    exercise.kind === "order"
      ? (wanted as string[]).every((item, at) => item === answer[at])
      : near([wanted].flat(2) as number[], answer as number[], exercise.tolerance);
  if (equal(rightOf(exercise))) return right();
  const wrong = (exercise.wrong as Array<{ answer: number | number[][] | string[]; remark: string }>).find((one) => equal(one.answer));
  return { right: false, remark: wrong?.remark ?? exercise.otherwise };
}

function rightOf(exercise: Exclude<Exercise, { kind: "choice" | "code" }>): number | number[][] | string[] {
  return exercise.kind === "order" ? exercise.items : exercise.answer;
}

/** A number as people write it, with a point or a comma; NaN for other texts. */
export const numberOf = (text: string): number => (text.trim() === "" ? NaN : Number(text.trim().replace(",", ".").replace("−", "-")));

const KEPT = "uwaga-learned";
const done = (): string[] => {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? "[]") as unknown;
    return Array.isArray(found) ? found.map(String) : [];
  } catch {
    return [];
  }
};
function remember(number: string): void {
  try {
    localStorage.setItem(KEPT, JSON.stringify([...new Set([...done(), number])].sort()));
  } catch {
    // a browser that keeps nothing
  }
}

export function bindExercises(root: ParentNode): void {
  for (const section of root.querySelectorAll<HTMLElement>("section[data-exercise]")) bind(section, JSON.parse(section.dataset.exercise ?? "{}") as Exercise);
}

function bind(section: HTMLElement, exercise: Exercise): void {
  const said = make("p", { class: "lab-remark", attributes: { role: "status" } });
  const mark = (): void => {
    section.classList.toggle("done", done().includes(exercise.number));
  };
  mark();
  if (exercise.kind === "code") {
    const tick = make("button", { class: "lab-button", attributes: { type: "button" } }, say("exerciseDone"));
    tick.addEventListener("click", () => {
      remember(exercise.number);
      mark();
    });
    section.querySelector("details")?.before(tick);
    return;
  }
  if (exercise.kind === "order") sortable(section);
  const button = make("button", { class: "lab-button", attributes: { type: "button" } }, say("exerciseCheck"));
  const run = (): void => {
    const answer = answerOf(section, exercise);
    if (answer === null) {
      said.textContent = say("exerciseFill");
      return;
    }
    const verdict = check(exercise, answer);
    said.replaceChildren(prepared(section, verdict.remark));
    section.classList.toggle("wrong", !verdict.right);
    if (verdict.right) remember(exercise.number);
    mark();
  };
  button.addEventListener("click", run);
  section.querySelectorAll("input").forEach((input) => input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") run();
  }));
  section.querySelector("details")?.before(button, said);
}

/** A remark as the page has prepared it, with emphasis, code and equations; the text alone if it has none of them. */
function prepared(section: HTMLElement, remark: string): Node | string {
  const template = [...section.querySelectorAll<HTMLTemplateElement>("template[data-remark]")].find((one) => one.dataset.remark === remark);
  return template?.content.cloneNode(true) ?? remark;
}

function answerOf(section: HTMLElement, exercise: Exercise): number[] | string[] | null {
  if (exercise.kind === "order") return [...section.querySelectorAll<HTMLElement>("li[data-item]")].map((item) => item.dataset.item ?? "");
  if (exercise.kind === "choice") {
    const chosen = section.querySelector<HTMLInputElement>("input:checked");
    return chosen ? [Number(chosen.value)] : null;
  }
  const numbers = [...section.querySelectorAll("input")].map((input) => numberOf(input.value));
  return numbers.some(Number.isNaN) ? null : numbers;
}

/** Buttons that move the items of a list up and down. */
function sortable(section: HTMLElement): void {
  for (const item of section.querySelectorAll<HTMLElement>("li[data-item]")) {
    const name = item.textContent.trim();
    const move = (by: -1 | 1): HTMLButtonElement => {
      const button = make("button", { class: "lab-button", attributes: { type: "button", "aria-label": say(by < 0 ? "exerciseUp" : "exerciseDown", { item: name }) } }, by < 0 ? "↑" : "↓");
      button.addEventListener("click", () => {
        const other = by < 0 ? item.previousElementSibling : item.nextElementSibling;
        if (by < 0) other?.before(item);
        else other?.after(item);
        button.focus();
      });
      return button;
    };
    item.prepend(move(-1), move(1), " ");
  }
}
