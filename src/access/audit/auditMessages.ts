import {
  AuditActor as ActorMessage,
  AuditOutcome as OutcomeMessage,
  type AuditEvent as AuditEventMessage,
} from '../../gen/organization_access_control/access_control_service';
import { toTimestamp } from '../../kernel/timestamps';
import type { AuditActor, AuditEvent, AuditOutcome } from './auditEvent';

const ACTORS: Readonly<Record<AuditActor, ActorMessage>> = {
  key: ActorMessage.AUDIT_ACTOR_API_KEY,
  command_line: ActorMessage.AUDIT_ACTOR_COMMAND_LINE,
  server: ActorMessage.AUDIT_ACTOR_SERVER,
};

const OUTCOMES: Readonly<Record<AuditOutcome, OutcomeMessage>> = {
  succeeded: OutcomeMessage.AUDIT_OUTCOME_SUCCEEDED,
  refused: OutcomeMessage.AUDIT_OUTCOME_REFUSED,
  failed: OutcomeMessage.AUDIT_OUTCOME_FAILED,
  unknown: OutcomeMessage.AUDIT_OUTCOME_UNKNOWN,
};

/** Converts an event to its message. */
export function auditEventToMessage(event: AuditEvent): AuditEventMessage {
  return {
    id: event.id,
    organizationId: event.chain,
    sequence: event.seq,
    time: toTimestamp(event.at),
    actor: ACTORS[event.actor],
    keyId: event.keyId ?? '',
    keyPrefix: event.keyPrefix,
    userId: event.userId ?? '',
    peer: event.peer,
    method: event.method,
    resource: event.resource,
    fields: [...event.fields],
    outcome: OUTCOMES[event.outcome],
    reason: event.reason,
    requestId: event.requestId,
    count: event.count,
    hash: event.hash,
  };
}

/** Converts the outcome of a message; undefined if it is not set. */
export function outcomeFromMessage(message: OutcomeMessage): AuditOutcome | undefined {
  return (Object.keys(OUTCOMES) as AuditOutcome[]).find((outcome) => OUTCOMES[outcome] === message);
}
