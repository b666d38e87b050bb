/** The exercises of a page: checks of answers, and progress stored in the browser. See also src/uwaga_course/check.py. */

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
const correctVerdict = (): Verdict => ({ right: true, remark: say("exerciseRight") });

const isNear = (values: number[], expected: number[], tolerance: number): boolean => values.every((value, index) => Math.abs(value - (expected[index] ?? NaN)) <= tolerance);

/** Check an answer: numbers, the index of an option, or ordered items. */
export function check(exercise: Exercise, answer: number[] | string[]): Verdict {
  if (exercise.kind === "choice") {
    const remark = exercise.options[answer[0] as number]?.remark;
    return remark === undefined ? correctVerdict() : { right: false, remark };
  }
  if (exercise.kind === "code") return { right: false, remark: "" };
  const equal = (expected: number | number[][] | string[]): boolean =>
    exercise.kind === "order"
      ? (expected as string[]).every((item, index) => item === answer[index])
      : isNear([expected].flat(2) as number[], answer as number[], exercise.tolerance);
  if (equal(expectedAnswer(exercise))) return correctVerdict();
  const mistake = (exercise.wrong as Array<{ answer: number | number[][] | string[]; remark: string }>).find((candidate) => equal(candidate.answer));
  return { right: false, remark: mistake?.remark ?? exercise.otherwise };
}

function expectedAnswer(exercise: Exclude<Exercise, { kind: "choice" | "code" }>): number | number[][] | string[] {
  return exercise.kind === "order" ? exercise.items : exercise.answer;
}

/** Parse a number with a decimal point or comma; NaN for other texts. */
export const numberOf = (text: string): number => (text.trim() === "" ? NaN : Number(text.trim().replace(",", ".").replace("−", "-")));

const STORAGE_KEY = "uwaga-learned";
const solvedExercises = (): string[] => {
  try {
    const stored = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]") as unknown;
    return Array.isArray(stored) ? stored.map(String) : [];
  } catch {
    return [];
  }
};
function markSolved(number: string): void {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify([...new Set([...solvedExercises(), number])].sort()));
  } catch {
    // the browser does not store data
  }
}

export function bindExercises(root: ParentNode): void {
  for (const section of root.querySelectorAll<HTMLElement>("section[data-exercise]")) bind(section, JSON.parse(section.dataset.exercise ?? "{}") as Exercise);
}

function bind(section: HTMLElement, exercise: Exercise): void {
  const feedback = make("p", { class: "lab-remark", attributes: { role: "status" } });
  const updateState = (): void => {
    section.classList.toggle("done", solvedExercises().includes(exercise.number));
  };
  updateState();
  if (exercise.kind === "code") {
    const doneButton = make("button", { class: "lab-button", attributes: { type: "button" } }, say("exerciseDone"));
    doneButton.addEventListener("click", () => {
      markSolved(exercise.number);
      updateState();
    });
    section.querySelector("details")?.before(doneButton);
    return;
  }
  if (exercise.kind === "order") sortable(section);
  const button = make("button", { class: "lab-button", attributes: { type: "button" } }, say("exerciseCheck"));
  const checkAnswer = (): void => {
    const answer = answerOf(section, exercise);
    if (answer === null) {
      feedback.textContent = say("exerciseFill");
      return;
    }
    const verdict = check(exercise, answer);
    feedback.replaceChildren(formattedRemark(section, verdict.remark));
    section.classList.toggle("wrong", !verdict.right);
    if (verdict.right) markSolved(exercise.number);
    updateState();
  };
  button.addEventListener("click", checkAnswer);
  section.querySelectorAll("input").forEach((input) => input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") checkAnswer();
  }));
  section.querySelector("details")?.before(button, feedback);
}

/** Return a remark formatted by the page, with emphasis, code and equations, or its plain text. */
function formattedRemark(section: HTMLElement, remark: string): Node | string {
  const template = [...section.querySelectorAll<HTMLTemplateElement>("template[data-remark]")].find((candidate) => candidate.dataset.remark === remark);
  return template?.content.cloneNode(true) ?? remark;
}

function answerOf(section: HTMLElement, exercise: Exercise): number[] | string[] | null {
  if (exercise.kind === "order") return [...section.querySelectorAll<HTMLElement>("li[data-item]")].map((item) => item.dataset.item ?? "");
  if (exercise.kind === "choice") {
    const selected = section.querySelector<HTMLInputElement>("input:checked");
    return selected ? [Number(selected.value)] : null;
  }
  const numbers = [...section.querySelectorAll("input")].map((input) => numberOf(input.value));
  return numbers.some(Number.isNaN) ? null : numbers;
}

/** Add buttons that move the items of a list up and down. */
function sortable(section: HTMLElement): void {
  for (const item of section.querySelectorAll<HTMLElement>("li[data-item]")) {
    const name = item.textContent.trim();
    const move = (step: -1 | 1): HTMLButtonElement => {
      const button = make("button", { class: "lab-button", attributes: { type: "button", "aria-label": say(step < 0 ? "exerciseUp" : "exerciseDown", { item: name }) } }, step < 0 ? "↑" : "↓");
      button.addEventListener("click", () => {
        const neighbour = step < 0 ? item.previousElementSibling : item.nextElementSibling;
        if (step < 0) neighbour?.before(item);
        else neighbour?.after(item);
        button.focus();
      });
      return button;
    };
    item.prepend(move(-1), move(1), " ");
  }
}
