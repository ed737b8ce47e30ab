import { setTimeout as sleep } from 'node:timers/promises';

/** Waits, and no longer than until the signal aborts; who waited looks at that. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // Aborted.
  }
}
