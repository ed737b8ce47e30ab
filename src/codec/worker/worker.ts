import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { CellStock } from './cellStock';
import { startEngine } from './engine';
import type { Job, Report, WorkerStart } from './messages';
import { runScript } from './runScript';

const NICE = 10;

/**
 * Scripts get the time that the server leaves. Elsewhere than on Linux a thread has no priority of its own to be set from here. Answers the
 * thread's id as the system has it, if it does.
 */
function lowerPriority(): number | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const tid = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(tid, NICE);
    return tid;
  } catch {
    return undefined; // a container without /proc: scripts then share the processor evenly with the server
  }
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

async function serve(port: MessagePort, { engine: module, preludes, limits }: WorkerStart): Promise<void> {
  const report = (message: Report): void => port.postMessage(message);
  const tid = lowerPriority();
  const engine = await startEngine(module);
  const stock = new CellStock(engine, preludes);
  port.on('message', (job: Job) => {
    const { cell, kind } = stock.take(job.script);
    const { result, spoiled } = runScript({ engine, cell, limits }, job);
    report({ kind: 'answer', result, spoiled });
    if (spoiled) return; // the main thread ends this one
    cell.close();
    stock.prepare(kind);
    report({ kind: 'ready', tid, cpuMs: cpuMs() });
  });
  report({ kind: 'ready', tid, cpuMs: cpuMs() });
}

if (parentPort) void serve(parentPort, workerData as WorkerStart);
