/** A menu of alternatives for a word: the reader selects one, or types other words. */

import { type Alternative, wordAlternatives, countPiecesBefore } from "./alternatives";
import type { Api, RequestSettings } from "./api";
import { button, make, setMessage, setText } from "./dom";
import { tagOf } from "./languages";
import { say } from "./messages";
import { sourcesOf, type WordPosition } from "./output";
import { isAborted, RequestError } from "./problem";
import { type Sentence, sentenceAt, sentencesOf } from "./sentences";
import { repeatsMark, type Span } from "./words";

const MAX_CHOICES = 8;
/** Pixels between the menu and what is above or below it. */
const GAP = 4;
/** The least height of the menu in pixels; what does not fit is scrolled to. */
const MIN_HEIGHT = 280;

export interface WordMenuListener {
  /** Called with the start of the translation of a sentence: up to an alternative, or to words that the reader has typed. */
  onChoose(place: WordPosition, sentence: number, prefix: string, isTyped: boolean): void;
  /** Called with the source words of a word when the menu shows them, and with none when it closes. */
  onSources(lineIndex: number, spans: Span[]): void;
  /** Called when the reader wants to see the other translations of the sentence. */
  onOthers(): void;
  /** Called when the reader wants to see the search that found a word. */
  onSearch(): void;
}

/** Return whether the reader has typed a word and the one before it: the model has nothing to say about such words. */
function followsTypedWords({ line, part }: WordPosition): boolean {
  return (line.choiceParts ?? []).some(({ span: [start, end], isTyped }) => isTyped && start < part.start && part.start < end);
}

export class WordMenu {
  readonly element: HTMLElement;
  private readonly title = make("h2", { id: "menu-title" });
  private readonly reason = make("p", { class: "faint" });
  private readonly explainButton = button("explain", () => this.toggleSources(), "quiet");
  private readonly sources = make("p");
  private readonly explanation = make("div", { attributes: { hidden: "" } }, this.sources, button("explainSearch", () => this.showSearch()));
  private readonly list = make("ul", { class: "choices" });
  private readonly note = make("p", { class: "faint", attributes: { role: "status" } });
  private readonly others = button("sentenceOthers", () => this.showOthers(), "quiet");
  private readonly ownWords = make("input", { label: "own", placeholder: "own", attributes: { autocomplete: "off" } });
  private running = new AbortController();
  private position: WordPosition | null = null;

  constructor(
    private readonly api: Api,
    private readonly listener: WordMenuListener,
  ) {
    const form = make("form", { class: "row" }, this.ownWords, make("button", { say: "goOn", class: "button" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.position && this.ownWords.value.trim()) {
        this.chooseWord(this.locate(this.position).before + this.ownWords.value.trim(), true);
      }
    });
    this.element = make(
      "div",
      {
        class: "menu",
        attributes: { popover: "", role: "dialog", "aria-labelledby": "menu-title", tabindex: "-1" },
        on: {
          keydown: (event) => this.key(event),
          beforetoggle: (event) => (event as ToggleEvent).newState === "closed" && this.stop(),
          focusout: ({ relatedTarget }) => relatedTarget && !this.element.contains(relatedTarget as Node) && this.close(),
        },
      },
      make("div", { class: "row" }, this.title, button("close", () => this.close(), "quiet")),
      make("div", { class: "row" }, this.reason, this.explainButton),
      this.explanation,
      this.list,
      this.note,
      form,
      this.others,
    );
  }

  async open(position: WordPosition, settings: RequestSettings): Promise<void> {
    this.close();
    this.position = position;
    const { signal } = (this.running = new AbortController());
    this.title.textContent = say("wordOthers", { word: position.part.text });
    this.reason.textContent = position.element.title;
    this.showSources(false);
    this.list.replaceChildren();
    this.ownWords.value = "";
    this.others.hidden = settings.beam < 2; // there are none
    const isTyped = followsTypedWords(position);
    this.element.showPopover();
    position.element.ariaExpanded = "true"; // the word stays marked
    setMessage(this.note, isTyped ? "wordTyped" : "loading"); // a status is read out when it changes while it is shown
    this.moveTo(position.element);
    this.element.focus();
    if (isTyped) return;
    try {
      const alternatives = await this.findAlternatives(position, settings, signal);
      setText(this.note, alternatives.length ? "" : say("wordNone"));
      this.list.replaceChildren(...alternatives.map((alternative) => this.choice(alternative, settings.target)));
      // Do not take the focus from a reader who is typing.
      if (document.activeElement === this.element) this.list.querySelector("button")?.focus();
    } catch (error) {
      if (isAborted(error) || signal.aborted) return;
      if (!(error instanceof RequestError)) throw error;
      setText(this.note, say(error.problem.key, error.problem.values));
    }
    this.moveTo(position.element);
  }

  /** Close the menu, as Escape, a click elsewhere, or the settings do; the word has the focus again if the menu had it. */
  close(): void {
    this.element.hidePopover();
  }

