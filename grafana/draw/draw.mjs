// node draw.mjs PROMETHEUS OUT '{"board": ..., "chosen": {...}, "range": {...}, "width": ...}' ...
// Draws boards in headless Chromium, writes OUT/<uid>.png and prints what each panel shows, one JSON line a board.
import { build } from 'esbuild';
import { readFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const [prometheus, out, ...asked] = process.argv.slice(2);
const here = fileURLToPath(new URL('.', import.meta.url));
// Their builds for bundlers break on packages with default exports.
const common = {
  name: 'common',
  setup: ({ onLoad, onResolve }) => {
    // The editor is of no use here, and large.
    onResolve({ filter: /^monaco-editor|^react-monaco-editor/ }, ({ path }) => ({ path, namespace: 'nothing' }));
    onLoad({ filter: /.*/, namespace: 'nothing' }, () => ({ contents: 'module.exports = {}' }));
    onResolve({ filter: /^@grafana\/(ui|data|schema)$/ }, ({ path }) => ({ path: `${here}/node_modules/${path}/dist/cjs/index.cjs` }));
  },
};
const built = await build({
  absWorkingDir: here, entryPoints: [`${here}/main.jsx`], bundle: true, write: false, outdir: 'out', format: 'esm', jsx: 'transform', plugins: [common],
  alias: { 'react-router-dom-v5-compat': 'react-router-dom' }, target: 'es2022', logLevel: 'error',
  define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis' },
  loader: { '.svg': 'text', '.woff': 'empty', '.woff2': 'empty', '.ttf': 'empty', '.png': 'empty' },
});
const [script, styles] = ['.js', '.css'].map((end) => built.outputFiles.find((file) => file.path.endsWith(end)).text);
const PAGE = `<!doctype html><meta charset="utf-8"><style>${styles}</style><body><div id="root"></div>
  <script type="module" src="/main.js"></script>`;

const server = createServer(async (question, answer) => {
  if (question.url.startsWith('/prom/')) {
    const options = { method: question.method, headers: question.headers };
    const onward = request(prometheus + question.url.slice('/prom'.length), options, (said) => {
      answer.writeHead(said.statusCode, said.headers);
      said.pipe(answer);
    });
    question.pipe(onward);
  } else if (question.url.startsWith('/boards/')) {
    answer.end(await readFile(`${here}/../dashboards/${question.url.split('/').pop()}`));
  } else {
    answer.setHeader('Content-Type', question.url === '/main.js' ? 'text/javascript' : 'text/html');
    answer.end(question.url === '/main.js' ? script : PAGE);
  }
}).listen(0, '127.0.0.1');
await new Promise((ready) => server.once('listening', ready));

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
for (const text of asked) {
  const given = { width: 1500, ...JSON.parse(text) };
  const page = await browser.newPage({ viewport: { width: given.width, height: 900 } });
  const errors = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(`http://127.0.0.1:${server.address().port}/#${encodeURIComponent(JSON.stringify(given))}`);
  await page.waitForSelector('body[data-done="true"]', { timeout: 300_000 });
  await page.waitForTimeout(500);
  const panels = await page.$$eval('[data-panel]', (found) =>
    found.map((one) => ({ title: one.dataset.panel, frames: Number(one.dataset.frames), text: one.innerText,
      failed: one.querySelector('.failed')?.innerText ?? '', drawn: one.querySelector('canvas, svg, [role=table], span') !== null }))
  );
  await page.screenshot({ path: `${out}/${given.board}.png`, fullPage: true });
  console.log(JSON.stringify({ board: given.board, errors, panels }));
  await page.close();
}
await browser.close();
server.close();
