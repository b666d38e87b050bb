/** The name of a translation: `letter.docx` is `letter.de.docx`. */
export function named(file: string, target: string): string {
  const dot = file.lastIndexOf(".");
  return dot > 0 ? `${file.slice(0, dot)}.${target}${file.slice(dot)}` : `${file}.${target}`;
}
