import { AuditOutcome, type AuditEvent } from '../../src/gen/organization_access_control/access_control_service';
import type { Kept } from './auditState';
import type { Attempt, Story } from './auditWriters';

/** What is wrong with what the trail says of some stories. */
export interface TrailFaults {
  readonly lost: string[];
  readonly doubled: string[];
  readonly wrong: string[];
}

type Check = readonly [isFault: boolean, kind: keyof TrailFaults, text: string];
type Events = ReadonlyMap<string, readonly AuditEvent[]>;

const { AUDIT_OUTCOME_SUCCEEDED: SUCCEEDED, AUDIT_OUTCOME_REFUSED: REFUSED, AUDIT_OUTCOME_UNKNOWN: UNKNOWN } = AuditOutcome;

/** Compares what was answered, what the trail says, and what is there. */
export function compareTrail(stories: readonly Story[], events: Events, kept: Kept): TrailFaults {
  const faults: TrailFaults = { lost: [], doubled: [], wrong: [] };
  const note = ({ path, requestId }: Attempt, checks: readonly Check[]): void => {
    for (const [isFault, kind, text] of checks) if (isFault) faults[kind].push(`${path} (${requestId}) ${text}`);
  };
  for (const story of stories) {
    for (const attempt of story) note(attempt, answerChecks(attempt, events.get(attempt.requestId) ?? []));
    for (const attempt of untilCertain(story, events)) note(attempt, endChecks(attempt, outcomeOf(attempt, events), kept));
  }
  return faults;
}

/** Every call that was answered is in the trail once, with that end or none. */
function answerChecks({ path, reply }: Attempt, found: readonly AuditEvent[]): readonly Check[] {
  const [event] = found;
  if (!event) return [[reply.kind !== 'gone', 'lost', `was answered (${reply.kind}) and is not in the trail`]];
  const right = [UNKNOWN, reply.kind === 'done' ? SUCCEEDED : REFUSED];
  return [
    [found.length > 1, 'doubled', `is in the trail ${found.length} times`],
    [event.method !== path, 'wrong', `is in the trail as ${event.method}`],
    [reply.kind !== 'gone' && !right.includes(event.outcome), 'wrong', `was answered (${reply.kind}), and the trail says ${AuditOutcome[event.outcome]}`],
  ];
}

/** The last calls of a story, back to the one that changed something for certain, or may have: what came before it can be overwritten. */
function untilCertain(story: Story, events: Events): Story {
  const at = story.findLastIndex((attempt) => [SUCCEEDED, UNKNOWN].includes(outcomeOf(attempt, events) ?? REFUSED));
  return story.slice(Math.max(at, 0));
}

/** What succeeded is there, and what is there is in the trail. */
function endChecks({ isDone }: Attempt, outcome: AuditOutcome | undefined, kept: Kept): readonly Check[] {
  const done = isDone(kept);
  return [
    [outcome === undefined && done === true, 'lost', 'was done and is not in the trail'],
    [outcome === SUCCEEDED && done === false, 'wrong', 'succeeded, says the trail, and nothing of it is there'],
    [outcome === REFUSED && done === true, 'wrong', 'was refused, says the trail, and is done'],
  ];
}

function outcomeOf({ requestId }: Attempt, events: Events): AuditOutcome | undefined {
  return events.get(requestId)?.[0]?.outcome;
}
