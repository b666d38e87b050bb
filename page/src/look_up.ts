/** Which remembered words the pieces of a translation looked at: the pieces, remembered sentences, and lines between them. */

import { make, setText, svgElement } from "./dom";
import { direction, tagOf } from "./languages";
import { currentLanguage, say } from "./messages";
import { spelling, splitSentences } from "./sentences";

/** The look-ups of a translation: see docs/guides/memory.md. */
export interface LookUps {
  text: string;
  pairs: Array<{ source: string; target: string; score: number; pieces: string[] }>;
  pieces: PieceLookUp[];
}

export interface PieceLookUp {
  piece: string;
  /** The nearest remembered state: its pair, the position of the piece that follows it, and this piece. */
  pair: number;
  position: number;
  remembered: string;
  /** Squared distance in radii. */
  distance: number;
  /** λ. */
  weight: number;
  model_probability: number;
  probability: number;
}

const displayText = (piece: string): string => spelling(piece) || "␣";
const withoutSpaces = (text: string): string => text.replace(/\s/g, "");

/** Return the look-ups of the sentence with a translation; all of them if no sentence has it. */
export function lookUpsOf(target: string, lookUps: readonly PieceLookUp[]): readonly PieceLookUp[] {
  const sentences = splitSentences(lookUps, ({ piece }) => piece);
  const textOf = (sentence: readonly PieceLookUp[]) => withoutSpaces(sentence.map(({ piece }) => spelling(piece)).join(""));
  const index = sentences.findIndex((sentence) => textOf(sentence.slice(0, -1)) === withoutSpaces(target));
  return sentences[index] ?? lookUps;
}

/** Return the numbers of a piece in words. */
export function describeLookUp({ piece, remembered, distance, weight, model_probability, probability }: PieceLookUp): string {
  const decimal = (value: number) => value.toLocaleString(currentLanguage(), { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const percent = (value: number) => Math.round(100 * value);
  const numbers = { distance: decimal(distance), weight: decimal(weight), model: percent(model_probability), probability: percent(probability) };
  return say("lookUpPiece", { piece: displayText(piece), remembered: displayText(remembered), ...numbers });
}

interface Link {
  piece: HTMLElement;
  remembered: HTMLElement;
  line: SVGPathElement;
}

/** The figure of the look-ups of a sentence; the arrow keys move between its pieces. */
export class LookUpFigure {
  readonly element: HTMLElement;
  private readonly details = make("p", { class: "faint details", say: "lookUpHelp" });
  private readonly lines = svgElement("svg", { "aria-hidden": "true" });
  private readonly drawing = make("div", { class: "drawing" }, this.lines);
  private readonly pieces: HTMLElement[];
  private readonly links: Link[] = [];

  constructor(
    { pairs }: LookUps,
    lookUps: readonly PieceLookUp[],
    private readonly source: string,
    private readonly language: string,
  ) {
    this.pieces = lookUps.map((lookUp, index) => this.piece(lookUp, index));
    this.drawing.append(this.row(this.pieces));
    const used = new Set(lookUps.filter(({ weight }) => weight > 0).map(({ pair }) => pair));
    pairs.forEach((pair, index) => {
      if (!used.has(index) && (used.size || index)) return;
      const remembered = pair.pieces.map((piece) => make("span", { class: "piece" }, displayText(piece)));
      const score = (Math.floor(pair.score) / 100).toLocaleString(currentLanguage(), { style: "percent" });
      const title = make("p", { class: "faint" }, `${score}: `, make("span", { attributes: { lang: tagOf(this.source), dir: "auto" } }, pair.source));
      this.drawing.append(this.row(remembered), title);
      lookUps.forEach((lookUp, number) => {
        if (lookUp.pair === index && lookUp.weight > 0) this.link(this.pieces[number]!, remembered[lookUp.position]!, lookUp.weight);
      });
    });
    const attributes = { role: "group", "aria-label": say("lookUp") };
    this.element = make("div", { class: "look-up", attributes }, make("div", { class: "scroll" }, this.drawing), this.details);
    new ResizeObserver(() => this.draw()).observe(this.drawing);
  }

  private row(pieces: readonly HTMLElement[]): HTMLElement {
    return make("div", { class: "pieces", attributes: { lang: tagOf(this.language), dir: direction(this.language) } }, ...pieces);
  }

  private piece(lookUp: PieceLookUp, index: number): HTMLElement {
    const text = describeLookUp(lookUp);
    const show = (event: Event) => this.select(event.currentTarget as HTMLElement, text);
    const attributes = { tabindex: index ? "-1" : "0", role: "img", "aria-label": text };
    return make("span", { class: "piece", attributes, on: { focus: show, mouseenter: show, keydown: (event) => this.key(event, index) } }, displayText(lookUp.piece));
  }

  private link(piece: HTMLElement, remembered: HTMLElement, weight: number): void {
    const line = svgElement("path", { "stroke-opacity": weight.toFixed(3) });
    this.lines.append(line);
    this.links.push({ piece, remembered, line });
  }

  /** Show the numbers of a piece, and mark it, its line and the remembered piece. */
  private select(piece: HTMLElement, text: string): void {
    setText(this.details, text);
    for (const marked of this.element.querySelectorAll(".marked")) marked.classList.remove("marked");
    piece.classList.add("marked");
    const link = this.links.find((each) => each.piece === piece);
    for (const element of link ? [link.remembered, link.line] : []) element.classList.add("marked");
  }

  private key(event: KeyboardEvent, index: number): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const forward = direction(this.language) === "rtl" ? -1 : 1;
    const steps: Record<string, number> = { ArrowRight: index + forward, ArrowLeft: index - forward, Home: 0, End: this.pieces.length - 1 };
    const piece = this.pieces[steps[event.key] ?? -1];
    if (!piece) return;
    event.preventDefault();
    for (const other of this.pieces) other.tabIndex = other === piece ? 0 : -1;
    piece.focus();
  }

  /** Draw the lines between the current places of the pieces. */
  private draw(): void {
    for (const { piece, remembered, line } of this.links) {
      const middle = (element: HTMLElement) => element.offsetLeft + element.offsetWidth / 2;
      line.setAttribute("d", `M${middle(piece)} ${piece.offsetTop + piece.offsetHeight}L${middle(remembered)} ${remembered.offsetTop}`);
    }
  }
}
