/** A text as its lines, each translated apart, so that a change asks for what has changed alone. */

export const linesOf = (text: string): string[] => text.split("\n");

/** Whether there is anything to translate. */
export const isBlank = (line: string): boolean => line.trim() === "";

/** The lines that are not known yet, each once, in order. */
export function missing(lines: readonly string[], isKnown: (line: string) => boolean): string[] {
  return [...new Set(lines.filter((line) => !isBlank(line) && !isKnown(line)))];
}

/** The lines of a stream so far, for the lines that it was asked for; those not begun are undefined. */
export function spread(asked: readonly string[], streamed: string): Map<string, string> {
  const found = new Map<string, string>();
  const made = streamed.split("\n");
  asked.forEach((line, at) => {
    const text = made[at];
    if (text !== undefined && text !== "") found.set(line, text);
  });
  return found;
}

/** Keeps what was used last, up to a number of entries. */
export class Recent<Value> {
  private readonly kept = new Map<string, Value>();

  constructor(private readonly most: number) {}

  get(key: string): Value | undefined {
    const value = this.kept.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: string, value: Value): void {
    this.kept.delete(key);
    this.kept.set(key, value);
    for (const old of this.kept.keys()) {
      if (this.kept.size <= this.most) break;
      this.kept.delete(old);
    }
  }

  delete(key: string): void {
    this.kept.delete(key);
  }
}
