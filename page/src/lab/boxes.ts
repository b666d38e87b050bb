/** The boxes of a Transformer, the arrays that they compute, and where they stand in a drawing of some width. */

import type { LabInfo } from "./model";

export type Lane = "encoder" | "decoder";
export type BoxKind = "embedding" | "positions" | "self" | "recurrence" | "cross" | "add" | "feed" | "norm" | "output" | "softmax";

export interface Box {
  id: string;
  kind: BoxKind;
  lane: Lane;
  /** Its block, counted from 1; 0 outside the blocks. */
  layer: number;
  /** The array that it opens. */
  array: string;
  /** The arrays that are shown with it, in the order of computation. */
  path: string[];
}
/** The boxes before the first block, of each block, or after the last block. */
export interface Segment {
  lane: Lane;
  layer: number;
  boxes: Box[];
}

export const PATH = ["query", "key", "scores", "weights", "value", "context"];
type Shape = Pick<LabInfo, "encoder_layers" | "decoder_layers" | "decoder_attention">;

/** Return the segments of a model, in the order of computation. */
export function segmentsOf({ encoder_layers, decoder_layers, decoder_attention }: Shape): Segment[] {
  return [...stack("encoder", encoder_layers, true), ...stack("decoder", decoder_layers, decoder_attention)];
}

function stack(lane: Lane, layers: number, hasAttention: boolean): Segment[] {
  const box = (kind: BoxKind, layer: number, array: string, path = [array], id = `${lane}.${layer}.${kind}`): Box => ({ id, kind, lane, layer, array, path });
  const embedding = `${lane}.embedding`;
  let stream = embedding;
  const add = (layer: number, after: string): Box => {
    const before = stream;
    stream = after;
    return box("add", layer, after, [before, after], `${after}.add`);
  };
  const attention = (kind: "self" | "cross", name: string, layer: number): Box[] => [
    box(kind, layer, `${name}.${layer}.weights`, PATH.map((array) => `${name}.${layer}.${array}`)), add(layer, `${name}.${layer}.attention`),
  ];
  const block = (layer: number): Box[] => {
    const first = hasAttention ? attention("self", lane, layer) : [box("recurrence", layer, `${lane}.${layer}.recurrence`)];
    const cross = lane === "decoder" ? attention("cross", "cross", layer) : [];
    const after = `${lane}.${layer}.feed_forward`;
    return [...first, ...cross, box("feed", layer, after, [stream, after]), add(layer, after)];
  };
  const end = [box("norm", 0, `${lane}.output`), ...(lane === "decoder" ? [box("output", 0, "logits"), box("softmax", 0, "logits")] : [])];
  return [
    { lane, layer: 0, boxes: [box("embedding", 0, embedding), box("positions", 0, embedding)] },
    ...Array.from({ length: layers }, (_, index) => ({ lane, layer: index + 1, boxes: block(index + 1) })),
    { lane, layer: 0, boxes: end },
  ];
}

/** Return the boxes that an array opens. */
export const boxesOf = (segments: Segment[], array: string): Box[] => {
  const boxes = segments.flatMap((segment) => segment.boxes);
  const owners = boxes.filter((box) => box.array === array);
  return owners.length ? owners : boxes.filter((box) => box.kind !== "add" && box.path.includes(array));
};

export interface Placed extends Box {
  x: number;
  width: number;
}
/** A row of the drawing: some segments of an encoder or decoder, all of them if there is room. */
export interface Row {
  lane: Lane;
  boxes: Placed[];
  /** The frames of the blocks. */
  frames: Array<{ layer: number; x: number; width: number }>;
  /** Where the lines of the tokens begin and end; the tokens are named before and after them. */
  from: number;
  to: number;
  isFirst: boolean;
  isLast: boolean;
  /** The distance of the lines of two tokens, and the middle of the first one's. */
  pitch: number;
  first: number;
  height: number;
}

/** Heights: of a block's title, of the way past a sublayer, of a box's name, and below the tokens. */
export const TITLE = 20;
export const DETOUR = 12;
const NAME = 50;
const FOOT = 8;
const FRAME = 6;
const BETWEEN = 8; // frames
const WIDTHS: Record<BoxKind, [smallest: number, largest: number]> = {
  embedding: [60, 104], positions: [58, 96], self: [60, 168], recurrence: [60, 168], cross: [60, 168], add: [24, 26], feed: [58, 100], norm: [46, 52], output: [52, 90], softmax: [60, 90],
};
const LABELS = 88;
const NARROW = 420;

