/** Vectors of width 2 as arrows in a plane; their tips are dragged, or moved with the arrow keys. */

import { svgElement } from "../dom";
import { say } from "./messages";
import { formatNumber } from "./tables";

export interface Arrow {
  name: string;
  role: "query" | "key" | "value";
  /** Its two numbers, changed in place. */
  vector: number[];
}

const SIZE = 280; // of the picture
const STEP = 0.1; // of a key press, and of the numbers

export class Plane {
  readonly element = svgElement("svg", { class: "lab-plane", viewBox: `0 0 ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "group", "aria-label": say("toyPlane"), "font-size": 15 });
  private readonly result = svgElement("g", {});
  private readonly redraw: Array<() => void> = [];
  private readonly limit: number;

  constructor(arrows: Arrow[], private readonly onMove: () => void) {
    this.limit = Math.max(1.5, 0.5 + Math.max(...arrows.flatMap(({ vector }) => vector.map(Math.abs))));
    for (let line = -Math.floor(this.limit); line <= this.limit; ++line) {
      const className = line === 0 ? "lab-axis" : "lab-rule";
      this.element.append(svgElement("path", { class: className, d: `M${this.toX(line)} 0V${SIZE}M0 ${this.toY(line)}H${SIZE}` }));
      if (line !== 0) this.element.append(svgElement("text", { class: "lab-tick", x: this.toX(line) + 3, y: this.toY(0) + 14 }, String(line)));
    }
    this.element.append(this.result);
    const ordered = [...arrows].sort((first, second) => Number(first.role === "query") - Number(second.role === "query"));
    for (const arrow of ordered) this.element.append(this.handle(arrow)); // a query above a key with the same numbers
  }

  /** Draw the context, which cannot be moved. */
  showContexts(contexts: number[][]): void {
    this.result.replaceChildren(...contexts.map((vector, index) => this.draw({ name: contexts.length > 1 ? `c${index + 1}` : "c", role: "value", vector })));
  }

  /** Draw all arrows again after their numbers were changed. */
  update(): void {
    for (const draw of this.redraw) draw();
  }

  private toX(value: number): number {
    return (SIZE * (1 + value / this.limit)) / 2;
  }
  private toY(value: number): number {
    return (SIZE * (1 - value / this.limit)) / 2;
  }

  private draw({ name, role, vector: [x = 0, y = 0] }: Arrow): SVGGElement {
    const [toX, toY] = [this.toX(x), this.toY(y)];
    const angle = (Math.atan2(toY - this.toY(0), toX - this.toX(0)) * 180) / Math.PI;
    const group = svgElement("g", { class: `lab-arrow ${role}` });
    const label = svgElement("text", { x: Math.min(SIZE - 14, Math.max(12, toX + 12)), y: Math.min(SIZE - 4, Math.max(14, toY + (role === "query" ? -12 : 20))) }, name);
    group.append(
      svgElement("path", { class: "line", d: `M${this.toX(0)} ${this.toY(0)}L${toX} ${toY}` }),
      svgElement("path", { class: "tip", d: "M3 0L-9 -5.5V5.5Z", transform: `translate(${toX} ${toY}) rotate(${angle})` }),
      label,
    );
    return group;
  }

  private handle(arrow: Arrow): SVGGElement {
    const { name, role, vector } = arrow;
    const group = svgElement("g", {});
    const tip = svgElement("circle", { class: "lab-handle", tabindex: 0, role: "slider", "aria-label": name, "aria-valuemin": -this.limit, "aria-valuemax": this.limit, r: role === "query" ? 10 : 18 });
    group.append(tip);
    const draw = (): void => {
      const [x = 0, y = 0] = vector;
      const attributes = { cx: this.toX(x), cy: this.toY(y), "aria-valuenow": x, "aria-valuetext": say("toyPlaneAt", { x: formatNumber(x), y: formatNumber(y) }) };
      for (const [key, value] of Object.entries(attributes)) tip.setAttribute(key, String(value));
      while (tip.nextSibling) group.removeChild(tip.nextSibling);
      group.append(this.draw(arrow));
    };
    const move = (x: number, y: number): void => {
      const limited = (value: number): number => Number(Math.min(this.limit, Math.max(-this.limit, value)).toFixed(1));
      [vector[0], vector[1]] = [limited(x), limited(y)];
      draw();
      this.onMove();
    };
    tip.addEventListener("keydown", (event) => {
      const [x = 0, y = 0] = vector;
      const next = { ArrowLeft: [x - STEP, y], ArrowRight: [x + STEP, y], ArrowUp: [x, y + STEP], ArrowDown: [x, y - STEP] }[event.key];
      if (!next) return;
      event.preventDefault();
      move(next[0] as number, next[1] as number);
    });
    tip.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      tip.focus();
      tip.setPointerCapture(event.pointerId);
    });
    tip.addEventListener("pointermove", (event) => {
      if (!tip.hasPointerCapture(event.pointerId)) return;
      const box = this.element.getBoundingClientRect();
      move(this.limit * ((2 * (event.clientX - box.left)) / box.width - 1), this.limit * (1 - (2 * (event.clientY - box.top)) / box.height));
    });
    this.redraw.push(draw);
    draw();
    return group;
  }
}
