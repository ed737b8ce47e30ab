import { DomainError } from '../kernel/errors';

/** A record that comes with the server was to be changed. `thing` in words. */
export function systemRecord(thing: string, id: string): DomainError {
  return new DomainError('conflict', 'system_record', `this ${thing} comes with the server and cannot be changed; create one of your own instead`, { metadata: { id } });
}
