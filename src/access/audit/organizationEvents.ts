import { newId } from '../../kernel/ids';
import { storable, type AuditFacts } from './auditEvent';

const ORGANIZATION = /^organizations\/([^/]+)$/;

/** A resource as a chain may hold it: an organization's tells of no other organization. */
export function resourceIn(chain: string, resource: string): string {
  const named = ORGANIZATION.exec(resource)?.[1];
  return chain === '' || named === undefined || named === chain ? storable(resource) : '';
}

/**
 * An event with what its organization has of it: that it was made or deleted stands in the chain of none, where those of the whole
 * installation look, and in its own. There the key is told by its beginning alone, since it belongs to another organization.
 */
export function withCopy(event: AuditFacts): readonly AuditFacts[] {
  if (event.chain !== '' || event.outcome !== 'succeeded') return [event];
  const chain = ORGANIZATION.exec(event.resource)?.[1];
  return chain === undefined ? [event] : [event, { ...event, id: newId(), chain, keyId: undefined }];
}
