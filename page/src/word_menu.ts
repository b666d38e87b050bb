/** What else could stand at a word, beside it: the reader takes one, or goes on in words of their own. */

import { type Alternative, alternativesAt, piecesBefore } from "./alternatives";
import type { Api, Asked } from "./api";
import { button, make, tell } from "./dom";
import { say } from "./messages";
import type { Place } from "./output";
import { isAborted, Refused } from "./problem";
import { type Sentence, sentenceAt, sentencesOf } from "./sentences";

const MOST = 8;

export class WordMenu {
  readonly element: HTMLElement;
  private readonly title = make("h3", { id: "menu-title" });
  private readonly list = make("ul", { class: "choices" });
  private readonly note = make("p", { class: "faint", attributes: { role: "status" } });
  private readonly own = make("input", { label: "own", placeholder: "own", attributes: { autocomplete: "off" } });
  private running = new AbortController();
  private place: Place | null = null;

  constructor(
    private readonly api: Api,
    private readonly taken: (place: Place, sentence: number, prefix: string) => void,
  ) {
    const form = make("form", { class: "row" }, this.own, make("button", { say: "goOn", class: "button" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.place && this.own.value.trim()) {
        this.take(this.spot(this.place).before + this.own.value.trim());
      }
    });
    this.element = make(
      "div",
      {
        class: "menu",
        attributes: { role: "dialog", "aria-labelledby": "menu-title", tabindex: "-1", hidden: "" },
        on: { keydown: (event) => this.key(event) },
      },
      make("div", { class: "row" }, this.title, button("close", () => this.close(true), "quiet")),
      this.list,
      this.note,
      form,
    );
    document.addEventListener("pointerdown", (event) => {
      const target = event.target as Node;
      if (!this.element.hidden && !this.element.contains(target)) this.close(false);
    });
  }

  async open(place: Place, asked: Asked): Promise<void> {
    this.close(false);
    this.place = place;
    const { signal } = (this.running = new AbortController());
    this.title.textContent = say("wordOthers", { word: place.part.text });
    this.list.replaceChildren();
    this.own.value = "";
    tell(this.note, "loading");
    this.element.hidden = false;
    this.stand(place.element);
    this.element.focus();
    try {
      const found = await this.find(place, asked, signal);
      this.note.textContent = found.length ? "" : say("wordNone");
      this.list.replaceChildren(...found.map((one) => this.choice(one, asked.target)));
      // Who types words of their own by now is left alone.
      if (document.activeElement === this.element) this.list.querySelector("button")?.focus();
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      this.note.textContent = say(error.problem.key, error.problem.values);
    }
    delete this.note.dataset.say;
    this.stand(place.element);
  }

  close(withFocus: boolean): void {
    this.running.abort();
    if (this.element.hidden) return;
    this.element.hidden = true;
    if (withFocus) this.place?.element.focus();
  }

  /** The most probable next pieces first, then the best translation that goes on from each. */
  private async find(place: Place, asked: Asked, signal: AbortSignal): Promise<Alternative[]> {
    const { sentence, before } = this.spot(place);
    const steps = piecesBefore(sentence.tokens, sentence.target, before.length) + 1;
    const prefix = before ? { prefix: before } : {};
    const options = { ...prefix, split: "never", beam: MOST, nbest: MOST, max_length: steps };
    const [next] = await this.api.translate([sentence.source], asked, options, signal);
    const begun = [next?.text ?? "", ...(next?.alternatives ?? []).map((one) => one.text)];
    const known = [...new Set(begun)].filter((text) => text.startsWith(before) && text.length > before.length);
    const made = await Promise.all(
      known.map((text) =>
        this.api.translate([sentence.source], asked, { prefix: text, split: "never", beam: 2 }, signal),
      ),
    );
    const texts = made.flatMap((one) => one.map((translation) => translation.text));
    return alternativesAt(texts, before, place.part.text, asked.target).slice(0, MOST - 1);
  }

  /** The sentence of a word, which it is, and what stands before the word in its translation. */
  private spot({ line, part }: Place): { sentence: Sentence; index: number; before: string } {
    const sentences = sentencesOf(line.source, line.made!);
    const index = sentenceAt(sentences, part.start);
    const sentence = sentences[index]!;
    return { sentence, index, before: line.text.slice(sentence.targetSpan[0], part.start) };
  }

  private choice(one: Alternative, language: string): HTMLElement {
    const rest = one.text.slice(one.prefix.length);
    const take = make(
      "button",
      { class: "choice", attributes: { type: "button", lang: language.replaceAll("_", "-"), dir: "auto" } },
      make("strong", {}, one.word),
      make("span", { class: "faint" }, rest),
    );
    take.addEventListener("click", () => this.take(one.prefix));
    return make("li", {}, take);
  }

  private take(prefix: string): void {
    const place = this.place!;
    this.close(false);
    this.taken(place, this.spot(place).index, prefix);
  }

  private key(event: KeyboardEvent): void {
    const choices = [...this.list.querySelectorAll("button")];
    const here = choices.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "Escape") this.close(true);
    else if (event.key === "ArrowDown" && here + 1 < choices.length) choices[here + 1]!.focus();
    else if (event.key === "ArrowUp" && here > 0) choices[here - 1]!.focus();
    else return;
    event.preventDefault();
  }

  /** Under the word, inside the window's width, and scrolled to where it is below the window. */
  private stand(word: HTMLElement): void {
    const box = word.getBoundingClientRect();
    const around = this.element.offsetParent?.getBoundingClientRect() ?? new DOMRect();
    const room = document.documentElement.clientWidth - this.element.offsetWidth - 8;
    this.element.style.left = `${Math.max(8, Math.min(box.left, room)) - around.left}px`;
    this.element.style.top = `${box.bottom + 4 - around.top}px`;
    this.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
