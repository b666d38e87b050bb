/** Matrices as small pictures without labels, in the colours of the page. */

import { svgElement } from "../dom";

const LEVELS = 12;

export interface CellsOptions {
  /** The largest absolute value; default: of the matrix. */
  largest?: number;
  /** The row to mark, counted from 0. */
  row?: number | undefined;
}

/** Draw a matrix that fills its box: a cell for each number, stronger for larger ones, in another colour below zero. */
export function cells(values: ArrayLike<number>[], { largest, row }: CellsOptions = {}): SVGSVGElement {
  const [height, width] = [values.length, values[0]?.length ?? 0];
  const svg = svgElement("svg", { class: "lab-cells", viewBox: `0 0 ${Math.max(width, 1)} ${Math.max(height, 1)}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const scale = largest ?? values.reduce((most, line) => Array.from(line).reduce((one, value) => (Number.isFinite(value) ? Math.max(one, Math.abs(value)) : one), most), 1e-9);
  const paths = new Map<number, string>();
  values.forEach((line, y) => {
    for (let x = 0; x < line.length; ++x) {
      const value = line[x] as number;
      const level = value === -Infinity ? -Infinity : Math.round((LEVELS * value) / scale);
      if (level) paths.set(level, `${paths.get(level) ?? ""}M${x} ${y}h1v1h-1z`);
    }
  });
  for (const [level, d] of paths) {
    const path = svgElement("path", { d, class: level > 0 ? "above" : level === -Infinity ? "hidden" : "below" });
    if (level !== -Infinity) path.setAttribute("fill-opacity", Math.min(1, Math.abs(level) / LEVELS).toFixed(2));
    svg.append(path);
  }
  if (row !== undefined && row < height) svg.append(svgElement("rect", { class: "now", x: 0, y: row, width, height: 1 }));
  return svg;
}
