/** Server-sent events out of a stream of text (HTML standard, section 9.2). */

export interface ServerEvent {
  name: string;
  data: string;
}

/** Takes text as it arrives, in any portions, and gives the events that are whole with it. */
export class EventParser {
  private rest = "";
  private name = "";
  private data: string[] = [];

  add(portion: string): ServerEvent[] {
    const lines = (this.rest + portion).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const found: ServerEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.data.length) found.push({ name: this.name || "message", data: this.data.join("\n") });
        this.name = "";
        this.data = [];
      } else {
        this.field(line);
      }
    }
    return found;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, which keeps the connection open
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.name = value;
    else if (name === "data") this.data.push(value);
  }
}
