import { setTimeout as sleep } from 'node:timers/promises';

/** The maximum delay of a timer, in milliseconds (24 days). */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Waits `ms` milliseconds, or until the signal aborts. Never rejects: the caller checks the signal. */
export async function delay(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // The signal aborted.
  }
}
