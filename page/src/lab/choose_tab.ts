/** The search tree, the n-best translations, and sampling with temperature, top-k and top-p. */

import { make } from "../dom";
import { svgElement } from "./drawing";
import type { Lab, Tab } from "./lab";
import { type Key, say } from "./messages";
import type { Sampling, Table, Translation } from "./model";
import { label } from "./state";
import { formatNumber } from "./tables";

const PITCH = { x: 112, y: 24 };

export function chooseTab(lab: Lab): Tab {
  let penalty = 1;
  const sampling: Sampling = { temperature: 1, topK: 0, topP: 1, seed: 1 };
  const tree = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("chooseTree") } });
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
      best, tree,
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
  const rowByNode = new Map<number, number>();
  let rows = 0;
  const assignRows = (index: number): void => {
    const inner = (nodes[index]?.children ?? []).filter((child) => isShown[child]);
    inner.forEach((child, number) => {
      if (number > 0) rows += 1;
      rowByNode.set(child, rows);
      assignRows(child);
    });
  };
  roots.filter((index) => isShown[index]).forEach((index, number) => {
    if (number > 0) rows += 1;
    rowByNode.set(index, rows);
    assignRows(index);
  });
  const deepest = Math.max(0, ...nodes.map((node) => node.depth));
  const svg = svgElement("svg", { width: String(PITCH.x * (deepest + 1) + 20), height: String(PITCH.y * (rows + 1) + 10), role: "img" });
  svg.append(svgElement("title", {}, say("chooseTreeOf", { count: rowByNode.size, text: translation.text })));
  for (const [index, row] of rowByNode) {
    const node = nodes[index] as Node;
    const [x, y] = [10 + PITCH.x * node.depth, 16 + PITCH.y * row];
    const parentRow = rowByNode.get(node.parent);
    const className = best.has(index) ? "lab-tree-best" : "lab-tree-other";
    if (parentRow !== undefined) svg.append(svgElement("path", { d: `M${x - 22} ${16 + PITCH.y * parentRow - 4}L${x - 4} ${y - 4}`, class: className }));
    const text = svgElement("text", { x: String(x), y: String(y), class: className }, label(lab.model.piece(node.token)).slice(0, 10));
    text.append(svgElement("title", {}, say("chooseNode", { piece: lab.model.piece(node.token), logp: formatNumber(node.logProb), total: formatNumber(node.total) })));
    svg.append(text);
  }
  return svg;
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
