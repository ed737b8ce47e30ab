import { Worker, type WorkerOptions } from 'node:worker_threads';
import { asset, assetPath } from './assets';
import { isBinary } from './thisProgram';

/** A thread that runs one of the program's own files, for example `codecWorker.js`; nothing of the process's environment reaches it. Throws where the machine has no thread to give. */
export function openWorker(program: string, options: Pick<WorkerOptions, 'workerData' | 'resourceLimits'>): Worker {
  const clean = { ...options, execArgv: [], env: {} };
  return isBinary ? new Worker(asset(program).toString('utf8'), { ...clean, eval: true }) : new Worker(assetPath(program), clean);
}
