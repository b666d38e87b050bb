/** The drawings of the page, in one style: rounded lines in a square of 24 units, in the colour of the text. */

const NAMESPACE = "http://www.w3.org/2000/svg";
const PATHS = {
  settings: "M4 7h8m6 0h2M4 17h2m6 0h8M15 4.5v5M9 14.5v5",
  remove: "M6 6l12 12M18 6 6 18",
  swap: "M4 8h15m-4-4 4 4-4 4M20 16H5m4-4-4 4 4 4",
  text: "M5.5 4 12 15.5 18.5 4M12 3v12M12 19.8a.6.6 0 1 0 .01 0",
  document: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  glossary: "M4 6h6v5H4zM14 13h6v5h-6zM10 8.5h4q3 0 3 4.5",
  history: "M12 7v5l3 2M4.5 12a7.5 7.5 0 1 0 2.2-5.3L4.5 9M4.5 4.5V9H9",
  offline: "M4 9q3.5-3 8-3t8 3M8 13q2-1.5 4-1.5t4 1.5M12 17.4a.6.6 0 1 0 .01 0M4 4l16 16",
} as const;

export type Icon = keyof typeof PATHS;

export function icon(name: Icon): SVGSVGElement {
  const svg = document.createElementNS(NAMESPACE, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" })) svg.setAttribute(key, value);
  const path = document.createElementNS(NAMESPACE, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
