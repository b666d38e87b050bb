/** The search tree, the n-best translations, and sampling with temperature, top-k and top-p. */

import { make, svgElement } from "../dom";
import type { Lab, Tab } from "./lab";
import { type Key, say } from "./messages";
import type { Sampling, Table, Translation } from "./model";
import { label } from "./state";
import { formatNumber } from "./tables";

export function chooseTab(lab: Lab): Tab {
  let penalty = 1;
  const sampling: Sampling = { temperature: 1, topK: 0, topP: 1, seed: 1 };
  const tree = make("div", { class: "lab-scroll lab-whole", attributes: { tabindex: "0", role: "group", "aria-label": say("chooseTree") } });
  const best = make("ol", { class: "lab-best" });
  const sampled = make("p", { attributes: { role: "status" } });
  const drawButton = make("button", { class: "lab-button", attributes: { type: "button" } }, say("chooseDraw"));
  drawButton.addEventListener("click", () => void sampleOnce());
  async function sampleOnce(): Promise<void> {
    const { text: source, edits } = lab.state;
    const text = await lab.model.sample(source, sampling, edits);
    sampled.textContent = say("chooseDrawn", { seed: sampling.seed, text });
    sampling.seed += 1;
  }
  return {
    element: make("div", {},
      make("div", { class: "lab-bar" }, slider("choosePenalty", 0, 3, 0.1, 1, (value) => { penalty = value; void lab.change({}); })),
      best, make("p", { class: "lab-faint" }, say("chooseLegend")), tree,
      make("div", { class: "lab-bar" },
        slider("chooseTemperature", 0.1, 3, 0.1, 1, (value) => (sampling.temperature = value)),
        slider("chooseTopK", 0, 50, 1, 0, (value) => (sampling.topK = value)),
        slider("chooseTopP", 0.05, 1, 0.05, 1, (value) => (sampling.topP = value)), drawButton),
      sampled),
    wants: (state) => (state.target === undefined ? { tree: true, nbest: state.beam, length_penalty: penalty } : { tree: true }),
    show(translation) {
      best.replaceChildren(...translation.candidates.map((candidate) => make("li", {}, make("span", { attributes: { lang: lab.model.info.target_language } }, candidate.text), make("span", { class: "lab-faint" }, ` ${say("chooseScore", { score: formatNumber(candidate.score) })}`))));
      tree.replaceChildren(translation.tree ? searchTree(translation.tree, translation, lab) : "");
    },
  };
}

interface Node {
  parent: number;
  token: number;
  logProb: number;
  total: number;
  depth: number;
  children: number[];
}

const [HEIGHT, GAP, LEAP] = [41, 4, 34]; // of a node, between nodes, between columns
const [PADDING, NARROWEST] = [7, 44]; // between the text and the edges of a node, width of a node
const LONGEST = 14; // letters of a piece

