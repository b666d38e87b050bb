/** A parser of server-sent events (HTML standard, section 9.2). */

export interface ServerEvent {
  name: string;
  data: string;
}

/** Parses text in chunks of any size and returns the events completed by each chunk. */
export class EventParser {
  private buffer = "";
  private name = "";
  private data: string[] = [];

  add(chunk: string): ServerEvent[] {
    const lines = (this.buffer + chunk).split(/\r\n|\n|\r(?!$)/);
    this.buffer = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.data.length) events.push({ name: this.name || "message", data: this.data.join("\n") });
        this.name = "";
        this.data = [];
      } else {
        this.parseField(line);
      }
    }
    return events;
  }

  private parseField(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment that keeps the connection open
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.name = value;
    else if (name === "data") this.data.push(value);
  }
}
