// Starts a server of the program once and writes the machine's form of every function that this took: node warmUp.cjs <program> <cache> <folder>
'use strict';
const { existsSync, readFileSync, writeFileSync } = require('node:fs');
const paths = require('node:path');
const { Script } = require('node:vm');

const [program, cache, folder] = process.argv.slice(2).map((path) => paths.resolve(path));
const LOOKS_EACH_MS = 50;
const FIRST_WORK_MS = 500;
const keyFile = `${folder}.key`; // the last thing that a first start does
const main = paths.resolve('dist/main.js');
const home = paths.resolve('dist');
process.chdir(paths.dirname(program)); // where no plantroom.yaml is
process.argv = [process.execPath, main, 'serve'];
Object.assign(process.env, { PLANTROOM_DATA_DIR: folder, PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_METRICS_LISTEN: '127.0.0.1:0', PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile });
const script = new Script(readFileSync(program, 'latin1'), { filename: 'plantroom.js' });
script.runInThisContext()(module.exports, require, module, main, home);
const looking = setInterval(() => {
  if (!existsSync(keyFile)) return;
  clearInterval(looking);
  setTimeout(end, FIRST_WORK_MS);
}, LOOKS_EACH_MS);

function end() {
  writeFileSync(cache, script.createCachedData());
  process.kill(process.pid, 'SIGTERM');
}
