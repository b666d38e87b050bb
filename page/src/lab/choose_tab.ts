/** The search as a tree, the n best translations, and sampling with temperature, top-k and top-p. */

import { make } from "../dom";
import type { Table, Translation } from "./engine";
import type { Lab, Tab } from "./lab";
import { softmax } from "./math";
import { type Key, say } from "./messages";
import { label } from "./state";
import { short } from "./tables";

const MOST_STEPS = 40; // of a sampled translation
const PITCH = { x: 96, y: 22 };

interface Sampling {
  temperature: number;
  topK: number;
  topP: number;
  seed: number;
}

export function chooseTab(): Tab {
  let penalty = 1;
  const sampling: Sampling = { temperature: 1, topK: 0, topP: 1, seed: 1 };
  let lab: Lab | undefined;
  const tree = make("div", { class: "lab-scroll", attributes: { tabindex: "0", role: "group", "aria-label": say("chooseTree") } });
  const best = make("ol", { class: "lab-best" });
  const sampled = make("p", { attributes: { role: "status" } });
  const draw = make("button", { class: "lab-button", attributes: { type: "button" } }, say("chooseDraw"));
  draw.addEventListener("click", () => void drawOne());
  async function drawOne(): Promise<void> {
    if (!lab) return;
    const text = await sample(lab, sampling);
    sampled.textContent = say("chooseDrawn", { seed: sampling.seed, text });
    sampling.seed += 1;
  }
  return {
    element: make("div", {},
      make("div", { class: "lab-bar" }, slider("choosePenalty", 0, 3, 0.1, 1, (value) => { penalty = value; void lab?.change({}); })),
      best, tree,
      make("div", { class: "lab-bar" },
        slider("chooseTemperature", 0.1, 3, 0.1, 1, (value) => (sampling.temperature = value)),
        slider("chooseTopK", 0, 50, 1, 0, (value) => (sampling.topK = value)),
        slider("chooseTopP", 0.05, 1, 0.05, 1, (value) => (sampling.topP = value)), draw),
      sampled),
    wants: (state) => (state.target === undefined ? { tree: true, nbest: state.beam, length_penalty: penalty } : { tree: true }),
    show(made, _plain, own) {
      lab = own;
      best.replaceChildren(...made.candidates.map((one) => make("li", {}, make("span", { attributes: { lang: "de" } }, one.text), make("span", { class: "lab-faint" }, ` ${say("chooseScore", { score: short(one.score) })}`))));
      tree.replaceChildren(made.tree ? drawn(made.tree, made, own) : "");
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
  const end = lab.own.pieces.indexOf("</s>");
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
  const svg = element("svg", { width: String(PITCH.x * (deepest + 1) + 20), height: String(PITCH.y * (rows + 1) + 10), role: "img" });
  svg.append(element("title", {}, say("chooseTreeOf", { count: place.size, text: made.text })));
  for (const [at, row] of place) {
    const one = nodes[at] as Node;
    const [x, y] = [10 + PITCH.x * one.depth, 16 + PITCH.y * row];
    const from = place.get(one.parent);
    const look = best.has(at) ? "lab-tree-best" : "lab-tree-other";
    if (from !== undefined) svg.append(element("path", { d: `M${x - 22} ${16 + PITCH.y * from - 4}L${x - 4} ${y - 4}`, class: look }));
    const text = element("text", { x: String(x), y: String(y), class: look }, label(lab.own.pieces[one.token] ?? "").slice(0, 10));
    text.append(element("title", {}, say("chooseNode", { piece: lab.own.pieces[one.token] ?? "", logp: short(one.logProb), total: short(one.total) })));
    svg.append(text);
  }
  return svg;
}

function element<Name extends keyof SVGElementTagNameMap>(name: Name, attributes: Record<string, string>, text = ""): SVGElementTagNameMap[Name] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** Draw a translation token by token; the same for a seed. */
async function sample(lab: Lab, { temperature, topK, topP, seed }: Sampling): Promise<string> {
  const tokens: number[] = [];
  const end = lab.own.pieces.indexOf("</s>");
  let random = seed >>> 0;
  for (let step = 0; step < MOST_STEPS; ++step) {
    const made = await lab.own.model.translate(lab.state.text, { targets: [tokens], insight: ["logits"], edits: lab.state.edits });
    const logits = made.insight?.logits;
    if (!logits) break;
    const width = logits.shape[1] as number;
    const row = Array.from(logits.data.subarray(tokens.length * width, (tokens.length + 1) * width), (one) => one / temperature);
    random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
    const token = pick(softmax(row), topK, topP, random / 4294967296);
    if (token === end) break;
    tokens.push(token);
  }
  const made = await lab.own.model.translate(lab.state.text, { targets: [tokens], edits: lab.state.edits });
  return made.text;
}

/** The token at a place, 0 to 1, of the distribution over the best k tokens with at least the share p together. */
export function pick(probabilities: number[], topK: number, topP: number, place: number): number {
  const order = probabilities.map((_, at) => at).sort((one, other) => (probabilities[other] as number) - (probabilities[one] as number));
  const kept: number[] = [];
  let sum = 0;
  for (const token of order) {
    if ((topK > 0 && kept.length === topK) || sum >= topP) break;
    kept.push(token);
    sum += probabilities[token] as number;
  }
  let left = place * sum;
  for (const token of kept) {
    left -= probabilities[token] as number;
    if (left < 0) return token;
  }
  return kept[kept.length - 1] as number;
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
