/** The editor of a program exercise, and what the Python of the page says about the program. */

import { make } from "../dom";
import { say } from "./messages";
import { program as storedProgram, storeProgram } from "./progress";
import { type Judged, LIMIT_SECONDS, type Run, runPython } from "./python";

export interface ProgramExercise {
  number: string;
  kind: "code";
  start: string;
  tests: string;
  /** Messages of the tests in the language of the page. */
  messages: Record<string, string>;
}
const INDENT = "    ";

/** Return the verdict's text; a right program has none. */
export function describe(judged: Judged | "slow", exercise: ProgramExercise): string {
  if (judged === "slow") return say("exerciseSlow", { seconds: LIMIT_SECONDS });
  if (judged.kind === "right") return "";
  if (judged.kind === "remark") return exercise.messages[judged.text] ?? judged.text;
  if (judged.kind === "ended") return say("exerciseEnded", { status: judged.text });
  return judged.line ? say("exerciseLine", { line: judged.line, error: judged.text }) : say("exerciseTests", { error: judged.text });
}

/** Replace the start of a program by an editor with a button that runs it. `judge` is called with each verdict. */
export function bindProgram(section: HTMLElement, exercise: ProgramExercise, showMessage: (text: string, right?: boolean) => void): HTMLElement[] {
  const start = section.querySelector<HTMLElement>("pre, .highlight") as HTMLElement;
  const editor = make("textarea", { class: "program", id: `program-${exercise.number}`, attributes: { spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off" } });
  editor.value = storedProgram(exercise.number) ?? exercise.start;
  const resize = (): void => {
    editor.rows = Math.min(40, Math.max(6, editor.value.split("\n").length + 1));
  };
  resize();
  const output = make("pre", { class: "program-output", attributes: { tabindex: "0", role: "region", "aria-label": say("exerciseOutput") } });
  output.hidden = true;
  const size = section.dataset.python ?? "";
  const button = make("button", { class: "lab-button", attributes: { type: "button" } });
  const again = make("button", { class: "lab-button", attributes: { type: "button" } }, say("exerciseAgain"));
  const hint = make("p", { class: "program-hint", id: `program-hint-${exercise.number}` }, say("exerciseTab"));
  editor.setAttribute("aria-describedby", hint.id);
  const label = make("label", { class: "program-label", attributes: { for: editor.id } }, say("exerciseProgram"));
  start.replaceWith(label, editor, hint);

  let run: Run | undefined;
  const showButton = (): void => {
    button.textContent = run ? say("exerciseStop") : say(isLoaded ? "exerciseRun" : "exerciseRunLoad", { size });
  };
  const runProgram = async (): Promise<void> => {
    output.hidden = true;
    output.textContent = "";
    section.classList.remove("wrong");
    showMessage(say(isLoaded ? "exerciseRunning" : "exerciseLoading"));
    run = runPython(
      { program: editor.value, tests: exercise.tests },
      () => {
        isLoaded = true;
        showMessage(say("exerciseRunning"));
      },
      (text) => {
        output.hidden = false;
        output.textContent = text;
      },
    );
    showButton();
    try {
      const judged = await run.result;
      if (judged === null) showMessage("");
      else showMessage(describe(judged, exercise), judged !== "slow" && judged.kind === "right");
    } catch (error) {
      showMessage(say("exerciseFailed", { detail: error instanceof Error ? error.message : String(error) }), false);
    } finally {
      run = undefined;
      showButton();
    }
  };
  button.addEventListener("click", () => (run ? run.stop() : void runProgram()));
  again.addEventListener("click", () => {
    editor.value = exercise.start;
    storeProgram(exercise.number);
    resize();
    editor.focus();
  });
  editor.addEventListener("input", () => {
    storeProgram(exercise.number, editor.value);
    resize();
  });
  bindKeys(editor, () => {
    if (!run) void runProgram();
  });
  showButton();
  return [button, again, output];
}

let isLoaded = false;

/** Indent with the Tab key while the reader writes: before the first change, and after Escape, it moves the focus. */
function bindKeys(editor: HTMLTextAreaElement, submit: () => void): void {
  let isWriting = false;
  const insert = (text: string): void => {
    // keeps what can be undone; Firefox supports it in text fields too
    if (!document.execCommand("insertText", false, text)) {
      editor.setRangeText(text, editor.selectionStart, editor.selectionEnd, "end");
      editor.dispatchEvent(new Event("input"));
    }
  };
  editor.addEventListener("input", () => (isWriting = true));
  editor.addEventListener("blur", () => (isWriting = false));
  editor.addEventListener("keydown", (event) => {
    const lineStart = editor.value.lastIndexOf("\n", editor.selectionStart - 1) + 1;
    const line = editor.value.slice(lineStart, editor.selectionStart);
    if (event.key === "Escape") isWriting = false;
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      insert(`\n${/^ */.exec(line)![0]}${/:\s*(#.*)?$/.test(line) ? INDENT : ""}`);
    } else if (event.key === "Tab" && isWriting && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      if (!event.shiftKey) insert(INDENT);
      else {
        const surplus = Math.min(INDENT.length, /^ */.exec(editor.value.slice(lineStart))![0].length);
        const at = editor.selectionStart;
        editor.setSelectionRange(lineStart, lineStart + surplus);
        if (surplus) document.execCommand("delete");
        editor.setSelectionRange(Math.max(lineStart, at - surplus), Math.max(lineStart, at - surplus));
      }
    }
  });
}
