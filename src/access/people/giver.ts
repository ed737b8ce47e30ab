import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { freshCaller, TO_CHANGE_PEOPLE } from '../keys/freshCaller';
import { OWNER } from './member';

/** Who gives and takes roles: a Principal, or the command line. */
export interface Giver {
  /** What it may do itself. */
  readonly scopes: ReadonlySet<string>;
  /** Its role in the organization. */
  readonly roleId: string;
  /** May name any person of the installation. */
  readonly isAdmin: boolean;
}

/** The giver as it is now; a key is read anew, see freshCaller. The command line is what it is. */
export async function freshGiver(repos: AccessRepositories, giver: Giver | Principal, clock: Clock): Promise<Giver> {
  return 'keyId' in giver ? await freshCaller(repos, giver, clock, TO_CHANGE_PEOPLE) : giver;
}

/** Throws `scope_exceeds_own` unless the giver holds all of these: what a role holds before and after. */
export function refuseBeyondOwn(giver: Giver, scopes: readonly string[]): void {
  const beyond = [...new Set(scopes)].filter((scope) => !giver.scopes.has(scope));
  if (beyond.length === 0) return;
  throw new DomainError('permission_denied', 'scope_exceeds_own', `the role holds more than the calling key: ${beyond.join(', ')}; leave that out, or call with a key that holds it`, { metadata: { scopes: beyond.join(',') } });
}

/** Throws `owner_required` if one of these roles, before and after, is the owner's and the giver is none. */
export function refuseUnlessOwner(giver: Giver, ...roleIds: readonly string[]): void {
  if (giver.roleId === OWNER || !roleIds.includes(OWNER)) return;
  throw new DomainError('permission_denied', 'owner_required', 'only an owner makes, changes or removes an owner; call with a key that belongs to an owner of the organization');
}

/** Throws `owner_required` for a key of an owner unless the giver is one: with such a key its holder could become an owner. */
export function refuseKeyOfOwner(giver: Giver, ownerRoleId: string | undefined): void {
  if (giver.roleId === OWNER || ownerRoleId !== OWNER) return;
  throw new DomainError('permission_denied', 'owner_required', 'only an owner makes, changes or rotates the key of an owner; call with a key that belongs to an owner of the organization');
}
