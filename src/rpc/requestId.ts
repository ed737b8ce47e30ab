import { randomUUID } from 'node:crypto';
import { holdsKey } from '../kernel/keyText';

const USABLE = /^[!-~](?:[ -~]{0,126}[!-~])?$/;

/** The caller's request id if it is 1 to 128 printable characters, else a new one; an API key in it would get into the log. */
export function requestIdFrom(given: unknown): string {
  return typeof given === 'string' && USABLE.test(given) && !holdsKey(given) ? given : randomUUID();
}
