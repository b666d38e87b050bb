/** The tab for documents: upload, progress, download and cancelling. */

import type { Job, RequestSettings } from "./api";
import type { App } from "./app";
import { translatedName } from "./document_name";
import { button, make, saveFile, setMessage } from "./dom";
import { icon } from "./icons";
import type { LanguagePair } from "./languages";
import { type Key, say } from "./messages";
import { isAborted, type Problem, RequestError, resultError, toProblem } from "./problem";
import { UndoNotice } from "./undo";

/** Milliseconds between two requests for the state of a document. */
const POLL_INTERVAL = 500;
const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
const STATE_MESSAGES: Record<Job["state"], Key> = {
  queued: "documentQueued",
  running: "documentRunning",
  done: "documentDone",
  failed: "documentFailed",
};
/** Problems that stay the same however often the same file is sent. */
const FINAL: ReadonlySet<Key> = new Set<Key>(["errorFormat", "errorUnreadable", "errorFileLarge", "errorDocuments"]);

export class DocumentTab {
  readonly key = "tabDocument" as const;
  readonly element: HTMLElement;
  private readonly list = make("ul", { class: "documents" });
  private readonly pair = make("p");
  private readonly undo = new UndoNotice();

  constructor(private readonly app: App) {
    const input = make("input", { id: "files", class: "unseen", attributes: { type: "file", multiple: "" } });
    input.addEventListener("change", () => {
      this.addFiles(input.files);
      input.value = "";
    });
    const choose = make("label", { say: "documentChoose", class: "button", attributes: { for: "files" } });
    const zone = make("div", { class: "drop empty" }, icon("document"), make("p", {}, make("span", { say: "documentDrop" }), " ", input, choose));
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    for (const name of ["dragleave", "drop"] as const) zone.addEventListener(name, () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      this.addFiles(event.dataTransfer?.files ?? null);
    });
    this.element = make("div", {}, this.pair, make("p", { say: "documentIntro", class: "faint" }), zone, this.list, this.undo.element);
    window.onpagehide = () => this.undo.clear(); // instead of that of a tab built before
  }

  onShow(): void {
    this.undo.clear();
    this.refresh();
  }

  refresh(): void {
    const { source, target } = this.app.pair;
    this.pair.textContent = say("documentPair", this.app.withLanguageNames({ from: source, to: target }));
    this.pair.hidden = this.app.isTargetOpen; // each document names its languages
  }

  private addFiles(files: FileList | null): void {
    this.undo.clear();
    for (const file of files ?? []) {
      const row = new DocumentRow(this.app, file, (button) => this.remove(row, button));
      this.list.append(row.element);
      void row.run();
    }
  }

  /** Remove a document from the list, and from the server when the reader can no longer undo it. */
  private remove(row: DocumentRow, origin: HTMLElement): void {
    const following = row.element.nextSibling;
    row.element.remove();
    this.undo.show(() => this.list.insertBefore(row.element, following), origin, () => row.delete());
  }
}

class DocumentRow {
  readonly element: HTMLLIElement;
  private readonly state = make("span", { attributes: { role: "status" } });
  private readonly pair = make("span");
  private readonly bar: HTMLProgressElement;
  private readonly tools = make("span", { class: "row" });
  private running = new AbortController();
  private id = "";

  constructor(
    private readonly app: App,
    private readonly file: File,
    private readonly onRemove: (origin: HTMLElement) => void,
  ) {
    this.bar = make("progress", { attributes: { "aria-label": say("documentProgress", { name: file.name }) } });
    this.element = make("li", {}, make("strong", { attributes: { dir: "auto" } }, file.name), this.pair, this.state, this.bar, this.tools);
  }

