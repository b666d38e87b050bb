/** The search as a tree, the n best translations, and sampling with temperature, top-k and top-p. */

import { make } from "../dom";
import { svgElement } from "./drawing";
import type { Lab, Tab } from "./lab";
import { type Key, say } from "./messages";
import type { Sampling, Table, Translation } from "./model";
import { label } from "./state";
import { short } from "./tables";

const PITCH = { x: 96, y: 22 };

export function chooseTab(lab: Lab): Tab {
  let penalty = 1;
  const sampling: Sampling = { temperature: 1, topK: 0, topP: 1, seed: 1 };
  const tree = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("chooseTree") } });
  const best = make("ol", { class: "lab-best" });
  const sampled = make("p", { attributes: { role: "status" } });
  const draw = make("button", { class: "lab-button", attributes: { type: "button" } }, say("chooseDraw"));
  draw.addEventListener("click", () => void drawOne());
  async function drawOne(): Promise<void> {
    const { text: source, edits } = lab.state;
    const text = await lab.own.sample(source, sampling, edits);
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
        slider("chooseTopP", 0.05, 1, 0.05, 1, (value) => (sampling.topP = value)), draw),
      sampled),
    wants: (state) => (state.target === undefined ? { tree: true, nbest: state.beam, length_penalty: penalty } : { tree: true }),
    show(made) {
      best.replaceChildren(...made.candidates.map((one) => make("li", {}, make("span", { attributes: { lang: lab.own.info.target_language } }, one.text), make("span", { class: "lab-faint" }, ` ${say("chooseScore", { score: short(one.score) })}`))));
      tree.replaceChildren(made.tree ? drawn(made.tree, made, lab) : "");
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

/** The candidates that were followed or ended, a column for each step; the best translation's path is marked. */
function drawn(table: Table, made: Translation, lab: Lab): SVGSVGElement {
  const nodes: Node[] = [];
  for (let at = 0; at < (table.shape[0] as number); ++at) {
    const [parent, token, logProb] = table.data.subarray(3 * at, 3 * at + 3) as unknown as [number, number, number];
    const before = nodes[parent];
    nodes.push({ parent, token, logProb, total: (before?.total ?? 0) + logProb, depth: before ? before.depth + 1 : 0, children: [] });
    if (before && Number.isFinite(logProb)) before.children.push(at);
  }
  const end = lab.own.end;
  const kept = nodes.map((one) => Number.isFinite(one.logProb) && (one.children.length > 0 || one.token === end));
  const best = new Set<number>();
  const wanted = [...made.tokens, ...(made.truncated ? [] : [end])];
  const follow = (children: number[], depth: number): boolean => {
    if (depth === wanted.length) return true;
    return children.some((at) => nodes[at]?.token === wanted[depth] && follow(nodes[at]?.children ?? [], depth + 1) && best.add(at) !== undefined);
  };
  const roots = nodes.flatMap((one, at) => (one.parent < 0 ? [at] : []));
  follow(roots, 0);
  const place = new Map<number, number>();
  let rows = 0;
  const put = (at: number): void => {
    const inner = (nodes[at]?.children ?? []).filter((one) => kept[one]);
    inner.forEach((one, number) => {
      if (number > 0) rows += 1;
      place.set(one, rows);
      put(one);
    });
  };
  roots.filter((at) => kept[at]).forEach((at, number) => {
    if (number > 0) rows += 1;
    place.set(at, rows);
    put(at);
  });
  const deepest = Math.max(0, ...nodes.map((one) => one.depth));
  const svg = svgElement("svg", { width: String(PITCH.x * (deepest + 1) + 20), height: String(PITCH.y * (rows + 1) + 10), role: "img" });
  svg.append(svgElement("title", {}, say("chooseTreeOf", { count: place.size, text: made.text })));
  for (const [at, row] of place) {
    const one = nodes[at] as Node;
    const [x, y] = [10 + PITCH.x * one.depth, 16 + PITCH.y * row];
    const from = place.get(one.parent);
    const look = best.has(at) ? "lab-tree-best" : "lab-tree-other";
    if (from !== undefined) svg.append(svgElement("path", { d: `M${x - 22} ${16 + PITCH.y * from - 4}L${x - 4} ${y - 4}`, class: look }));
    const text = svgElement("text", { x: String(x), y: String(y), class: look }, label(lab.own.piece(one.token)).slice(0, 10));
    text.append(svgElement("title", {}, say("chooseNode", { piece: lab.own.piece(one.token), logp: short(one.logProb), total: short(one.total) })));
    svg.append(text);
  }
  return svg;
}

function slider(name: Key, least: number, most: number, step: number, value: number, set: (value: number) => void): HTMLElement {
  const shown = make("output", {}, String(value));
  const input = make("input", { attributes: { type: "range", min: String(least), max: String(most), step: String(step), value: String(value) } });
  input.addEventListener("input", () => {
    set(input.valueAsNumber);
    shown.textContent = input.value;
  });
  return make("label", {}, `${say(name)} `, input, " ", shown);
}
