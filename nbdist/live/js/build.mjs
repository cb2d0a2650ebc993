// Bundle src/ into one ES module and one style sheet; OUT may name another folder (a test compares).
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.OUT ?? join(here, "..", "static");

await build({
  absWorkingDir: here,
  entryPoints: [
    { in: "src/index.ts", out: "chart" },
    { in: "src/style.css", out: "chart" },
  ],
  outdir: out,
  write: true,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/*! Built from nbdist/live/js; do not edit. Contains uPlot, see uPlot.LICENSE. */" },
});
await writeFile(
  join(out, "uPlot.LICENSE"),
  await readFile(join(here, "node_modules", "uplot", "LICENSE")),
);
