/** Problems of requests, with messages that say what to do. */

import type { Key } from "./messages";

export interface Problem {
  key: Key;
  values: Record<string, string | number>;
  /** The server's words, in English, that say more than the message. */
  detail?: string;
  /** Seconds after which the request is repeated automatically; undefined if it is not. */
  retrySeconds?: number;
  /** Whether a retry may help. */
  canRetry: boolean;
}

export interface ErrorResponse {
  status: number;
  code: string;
  message: string;
  parameter: string;
  retryAfter: number | null;
}

export class RequestError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.key);
  }
}

const MAX_WAIT = 60;

/** Parse the body of an error response of any of the server's APIs. */
export function parseError(status: number, body: unknown, retryAfter: string | null): ErrorResponse {
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

/** Convert an error response to a problem for the reader. */
export function toProblem(
  response: ErrorResponse,
  context: { from: string; to: string; path: string; hasKey: boolean },
): Problem {
  const { status, code, message, parameter, retryAfter } = response;
  const detail = message.endsWith(".") ? message : `${message}.`;
  const problem = (key: Key, values = {}, canRetry = false): Problem => ({ key, values, canRetry });
  if (code === "quota_exceeded") return problem("errorOther", { detail });
  if (status === 401 || status === 403) return problem(context.hasKey ? "errorKeyWrong" : "errorKey");
  const isDocument = context.path.startsWith("v1/documents");
  if (code === "unsupported_format") return problem("errorFormat");
  if (code === "damaged_file") return problem("errorUnreadable");
  if (isDocument && code === "invalid_text") return { ...problem("errorUnreadable"), detail };
  if (isDocument && code === "unknown_language") return problem("errorLanguage", {}, true);
  if (status === 413) return problem(isDocument ? "errorFileLarge" : "errorLong");
  if (code === "model_unavailable") return problem("errorModel", {}, true);
  if (status === 429 || (status === 503 && retryAfter !== null)) {
    const seconds = Math.min(MAX_WAIT, retryAfter ?? 2);
    return { key: "errorBusy", values: { seconds }, retrySeconds: seconds, canRetry: true };
  }
  if (status === 501 && isDocument) return problem("errorDocuments");
  if (status === 501 && context.path.startsWith("v1/glossaries")) return problem("errorGlossaries");
  if (status === 408 || status === 504 || code === "deadline_exceeded") return problem("errorTime", {}, true);
  if (code.startsWith("unsupported_language")) return problem("errorPair", { from: context.from, to: context.to });
  if (parameter === "glossary" || code.includes("glossary")) return problem("errorGlossary", { detail });
  if (status >= 500) return problem("errorServer", { detail }, true);
  return problem("errorOther", { detail }, false);
}

export const unreachable = (): Problem => ({ key: "errorNetwork", values: {}, canRetry: true });

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return whether an error is an aborted request. */
export const isAborted = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";
