/** Glossaries as text: TSV or CSV with a pair of terms per line. */

export type Pair = [source: string, target: string];

export interface ParsedPairs {
  pairs: Pair[];
  /** Numbers of the lines without a pair, counted from 1. */
  bad: number[];
}

/** Parse comma-separated values (RFC 4180) into rows of cells. */
function csvRows(text: string, comma: string): string[][] {
  const rows: string[][] = [[]];
  let cell = "";
  let quoted = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (quoted) {
      if (character !== '"') cell += character;
      else if (text[index + 1] === '"') cell += text[++index];
      else quoted = false;
    } else if (character === '"' && cell.trim() === "") {
      cell = "";
      quoted = true;
    } else if (character === comma) {
      rows.at(-1)!.push(cell);
      cell = "";
    } else if (character === "\n") {
      rows.at(-1)!.push(cell);
      cell = "";
      rows.push([]);
    } else {
      cell += character;
    }
  }
  rows.at(-1)!.push(cell);
  return rows;
}

/** Return the separator of cells: a tab if the first line with text contains one, otherwise `;` or `,`. */
function findSeparator(text: string): string {
  const first = text.split("\n").find((line) => line.trim()) ?? "";
  if (first.includes("\t")) return "\t";
  return first.includes(";") && !first.includes(",") ? ";" : ",";
}

/** Parse the pairs of a file. Empty lines and further columns are ignored. */
export function readPairs(file: string): ParsedPairs {
  const text = file.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  const separator = findSeparator(text);
  const rows = separator === "\t" ? text.split("\n").map((line) => line.split("\t")) : csvRows(text, separator);
  const pairs: Pair[] = [];
  const bad: number[] = [];
  rows.forEach((row, index) => {
    const [source = "", target = ""] = row.map((cell) => cell.trim());
    if (source && target) pairs.push([source, target]);
    else if (row.some((cell) => cell.trim())) bad.push(index + 1);
  });
  return { pairs, bad };
}

/** Return the pairs as TSV, with white space in a term collapsed to a space. */
export function writePairs(pairs: readonly Pair[]): string {
  const clean = (term: string) => term.replace(/\s+/g, " ").trim();
  return pairs.map(([source, target]) => `${clean(source)}\t${clean(target)}\n`).join("");
}

/** Merge two lists; later pairs replace earlier ones with the same source term. */
export function mergePairs(oldPairs: readonly Pair[], newPairs: readonly Pair[]): Pair[] {
  return [...new Map([...oldPairs, ...newPairs])];
}
