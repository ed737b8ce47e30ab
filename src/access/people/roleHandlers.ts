import type { AccessControlServiceServer } from '../../gen/organization_access_control/access_control_service';
import type { HandlersOf } from '../../rpc/handlers';
import { notYet } from '../notYet';

/** The way from the wire to RoleService and back. */
export function roleHandlers(): Pick<HandlersOf<AccessControlServiceServer>, 'listRoles' | 'createRole' | 'updateRole' | 'deleteRole'> {
  return { listRoles: notYet, createRole: notYet, updateRole: notYet, deleteRole: notYet };
}
