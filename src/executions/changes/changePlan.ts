import type { Execution } from '../execution';
import { type ExecutionEvent, getEventData, getLayer, MAX_EVENTS } from '../machine/executionEvent';
import { applyEvent, type Transition } from '../machine/executionMachine';
import type { NewLogEntry, StoredChange } from '../store/executionRepository';
import type { Effect } from '../machine/transitionChanges';

/**
 * A change of one execution: before, after, its log entries and its effects. A change that only has effects has no log
 * entries.
 */
export interface Change extends StoredChange {
  readonly effects: readonly Effect[];
}

/**
 * The source of an event and further data for the log, which must not contain secrets. The state machine ignores both.
 */
export interface EventOrigin {
  /** The source, for example `gateway:<gateway id>`. */
  readonly source: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

/**
 * Applies events to an execution one after another, with the events that follow from each; undefined if nothing
 * changes. `now` in Unix milliseconds.
 */
export function computeChange(
  execution: Execution,
  events: readonly ExecutionEvent[],
  origin: EventOrigin,
  now: number,
): Change | undefined {
  const entries: NewLogEntry[] = [];
  const effects: Effect[] = [];
  let after = execution;
  for (const event of events) {
    // The event itself, then each event that follows from a transition (`settle`).
    for (let next: ExecutionEvent | undefined = event; next;) {
      const transition = applyEvent(after, next, now);
      if (!transition) break;
      after = { ...after, ...transition.progress, updatedAt: now, eventCount: after.eventCount + 1 };
      entries.push(
        toEntry(after, next, transition.from, {
          ...origin,
          data: {
            ...getEventData(next),
            ...(next === event ? origin.data : {}),
            ...getTransitionData(after, next, transition),
          },
        }),
      );
      effects.push(...transition.effects);
      next = transition.next;
    }
  }
  return entries.length === 0
    ? undefined
    : { before: execution, after: { ...after, version: execution.version + 1 }, entries, effects };
}

/** Logs evidence for a final execution without changing its state. Undefined once its log is full. */
export function recordLateEvidence(
  execution: Execution,
  event: ExecutionEvent,
  origin: EventOrigin,
  now: number,
): Change | undefined {
  if (execution.eventCount >= MAX_EVENTS) return undefined;
  const after = { ...execution, version: execution.version + 1, eventCount: execution.eventCount + 1 };
  const entry = toEntry({ ...after, updatedAt: now }, event, execution.state, {
    ...origin,
    data: { evidence: event.kind, ...getEventData(event), ...origin.data },
  });
  return { before: execution, after, entries: [{ ...entry, event: 'late_evidence' }], effects: [] };
}

/** Plans the submission of a new execution, with its first event. Nothing was before it: `before` equals `after`. */
export function planSubmission(
  execution: Execution,
  origin: EventOrigin,
): { readonly change: Change; readonly entry: NewLogEntry } {
  const { id: executionId, deviceId, state: to, enqueuedAt: time } = execution;
  const entry: NewLogEntry = {
    executionId,
    deviceId,
    sequence: 1,
    time,
    layer: 1,
    event: 'submitted',
    from: undefined,
    to,
    source: origin.source,
    data: origin.data ?? {},
  };
  return { change: { before: execution, after: execution, entries: [entry], effects: [] }, entry };
}

/** Creates the log entry of an event; its number is the new event count of the execution. */
function toEntry(after: Execution, event: ExecutionEvent, from: Execution['state'], origin: EventOrigin): NewLogEntry {
  return {
    executionId: after.id,
    deviceId: after.deviceId,
    sequence: after.eventCount,
    time: after.updatedAt,
    layer: getLayer(event),
    event: event.kind,
    from,
    to: after.state,
    source: origin.source,
    data: origin.data ?? {},
  };
}

/** Returns the data of a transition for the log: the number of the attempt, and the id of a requested query. */
function getTransitionData(after: Execution, event: ExecutionEvent, transition: Transition): Record<string, unknown> {
  const queryTry = transition.effects.includes('send_query') ? after.query?.tries[after.queriesSent - 1] : undefined;
  return {
    ...(event.kind === 'dispatch' && { attempt: after.attempts }),
    ...(queryTry && { query_execution_id: queryTry.executionId }),
  };
}
