/** Pairs of terms as text: TSV or CSV, one pair a line. */

export type Pair = [source: string, target: string];

export interface Reading {
  pairs: Pair[];
  /** Numbers of the lines, from 1, that hold no pair. */
  bad: number[];
}

/** The cells of comma-separated values (RFC 4180), a list a line. */
function csvRows(text: string, comma: string): string[][] {
  const rows: string[][] = [[]];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') cell += text[++at];
      else quoted = false;
    } else if (letter === '"' && cell.trim() === "") {
      cell = "";
      quoted = true;
    } else if (letter === comma) {
      rows.at(-1)!.push(cell);
      cell = "";
    } else if (letter === "\n") {
      rows.at(-1)!.push(cell);
      cell = "";
      rows.push([]);
    } else {
      cell += letter;
    }
  }
  rows.at(-1)!.push(cell);
  return rows;
}

/** What stands between the cells: the tab where the first filled line has one, else `;` or `,`. */
function separator(text: string): string {
  const first = text.split("\n").find((line) => line.trim()) ?? "";
  if (first.includes("\t")) return "\t";
  return first.includes(";") && !first.includes(",") ? ";" : ",";
}

/** The pairs of a file. Empty lines are ignored; a third column, such as a note, is not read. */
export function readPairs(file: string): Reading {
  const text = file.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  const between = separator(text);
  const rows = between === "\t" ? text.split("\n").map((line) => line.split("\t")) : csvRows(text, between);
  const pairs: Pair[] = [];
  const bad: number[] = [];
  rows.forEach((row, at) => {
    const [source = "", target = ""] = row.map((cell) => cell.trim());
    if (source && target) pairs.push([source, target]);
    else if (row.some((cell) => cell.trim())) bad.push(at + 1);
  });
  return { pairs, bad };
}

/** The pairs as TSV; white space inside a term becomes one space. */
export function writePairs(pairs: readonly Pair[]): string {
  const clean = (term: string) => term.replace(/\s+/g, " ").trim();
  return pairs.map(([source, target]) => `${clean(source)}\t${clean(target)}\n`).join("");
}

/** Two lists as one, the later pair of a source term in the place of the earlier. */
export function mergePairs(old: readonly Pair[], added: readonly Pair[]): Pair[] {
  return [...new Map([...old, ...added])];
}
