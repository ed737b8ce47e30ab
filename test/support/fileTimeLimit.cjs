// Ends the process of a test file that hangs, even in an endless loop, which no timer of the same thread can interrupt.
const { Worker } = require('node:worker_threads');

const LIMIT_MINUTES = 10;
const WATCHER = `
  const { writeSync } = require('node:fs');
  const { parentPort } = require('node:worker_threads');
  let timer;
  parentPort.on('message', ({ file, minutes }) => {
    clearTimeout(timer);
    if (file === undefined) return;
    timer = setTimeout(() => {
      writeSync(2, '\\nFAILED: ' + file + ' did not end within ' + minutes + ' minutes; its process is killed\\n');
      process.kill(process.pid, 'SIGKILL');
    }, minutes * 60_000);
  });
`;
let watcher;

/** Starts the time limit of a test file. Returns the function that ends it. */
module.exports.startFileTimeLimit = (file) => {
  watcher ??= new Worker(WATCHER, { eval: true });
  watcher.unref();
  watcher.postMessage({ file, minutes: LIMIT_MINUTES }, []);
  return () => watcher.postMessage({}, []);
};
