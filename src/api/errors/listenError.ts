import { DomainError } from '../../kernel/errors';

/** Error codes of the operating system, each with what is wrong and how to fix it. */
const ADVICE: readonly (readonly [string, string])[] = [
  ['EADDRINUSE', 'the port is in use by another program; stop it or choose another port'],
  ['EACCES', 'this user is not permitted to use the port; choose a port above 1023'],
  ['EADDRNOTAVAIL', 'this machine does not have that address; choose one of its addresses, or 0.0.0.0 for all'],
];

/**
 * Creates the error for an address that the server cannot listen on. `listen`: `host:port`; `setting`: the environment
 * variable that configures the address.
 */
export function toListenError(listen: string, setting: string, cause: Error): DomainError {
  const [, knownAdvice] = ADVICE.find(([errorCode]) => cause.message.includes(errorCode)) ?? [];
  const advice = knownAdvice ?? `${cause.message}; the format is host:port`;
  return new DomainError('unavailable', 'listen_failed', `cannot listen on ${listen} (${setting}): ${advice}`, {
    cause,
  });
}
