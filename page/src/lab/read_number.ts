/** Read the numbers that people write, by the rule of src/uwaga_course/numbers.py. */

const PLAIN = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/;
const COMMA = /^\d*,\d+$/;
const AMBIGUOUS = /^[1-9]\d{0,2},\d{3}$/;
/** Groups of three digits, separated in one way, and decimals after another mark. */
const THOUSANDS = /^([1-9]\d{0,2}(?:(?: \d{3})+(?=[.,]|$)|(?:,\d{3})+(?=\.|$)|(?:\.\d{3})+(?=,|$)))(?:[.,](\d+))?$/;

/** A text that is not a number, or could be two: then `readings` are both. */
export class UnclearNumber extends Error {
  constructor(readonly text: string, readonly readings: readonly string[] = []) {
    super(text);
  }
}

/** Return the number that a text means, or throw an UnclearNumber. */
export function readNumber(text: string): number {
  const written = text.replace(/\s+/g, " ").trim().replace(/[\u2212\u2013\uff0d]/g, "-").toLowerCase();
  if (written.endsWith("%")) return readSigned(written.slice(0, -1).trimEnd(), text) / 100;
  const slash = written.indexOf("/");
  if (slash < 0) return readSigned(written, text);
  const value = readSigned(written.slice(0, slash).trimEnd(), text);
  const divisor = readSigned(written.slice(slash + 1).trimStart(), text);
  if (divisor === 0) throw new UnclearNumber(text);
  return value / divisor;
}

function readSigned(written: string, text: string): number {
  const sign = written.startsWith("-") ? -1 : 1;
  const value = sign * readUnsigned(/^[+-]/.test(written) ? written.slice(1).trimStart() : written, text);
  if (!Number.isFinite(value)) throw new UnclearNumber(text);
  return value;
}

function readUnsigned(digits: string, text: string): number {
  if (AMBIGUOUS.test(digits)) throw new UnclearNumber(text, [digits.replace(",", ""), digits.replace(",", ".")]);
  if (PLAIN.test(digits)) return Number(digits);
  if (COMMA.test(digits)) return Number(digits.replace(",", "."));
  const groups = THOUSANDS.exec(digits);
  if (groups) return Number(`${groups[1]!.replace(/[ .,]/g, "")}.${groups[2] ?? "0"}`);
  throw new UnclearNumber(text);
}
