import type {
  Member as MemberMessage,
  Role as RoleMessage,
} from '../../gen/organization_access_control/access_control_service';
import type { Membership as MembershipMessage, User as UserMessage } from '../../gen/userprofile/user_profile_service';
import { getEtag } from '../../kernel/etags';
import { optionalTimestamp, toTimestamp } from '../../kernel/timestamps';
import type { Member, Membership } from './member';
import type { PersonalUser } from './personalUser';
import type { Role } from './role';

/** Converts a user to its message, with the memberships that the calling key may see. */
export function userToMessage(user: PersonalUser): UserMessage {
  return {
    id: user.id,
    name: user.name,
    email: user.email,
    createdAt: toTimestamp(user.createdAt),
    updatedAt: toTimestamp(user.updatedAt),
    memberships: user.memberships.map(membershipToMessage),
  };
}

/** Converts a member to its message. */
export function memberToMessage(member: Member): MemberMessage {
  return {
    userId: member.userId,
    organizationId: member.organizationId,
    name: member.name,
    email: member.email,
    roleId: member.roleId,
    roleName: member.roleName,
    scopes: [...member.scopes],
    createdAt: toTimestamp(member.createdAt),
    updatedAt: toTimestamp(member.updatedAt),
    etag: getEtag(member.revision),
  };
}

/** Converts a role to its message. */
export function roleToMessage(role: Role): RoleMessage {
  return {
    id: role.id,
    organizationId: role.organizationId,
    name: role.name,
    description: role.description,
    scopes: [...role.scopes],
    isSystem: role.isSystem,
    createdAt: optionalTimestamp(role.createdAt),
    updatedAt: optionalTimestamp(role.updatedAt),
    etag: getEtag(role.revision),
  };
}

function membershipToMessage({
  organizationId,
  organizationName,
  roleId,
  roleName,
  scopes,
  createdAt,
}: Membership): MembershipMessage {
  return { organizationId, organizationName, roleId, roleName, scopes: [...scopes], createdAt: toTimestamp(createdAt) };
}
