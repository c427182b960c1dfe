// npm run build: writes the page into slipstream/viewer/static/.
import { build } from "esbuild";
import { copyFileSync } from "node:fs";
const out = process.argv[2] ?? "../slipstream/viewer/static";
await build({ entryPoints: { viewer: "src/main.js" }, bundle: true, minify: true, format: "iife", target: "es2022", charset: "utf8", legalComments: "none", outdir: out, logLevel: "warning" });
for (const page of ["index.html", "embedded.html"]) copyFileSync(page, `${out}/${page}`);
