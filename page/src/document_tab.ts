/** Documents: sent, watched while they are translated, fetched or given up. */

import type { Asked, Job } from "./api";
import type { App } from "./app";
import { named } from "./document_name";
import { button, make, save, tell } from "./dom";
import { AUTO } from "./languages";
import { type Key, say } from "./messages";
import { isAborted, type Problem, Refused } from "./problem";

/** Milliseconds between two questions how far a document is. */
const BETWEEN = 500;
const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
const STATES: Record<Job["state"], Key> = {
  queued: "documentQueued",
  running: "documentRunning",
  done: "documentDone",
  failed: "documentFailed",
};

export class DocumentTab {
  readonly key = "tabDocument" as const;
  readonly element: HTMLElement;
  private readonly list = make("ul", { class: "documents" });
  private readonly note = make("p", { class: "note", attributes: { role: "alert" } });

  constructor(private readonly app: App) {
    const input = make("input", { id: "files", class: "unseen", attributes: { type: "file", multiple: "" } });
    input.addEventListener("change", () => {
      this.take(input.files);
      input.value = "";
    });
    const choose = make("label", { say: "documentChoose", class: "button", attributes: { for: "files" } });
    const zone = make("div", { class: "drop" }, make("span", { say: "documentDrop" }), " ", input, choose);
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    for (const name of ["dragleave", "drop"] as const) zone.addEventListener(name, () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      this.take(event.dataTransfer?.files ?? null);
    });
    this.element = make("div", {}, make("p", { say: "documentIntro", class: "faint" }), zone, this.note, this.list);
  }

  private take(files: FileList | null): void {
    this.note.replaceChildren();
    delete this.note.dataset.say;
    const asked = this.app.asked();
    if (asked.source === AUTO && asked.glossary.length) return tell(this.note, "documentLanguage");
    for (const file of files ?? []) {
      const row = new DocumentRow(this.app, file, asked);
      this.list.append(row.element);
      void row.run();
    }
  }
}

class DocumentRow {
  readonly element: HTMLLIElement;
  private readonly state = make("span", { say: "documentSending", attributes: { role: "status" } });
  private readonly bar: HTMLProgressElement;
  private readonly tools = make("span", { class: "row" });
  private readonly running = new AbortController();
  private id = "";
  private glossary = "";

  constructor(
    private readonly app: App,
    private readonly file: File,
    private readonly asked: Asked,
  ) {
    this.bar = make("progress", { attributes: { "aria-label": say("documentProgress", { name: file.name }) } });
    this.tools.append(button("cancel", () => void this.cancel(), "quiet"));
    this.element = make("li", {}, make("strong", { attributes: { dir: "auto" } }, file.name), this.state, this.bar, this.tools);
  }

  /** Send the document and wait for its translation. */
  async run(): Promise<void> {
    const { signal } = this.running;
    const { api } = this.app;
    try {
      if (this.asked.glossary.length) this.glossary = await api.keepGlossary(this.asked, signal);
      this.id = await api.sendDocument(this.file, this.asked, this.glossary, signal);
      for (;;) {
        const job = await this.look();
        if (signal.aborted) return;
        this.follow(job);
        if (job.state === "done") return this.done();
        if (job.state === "failed") return this.fail(job);
        await pause(BETWEEN);
      }
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      this.end("documentFailed", this.meaning(error.problem));
    } finally {
      if (this.glossary) await api.forgetGlossary(this.glossary).catch(() => undefined);
    }
  }

  /** How far it is; a server that is busy is asked again. */
  private async look(): Promise<Job> {
    for (;;) {
      try {
        return await this.app.api.job(this.id);
      } catch (error) {
        if (!(error instanceof Refused) || error.problem.again === undefined) throw error;
        await pause(1000 * error.problem.again);
      }
    }
  }

  private follow(job: Job): void {
    tell(this.state, STATES[job.state]);
    if (!job.of) return;
    this.bar.max = job.of;
    this.bar.value = job.done;
  }

  private done(): void {
    this.bar.max = this.bar.value = 1;
    this.tools.replaceChildren(button("download", () => void this.get()), this.remover());
  }

  private async get(): Promise<void> {
    try {
      save(named(this.file.name, this.asked.target), await this.app.api.result(this.id));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.complain(this.meaning(error.problem));
    }
  }

  private fail(job: Job): void {
    const detail = typeof job.error === "string" ? job.error : (job.error?.message ?? "");
    this.end("documentFailed", say("errorDocument", { detail }));
  }

  private async cancel(): Promise<void> {
    this.running.abort();
    this.end("documentCancelled", "");
    if (this.id) await this.app.api.cancel(this.id).catch(() => undefined); // it may be done already
  }

  private end(state: Key, why: string): void {
    tell(this.state, state);
    this.bar.remove();
    this.tools.replaceChildren(this.remover());
    if (why) this.complain(why);
  }

  private complain(why: string): void {
    this.element.querySelector(".note")?.remove();
    this.element.append(make("p", { class: "note", attributes: { role: "alert" } }, why));
  }

  private remover(): HTMLButtonElement {
    return button("remove", () => {
      this.element.remove();
      if (this.id) void this.app.api.cancel(this.id).catch(() => undefined); // the server forgets it in time
    }, "quiet");
  }

  private meaning(problem: Problem): string {
    if (problem.key === "errorOther") return say("errorDocument", problem.values);
    return say(problem.key, this.app.named(problem.values));
  }
}