  /** Close the menu if the element of its word was replaced, and return where the word was. */
  closeIfReplaced(): WordPosition | undefined {
    const { position } = this;
    if (!position || position.element.isConnected || !this.element.matches(":popover-open")) return undefined;
    this.close();
    return position;
  }

  private stop(): void {
    this.running.abort();
    if (this.position) this.position.element.ariaExpanded = null;
    if (!this.explanation.hidden) this.listener.onSources(this.position!.lineIndex, []);
  }

  /** Find the most probable next pieces, then the best translation with each of them. */
  private async findAlternatives(position: WordPosition, settings: RequestSettings, signal: AbortSignal): Promise<Alternative[]> {
    const { sentence, before } = this.locate(position);
    const steps = countPiecesBefore(sentence.tokens, sentence.target, before.length) + 1;
    const prefix = before ? { prefix: before } : {};
    const options = { ...prefix, split: "never", beam: MAX_CHOICES, nbest: MAX_CHOICES, max_length: steps };
    const [next] = await this.api.translate([sentence.source], settings, options, signal);
    const continuations = [next?.text ?? "", ...(next?.alternatives ?? []).map((alternative) => alternative.text)];
    const prefixes = [...new Set(continuations)].filter((text) => text.startsWith(before) && text.length > before.length);
    const results = await Promise.all(
      prefixes.map((text) =>
        this.api.translate([sentence.source], settings, { prefix: text, split: "never", beam: 2 }, signal),
      ),
    );
    const texts = results.flatMap((result) => result.map(({ text }) => text)).filter((text) => !repeatsMark(sentence.source, text));
    return wordAlternatives(texts, before, position.part.text, settings.target).slice(0, MAX_CHOICES - 1);
  }

  /** Return the sentence of a word, its index, and the text before the word in its translation. */
  private locate({ line, part }: WordPosition): { sentence: Sentence; index: number; before: string } {
    const sentences = sentencesOf(line.source, line.translation!);
    const index = sentenceAt(sentences, part.start);
    const sentence = sentences[index]!;
    return { sentence, index, before: line.text.slice(sentence.targetSpan[0], part.start) };
  }

  private choice(alternative: Alternative, language: string): HTMLElement {
    const remaining = alternative.text.slice(alternative.prefix.length);
    const choice = make(
      "button",
      { class: "choice", attributes: { type: "button", lang: tagOf(language), dir: "auto" } },
      make("strong", {}, alternative.word),
      make("span", { class: "faint" }, remaining),
    );
    choice.addEventListener("click", () => this.chooseWord(alternative.prefix, false));
    return make("li", {}, choice);
  }

  private chooseWord(prefix: string, isTyped: boolean): void {
    const position = this.position!;
    this.close();
    this.listener.onChoose(position, this.locate(position).index, prefix, isTyped);
  }

  private toggleSources(): void {
    this.showSources(Boolean(this.explanation.hidden));
    this.moveTo(this.position!.element);
  }

  /** Show or hide the source words that the word is aligned with. */
  private showSources(isShown: boolean): void {
    const { line, lineIndex } = this.position!;
    const spans = isShown ? sourcesOf(this.position!) : [];
    const words = spans.flatMap((span, index) => [index ? ", " : " ", make("strong", { attributes: { dir: "auto" } }, line.source.slice(...span))]);
    this.sources.replaceChildren(say(words.length ? "explainSources" : "explainNone"), ...words);
    this.explanation.hidden = !isShown;
    this.explainButton.setAttribute("aria-expanded", String(isShown));
    this.listener.onSources(lineIndex, spans);
  }

  private showOthers(): void {
    this.close();
    this.listener.onOthers();
  }

  private showSearch(): void {
    this.close();
    this.listener.onSearch();
  }

  private key(event: KeyboardEvent): void {
    const choices = [...this.list.querySelectorAll("button")];
    const index = choices.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "ArrowDown" && index + 1 < choices.length) choices[index + 1]!.focus();
    else if (event.key === "ArrowUp" && index > 0) choices[index - 1]!.focus();
    else return;
    event.preventDefault();
  }

  /**
   * Move the menu below a word, and scroll to it. It ends above the buttons of the pane or, if there is too little room, above the
   * end of the page, which would move under the pointer that closes a longer menu.
   */
  private moveTo(word: HTMLElement): void {
    const box = word.getBoundingClientRect();
    const pane = this.element.parentElement!;
    const tools = pane.querySelector(".tools")!.getBoundingClientRect();
    const top = box.bottom + GAP;
    const endsAbove = tools.top - top - GAP >= MIN_HEIGHT;
    const bottom = endsAbove ? tools.top : Math.max(innerHeight, document.body.getBoundingClientRect().bottom);
    const maxLeft = pane.getBoundingClientRect().right - this.element.offsetWidth;
    this.element.style.left = `${Math.max(8, Math.min(box.left, maxLeft)) + scrollX}px`;
    this.element.style.top = `${top + scrollY}px`;
    this.element.style.setProperty("--room", `${Math.max(MIN_HEIGHT, bottom - top - GAP)}px`);
    this.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
