import { DomainError } from '../../kernel/errors';
import type { Principal } from '../../kernel/principal';
import { isWithin } from './addresses';
import { toResourceScope, type ApiKey, type KeyGrant, type KeyRestrictions } from './apiKey';

/** The maximum number of permissions that an error lists. */
const MAX_LISTED_PERMISSIONS = 5;

/**
 * Returns the permissions of a grant that the granting key does not have, as text; empty if there are none.
 * Restrictions are compared by their ids: a device is not covered by a connection that it is bound to, because the
 * binding can change.
 */
export function findExcessGrants(grant: KeyGrant, granting: Principal): string[] {
  const excess = grant.scopes.filter((scope) => !granting.scopes.has(scope)).map((scope) => `scope ${scope}`);
  const { connections } = granting;
  if (connections !== 'all') {
    if (grant.allConnections) excess.push('all connections');
    excess.push(...listMissing(grant.connectionIds, connections, 'connection'));
  }
  excess.push(...findExcessResources(grant.restrictions, granting));
  if (granting.allowedAddresses.length > 0) {
    if (grant.allowedAddresses.length === 0) excess.push('every address');
    excess.push(
      ...grant.allowedAddresses
        .filter((address) => !granting.allowedAddresses.some((network) => isWithin(address, network)))
        .map((address) => `address ${address}`),
    );
  }
  if (granting.expiresAt !== undefined && (grant.expiresAt ?? Infinity) > granting.expiresAt)
    excess.push(`an expiry after ${new Date(granting.expiresAt).toISOString()}`);
  return excess;
}

/**
 * Returns the permissions of an existing key that the calling key does not have. For the calling key itself, scopes
 * that the role of its owner does not have are ignored.
 */
export function findExcessPermissions(key: ApiKey, caller: Principal): string[] {
  const isCallingKey = key.id === caller.keyId;
  const grant = isCallingKey ? { ...key, scopes: key.scopes.filter((scope) => caller.scopes.has(scope)) } : key;
  const excess = findExcessGrants(grant, caller);
  return key.isAdmin && !caller.isAdmin ? [...excess, 'the complete installation'] : excess;
}

/**
 * Whether the caller may see a key: a caller that is limited to resources only sees keys that have no more permissions
 * than itself.
 */
export function canSee(caller: Principal, key: ApiKey): boolean {
  return !caller.resourceScope || findExcessPermissions(key, caller).length === 0;
}

/**
 * Returns the grant of a new key, in which each limit that the grant leaves open is set to the limit of the granting
 * key. The result can still exceed the granting key; `findExcessGrants` finds that.
 */
export function inheritOpenLimits(grant: KeyGrant, granting: Principal): KeyGrant {
  return {
    ...grant,
    restrictions: inheritOpenRestrictions(grant.restrictions, granting),
    allowedAddresses: grant.allowedAddresses.length > 0 ? grant.allowedAddresses : granting.allowedAddresses,
    expiresAt: grant.expiresAt ?? granting.expiresAt,
  };
}

/** Throws `scope_escalation` if `excess`, the permissions that the caller does not have itself, is not empty. */
export function assertNoPrivilegeEscalation(excess: readonly string[]): void {
  if (excess.length === 0) return;
  const listed = excess.slice(0, MAX_LISTED_PERMISSIONS).join(', ');
  const omittedCount = excess.length - MAX_LISTED_PERMISSIONS;
  const more = omittedCount > 0 ? ` (and ${omittedCount} more)` : '';
  throw new DomainError(
    'permission_denied',
    'scope_escalation',
    `a key cannot grant or change more than its own permissions: ${listed}${more}. Remove them, or use a key that has them.`,
  );
}

/** Returns the requested restrictions; where none are requested, those of the granting key. */
function inheritOpenRestrictions(
  restrictions: KeyRestrictions | undefined,
  { resourceScope: scope }: Principal,
): KeyRestrictions | undefined {
  if (!scope) return restrictions;
  const requested = toResourceScope(restrictions);
  const devices = requested?.devices ?? scope.devices;
  const commands = requested?.commands ?? scope.commands;
  return {
    deviceIds: toArray(devices?.ids),
    connectionIds: toArray(devices?.connectionIds),
    commandIds: toArray(commands),
  };
}

function toArray(ids: ReadonlySet<string> | undefined): string[] {
  return ids ? [...ids] : [];
}

/** Returns the devices, connections and commands that the restrictions allow but the granting key does not, as text. */
function findExcessResources(restrictions: KeyRestrictions | undefined, { resourceScope: scope }: Principal): string[] {
  const requested = toResourceScope(restrictions);
  const excess: string[] = [];
  if (scope?.devices) {
    if (requested?.devices)
      excess.push(
        ...listMissing(requested.devices.ids, scope.devices.ids, 'device'),
        ...listMissing(requested.devices.connectionIds, scope.devices.connectionIds, 'connection'),
      );
    else excess.push('every device');
  }
  if (scope?.commands) {
    if (requested?.commands) excess.push(...listMissing(requested.commands, scope.commands, 'command'));
    else excess.push('every command');
  }
  return excess;
}

/** Returns the ids that are not granted, as text: `device <id>` for the resource type `device`. */
function listMissing(ids: Iterable<string>, granted: ReadonlySet<string>, resourceType: string): string[] {
  return [...ids].filter((id) => !granted.has(id)).map((id) => `${resourceType} ${id}`);
}