  /** Upload the document, with the settings of now, and wait for its translation. */
  async run(): Promise<void> {
    const { signal } = (this.running = new AbortController());
    const { api } = this.app;
    let glossary = "";
    this.element.querySelector(".note")?.remove();
    this.bar.hidden = false;
    setMessage(this.state, "documentSending");
    this.tools.replaceChildren(button("cancel", () => void this.cancel(), "quiet"));
    try {
      const pair = await this.findPair(signal);
      const settings = { ...this.app.requestSettings(), ...pair, memory: this.app.memory(pair) };
      const dictionaries = this.app.dictionaries(pair);
      if (dictionaries.length) glossary = await api.uploadGlossary(dictionaries, signal);
      this.id = await api.sendDocument(this.file, settings, glossary, signal);
      for (;;) {
        const job = await this.pollJob();
        if (signal.aborted) return;
        this.showProgress(job);
        if (job.state === "done") return this.showDownload(settings.target);
        if (job.state === "failed") return this.showFailure(job, settings);
        await pause(POLL_INTERVAL);
      }
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      if (!(error instanceof RequestError)) throw error;
      this.finish("documentFailed", error.problem);
    } finally {
      if (glossary) await api.deleteGlossary(glossary).catch(() => undefined);
    }
  }

  /** Return the selected languages or, if the reader has chosen no target language, those for a text in the language of the document. */
  private async findPair(signal: AbortSignal): Promise<LanguagePair> {
    const { app } = this;
    if (!app.isTargetOpen) return app.pair;
    const source = (await app.api.detect(this.file, signal))?.code;
    if (!source) return app.pair;
    const { target } = app.pairFor(source);
    this.pair.textContent = `${app.nameOf(source)} → ${app.nameOf(target)}`;
    return { source, target };
  }

  /** Return the state of the document; the request is repeated if the server is busy. */
  private async pollJob(): Promise<Job> {
    for (;;) {
      try {
        return await this.app.api.job(this.id);
      } catch (error) {
        if (!(error instanceof RequestError) || error.problem.retrySeconds === undefined) throw error;
        await pause(1000 * error.problem.retrySeconds);
      }
    }
  }

  private showProgress(job: Job): void {
    setMessage(this.state, job.state === "done" && !job.of ? "documentEmpty" : STATE_MESSAGES[job.state]);
    if (!job.of) return;
    this.bar.max = job.of;
    this.bar.value = job.done;
  }

  private showDownload(target: string): void {
    this.bar.max = this.bar.value = 1;
    this.tools.replaceChildren(button("download", () => void this.downloadResult(target)), this.removeButton());
  }

  private async downloadResult(target: string): Promise<void> {
    try {
      saveFile(translatedName(this.file.name, target), await this.app.api.result(this.id));
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      this.showError(error.problem);
    }
  }

  private showFailure({ error }: Job, { source, target }: RequestSettings): void {
    const response = resultError(error ?? { code: "", message: "" }, this.id);
    this.finish("documentFailed", toProblem(response, { from: source, to: target, path: "v1/documents", hasKey: true }));
  }

  private async cancel(): Promise<void> {
    this.running.abort();
    this.finish("documentCancelled", null);
    if (this.id) await this.app.api.cancel(this.id).catch(() => undefined); // it may be finished already
  }

  private finish(state: Key, problem: Problem | null): void {
    setMessage(this.state, state);
    this.bar.hidden = true;
    this.bar.removeAttribute("value");
    const retry = button("retry", () => void this.retry(), "quiet");
    this.tools.replaceChildren(...(problem && FINAL.has(problem.key) ? [] : [retry]), this.removeButton());
    if (problem) this.showError(problem);
  }

  private async retry(): Promise<void> {
    this.delete();
    await this.run();
  }

  private showError({ key, values, detail }: Problem): void {
    this.element.querySelector(".note")?.remove();
    const text = key === "errorOther" ? say("errorDocument", values) : say(key, this.app.withLanguageNames(values));
    const details = detail ? [" ", say("documentDetail", { detail })] : [];
    this.element.append(make("p", { class: "note", attributes: { role: "alert" } }, text, ...details));
  }

  private removeButton(): HTMLButtonElement {
    const remove = button("remove", () => this.onRemove(remove), "quiet");
    return remove;
  }

  /** Delete the document on the server, which otherwise does so after some time. */
  delete(): void {
    if (this.id) void this.app.api.cancel(this.id).catch(() => undefined);
    this.id = "";
  }
}
