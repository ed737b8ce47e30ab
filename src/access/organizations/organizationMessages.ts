import type { Organization as OrganizationMessage } from '../../gen/organizations_service';
import { etagOf } from '../../kernel/etags';
import { toTimestamp } from '../../kernel/timestamps';
import type { Organization } from './organization';

/** An organization on the wire. */
export function organizationToMessage(organization: Organization): OrganizationMessage {
  return {
    id: organization.id,
    name: organization.name,
    createdAt: toTimestamp(organization.createdAt),
    updatedAt: toTimestamp(organization.updatedAt),
    readingRetentionDays: organization.readingRetentionDays,
    thinReadingsAfterDays: organization.thinReadingsAfterDays ?? 0,
    etag: etagOf(organization.revision),
  };
}
