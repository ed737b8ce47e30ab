import { DomainError } from '../kernel/errors';

const ADVICE: readonly (readonly [string, string])[] = [
  ['EADDRINUSE', 'another program listens there; stop it or choose another port'],
  ['EACCES', 'this user may not listen there; choose a port above 1023'],
  ['EADDRNOTAVAIL', 'this machine does not have that address; choose one that it has, or 0.0.0.0 for all'],
];

/** Why the server cannot listen, and what would help; `setting` says where. */
export function listenFault(listen: string, setting: string, cause: Error): DomainError {
  const [, advice] = ADVICE.find(([code]) => cause.message.includes(code)) ?? ['', `${cause.message}; give it as host:port`];
  return new DomainError('unavailable', 'cannot_listen', `cannot listen on ${listen} (${setting}): ${advice}`, { cause });
}
