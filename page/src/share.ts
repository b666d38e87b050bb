/** A translation in the fragment of a URL, which browsers do not send to the server. */

export interface Shared {
  source?: string;
  target?: string;
  text?: string;
}

const MAX_FRAGMENT_LENGTH = 8000; // characters that mail programs and browsers support

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

export const isTooLong = (fragment: string): boolean => fragment.length > MAX_FRAGMENT_LENGTH;
