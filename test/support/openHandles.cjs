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
 * Waits until the process has only the handles that it had before the test file. Describes the others, and lets the
 * process end without them.
 */
module.exports.closeOpenHandles = async ({ handles, counts }) => {
  const end = performance.now() + GRACE_MS;
  while (listNewTypes(counts).length > 0 && performance.now() < end) await pause(5);
  const types = listNewTypes(counts);
  if (types.length === 0) return [];
  const left = process._getActiveHandles().filter((handle) => !handles.has(handle));
  for (const handle of left) handle.unref?.();
  return [...types, ...left.map(describe).filter(Boolean)];
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

function describe(handle) {
  if (handle.spawnargs) return `process ${handle.spawnargs.join(' ').slice(0, 200)}`;
  if (handle.remotePort) return `socket from port ${handle.localPort} to ${handle.remotePort}`;
  return typeof handle.address === 'function' ? `server on ${JSON.stringify(handle.address())}` : undefined;
}
