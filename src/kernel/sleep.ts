import { setTimeout } from 'node:timers/promises';

/** Waits for a number of milliseconds or until the signal aborts; never rejects. */
export async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  await setTimeout(milliseconds, undefined, { signal }).catch(() => {}); // rejects if the signal aborts
}
