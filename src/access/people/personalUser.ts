import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import type { Membership } from './member';
import type { User } from './user';

/** A user with the memberships that a key may see: the one in the key's own organization; an admin key sees all. */
export interface PersonalUser extends User {
  /** Oldest first. */
  readonly memberships: readonly Membership[];
}

/** Returns the owner of a key with the memberships that the key may see. */
export async function getPersonalUser(
  { users, members }: Pick<AccessRepositories, 'users' | 'members'>,
  { isAdmin, organizationId, ownerUserId }: Principal,
): Promise<PersonalUser> {
  const user = await users.get(ownerUserId);
  if (isAdmin) return { ...user, memberships: await members.listMemberships(ownerUserId) };
  const membership = await members.findMembership(organizationId, ownerUserId);
  return { ...user, memberships: membership ? [membership] : [] };
}
