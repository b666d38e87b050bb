// Builds src into lib as ES modules with types, with the tools of ../page. `make -C web` builds lib/uwaga.wasm.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const page = createRequire(join(here, "../page/package.json"));
const { build } = page("esbuild");
const outdir = process.argv[2] ?? join(here, "lib");
await build({
  absWorkingDir: here,
  entryPoints: ["src/index.ts", "src/worker.ts"],
  outdir,
  bundle: true,
  splitting: true,
  chunkNames: "shared",
  format: "esm",
  charset: "utf8",
  target: ["chrome95", "firefox100", "safari16.4", "node20"],
  external: ["node:fs/promises", "node:url"],
  legalComments: "none",
});
const tsc = join(here, "../page/node_modules/typescript/bin/tsc");
const types = ["-p", here, "--noEmit", "false", "--emitDeclarationOnly", "--declaration", "--outDir", outdir];
execFileSync(process.execPath, [tsc, ...types], { stdio: "inherit" });
