// One file, because anywidget sends the module's text to every page, and saved notebooks keep it.
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";

const OUT = new URL("../widgets/duetlink_widgets/static/panel.js", import.meta.url).pathname;
const LIMIT_BYTES = 106_000;

/** esbuild's own text loader keeps comments and white space. */
const minifiedCss = {
  name: "minified-css",
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf8"), { loader: "css", minify: true });
      return { contents: code, loader: "text" };
    });
  },
};

await build({
  entryPoints: [new URL("src/index.ts", import.meta.url).pathname],
  outfile: OUT,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  plugins: [minifiedCss],
});

const bundle = await readFile(OUT);
console.log(`${OUT}: ${bundle.length} bytes, ${gzipSync(bundle, { level: 9 }).length} gzipped`);
if (bundle.length > LIMIT_BYTES) {
  console.error(`the bundle has more than ${LIMIT_BYTES} bytes`);
  process.exit(1);
}