/** Draw the candidates that were expanded or finished, a column per step; the path of the best translation is marked. */
function searchTree(table: Table, translation: Translation, lab: Lab): SVGSVGElement {
  const nodes: Node[] = [];
  for (let index = 0; index < (table.shape[0] as number); ++index) {
    const [parent, token, logProb] = table.data.subarray(3 * index, 3 * index + 3) as unknown as [number, number, number];
    const parentNode = nodes[parent];
    nodes.push({ parent, token, logProb, total: (parentNode?.total ?? 0) + logProb, depth: parentNode ? parentNode.depth + 1 : 0, children: [] });
    if (parentNode && Number.isFinite(logProb)) parentNode.children.push(index);
  }
  const end = lab.model.end;
  const isShown = nodes.map((node) => Number.isFinite(node.logProb) && (node.children.length > 0 || node.token === end));
  const best = new Set<number>();
  const tokens = [...translation.tokens, ...(translation.truncated ? [] : [end])];
  const follow = (children: number[], depth: number): boolean => {
    if (depth === tokens.length) return true;
    return children.some((index) => nodes[index]?.token === tokens[depth] && follow(nodes[index]?.children ?? [], depth + 1) && best.add(index) !== undefined);
  };
  const roots = nodes.flatMap((node, index) => (node.parent < 0 ? [index] : []));
  follow(roots, 0);
  const rows = packRows(roots.filter((index) => isShown[index]), (index) => (nodes[index] as Node).children.filter((child) => isShown[child]));
  const lowest = Math.min(0, ...rows.values());
  const highest = Math.max(0, ...rows.values());
  const piece = (node: Node): string => label(lab.model.piece(node.token)).slice(0, LONGEST);
  const share = (node: Node): string => (Math.exp(node.logProb) < 0.005 ? "< 0.01" : Math.exp(node.logProb).toFixed(2));
  const drawing = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  drawing.font = `bold 13px ${getComputedStyle(lab).fontFamily}`;
  const widths: number[] = []; // of the columns
  for (const index of rows.keys()) {
    const node = nodes[index] as Node;
    for (const text of [piece(node), share(node)]) {
      widths[node.depth] = Math.max(widths[node.depth] ?? NARROWEST, 2 * PADDING + drawing.measureText(text).width);
    }
  }
  const lefts = widths.map((_, depth) => 4 + widths.slice(0, depth).reduce((sum, width) => sum + width + LEAP, 0));
  const middle = (index: number): number => 4 + HEIGHT / 2 + (HEIGHT + GAP) * ((rows.get(index) as number) - lowest);
  const width = 4 + (lefts[lefts.length - 1] ?? 0) + (widths[widths.length - 1] ?? 0);
  const svg = svgElement("svg", { width, height: 8 + HEIGHT + (HEIGHT + GAP) * (highest - lowest), role: "img", class: "lab-tree" });
  svg.append(svgElement("title", {}, say("chooseTreeOf", { count: rows.size, text: translation.text })));
  for (const index of [...rows.keys()].sort((first, second) => Number(best.has(first)) - Number(best.has(second)))) {
    const node = nodes[index] as Node;
    const [x, y, size] = [lefts[node.depth] as number, middle(index), widths[node.depth] as number];
    const className = best.has(index) ? "lab-tree-best" : "lab-tree-other";
    if (rows.has(node.parent)) {
      const from = middle(node.parent);
      svg.append(svgElement("path", { d: `M${x - LEAP} ${from}C${x - LEAP / 2} ${from} ${x - LEAP / 2} ${y} ${x} ${y}`, class: className }));
    }
    const group = svgElement("g", { class: className });
    group.append(
      svgElement("title", {}, say("chooseNode", { piece: lab.model.piece(node.token), logp: formatNumber(node.logProb), total: formatNumber(node.total) })),
      svgElement("rect", { x, y: y - HEIGHT / 2, width: size, height: HEIGHT, rx: 5 }),
      svgElement("text", { x: x + size / 2, y: y - 3, "text-anchor": "middle", class: className }, piece(node)),
      svgElement("text", { x: x + size / 2, y: y + 12, "text-anchor": "middle", class: "lab-tree-share" }, share(node)),
    );
    svg.append(group);
  }
  return svg;
}

/**
 * Return a row for each node of a forest: a parent in the middle of its children, and subtrees as close as the nodes of
 * each depth allow, so that edges are short.
 */
export function packRows(roots: number[], childrenOf: (node: number) => number[]): Map<number, number> {
  const rows = new Map<number, number>();
  const shift = (node: number, by: number): void => {
    rows.set(node, (rows.get(node) as number) + by);
    for (const child of childrenOf(node)) shift(child, by);
  };
  /** Place subtrees below each other; return the first and last row at each depth. */
  const arrange = (siblings: number[]): Array<[number, number]> => {
    const contour: Array<[number, number]> = [];
    for (const node of siblings) {
      const children = childrenOf(node);
      const below = arrange(children);
      const [first, last] = [rows.get(children[0] as number) ?? 0, rows.get(children[children.length - 1] as number) ?? 0];
      rows.set(node, (first + last) / 2);
      const outline: Array<[number, number]> = [[(first + last) / 2, (first + last) / 2], ...below];
      const by = Math.max(...outline.map(([top], depth) => (contour[depth] ? contour[depth][1] + 1 - top : -Infinity)));
      const move = Number.isFinite(by) ? by : 0;
      shift(node, move);
      outline.forEach(([top, bottom], depth) => (contour[depth] = [contour[depth]?.[0] ?? top + move, bottom + move]));
    }
    return contour;
  };
  arrange(roots);
  return rows;
}

function slider(name: Key, min: number, max: number, step: number, value: number, set: (value: number) => void): HTMLElement {
  const output = make("output", {}, String(value));
  const input = make("input", { attributes: { type: "range", min: String(min), max: String(max), step: String(step), value: String(value) } });
  input.addEventListener("input", () => {
    set(input.valueAsNumber);
    output.textContent = input.value;
  });
  return make("label", {}, `${say(name)} `, input, " ", output);
}
