/** SVG pictures: heat maps of weights, and curves. */

import { svgElement } from "../dom";
import { shortWeight } from "./tables";

/** Create a picture with a text alternative. */
function picture(width: number, height: number, title: string): SVGSVGElement {
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "font-family": "system-ui, sans-serif", "font-size": 14 });
  svg.append(svgElement("title", {}, title));
  return svg;
}

const displayText = (piece: string): string => piece.replace(/^\u2581/, "") || "␣";

const [SMALL, LARGE] = [16, 30]; // pixels of a cell that has smaller labels, and of one that has room for its weight

/** Draw weights (rows, columns) from 0 to 1 as squares; darker squares are larger weights, and large squares show them. */
export function heatMap(values: ArrayLike<number>[], rows: string[], columns: string[], title: string, size = 20): SVGSVGElement {
  const isLarge = size >= LARGE;
  const letter = size < SMALL ? 6.7 : 7.8; // width of a letter
  const longest = (names: string[]): number => Math.max(0, ...names.map((name) => displayText(name).length));
  const [left, top] = [12 + letter * longest(rows), 14 + 0.9 * letter * longest(columns)];
  const svg = picture(left + size * columns.length + 0.3 * letter * longest(columns) + 4, top + size * rows.length + 4, title);
  if (size < SMALL) svg.style.fontSize = "12px";
  columns.forEach((name, x) => svg.append(svgElement("text", { class: "lab-label", transform: `translate(${left + size * (x + 0.6)} ${top - 5}) rotate(-60)` }, displayText(name))));
  values.forEach((row, y) => {
    svg.append(svgElement("text", { class: "lab-label", x: left - 5, y: top + size * (y + 0.5) + 4, "text-anchor": "end" }, displayText(rows[y] ?? "")));
    Array.from(row).forEach((value, x) => {
      const cell = svgElement("rect", { class: "lab-cell", x: left + size * x, y: top + size * y, width: size, height: size, fill: "#0b5f58", stroke: "#888", "stroke-opacity": 0.5, "fill-opacity": Math.min(1, Math.max(0, value)).toFixed(3) });
      cell.append(svgElement("title", {}, `${displayText(rows[y] ?? "")} → ${displayText(columns[x] ?? "")}: ${value.toFixed(3)}`));
      svg.append(cell);
      if (isLarge && value >= 0.05) svg.append(svgElement("text", { class: value > 0.5 ? "lab-on-cell" : "lab-label", x: left + size * (x + 0.5), y: top + size * (y + 0.5) + 4, "text-anchor": "middle", "font-size": 12, "pointer-events": "none" }, shortWeight(value)));
    });
  });
  return svg;
}

export interface Curve {
  name: string;
  points: Array<[number, number]>;
}
export interface Axes {
  /** The ends of the horizontal axis and the ticks on it, logarithmic if `log`. */
  x: [number, number];
  marks: number[];
  log?: boolean;
  max: number;
  /** A position on the horizontal axis to mark. */
  marker?: number;
}

/** Draw curves over updates, each labelled above its end. */
export function curves(lines: Curve[], { x, marks, log, max, marker }: Axes, title: string): SVGSVGElement {
  const [width, height, left, top] = [230, 110, 34, 10];
  const svg = picture(width + left + 20, height + top + 24, title);
  const scaled = (value: number): number => (log ? Math.log(Math.max(value, x[0])) : value);
  const toX = (value: number): number => left + (width * (scaled(value) - scaled(x[0]))) / (scaled(x[1]) - scaled(x[0]) || 1);
  const toY = (value: number): number => top + height * (1 - Math.min(value, max) / max);
  for (const share of [0, 0.5, 1]) {
    svg.append(svgElement("path", { class: "lab-rule", d: `M${left} ${toY(share * max)}h${width}` }));
    svg.append(svgElement("text", { class: "lab-label", x: left - 4, y: toY(share * max) + 4, "text-anchor": "end" }, String(Number((share * max).toFixed(1)))));
  }
  for (const mark of marks) svg.append(svgElement("text", { class: "lab-label", x: toX(mark), y: top + height + 16, "text-anchor": "middle" }, String(mark)));
  if (marker !== undefined) svg.append(svgElement("path", { class: "lab-at", d: `M${toX(marker)} ${top}v${height}` }));
  lines.forEach(({ name, points }, number) => {
    const last = points[points.length - 1];
    if (!last) return;
    svg.append(svgElement("path", { class: `lab-curve lab-curve-${number}`, d: `M${points.map(([update, value]) => `${toX(update).toFixed(1)} ${toY(value).toFixed(1)}`).join("L")}` }));
    svg.append(svgElement("text", { class: `lab-label lab-curve-${number}`, x: toX(last[0]), y: toY(last[1]) < top + 20 ? toY(last[1]) + 18 : toY(last[1]) - 6, "text-anchor": "end" }, name));
  });
  return svg;
}

/** Describe the largest weight of each row. */
export const describeWeights = (values: ArrayLike<number>[], rows: string[], columns: string[]): string =>
  values.map((row, index) => {
    const weights = Array.from(row);
    const best = weights.indexOf(Math.max(...weights));
    return `${displayText(rows[index] ?? "")} → ${displayText(columns[best] ?? "")} ${(weights[best] ?? 0).toFixed(2)}`;
  }).join(" · ");
