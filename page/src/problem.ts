/** What went wrong, in words that say what to do. */

import type { Key } from "./messages";

export interface Problem {
  key: Key;
  values: Record<string, string | number>;
  /** Seconds until it is worth asking again by itself; undefined where it is not. */
  again?: number;
  /** Whether asking again may help. */
  canRetry: boolean;
}

export interface Answer {
  status: number;
  code: string;
  message: string;
  parameter: string;
  retryAfter: number | null;
}

export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.key);
  }
}

const LONGEST_WAIT = 60;

/** The message of the body of an error, whichever dialect it is in. */
export function readAnswer(status: number, body: unknown, retryAfter: string | null): Answer {
  const outer = isRecord(body) ? body : {};
  const inner = isRecord(outer.error) ? outer.error : outer;
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  const seconds = Number(retryAfter ?? NaN);
  return {
    status,
    code: text(inner.code),
    message: text(inner.message) || text(outer.error) || text(outer.detail) || `HTTP ${status}`,
    parameter: text(inner.parameter),
    retryAfter: Number.isFinite(seconds) ? Math.max(1, Math.ceil(seconds)) : null,
  };
}

/** What the answer of a server means for the reader. */
export function problemOf(
  answer: Answer,
  asked: { from: string; to: string; path: string; hasKey: boolean },
): Problem {
  const { status, code, message, parameter, retryAfter } = answer;
  const detail = message.endsWith(".") ? message : `${message}.`;
  const plain = (key: Key, values = {}, canRetry = false): Problem => ({ key, values, canRetry });
  if (code === "quota_exceeded") return plain("errorOther", { detail });
  if (status === 401 || status === 403) return plain(asked.hasKey ? "errorKeyWrong" : "errorKey");
  if (status === 413) return plain("errorLong");
  if (code === "model_unavailable") return plain("errorModel", {}, true);
  if (status === 429 || (status === 503 && retryAfter !== null)) {
    const seconds = Math.min(LONGEST_WAIT, retryAfter ?? 2);
    return { key: "errorBusy", values: { seconds }, again: seconds, canRetry: true };
  }
  if (status === 501 && asked.path.startsWith("v1/documents")) return plain("errorDocuments");
  if (status === 501 && asked.path.startsWith("v1/glossaries")) return plain("errorGlossaries");
  if (status === 501 && asked.path === "v1/detect") return plain("errorDetect");
  if (status === 408 || status === 504) return plain("errorTime", {}, true);
  if (code.startsWith("unsupported_language")) return plain("errorPair", { from: asked.from, to: asked.to });
  if (parameter === "glossary" || code.includes("glossary")) return plain("errorGlossary", { detail });
  if (status >= 500) return plain("errorServer", { detail }, true);
  return plain("errorOther", { detail }, false);
}

export const unreachable = (): Problem => ({ key: "errorNetwork", values: {}, canRetry: true });

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether an error is no more than a request that is not wanted any longer. */
export const isAborted = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";
