/** The cross-attention of a translation as SVG, PNG, and text. */

import { say } from "./messages";
import type { Translation } from "./model";
import { translationAxes } from "./state";

const CELL = 28;
const MARGIN = { left: 160, top: 100 };
const [BACKGROUND, INK, SHADE] = ["#ffffff", "#1d1b16", "#0b5f58"]; // as in look.css, since a saved picture stands alone
const SCALE = 2; // pixels of the PNG per pixel of the SVG, in each direction

/** A picture whose rows are the steps of the decoder, and whose columns are the source tokens. */
export interface Picture {
  values: number[][];
  rows: string[];
  columns: string[];
  width: number;
  height: number;
}

/** Return a picture of the mean of the last layer's heads; undefined without cross-attention. */
export function createPicture(translation: Translation): Picture | undefined {
  const matrix = translation.attention?.cross;
  if (!matrix) return undefined;
  const [layers, heads, steps, keys] = matrix.shape as [number, number, number, number];
  const values = Array.from({ length: steps }, (_, row) => Array.from({ length: keys }, (_, column) => {
    let sum = 0;
    for (let head = 0; head < heads; ++head) sum += matrix.data[(((layers - 1) * heads + head) * steps + row) * keys + column] ?? 0;
    return sum / heads;
  }));
  const { rows, source: columns } = translationAxes(translation);
  return { values, rows, columns, width: MARGIN.left + 20 + CELL * keys, height: MARGIN.top + 10 + CELL * steps };
}

/** Return the text alternative: where each token attends most. */
export function describePicture({ values, rows, columns }: Picture): string {
  const descriptions = values.map((row, index) => {
    const best = row.indexOf(Math.max(...row));
    return say("labLooks", { token: rows[index] ?? "", other: columns[best] ?? "", weight: (row[best] ?? 0).toFixed(2) });
  });
  return `${say("labPicture")}. ${descriptions.join("; ")}`;
}

export function toSvg(picture: Picture): string {
  const { values, rows, columns, width, height } = picture;
  const escaped = (text: string): string => text.replace(/[<>&"]/g, (character) => `&#${character.charCodeAt(0)};`);
  const cells = values.flatMap((row, y) => row.map((value, x) => `<rect x="${MARGIN.left + CELL * x}" y="${MARGIN.top + CELL * y}" width="${CELL}" height="${CELL}" fill="${SHADE}" fill-opacity="${value.toFixed(4)}"><title>${value}</title></rect>`));
  const left = rows.map((row, y) => `<text x="${MARGIN.left - 6}" y="${MARGIN.top + 18 + CELL * y}" text-anchor="end">${escaped(row)}</text>`);
  const top = columns.map((column, x) => `<text transform="translate(${MARGIN.left + 18 + CELL * x} ${MARGIN.top - 6}) rotate(-60)">${escaped(column)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" fill="${INK}" font-family="system-ui, sans-serif" font-size="13"><title>${escaped(say("labPicture"))}</title><desc>${escaped(describePicture(picture))}</desc><rect width="${width}" height="${height}" fill="${BACKGROUND}"/>${cells.join("")}${left.join("")}${top.join("")}</svg>`;
}

/** Draw the picture on a canvas; a strict Content-Security-Policy forbids images of SVG. */
export function toPng({ values, rows, columns, width, height }: Picture): Promise<Blob> {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [SCALE * width, SCALE * height];
  const drawing = canvas.getContext("2d") as CanvasRenderingContext2D;
  drawing.scale(SCALE, SCALE);
  drawing.fillStyle = BACKGROUND;
  drawing.fillRect(0, 0, width, height);
  drawing.fillStyle = SHADE;
  values.forEach((row, y) => row.forEach((value, x) => {
    drawing.globalAlpha = Math.min(1, Math.max(0, value));
    drawing.fillRect(MARGIN.left + CELL * x, MARGIN.top + CELL * y, CELL, CELL);
  }));
  drawing.globalAlpha = 1;
  drawing.fillStyle = INK;
  drawing.font = "13px system-ui, sans-serif";
  drawing.textAlign = "right";
  rows.forEach((row, y) => drawing.fillText(row, MARGIN.left - 6, MARGIN.top + 18 + CELL * y));
  drawing.textAlign = "left";
  columns.forEach((column, x) => {
    drawing.save();
    drawing.translate(MARGIN.left + 18 + CELL * x, MARGIN.top - 6);
    drawing.rotate(-Math.PI / 3);
    drawing.fillText(column, 0, 0);
    drawing.restore();
  });
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error(say("labTooLarge")))), "image/png"));
}
