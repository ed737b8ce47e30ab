import { DomainError } from '../../kernel/errors';
import { OWNER } from './member';

/** Who gives and takes roles; a Principal is one. */
export interface Giver {
  /** What it may do itself. */
  readonly scopes: ReadonlySet<string>;
  /** Its role in the organization. */
  readonly roleId: string;
  /** May name any person of the installation. */
  readonly isAdmin: boolean;
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
