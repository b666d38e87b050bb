/** Whether a text is in the selected language, as far as the server can tell. */

import type { Detection } from "./api";
import { isSameLanguage, type SourceLanguage } from "./languages";
import { RequestError } from "./problem";

/** Characters of a text that are examined. */
const SAMPLE_CHARACTERS = 300;
/** Bytes of letters; the language of shorter texts, such as names, is not certain. */
const MIN_BYTES = 20;
const MIN_CONFIDENCE = 0.95;

export class LanguageCheck {
  private last: { sample: string; source: string; detection: Detection | null } | undefined;

  constructor(private readonly api: { detect(text: string, signal: AbortSignal): Promise<Detection | null> }) {}

  /**
   * Return the code of the language that a text is in instead of the selected one, null if it is none of the server's
   * languages, and undefined if it is in the selected one or that is uncertain.
   */
  async otherLanguage(text: string, { code: source, isDetected }: SourceLanguage, signal: AbortSignal): Promise<string | null | undefined> {
    const sample = text.slice(0, SAMPLE_CHARACTERS);
    const letters = sample.replace(/\P{L}/gu, "");
    if (!isDetected || new TextEncoder().encode(letters).length < MIN_BYTES) return undefined;
    const detection = await this.detect(sample, source, signal);
    if (detection === null) return null;
    return !detection || isSameLanguage(detection.code, source) || detection.confidence < MIN_CONFIDENCE ? undefined : detection.code;
  }

  private async detect(sample: string, source: string, signal: AbortSignal): Promise<Detection | null | undefined> {
    const { last } = this;
    if (last && last.source === source && (last.sample === sample || isLittleLonger(sample, last))) return last.detection;
    try {
      const detection = await this.api.detect(sample, signal);
      this.last = { sample, source, detection };
      return detection;
    } catch (error) {
      if (signal.aborted || error instanceof RequestError) return undefined;
      throw error;
    }
  }
}

/** Return whether a text continues one that was in the selected language, and is less than twice as long. */
function isLittleLonger(sample: string, last: { sample: string; source: string; detection: Detection | null }): boolean {
  const wasExpected = last.detection !== null && isSameLanguage(last.detection.code, last.source);
  return wasExpected && sample.startsWith(last.sample) && sample.length < 2 * last.sample.length;
}
