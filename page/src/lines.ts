/** Texts as lines that are translated separately, so that only changed lines are requested. */

export const linesOf = (text: string): string[] => text.split("\n");

/** Return whether there is nothing to translate. */
export const isBlank = (line: string): boolean => line.trim() === "";

/** Return the lines that are not yet known, without duplicates, in order. */
export function missingLines(lines: readonly string[], isKnown: (line: string) => boolean): string[] {
  return [...new Set(lines.filter((line) => !isBlank(line) && !isKnown(line)))];
}

/** Divide lines, in order, into batches of at most `maxLines` lines and `maxCharacters` characters; a longer line is a batch of its own. */
export function batchesOf(lines: readonly string[], maxLines: number, maxCharacters: number): string[][] {
  const batches: string[][] = [];
  let characters = 0;
  for (const line of lines) {
    characters += line.length;
    const batch = batches.at(-1);
    if (batch && batch.length < maxLines && characters <= maxCharacters) batch.push(line);
    else {
      batches.push([line]);
      characters = line.length;
    }
  }
  return batches;
}

/** Return the translations streamed so far by requested line; lines that have not started are missing. */
export function matchStreamedLines(requested: readonly string[], streamed: string): Map<string, string> {
  const translations = new Map<string, string>();
  const streamedLines = streamed.split("\n");
  requested.forEach((line, index) => {
    const text = streamedLines[index];
    if (text !== undefined && text !== "") translations.set(line, text);
  });
  return translations;
}

/** A cache of the most recently used entries. */
export class LruCache<Value> {
  private readonly entries = new Map<string, Value>();

  constructor(private readonly capacity: number) {}

  get(key: string): Value | undefined {
    const value = this.entries.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: string, value: Value): void {
    this.entries.delete(key);
    this.entries.set(key, value);
    for (const oldest of this.entries.keys()) {
      if (this.entries.size <= this.capacity) break;
      this.entries.delete(oldest);
    }
  }

  delete(key: string): void {
    this.entries.delete(key);
  }

  clear(): void {
    this.entries.clear();
  }
}
