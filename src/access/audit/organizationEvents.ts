import { newId } from '../../kernel/ids';
import { INSTALLATION_CHAIN, sanitizeForStorage, type AuditDetails } from './auditEvent';

// The resource of an organization itself, not of a record in it.
const ORGANIZATION_RESOURCE = /^organizations\/([^/]+)$/;

/** Returns a resource as it may appear in a chain: the chain of an organization names no other organization. */
export function filterResource(chain: string, resource: string): string {
  const organizationId = ORGANIZATION_RESOURCE.exec(resource)?.[1];
  const namesOtherOrganization = organizationId !== undefined && organizationId !== chain;
  return namesOtherOrganization && chain !== INSTALLATION_CHAIN ? '' : sanitizeForStorage(resource);
}

/**
 * Returns an event, and a copy for the chain of the organization that was created or deleted, if any. The original
 * belongs to the chain of the installation. The copy contains only the prefix of the key, because the key belongs to
 * another organization.
 */
export function withOrganizationCopy(event: AuditDetails): readonly AuditDetails[] {
  if (event.chain !== INSTALLATION_CHAIN || event.outcome !== 'succeeded') return [event];
  const chain = ORGANIZATION_RESOURCE.exec(event.resource)?.[1];
  return chain === undefined ? [event] : [event, { ...event, id: newId(), chain, keyId: undefined }];
}
