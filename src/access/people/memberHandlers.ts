import type { AccessControlServiceServer, AddMemberRequest } from '../../gen/organization_access_control/access_control_service';
import type { Cursors } from '../../kernel/pages';
import { checked, referring, type HandlersOf } from '../../rpc/handlers';
import type { MemberService, WantedMember } from './memberService';
import { memberToMessage } from './peopleMessages';

/** The way from the wire to MemberService and back. */
export function memberHandlers(members: MemberService, cursors: Cursors): Pick<HandlersOf<AccessControlServiceServer>, 'listMembers' | 'getMember' | 'addMember' | 'updateMember' | 'removeMember'> {
  return {
    listMembers: async (request, context) => {
      const { items, nextPageToken } = await members.page(context.organizationId, cursors, request.pageSize, request.pageToken);
      return { members: items.map(memberToMessage), nextPageToken };
    },

    getMember: async (request, context) => {
      const member = await members.get(context.organizationId, request.userId);
      return memberToMessage(member);
    },

    addMember: checked(
      (request) => members.checkWanted(wantedOf(request)),
      async (request, context) => {
        const member = await members.add(context.principal, context.organizationId, wantedOf(request));
        return memberToMessage(member);
      },
      async ({ roleId }, context) => await members.checkRole(context.organizationId, roleId),
    ),

    updateMember: referring(
      async (request, context) => {
        const member = await members.update(context.principal, context.organizationId, request.userId, request.roleId, request.etag);
        return memberToMessage(member);
      },
      async ({ roleId }, context) => await members.checkRole(context.organizationId, roleId),
    ),

    removeMember: async (request, context) => await members.remove(context.principal, context.organizationId, request.userId),
  };
}

function wantedOf({ userId, name, email, roleId }: AddMemberRequest): WantedMember {
  return { userId, name, email, roleId };
}
