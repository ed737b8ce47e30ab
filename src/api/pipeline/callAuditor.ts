import { toAuditedCall, getFailureOutcome, getOutcome, getResource, isAudited, listCreatedResources } from './audited';
import type { Auditor } from './auditor';
import type { CallOutcome } from './callLog';
import type { ServerCall } from './serverCall';

/** The audit outcome of a repeated request that received a stored response, so that nothing was changed. */
const REPLAYED = { outcome: 'refused', reason: 'idempotency_replayed' } as const;

/** Records calls in the audit trail: changes, opened streams that may change something, and rejected calls. */
export class CallAuditor {
  /** `auditor`: undefined in tests without an audit trail. */
  constructor(private readonly auditor: Auditor | undefined) {}

  /** Begins the audit entry of a change. Returns undefined if the call changes nothing; rejects if the change must not be made. */
  begin(call: ServerCall, request: unknown): Promise<void> | undefined {
    return call.method.descriptor.changes && this.auditor ? this.beginEntry(this.auditor, call, request) : undefined;
  }

  private async beginEntry(auditor: Auditor, { method, context }: ServerCall, request: unknown): Promise<void> {
    context.auditEntry = await auditor.begin(toAuditedCall(context, method.descriptor, request));
  }

  /**
   * Records the outcome of a change when its handler has finished, even if the client has disconnected. If it created
   * several records, each has an event of its own in addition, by which it is found.
   */
  end(
    { method, context }: ServerCall,
    request: unknown,
    { response, error }: { readonly response?: unknown; readonly error?: unknown },
  ): void {
    if (!context.auditEntry) return;
    const outcome = context.isReplay ? REPLAYED : getOutcome(method.descriptor, response, error);
    const resource = getResource(method.descriptor, request, response);
    this.auditor?.end(context.auditEntry, { ...outcome, resource });
    if (context.isReplay) return;
    for (const created of listCreatedResources(method.descriptor, request, response))
      this.auditor?.recordAttempt(toAuditedCall(context, method.descriptor, request), {
        ...outcome,
        resource: created,
      });
  }

  /** Records the opening of a stream of requests that may change something. */
  recordOpenedStream({ method, context }: ServerCall): void {
    if (method.descriptor.changes)
      this.auditor?.recordAttempt(toAuditedCall(context, method.descriptor), {
        outcome: 'succeeded',
        reason: '',
        resource: '',
      });
  }

  /** Records a call that was rejected before its handler began, if `isAudited` applies to it. */
  recordRejected({ method, context }: ServerCall, { code, reason }: CallOutcome): void {
    if (!this.auditor || reason === undefined || context.auditEntry || !isAudited(method.descriptor, code, reason))
      return;
    const resource = getResource(method.descriptor, context.request ?? context.pathParameters);
    this.auditor.recordAttempt(toAuditedCall(context, method.descriptor, context.request), {
      outcome: getFailureOutcome(code),
      reason,
      resource,
    });
  }
}