/** Return the rows of a drawing; each of encoder and decoder has one row if they fit. */
export function layout(segments: Segment[], tokens: Record<Lane, number>, width: number): Row[] {
  return (["encoder", "decoder"] as const).flatMap((lane) => {
    const laneSegments = segments.filter((segment) => segment.lane === lane);
    const groups = split(laneSegments, width, lane);
    return groups.map((group, index) => rowOf(group, lane, tokens[lane], width, index === 0, index === groups.length - 1));
  });
}

/** The smallest width of a box; on a phone, its name is set smaller. */
const minBoxWidth = (kind: BoxKind, width: number): number => Math.max(24, WIDTHS[kind][0] - (width < NARROW && kind !== "add" ? 6 : 0));
const gapOf = (width: number): number => (width < NARROW ? 2 : 7);
const edgeOf = (width: number): number => (width < NARROW ? 5 : 10);
const labelsOf = (width: number): number => (width < NARROW ? 72 : LABELS);
const minSegmentWidth = (segment: Segment, width: number): number =>
  segment.boxes.reduce((sum, box) => sum + minBoxWidth(box.kind, width), gapOf(width) * (segment.boxes.length - 1)) + (segment.layer ? 2 * FRAME : 0);

/** The room that the names of the tokens take before the first segment and after the last one. */
const before = (isFirst: boolean, width: number): number => (isFirst ? labelsOf(width) : edgeOf(width));
const after = (isLast: boolean, lane: Lane, width: number): number => (isLast ? (lane === "encoder" ? 16 : labelsOf(width) + 14) : edgeOf(width));

/** Split segments into as few rows as fit, of about the same width. */
function split(segments: Segment[], width: number, lane: Lane): Segment[][] {
  const widths = segments.map((segment, index) => minSegmentWidth(segment, width) + BETWEEN + (index ? 0 : before(true, width)) + (index === segments.length - 1 ? after(true, lane, width) : 0));
  const fill = (room: number): Segment[][] => {
    const rows: Segment[][] = [];
    let used = Infinity;
    segments.forEach((segment, index) => {
      const needed = widths[index] as number;
      if (used + needed > room) [used, rows[rows.length]] = [2 * edgeOf(width), []];
      used += needed;
      rows.at(-1)?.push(segment);
    });
    return rows;
  };
  const full = fill(width);
  for (let share = 0.5; share < 1; share += 0.02) {
    const rows = fill(share * width);
    if (rows.length === full.length) return rows;
  }
  return full;
}

function rowOf(group: Segment[], lane: Lane, count: number, width: number, isFirst: boolean, isLast: boolean): Row {
  const gap = gapOf(width);
  const [from, to] = [before(isFirst, width), width - after(isLast, lane, width)];
  const boxes = group.flatMap((segment) => segment.boxes);
  const needed = group.reduce((sum, segment) => sum + minSegmentWidth(segment, width) + BETWEEN, -BETWEEN);
  const growth = boxes.reduce((sum, { kind }) => sum + WIDTHS[kind][1] - minBoxWidth(kind, width), 0);
  const share = Math.max(0, Math.min(1, (to - from - needed) / Math.max(growth, 1)));
  const row: Row = { lane, boxes: [], frames: [], from, to, isFirst, isLast, ...heights(count, isFirst || (isLast && lane === "decoder") || width >= NARROW) };
  let x = from;
  for (const segment of group) {
    const start = x;
    if (segment.layer) x += FRAME;
    for (const box of segment.boxes) {
      const smallestWidth = minBoxWidth(box.kind, width);
      const boxWidth = Math.floor(smallestWidth + share * (WIDTHS[box.kind][1] - smallestWidth));
      row.boxes.push({ ...box, x, width: boxWidth });
      x += boxWidth + gap;
    }
    x += (segment.layer ? FRAME : 0) - gap;
    if (segment.layer) row.frames.push({ layer: segment.layer, x: start, width: x - start });
    x += BETWEEN;
  }
  return row;
}

function heights(count: number, isNamed: boolean): Pick<Row, "pitch" | "first" | "height"> {
  const pitch = isNamed ? (count <= 10 ? 17 : 15) : count <= 10 ? 11 : 9;
  const top = TITLE + DETOUR + NAME;
  return { pitch, first: top + pitch / 2, height: top + pitch * count + FOOT };
}
