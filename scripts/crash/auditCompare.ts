import { AuditOutcome, type AuditEvent } from '../../src/gen/organization_access_control/access_control_service';
import type { StoredState } from './auditState';
import type { Attempt, CallSequence } from './auditWriters';

/** Differences between the calls and the audit trail. */
export interface TrailFindings {
  readonly lost: string[];
  readonly doubled: string[];
  readonly wrong: string[];
}

type Check = readonly [isFault: boolean, kind: keyof TrailFindings, text: string];
type Events = ReadonlyMap<string, readonly AuditEvent[]>;

const {
  AUDIT_OUTCOME_SUCCEEDED: SUCCEEDED,
  AUDIT_OUTCOME_REFUSED: REFUSED,
  AUDIT_OUTCOME_UNKNOWN: UNKNOWN,
} = AuditOutcome;

/** Compares the responses, the audit trail and the stored state. */
export function compareTrail(
  sequences: readonly CallSequence[],
  events: Events,
  storedState: StoredState,
): TrailFindings {
  const findings: TrailFindings = { lost: [], doubled: [], wrong: [] };
  const recordFindings = ({ path, requestId }: Attempt, checks: readonly Check[]): void => {
    for (const [isFault, kind, text] of checks) if (isFault) findings[kind].push(`${path} (${requestId}) ${text}`);
  };
  for (const sequence of sequences) {
    for (const attempt of sequence)
      recordFindings(attempt, checkAgainstResponse(attempt, events.get(attempt.requestId) ?? []));
    for (const attempt of selectEffectiveCalls(sequence, events))
      recordFindings(attempt, checkAgainstState(attempt, findOutcome(attempt, events), storedState));
  }
  return findings;
}

/** Every call with a response has exactly one audit event, whose outcome is that of the response or UNKNOWN. */
function checkAgainstResponse({ path, reply }: Attempt, found: readonly AuditEvent[]): readonly Check[] {
  const [event] = found;
  if (!event) return [[reply.kind !== 'gone', 'lost', `has a response (${reply.kind}) but is not in the trail`]];
  const expected = [UNKNOWN, reply.kind === 'done' ? SUCCEEDED : REFUSED];
  return [
    [found.length > 1, 'doubled', `is in the trail ${found.length} times`],
    [event.method !== path, 'wrong', `is in the trail as ${event.method}`],
    [
      reply.kind !== 'gone' && !expected.includes(event.outcome),
      'wrong',
      `has a response (${reply.kind}), but the trail says ${AuditOutcome[event.outcome]}`,
    ],
  ];
}

/**
 * Returns the last calls of a sequence, starting with the latest one that changed something or may have: it can have
 * overwritten the effects of the earlier calls.
 */
function selectEffectiveCalls(sequence: CallSequence, events: Events): CallSequence {
  const at = sequence.findLastIndex((attempt) =>
    [SUCCEEDED, UNKNOWN].includes(findOutcome(attempt, events) ?? REFUSED),
  );
  return sequence.slice(Math.max(at, 0));
}

/** Changes that succeeded are stored, and stored changes are in the trail. */
function checkAgainstState(
  { isDone }: Attempt,
  outcome: AuditOutcome | undefined,
  storedState: StoredState,
): readonly Check[] {
  const done = isDone(storedState);
  return [
    [outcome === undefined && done === true, 'lost', 'is stored but not in the trail'],
    [outcome === SUCCEEDED && done === false, 'wrong', 'succeeded according to the trail, but is not stored'],
    [outcome === REFUSED && done === true, 'wrong', 'was refused according to the trail, but is stored'],
  ];
}

function findOutcome({ requestId }: Attempt, events: Events): AuditOutcome | undefined {
  return events.get(requestId)?.[0]?.outcome;
}
