// Builds the page into src/uwaga_server/page and the laboratory of the course into docs/lab; with --tests, the unit tests
// into build/tests; with a folder, the page into that folder and the laboratory into its lab/.
import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const argument = process.argv[2];
/** The languages of the page besides English, and those of the course. */
const LANGUAGES = Object.keys(JSON.parse(await readFile(join(here, "src/page_languages.json"), "utf8"))).filter((code) => code !== "en");
const COURSE_LANGUAGES = LANGUAGES.filter((code) => existsSync(join(here, "../docs/learn", code)));
const shared = { bundle: true, format: "esm", charset: "utf8", absWorkingDir: here, logLevel: "warning" };

async function buildTests() {
  const outdir = join(here, "build/tests");
  await rm(outdir, { recursive: true, force: true });
  const names = (await readdir(join(here, "tests"))).filter((name) => name.endsWith(".test.ts"));
  const entryPoints = names.map((name) => `tests/${name}`);
  await build({ ...shared, entryPoints, outdir, platform: "node", outExtension: { ".js": ".mjs" } });
}

/** Removes the messages of the course from the page, which has no calculators, exercises and examples. */
const withoutCourse = {
  name: "without the course",
  setup(building) {
    building.onLoad({ filter: /lab\/messages\/\w+\.ts$/ }, async ({ path }) => ({
      loader: "ts",
      contents: (await readFile(path, "utf8")).replace(/^  (toy|exercise|compare|frames|train|picture|lab(Compare|Start|Loading|Failed|Examples|Address|English|German))\w*: .*\n/gm, ""),
    }));
  },
};

/** Build the page; the laboratory, which is loaded with the tab Inside, and all languages except English are separate modules. */
async function buildPage(outdir) {
  await mkdir(outdir, { recursive: true });
  const target = ["chrome123", "firefox120", "safari17.5"];
  const entryPoints = { page: "src/main.ts", lab: "src/lab/embedded.ts" };
  for (const code of LANGUAGES) {
    entryPoints[`messages/${code}`] = `src/lab/messages/${code}.ts`;
    entryPoints[`messages/page/${code}`] = `src/messages/${code}.ts`;
  }
  await build({ ...shared, entryPoints, outdir, target, minify: true, legalComments: "none", plugins: [withoutCourse] });
  const styles = { page: "src/page.css", lab: "src/lab/views.css" };
  await build({ ...shared, entryPoints: styles, outdir, target, minify: true });
  for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(outdir, name));
}

/** Build the laboratory; the engine, the attention view and all languages except English are separate modules. */
async function buildLab(outdir) {
  const target = ["chrome123", "firefox120", "safari17.5"];
  const languages = Object.fromEntries(COURSE_LANGUAGES.map((code) => [`messages/${code}`, `src/lab/messages/${code}.ts`]));
  // more.js is loaded only by the pages that use it; chunk.js is shared by more.js and lab.js.
  const parts = { splitting: true, chunkNames: "[name]" };
  await build({ ...shared, ...parts, entryPoints: { lab: "src/lab/main.ts" }, outdir, target, minify: true, legalComments: "none" });
  await build({ ...shared, entryPoints: languages, outdir, target, minify: true, legalComments: "none" });
  // The worker contains src/uwaga_course/program.py, which judges programs here and in `uwaga learn`.
  const worker = { python_worker: "src/lab/python_worker.ts" };
  await build({ ...shared, entryPoints: worker, loader: { ".py": "text" }, outdir, target, minify: true, legalComments: "none" });
  await build({ ...shared, entryPoints: ["src/lab/lab.css"], outdir, target, minify: true });
  await copyFile(join(here, "src/icon.svg"), join(outdir, "icon.svg"));
}

if (argument === "--tests") await buildTests();
else {
  await buildPage(argument ?? join(here, "../src/uwaga_server/page"));
  await buildLab(argument ? join(argument, "lab") : join(here, "../docs/lab"));
}
