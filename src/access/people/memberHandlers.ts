import type {
  AccessControlServiceServer,
  AddMemberRequest,
  Member as MemberMessage,
  UpdateMemberRequest,
} from '../../gen/organization_access_control/access_control_service';
import type { Violation } from '../../kernel/errors';
import { normalizeId } from '../../kernel/ids';
import type { Cursors } from '../../kernel/pages';
import type { CallContext } from '../../api/pipeline/callContext';
import { withCheck, withReferences, type HandlersOf } from '../../api/pipeline/handlers';
import type { MemberService, CreateMemberInput } from './memberService';
import { memberToMessage } from './peopleMessages';

/**
 * Handlers for members. `withCheck` and `withReferences` combine a handler with a check of the message alone and, for a
 * request that is already invalid, a check of the records that it refers to, so that all violations are reported
 * together.
 */
export function memberHandlers(
  members: MemberService,
  cursors: Cursors,
): Pick<
  HandlersOf<AccessControlServiceServer>,
  'listMembers' | 'getMember' | 'addMember' | 'updateMember' | 'removeMember'
> {
  const checkNewMember = (request: AddMemberRequest): Violation[] => members.checkInput(toInput(request));
  const addMember = async (request: AddMemberRequest, context: CallContext): Promise<MemberMessage> => {
    const member = await members.add(context.principal, context.organizationId, toInput(request));
    return memberToMessage(member);
  };
  const updateMember = async (request: UpdateMemberRequest, context: CallContext): Promise<MemberMessage> => {
    const { userId, roleId, etag } = request;
    const member = await members.update(context.principal, context.organizationId, userId, roleId, etag);
    return memberToMessage(member);
  };
  const checkRole = async ({ roleId }: { readonly roleId: string }, context: CallContext): Promise<Violation[]> =>
    await members.checkRole(context.organizationId, roleId);

  return {
    listMembers: async (request, context) => {
      const { items, nextPageToken } = await members.listPage(
        context.organizationId,
        cursors,
        request.pageSize,
        request.pageToken,
      );
      return { members: items.map(memberToMessage), nextPageToken };
    },

    getMember: async (request, context) => {
      const member = await members.get(context.organizationId, request.userId);
      return memberToMessage(member);
    },

    addMember: withCheck(checkNewMember, addMember, checkRole),
    updateMember: withReferences(updateMember, checkRole),

    removeMember: async (request, context) =>
      await members.remove(context.principal, context.organizationId, request.userId),
  };
}

function toInput({ userId, name, email, roleId }: AddMemberRequest): CreateMemberInput {
  return { userId: normalizeId(userId), name, email, roleId };
}
