/** The Python of the page: a worker that is started when a program is run, and stopped when it takes too long. */

/** The end of a program and its tests; see judge in src/uwaga_course/program.py. */
export interface Judged {
  kind: "right" | "remark" | "ended" | "error";
  text: string;
  line: number;
}
export type Reply = { type: "ready" } | { type: "output"; text: string } | { type: "judged"; judged: Judged } | { type: "failed"; detail: string };
export interface Task {
  program: string;
  tests: string;
}
export interface Run {
  /** The verdict; `slow` after the time limit, null if the run was stopped. */
  result: Promise<Judged | "slow" | null>;
  stop(): void;
}

export const LIMIT_SECONDS = 20;
const LONGEST_OUTPUT = 4000;
let worker: Worker | undefined;

function end(): void {
  worker?.terminate();
  worker = undefined;
}

/** Run a program and its tests; the first run loads Python. */
export function runPython(task: Task, onStart: () => void, onOutput: (text: string) => void): Run {
  worker ??= new Worker(new URL("python_worker.js", import.meta.url), { type: "module" });
  const current = worker;
  let stop = (): void => undefined;
  const result = new Promise<Judged | "slow" | null>((resolve, reject) => {
    let limit: ReturnType<typeof setTimeout> | undefined;
    let output = "";
    const finish = (value: Judged | "slow" | null, error?: Error): void => {
      clearTimeout(limit);
      current.onmessage = current.onerror = null;
      if (value === "slow" || value === null) end();
      if (error) reject(error);
      else resolve(value);
    };
    stop = () => finish(null);
    current.onerror = (event) => finish(null, new Error(event.message || "the worker cannot be loaded"));
    current.onmessage = ({ data }: MessageEvent<Reply>) => {
      if (data.type === "ready") {
        onStart();
        limit = setTimeout(() => finish("slow"), LIMIT_SECONDS * 1000);
      } else if (data.type === "output") {
        output = (output + data.text).slice(-LONGEST_OUTPUT);
        onOutput(output);
      } else if (data.type === "judged") finish(data.judged);
      else finish(null, new Error(data.detail));
    };
    current.postMessage(task);
  });
  return { result, stop: () => stop() };
}
