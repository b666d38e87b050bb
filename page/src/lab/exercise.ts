/** The exercises of a page: checks of answers. See also src/uwaga_course/check.py. */

import { make } from "../dom";
import { say } from "./messages";
import { bindProgram, type ProgramExercise } from "./program";
import { markSolved, solvedExercises } from "./progress";
import { readNumber, UnclearNumber } from "./read_number";

interface Shared {
  number: string;
  /** Why the right answer is right. */
  because?: string;
}
export type Exercise = Shared &
  (
    | { kind: "number"; answer: number; tolerance: number; wrong: Array<{ answer: number; remark: string }>; otherwise: string }
    | { kind: "table"; rows: string[]; columns: string[]; answer: number[][]; tolerance: number; wrong: Array<{ answer: number[][]; remark: string }>; otherwise: string }
    | { kind: "choice"; options: Array<{ text: string; remark?: string }> }
    | { kind: "order"; items: string[]; wrong: Array<{ answer: string[]; remark: string }>; otherwise: string }
    | ProgramExercise
  );
/** The verdict on an answer, with a remark on a wrong one or the reason of a right one. */
export interface Verdict {
  right: boolean;
  remark: string;
}
const correctVerdict = (exercise: Exercise): Verdict => ({ right: true, remark: exercise.because ?? "" });

/** Check an answer: numbers, the index of an option, or ordered items. */
export function check(exercise: Exercise, answer: number[] | string[]): Verdict {
  if (exercise.kind === "choice") {
    const remark = exercise.options[answer[0] as number]?.remark;
    return remark === undefined ? correctVerdict(exercise) : { right: false, remark };
  }
  if (exercise.kind === "code") return { right: false, remark: "" };
  if (exercise.kind !== "order") return checkNumbers(exercise, answer as number[]);
  const equal = (expected: string[]): boolean => expected.every((item, index) => item === answer[index]);
  if (equal(exercise.items)) return correctVerdict(exercise);
  const mistake = exercise.wrong.find((candidate) => equal(candidate.answer));
  return { right: false, remark: mistake?.remark ?? exercise.otherwise };
}

/** Check a number, or the cells of a table, by the rule of _check_numbers in check.py. */
function checkNumbers(exercise: Extract<Exercise, { kind: "number" | "table" }>, answer: number[]): Verdict {
  const cells = (expected: number | number[][]): number[] => [expected].flat(2);
  const isNear = (value: number, index: number): boolean => Math.abs(answer[index]! - value) <= exercise.tolerance;
  const right = cells(exercise.answer);
  if (right.every(isNear)) return correctVerdict(exercise);
  let [most, remark] = [0, exercise.otherwise];
  for (const mistake of exercise.wrong) {
    const wrong = cells(mistake.answer);
    const changed = wrong.filter((value, index) => value !== right[index]).length;
    if (changed > most && wrong.every((value, index) => value === right[index] || isNear(value, index))) [most, remark] = [changed, mistake.remark];
  }
  if (most === 0 && right.every((value, index) => isNear(value, index) || isRounded(answer[index]!, value))) remark = say("exerciseRounded");
  return { right: false, remark };
}

/** Whether a number is a value of three or more digits, rounded to one or two of them. */
function isRounded(number: number, value: number): boolean {
  const [one, two] = [Number(value.toPrecision(1)), Number(value.toPrecision(2))];
  return !Number.isInteger(value) && two !== value && (number === one || number === two);
}

export function bindExercises(root: ParentNode): void {
  for (const section of root.querySelectorAll<HTMLElement>("section[data-exercise]")) bind(section, JSON.parse(section.dataset.exercise ?? "{}") as Exercise);
}

function bind(section: HTMLElement, exercise: Exercise): void {
  const feedback = make("p", { class: "lab-remark", attributes: { role: "status" } });
  const updateState = (): void => {
    section.classList.toggle("done", solvedExercises().includes(exercise.number));
  };
  const showVerdict = (verdict: Verdict): void => {
    const remark = formattedRemark(section, verdict.remark);
    feedback.replaceChildren(...(verdict.right ? [make("strong", {}, say("exerciseRight")), " ", remark] : [remark]));
    section.classList.toggle("wrong", !verdict.right);
    if (verdict.right) markSolved(exercise.number);
    updateState();
  };
  const bar = make("div", { class: "exercise-bar" });
  section.querySelector(".exercise-help")?.before(bar, feedback);
  updateState();
  if (exercise.kind === "code" && section.dataset.python === undefined) {
    bar.append(make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: () => (markSolved(exercise.number), updateState()) } }, say("exerciseDone")));
    return;
  }
  if (exercise.kind === "code") {
    const [run, again, output] = bindProgram(section, exercise, (text, right) => {
      if (right === undefined) feedback.textContent = text;
      else showVerdict({ right, remark: right ? (exercise.because ?? "") : text });
    });
    bar.append(run!, again!);
    feedback.after(output!);
    return;
  }
  if (exercise.kind === "order") sortable(section);
  const checkAnswer = (): void => {
    try {
      const answer = answerOf(section, exercise);
      if (answer === null) feedback.textContent = say("exerciseFill");
      else showVerdict(check(exercise, answer));
    } catch (error) {
      if (!(error instanceof UnclearNumber)) throw error;
      const [first, second] = error.readings;
      feedback.textContent = first && second ? say("exerciseTwoNumbers", { text: error.text, first, second }) : say("exerciseNotNumber", { text: error.text });
    }
  };
  const button = make("button", { class: "lab-button", attributes: { type: "button" }, on: { click: checkAnswer } }, say("exerciseCheck"));
  if (exercise.kind === "number") {
    section.querySelector("input")?.after(" ", button);
    bar.remove();
  } else bar.append(button);
  section.querySelectorAll("input").forEach((input) => input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") checkAnswer();
  }));
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
  const inputs = [...section.querySelectorAll("input")];
  const empty = inputs.find((input) => !input.value.trim());
  if (empty) {
    empty.focus();
    return null;
  }
  return inputs.map((input) => {
    try {
      return readNumber(input.value);
    } catch (error) {
      input.focus();
      throw error;
    }
  });
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
