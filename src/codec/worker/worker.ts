import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { lowerPriority } from '../../kernel/lowerPriority';
import { EngineFactory } from './engine';
import type { ScriptJob, WorkerReport, WorkerStart } from './messages';
import { runScript } from './runScript';
import { SandboxPool } from './sandboxPool';

function getCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000; // from microseconds
}

/** Counts how often the engine reads the clock: it calls `Date.now` of its thread, which nothing else here calls. */
function installClockCounter(): () => number {
  const { now } = Date;
  let reads = 0;
  Date.now = () => {
    reads += 1;
    return now();
  };
  return () => reads;
}

/**
 * Runs each job in a sandbox whose memory is restored before: a fresh set of globals, in which preludes (scripts of
 * ours) and, if it ran before, the job's script are loaded already.
 */
async function startWorker(port: MessagePort, { engine: module, preludes, limits }: WorkerStart): Promise<void> {
  const send = (message: WorkerReport): void => port.postMessage(message);
  const systemThreadId = lowerPriority();
  const countClockReads = installClockCounter();
  const pool = new SandboxPool(await EngineFactory.create(module), preludes);
  await pool.prepare();
  const runJob = async (job: ScriptJob): Promise<void> => {
    const acquired = await pool.acquire(job.role, job.script);
    const { result, isCorrupted } = runScript({ acquired, countClockReads, limits }, job);
    send({ kind: 'answer', result, isCorrupted, cpuMs: getCpuMs() });
    if (!isCorrupted) pool.release(acquired.sandbox);
  };
  // The main thread sends one job at a time.
  port.on('message', (job: ScriptJob) => void runJob(job));
  send({ kind: 'ready', systemThreadId, cpuMs: getCpuMs() });
}

if (parentPort) void startWorker(parentPort, workerData as WorkerStart);
