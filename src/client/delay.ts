import { setTimeout as sleep } from 'node:timers/promises';

/** Waits `ms` milliseconds, or until the signal aborts. Never rejects: the caller checks the signal. */
export async function delay(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // The signal aborted.
  }
}
