/** A translation in the fragment of an address, which a browser never sends to a server. */

export interface Shared {
  source?: string;
  target?: string;
  text?: string;
}

const LONGEST = 8000; // characters of an address that mail programs and browsers still take

export function toFragment(shared: Shared): string {
  const values = new URLSearchParams();
  for (const name of ["source", "target", "text"] as const) if (shared[name]) values.set(name, shared[name]);
  return `#${values.toString()}`;
}

export function fromFragment(fragment: string): Shared {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  const shared: Shared = {};
  for (const name of ["source", "target", "text"] as const) {
    const value = values.get(name);
    if (value) shared[name] = value;
  }
  return shared;
}

export const isTooLong = (fragment: string): boolean => fragment.length > LONGEST;
