// Finds what a test file left open: sockets, servers, child processes, threads and timers that keep the process alive.
const { setTimeout: pause } = require('node:timers/promises');

/** Time for what is closing when the last test has ended. */
const GRACE_MS = 5000;
/** Operations end on their own. */
const OPERATIONS = /Req(Wrap)?$|ReqCallback$|Immediate$|^FSReq|^ConnectWrap$|^Random|^Scrypt|^Zlib/;

/** Lists what keeps the process alive now. Node opens the standard streams when they are first read. */
module.exports.listHandles = () => {
  void [process.stdin, process.stdout, process.stderr];
  return { handles: new Set(process._getActiveHandles()), counts: countResources() };
};

/**
 * Waits until the process has only the handles that it had before the test file. Describes the others, closes them,
 * and lets the process end without them.
 */
module.exports.closeOpenHandles = async ({ handles, counts }) => {
  const end = performance.now() + GRACE_MS;
  while (listNewTypes(counts).length > 0 && performance.now() < end) await pause(5);
  const types = listNewTypes(counts);
  if (types.length === 0) return [];
  const left = process._getActiveHandles().filter((handle) => !handles.has(handle));
  const described = left.map(describe).filter(Boolean);
  for (const handle of left) close(handle);
  return [...types, ...described];
};

function countResources() {
  const counts = new Map();
  for (const type of process.getActiveResourcesInfo())
    if (!OPERATIONS.test(type)) counts.set(type, (counts.get(type) ?? 0) + 1);
  return counts;
}

function listNewTypes(before) {
  return [...countResources()].filter(([type, count]) => count > (before.get(type) ?? 0)).map(([type]) => type);
}

function close(handle) {
  handle.unref?.();
  if (handle.spawnargs) handle.kill('SIGKILL');
  else if (handle.destroy) handle.destroy();
  else handle.close?.();
}

function describe(handle) {
  if (handle.spawnargs) return `process ${handle.spawnargs.join(' ').slice(0, 200)}`;
  if (handle.remotePort) return `socket from port ${handle.localPort} to ${handle.remotePort}`;
  const address = handle.listening && handle.address();
  return address ? `server on ${JSON.stringify(address)}` : undefined;
}
