import { randomUUID } from 'node:crypto';

const USABLE = /^[!-~](?:[ -~]{0,126}[!-~])?$/;

/** The caller's request id if it is 1 to 128 printable characters, else a new one. */
export function requestIdFrom(given: unknown): string {
  return typeof given === 'string' && USABLE.test(given) ? given : randomUUID();
}
