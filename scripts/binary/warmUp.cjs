// Starts the server once and writes the V8 code cache of all functions that this used:
// node warmUp.cjs <program> <cache> <folder>
'use strict';
const { existsSync, readFileSync, writeFileSync } = require('node:fs');
const paths = require('node:path');
const { Script } = require('node:vm');

const [program, cache, folder] = process.argv.slice(2).map((path) => paths.resolve(path));
const POLL_INTERVAL_MS = 50;
const WARM_UP_MS = 500;
const keyFile = `${folder}.key`; // written at the end of the first start
const main = paths.resolve('dist/main.js');
const home = paths.resolve('dist');
process.chdir(paths.dirname(program)); // a folder without plantroom.yaml
process.argv = [process.execPath, main, 'serve'];
Object.assign(process.env, {
  PLANTROOM_DATA_DIR: folder,
  PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
  PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
  PLANTROOM_METRICS_LISTEN: '127.0.0.1:0',
  PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile,
});
const script = new Script(readFileSync(program, 'latin1'), { filename: 'plantroom.js' });
script.runInThisContext()(module.exports, require, module, main, home);
const polling = setInterval(() => {
  if (!existsSync(keyFile)) return;
  clearInterval(polling);
  setTimeout(finish, WARM_UP_MS);
}, POLL_INTERVAL_MS);

function finish() {
  writeFileSync(cache, script.createCachedData());
  process.kill(process.pid, 'SIGTERM');
}
