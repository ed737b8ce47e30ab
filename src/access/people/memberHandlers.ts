import type { AccessControlServiceServer } from '../../gen/organization_access_control/access_control_service';
import type { HandlersOf } from '../../rpc/handlers';
import { notYet } from '../notYet';

/** The way from the wire to MemberService and back. */
export function memberHandlers(): Pick<HandlersOf<AccessControlServiceServer>, 'listMembers' | 'getMember' | 'addMember' | 'updateMember' | 'removeMember'> {
  return { listMembers: notYet, getMember: notYet, addMember: notYet, updateMember: notYet, removeMember: notYet };
}
