import { setTimeout as pause } from 'node:timers/promises';

/** Polls a condition until it holds. Only the time limit of the test bounds the wait. */
export async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await pause(5);
}
