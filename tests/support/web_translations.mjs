// Translations of the npm package for requests, each a line; arrays in base64, so that no bit is lost.
import { createInterface } from "node:readline";

const [lib, folder, open] = process.argv.slice(2);
const { Uwaga } = await import(`${lib}/index.js`);
const base64 = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
const arrays = ({ alignment, tree, attention = {}, insight = {} }) => {
  const named = Object.entries(attention).map(([kind, one]) => [`attention.${kind}`, one]);
  const all = [...(alignment ? [["alignment", alignment]] : []), ...(tree ? [["tree", tree]] : []), ...named, ...Object.entries(insight)];
  return Object.fromEntries(all.map(([name, one]) => [name, { shape: one.shape, data: base64(one.data) }]));
};
let model;
async function answer({ texts, options }) {
  model ??= await Uwaga.load(folder, JSON.parse(open));
  const made = await model.translate(texts, options);
  const answers = made.map((one) =>
    one.candidates.map((each) => ({
      text: each.text,
      score: each.score,
      truncated: each.truncated,
      log_probs: [...each.logProbs],
      source: [...one.source.tokens],
      source_pieces: one.source.pieces,
      target: [...each.tokens],
      target_pieces: each.pieces,
      arrays: arrays(each),
    })),
  );
  return { info: model.info, answers };
}
for await (const line of createInterface({ input: process.stdin })) {
  const found = await answer(JSON.parse(line)).catch(({ code, message }) => ({ code: code ?? null, message }));
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
