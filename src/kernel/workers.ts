import { Worker, type WorkerOptions } from 'node:worker_threads';
import { readAsset, assetPath } from './assets';
import { isBinary } from './executable';

/**
 * Starts a worker thread that runs one of the program's own files, for example `codecWorker.js`, with an empty
 * environment. Throws if no thread can be created.
 */
export function startWorker(program: string, options: Pick<WorkerOptions, 'workerData' | 'resourceLimits'>): Worker {
  const isolatedOptions = { ...options, execArgv: [], env: {} };
  // The single binary contains the code of the worker, not its file.
  return isBinary
    ? new Worker(readAsset(program).toString('utf8'), { ...isolatedOptions, eval: true })
    : new Worker(assetPath(program), isolatedOptions);
}
