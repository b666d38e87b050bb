/** Solved exercises, predictions and programs, which the browser stores; ticks beside the chapters of the course. */

import { make } from "../dom";
import { say } from "./messages";

const SOLVED = "uwaga-learned";
const PREDICTED = "uwaga-predicted";
const PROGRAMS = "uwaga-programs";
/** The choice of an option, and whether the answer was read. */
export interface Prediction {
  choice: number;
  opened: boolean;
}

function read(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

function write(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // the browser does not store data
  }
}

const record = <Value>(key: string): Record<string, Value> => {
  const stored = read(key);
  return stored !== null && typeof stored === "object" && !Array.isArray(stored) ? (stored as Record<string, Value>) : {};
};

export function solvedExercises(): string[] {
  const stored = read(SOLVED);
  return Array.isArray(stored) ? stored.map(String) : [];
}

export function markSolved(number: string): void {
  write(SOLVED, [...new Set([...solvedExercises(), number])].sort());
  showProgress(document);
}

export const prediction = (name: string): Prediction | undefined => record<Prediction>(PREDICTED)[name];
export const storePrediction = (name: string, value: Prediction): void => write(PREDICTED, { ...record(PREDICTED), [name]: value });
export const program = (number: string): string | undefined => record<string>(PROGRAMS)[number];
/** Store the program of an exercise; without one, its start is shown again. */
export function storeProgram(number: string, text?: string): void {
  const { [number]: _, ...others } = record<string>(PROGRAMS);
  write(PROGRAMS, text === undefined ? others : { ...others, [number]: text });
}

/** Return the chapter of an address such as `…/learn/es/03-looking-back/`. */
export const chapterOf = (address: string): string | undefined => {
  const match = /\/learn\/(?:\w\w\/)?(\d\d)-[^/]*\/?(?:index\.html)?$/.exec(address.replace(/[?#].*/, ""));
  return match ? String(Number(match[1])) : undefined;
};

/** Show in the navigation and in the table of chapters how many exercises of each chapter are solved. */
export function showProgress(root: ParentNode): void {
  const counts = JSON.parse(root.querySelector<HTMLElement>("[data-exercise-counts]")?.dataset.exerciseCounts ?? "{}") as Record<string, number>;
  root.querySelectorAll(".lab-progress").forEach((shown) => shown.remove());
  const solved = solvedExercises();
  for (const link of root.querySelectorAll<HTMLAnchorElement>(".md-nav a[href], .md-content td a[href]")) {
    const chapter = link.hash ? undefined : chapterOf(link.href); // not the contents of the page itself
    const count = chapter === undefined ? undefined : counts[chapter];
    const done = solved.filter((number) => number.startsWith(`${chapter}.`)).length;
    if (!count || !done) continue;
    const inTable = link.closest("td") !== null;
    const text = say("exerciseSolved", { solved: done, count });
    const short = done >= count ? "✓" : `${done}/${count}`;
    const progress = make("span", { class: "lab-progress" }, inTable && done < count ? text : short);
    progress.setAttribute("role", "img");
    progress.setAttribute("aria-label", text);
    if (inTable) link.after(" ", progress);
    else link.append(progress);
  }
}

/** Add the count of all solved exercises below the table of chapters, with a button that forgets them. */
export function addReset(root: ParentNode): void {
  const tables = [...root.querySelectorAll<HTMLTableElement>(".md-content table")];
  const table = tables.find((candidate) => [...candidate.querySelectorAll("a")].filter((link) => chapterOf(link.href) !== undefined).length > 5);
  if (!table) return;
  const status = make("span", { attributes: { role: "status" } });
  const counts = JSON.parse(root.querySelector<HTMLElement>("[data-exercise-counts]")?.dataset.exerciseCounts ?? "{}") as Record<string, number>;
  const count = Object.values(counts).reduce((sum, value) => sum + value, 0);
  const update = (): void => {
    status.textContent = say("exerciseSolvedAll", { solved: solvedExercises().length, count });
  };
  const button = make("button", { class: "lab-button", attributes: { type: "button" } }, say("exerciseForget"));
  button.addEventListener("click", () => {
    if (!confirm(say("exerciseForgetAll"))) return;
    for (const key of [SOLVED, PREDICTED, PROGRAMS]) {
      try {
        localStorage.removeItem(key);
      } catch {
        // nothing is stored
      }
    }
    update();
    showProgress(document);
  });
  update();
  (table.closest(".md-typeset__scrollwrap") ?? table).after(make("p", { class: "lab-forget" }, status, " ", button));
}
