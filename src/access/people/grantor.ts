import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { reloadPrincipal, ORGANIZATION_CHANGE_ACCESS } from '../keys/reloadPrincipal';
import { OWNER } from './member';

const OWNER_KEY_HINT =
  'use a key of an owner of the organization that can act as one (canActAsOwner), which an owner or the command line created';

/** Who assigns and removes roles: a Principal, which is a key with its permissions, or the command line. */
export interface GrantingPrincipal {
  /** The scopes of the grantor. */
  readonly scopes: ReadonlySet<string>;
  /** Has the rights of an owner of the organization. */
  readonly isOwner: boolean;
  /** May add any user of the installation. */
  readonly isAdmin: boolean;
}

/**
 * Returns the current state of the grantor. A key is read again and must still be allowed to change the organization,
 * otherwise reloadPrincipal throws. A grantor without a key (the command line) is returned as it is.
 */
export async function reloadGrantor(
  repos: AccessRepositories,
  grantor: GrantingPrincipal | Principal,
  clock: Clock,
): Promise<GrantingPrincipal> {
  return 'keyId' in grantor ? await reloadPrincipal(repos, grantor, clock, ORGANIZATION_CHANGE_ACCESS) : grantor;
}

/** Throws `scope_escalation` unless the grantor has all of `scopes`: those of a role before and after the change. */
export function assertCanGrant(grantor: GrantingPrincipal, scopes: readonly string[]): void {
  const excess = [...new Set(scopes)].filter((scope) => !grantor.scopes.has(scope));
  if (excess.length === 0) return;
  throw new DomainError(
    'permission_denied',
    'scope_escalation',
    `the role has scopes that the calling key does not have: ${excess.join(', ')}. Remove them, or use a key that has them.`,
    { metadata: { scopes: excess.join(',') } },
  );
}

/**
 * Throws `owner_required` if the change concerns an owner and the grantor is not one. `roleIds`: the roles before and
 * after the change.
 */
export function assertCanChangeOwner(grantor: GrantingPrincipal, ...roleIds: readonly string[]): void {
  if (grantor.isOwner || !roleIds.includes(OWNER)) return;
  throw new DomainError(
    'permission_denied',
    'owner_required',
    `only an owner can add, change or remove an owner: ${OWNER_KEY_HINT}`,
  );
}

/**
 * Throws `owner_required` if the user of a key is an owner of the organization and the grantor is not: with such a key
 * the grantor could become an owner. `roleOfKeyUser`: the id of the role of that user.
 */
export function assertCanChangeKeyOfOwner(grantor: GrantingPrincipal, roleOfKeyUser: string | undefined): void {
  if (grantor.isOwner || roleOfKeyUser !== OWNER) return;
  throw new DomainError(
    'permission_denied',
    'owner_required',
    `only an owner can create, change or rotate the key of an owner: ${OWNER_KEY_HINT}`,
  );
}
