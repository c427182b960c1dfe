// npm run build: writes the page into slipstream/viewer/static/.
import { build } from "esbuild";
import { copyFileSync, readFileSync } from "node:fs";
const out = process.argv[2] ?? "../slipstream/viewer/static";

// Parts of Three.js that this page cannot reach: they are half of its size.
const UNUSED_SHADERS = /(meshphysical|meshphong|meshtoon|meshmatcap|meshnormal|background|backgroundCube|cube|equirect|linedashed|shadow|sprite|vsm)(_vert|_frag)?\.glsl\.js$/;
const UNUSED_CHUNKS = /(lights_physical|lights_phong|lights_toon|transmission|iridescence|clearcoat|cube_uv_reflection|bsdfs|envmap_physical|ltc_|shadowmap|gradientmap|bumpmap|displacementmap|normalmap|roughness|metalness|morph|skin|lightmap|aomap|alphamap|alphahash|emissivemap|tonemapping|dithering|batching|logdepthbuf)[a-z_]*\.glsl\.js$/;
const lean = { name: "lean", setup(b) {
  b.onLoad({ filter: /renderers[\\/]shaders[\\/]ShaderLib[\\/].*\.glsl\.js$/ }, ({ path }) => UNUSED_SHADERS.test(path) ? { contents: 'export const vertex = ""; export const fragment = "";' } : null);
  b.onLoad({ filter: /renderers[\\/]shaders[\\/]ShaderChunk[\\/].*\.glsl\.js$/ }, ({ path }) => UNUSED_CHUNKS.test(path) ? { contents: 'export default "";' } : null);
  b.onLoad({ filter: /\.glsl\.js$/ }, ({ path }) => ({ contents: readFileSync(path, "utf8").replace(/\/\/[^\n`]*$/gm, "").replace(/^[ \t]+/gm, "").replace(/\n{2,}/g, "\n"), loader: "js" }));
} };

// Both are MIT: their notices go with every copy, also in pages that `slipstream recording export` writes.
const notice = (name) => `${name} ${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`;
const banner = { js: `/*! This file contains parts of ${notice("three")}\n\n${notice("uplot")}\n*/` };

await build({ entryPoints: { viewer: "src/main.js" }, bundle: true, minify: true, format: "iife", target: "es2022", charset: "utf8", legalComments: "none", banner, drop: ["debugger"],
  alias: { three: "three/src/Three.js" }, plugins: [lean], outdir: out, logLevel: "warning", metafile: true }).then((r) => {
  if (process.env.SIZES) { const o = Object.values(r.metafile.outputs).find((x) => x.entryPoint); console.log(Object.entries(o.inputs).sort((a, b) => b[1].bytesInOutput - a[1].bytesInOutput).slice(0, 40).map(([k, v]) => `${v.bytesInOutput} ${k}`).join("\n")); }
});
for (const page of ["index.html", "embedded.html"]) copyFileSync(page, `${out}/${page}`);
