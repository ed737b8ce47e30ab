import type { AccessControlServiceServer } from '../../gen/organization_access_control/access_control_service';
import { normalizeId } from '../../kernel/ids';
import { fromTimestamp } from '../../kernel/timestamps';
import type { HandlersOf } from '../../api/pipeline/handlers';
import { auditEventToMessage, outcomeFromMessage } from './auditMessages';
import type { AuditQueries } from './auditQueries';

/** Handlers for the audit trail. */
export function auditHandlers(audit: AuditQueries): Pick<HandlersOf<AccessControlServiceServer>, 'listAuditEvents'> {
  return {
    listAuditEvents: async (request, context) => {
      const filter = {
        from: request.from && fromTimestamp(request.from),
        to: request.to && fromTimestamp(request.to),
        keyId: normalizeId(request.keyId) || undefined,
        userId: normalizeId(request.userId) || undefined,
        method: request.method || undefined,
        resource: request.resource.replace(/\/$/, '').split('/').map(normalizeId).join('/') || undefined,
        outcome: outcomeFromMessage(request.outcome),
        requestId: request.requestId || undefined,
      };
      const { events, nextPageToken } = await audit.list(
        context.organizationId,
        filter,
        request.pageSize,
        request.pageToken,
        context.signal,
      );
      return { events: events.map(auditEventToMessage), nextPageToken };
    },
  };
}
