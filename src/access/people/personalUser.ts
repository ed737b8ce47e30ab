import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import type { Membership } from './member';
import type { User } from './user';

/** A person with the memberships that a key may see: the one in the key's own organization; an admin key sees all. */
export interface PersonalUser extends User {
  /** By when the person came. */
  readonly memberships: readonly Membership[];
}

/** The owner of a key, as the key may see them. */
export async function personalUser({ users, members }: Pick<AccessRepositories, 'users' | 'members'>, { isAdmin, organizationId, ownerUserId }: Principal): Promise<PersonalUser> {
  const user = await users.get(ownerUserId);
  if (isAdmin) return { ...user, memberships: await members.listMemberships(ownerUserId) };
  const own = await members.findMembership(organizationId, ownerUserId);
  return { ...user, memberships: own ? [own] : [] };
}
