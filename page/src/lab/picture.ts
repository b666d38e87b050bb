/** The cross-attention of a translation as a picture: SVG, PNG, and words. */

import { say } from "./messages";
import type { Translation } from "./model";
import { axesOf } from "./state";

const CELL = 28;
const EDGE = 100;
const [BACK, INK, SHADE] = ["#ffffff", "#1b1f24", "#0b5cad"];
const TALL = 2; // pixels of a PNG in each direction for one of the SVG

/** Rows are the tokens that are predicted, columns those of the source. */
export interface Picture {
  values: number[][];
  rows: string[];
  columns: string[];
  width: number;
  height: number;
}

/** The mean of the last layer's heads; undefined without cross-attention. */
export function pictureOf(made: Translation): Picture | undefined {
  const matrix = made.attention?.cross;
  if (!matrix) return undefined;
  const [layers, heads, steps, keys] = matrix.shape as [number, number, number, number];
  const values = Array.from({ length: steps }, (_, row) => Array.from({ length: keys }, (_, column) => {
    let sum = 0;
    for (let head = 0; head < heads; ++head) sum += matrix.data[(((layers - 1) * heads + head) * steps + row) * keys + column] ?? 0;
    return sum / heads;
  }));
  const { predicted: rows, source: columns } = axesOf(made);
  return { values, rows, columns, width: EDGE + 20 + CELL * keys, height: EDGE + 10 + CELL * steps };
}

/** Say for each token where it looks most: the text alternative. */
export function inWords({ values, rows, columns }: Picture): string {
  const most = values.map((row, at) => {
    const best = row.indexOf(Math.max(...row));
    return say("labLooks", { token: rows[at] ?? "", other: columns[best] ?? "", weight: (row[best] ?? 0).toFixed(2) });
  });
  return `${say("labPicture")}. ${most.join("; ")}`;
}

export function svgOf(picture: Picture): string {
  const { values, rows, columns, width, height } = picture;
  const escaped = (text: string): string => text.replace(/[<>&"]/g, (one) => `&#${one.charCodeAt(0)};`);
  const cells = values.flatMap((row, y) => row.map((value, x) => `<rect x="${EDGE + CELL * x}" y="${EDGE + CELL * y}" width="${CELL}" height="${CELL}" fill="${SHADE}" fill-opacity="${value.toFixed(4)}"><title>${value}</title></rect>`));
  const left = rows.map((row, y) => `<text x="${EDGE - 6}" y="${EDGE + 18 + CELL * y}" text-anchor="end">${escaped(row)}</text>`);
  const top = columns.map((column, x) => `<text transform="translate(${EDGE + 18 + CELL * x} ${EDGE - 6}) rotate(-60)">${escaped(column)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" fill="${INK}" font-family="system-ui, sans-serif" font-size="13"><title>${escaped(say("labPicture"))}</title><desc>${escaped(inWords(picture))}</desc><rect width="${width}" height="${height}" fill="${BACK}"/>${cells.join("")}${left.join("")}${top.join("")}</svg>`;
}

/** The same picture, drawn without an image of the SVG, which a strict Content-Security-Policy forbids. */
export function pngOf({ values, rows, columns, width, height }: Picture): Promise<Blob> {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [TALL * width, TALL * height];
  const drawing = canvas.getContext("2d") as CanvasRenderingContext2D;
  drawing.scale(TALL, TALL);
  drawing.fillStyle = BACK;
  drawing.fillRect(0, 0, width, height);
  drawing.fillStyle = SHADE;
  values.forEach((row, y) => row.forEach((value, x) => {
    drawing.globalAlpha = Math.min(1, Math.max(0, value));
    drawing.fillRect(EDGE + CELL * x, EDGE + CELL * y, CELL, CELL);
  }));
  drawing.globalAlpha = 1;
  drawing.fillStyle = INK;
  drawing.font = "13px system-ui, sans-serif";
  drawing.textAlign = "right";
  rows.forEach((row, y) => drawing.fillText(row, EDGE - 6, EDGE + 18 + CELL * y));
  drawing.textAlign = "left";
  columns.forEach((column, x) => {
    drawing.save();
    drawing.translate(EDGE + 18 + CELL * x, EDGE - 6);
    drawing.rotate(-Math.PI / 3);
    drawing.fillText(column, 0, 0);
    drawing.restore();
  });
  return new Promise((resolve, reject) => canvas.toBlob((made) => (made ? resolve(made) : reject(new Error(say("labTooLarge")))), "image/png"));
}
