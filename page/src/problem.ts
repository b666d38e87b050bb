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
  /** The number of the error in the server's log; empty if it is not known. */
  number: string;
}

export class RequestError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.key);
  }
}

const MAX_WAIT = 60;

/** What the server's error codes mean for requests to paths with a prefix, if it is given; the first line that fits counts. */
const MEANINGS: ReadonlyArray<readonly [code: string, key: Key, path?: string]> = [
  ["body_too_large", "errorGlossary", "v1/glossaries"],
  ["busy", "errorBusy"],
  ["damaged_file", "errorUnreadable"],
  ["deadline_exceeded", "errorTime"],
  ["equal_languages", "errorSame"],
  ["invalid_entries", "errorGlossary"],
  ["invalid_request", "errorGlossary", "v1/glossaries"],
  ["invalid_text", "errorUnreadable", "v1/documents"],
  ["invalid_text", "errorGlossary", "v1/glossaries"],
  ["invalid_text", "errorGlossary", "v1/translate"], // errors of texts are in the results
  ["key_missing", "errorKey"],
  ["key_wrong", "errorKeyWrong"],
  ["model_unavailable", "errorModel"],
  ["not_found", "errorDocumentGone", "v1/documents/"],
  ["not_found", "errorMemory"],
  ["quota_exceeded", "errorDocumentQuota", "v1/documents"],
  ["quota_exceeded", "errorGlossary", "v1/glossaries"],
  ["quota_exceeded", "errorQuota"],
  ["stopping", "errorBusy"],
  ["text_too_long", "errorSentence"],
  ["unknown_language", "errorLanguage", "v1/documents"],
  ["unknown_language", "errorTextLanguage"],
  ["unsupported_format", "errorFormat"],
  ["unsupported_language", "errorPair"],
  ["unsupported_languages", "errorPair"],
  ["wrong_origin", "errorOrigin"],
];
const RETRIED: ReadonlySet<Key> = new Set<Key>(["errorBusy", "errorInternal", "errorModel", "errorServer", "errorTime"]);

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
    number: text(inner.request_id),
  };
}

/** Return the error response for an error that the results of a request contain. */
export function resultError({ code, message }: { code: string; message: string }, number = ""): ErrorResponse {
  return { status: code === "internal_error" ? 500 : 400, code, message, parameter: "", retryAfter: null, number };
}

/** Convert an error response to a problem for the reader. */
export function toProblem(
  response: ErrorResponse,
  context: { from: string; to: string; path: string; hasKey: boolean },
): Problem {
  const { code, message, retryAfter, number } = response;
  const { from, to } = context;
  const key = meaningOf(response, context);
  const canRetry = RETRIED.has(key);
  if (key === "errorBusy") {
    const seconds = Math.min(MAX_WAIT, retryAfter ?? 2);
    return { key, values: { seconds }, retrySeconds: seconds, canRetry };
  }
  const detail = message.endsWith(".") ? message : `${message}.`;
  const values =
    key === "errorPair" ? { from, to } : key === "errorSame" ? { to } : key === "errorInternal" ? { number } : { detail };
  return { key, values, canRetry, ...(code === "invalid_text" && key === "errorUnreadable" ? { detail } : {}) };
}

/** Return the message for an error response: by its code, or by its status, as for the responses of a proxy. */
function meaningOf(
  { status, code, parameter, retryAfter, number }: ErrorResponse,
  { path, hasKey }: { path: string; hasKey: boolean },
): Key {
  const meaning = MEANINGS.find(([known, , prefix = ""]) => known === code && path.startsWith(prefix));
  if (meaning) return meaning[1];
  const isDocument = path.startsWith("v1/documents");
  if (status === 401 || (status === 403 && !code)) return hasKey ? "errorKeyWrong" : "errorKey";
  if (parameter === "glossary") return "errorGlossary";
  if (status === 413) return isDocument ? "errorFileLarge" : "errorLong";
  if (status === 429 || (status === 503 && retryAfter !== null)) return "errorBusy";
  if (status === 501 && isDocument) return "errorDocuments";
  if (status === 501 && path.startsWith("v1/glossaries")) return "errorGlossaries";
  if (status === 408 || status === 504) return "errorTime";
  if (code === "internal_error" && number) return "errorInternal";
  return status >= 500 ? "errorServer" : "errorOther";
}

export const unreachable = (): Problem => ({ key: "errorNetwork", values: {}, canRetry: true });

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return whether an error is an aborted request. */
export const isAborted = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";
