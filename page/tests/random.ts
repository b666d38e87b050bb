/** Random numbers and texts for property tests. */

export const below = (limit: number): number => Math.floor(Math.random() * limit);

const LETTERS = [..." \n\t\",;ab cdé漢字😀ا\u0301:/&=#%+"];

export const text = (most: number): string =>
  Array.from({ length: below(most + 1) }, () => LETTERS[below(LETTERS.length)]).join("");

export function times(count: number, body: () => void): void {
  for (let run = 0; run < count; run++) body();
}
