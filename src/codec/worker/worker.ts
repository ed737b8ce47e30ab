import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { lowerPriority } from '../../kernel/lowerPriority';
import { CellStock } from './cellStock';
import { startEngine } from './engine';
import type { Job, Report, WorkerStart } from './messages';
import { runScript } from './runScript';

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
    const { cell, kind } = stock.take(job.role, job.script);
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
