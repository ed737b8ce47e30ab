import type { ApiKey as ApiKeyMessage } from '../../gen/organization_access_control/access_control_service';
import { getEtag } from '../../kernel/etags';
import { optionalTimestamp, toTimestamp } from '../../kernel/timestamps';
import type { ApiKey } from './apiKey';

/** Converts a key record to its message. */
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
    note: key.note,
    restrictions: key.restrictions && {
      deviceIds: [...key.restrictions.deviceIds],
      connectionIds: [...key.restrictions.connectionIds],
      commandIds: [...key.restrictions.commandIds],
    },
    allowedAddresses: [...key.allowedAddresses],
    rotatedFrom: key.rotatedFrom,
    isAdmin: key.isAdmin,
    canActAsOwner: key.canActAsOwner,
    etag: getEtag(key.revision),
  };
}
