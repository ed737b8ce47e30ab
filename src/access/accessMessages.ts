import type { ApiKey as ApiKeyMessage } from '../gen/organization_access_control/access_control_service';
import type { Organization as OrganizationMessage } from '../gen/organizations_service';
import type { User as UserMessage } from '../gen/userprofile/user_profile_service';
import { etagOf } from '../kernel/etags';
import { optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import type { ApiKey } from './keys/apiKey';
import type { Organization } from './organizations/organization';
import type { User } from './people/user';

/** A key's record on the wire. */
export function apiKeyToMessage(key: ApiKey): ApiKeyMessage {
  return {
    id: key.id,
    organizationId: key.organizationId,
    name: key.name,
    prefix: key.prefix,
    scopes: [...key.scopes],
    connectionIds: [...key.connectionIds],
    allConnections: key.allConnections,
    ownerUserId: key.ownerUserId,
    createdAt: toTimestamp(key.createdAt),
    updatedAt: toTimestamp(key.updatedAt),
    expiresAt: optionalTimestamp(key.expiresAt),
    revokedAt: optionalTimestamp(key.revokedAt),
    lastUsedAt: optionalTimestamp(key.lastUsedAt),
    lastUsedAddress: key.lastUsedAddress,
    note: '',
    restrictions: undefined,
    allowedAddresses: [],
    rotatedFrom: '',
    isAdmin: key.isAdmin,
    etag: '',
  };
}

/** A person on the wire. */
export function userToMessage(user: User): UserMessage {
  return { id: user.id, name: user.name, email: user.email, createdAt: toTimestamp(user.createdAt), updatedAt: toTimestamp(user.updatedAt), memberships: [] };
}

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
