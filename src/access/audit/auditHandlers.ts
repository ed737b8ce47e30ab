import type { AccessControlServiceServer } from '../../gen/organization_access_control/access_control_service';
import type { HandlersOf } from '../../rpc/handlers';
import { notYet } from '../notYet';

/** The way from the wire to the audit trail and back. */
export function auditHandlers(): Pick<HandlersOf<AccessControlServiceServer>, 'listAuditEvents'> {
  return { listAuditEvents: notYet };
}
