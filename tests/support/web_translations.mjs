// Translations of the npm package for a request on the standard input; arrays in base64, so that no bit is lost.
import { readFileSync } from "node:fs";

const { lib, folder, texts, options, open } = JSON.parse(readFileSync(0, "utf8"));
const { Uwaga } = await import(`${lib}/index.js`);
const base64 = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
const arrays = ({ alignment, tree, attention = {}, insight = {} }) => {
  const named = Object.entries(attention).map(([kind, one]) => [`attention.${kind}`, one]);
  const all = [...(alignment ? [["alignment", alignment]] : []), ...(tree ? [["tree", tree]] : []), ...named, ...Object.entries(insight)];
  return Object.fromEntries(all.map(([name, one]) => [name, { shape: one.shape, data: base64(one.data) }]));
};
try {
  const model = await Uwaga.load(folder, open);
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
  process.stdout.write(JSON.stringify({ info: model.info, answers }));
} catch (error) {
  process.stdout.write(JSON.stringify({ code: error.code ?? null, message: error.message }));
}
