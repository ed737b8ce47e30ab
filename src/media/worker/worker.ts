import { readFileSync } from 'node:fs';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { lowerPriority } from '../../kernel/lowerPriority';
import { examine } from './examine';
import type { WorkerStart } from './messages';

/** What decoders write to the console; nothing of it goes anywhere else. */
const complaints: string[] = [];
for (const name of ['log', 'info', 'warn', 'error'] as const) console[name] = (...words: readonly unknown[]): void => void complaints.push(words.map(String).join(' '));

/** One thread looks at one picture: whatever it does to the thread's memory ends with the thread. */
async function look(port: MessagePort, { file, thumbnailPixels, mostMemory }: WorkerStart): Promise<void> {
  lowerPriority();
  port.postMessage(await examine(readFileSync(file), { thumbnailPixels, mostMemory }, complaints));
}

if (parentPort) void look(parentPort, workerData as WorkerStart);
