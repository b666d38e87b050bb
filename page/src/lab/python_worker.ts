/** Runs programs in Pyodide, a Python in WebAssembly, from the folder `python` beside this file. */

import judge from "../../../src/uwaga_course/program.py";
import type { Judged, Reply, Task } from "./python";

interface Pyodide {
  globals: { set(name: string, value: unknown): void };
  loadPackage(name: string, settings: { messageCallback: () => void }): Promise<unknown>;
  runPython(code: string): unknown;
  setStdout(settings: { write: (bytes: Uint8Array) => number }): void;
  setStderr(settings: { write: (bytes: Uint8Array) => number }): void;
  setStdin(settings: { stdin: () => null }): void;
}

const folder = new URL("python/", self.location.href).href;
const reply = (message: Reply): void => self.postMessage(message);
let pyodide: Promise<Pyodide> | undefined;

async function load(): Promise<Pyodide> {
  const { loadPyodide } = (await import(`${folder}pyodide.mjs`)) as { loadPyodide(settings: { indexURL: string }): Promise<Pyodide> };
  const loaded = await loadPyodide({ indexURL: folder });
  const decoder = new TextDecoder();
  const write = (bytes: Uint8Array): number => {
    reply({ type: "output", text: decoder.decode(bytes, { stream: true }) });
    return bytes.length;
  };
  loaded.setStdout({ write });
  loaded.setStderr({ write });
  loaded.setStdin({ stdin: () => null }); // at its end
  loaded.runPython('__name__ = "judge"'); // not __main__, which reads its standard input
  loaded.runPython(judge);
  return loaded;
}

self.onmessage = async ({ data }: MessageEvent<Task>) => {
  try {
    pyodide ??= load();
    const python = await pyodide;
    if (/\bnumpy\b/.test(data.program + data.tests)) {
      await python.loadPackage("numpy", { messageCallback: () => undefined });
      python.runPython("import numpy");
    }
    reply({ type: "ready" });
    python.globals.set("task", JSON.stringify(data));
    const verdict = python.runPython('given = json.loads(task)\nverdict = judge(given["program"], given["tests"])\nsys.stdout.flush()\njson.dumps(verdict)');
    reply({ type: "judged", judged: JSON.parse(verdict as string) as Judged });
  } catch (error) {
    pyodide = undefined;
    reply({ type: "failed", detail: error instanceof Error ? error.message : String(error) });
  }
};
