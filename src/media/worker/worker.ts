import { readFileSync } from 'node:fs';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { lowerPriority } from '../../kernel/lowerPriority';
import { processImage } from './processImage';
import type { WorkerStart } from './messages';

/** The console output of the decoders. It is not written anywhere else. */
const consoleOutput: string[] = [];
for (const name of ['log', 'info', 'warn', 'error'] as const)
  console[name] = (...words: readonly unknown[]): void => void consoleOutput.push(words.map(String).join(' '));

/** One thread processes one image, so that any damage to its memory ends with the thread. */
async function processFile(port: MessagePort, { file, thumbnailPixels, maxMemory }: WorkerStart): Promise<void> {
  lowerPriority();
  port.postMessage(await processImage(readFileSync(file), { thumbnailPixels, maxMemory }, consoleOutput));
}

if (parentPort) void processFile(parentPort, workerData as WorkerStart);
