/** Return the file name of a translation: `letter.de.docx` for `letter.docx`. */
export function translatedName(file: string, target: string): string {
  const dot = file.lastIndexOf(".");
  return dot > 0 ? `${file.slice(0, dot)}.${target}${file.slice(dot)}` : `${file}.${target}`;
}
