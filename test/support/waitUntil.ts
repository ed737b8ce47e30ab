import { setTimeout as pause } from 'node:timers/promises';

/** Polls a condition until it holds. Only the time limit of the test bounds the wait. */
export async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await pause(5);
}

/** Polls a value until it is as expected, and returns it. Only the time limit of the test bounds the wait. */
export async function pollUntil<T>(poll: () => Promise<T>, isExpected: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await poll();
    if (isExpected(value)) return value;
    await pause(5);
  }
}
