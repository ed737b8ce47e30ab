import type { Execution } from '../execution';
import { type ExecutionEvent, eventData, layerOf, MOST_EVENTS } from '../machine/executionEvent';
import { advance, type Transition } from '../machine/executionMachine';
import type { NewLogEntry, StoredChange } from '../store/executionRepository';
import type { Effect } from '../machine/transitionChanges';

/** A change of one execution: before, after, its log, and what it asks for; one that only asks for something has no log. */
export interface Change extends StoredChange {
  readonly effects: readonly Effect[];
}

/** More about an event than the machine needs to know; goes to the log, so never a secret. */
export interface EventOrigin {
  /** Where it came from, for example `gateway:<gateway id>`. */
  readonly source: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

/** What events do to an execution one after another, with what follows from each; undefined: nothing. `now` in Unix milliseconds. */
export function planChange(execution: Execution, events: readonly ExecutionEvent[], origin: EventOrigin, now: number): Change | undefined {
  const entries: NewLogEntry[] = [];
  const effects: Effect[] = [];
  let after = execution;
  for (const event of events) {
    for (let next: ExecutionEvent | undefined = event; next; ) {
      const transition = advance(after, next, now);
      if (!transition) break;
      after = { ...after, ...transition.progress, updatedAt: now, eventCount: after.eventCount + 1 };
      entries.push(entryOf(after, next, transition.from, { ...origin, data: { ...eventData(next), ...(next === event ? origin.data : {}), ...facts(after, next, transition) } }));
      effects.push(...transition.effects);
      next = transition.next;
    }
  }
  return entries.length === 0 ? undefined : { before: execution, after: { ...after, version: execution.version + 1 }, entries, effects };
}

/** Keeps evidence for an execution that has ended; its state stays. Undefined once there is too much of it. */
export function planLate(execution: Execution, event: ExecutionEvent, origin: EventOrigin, now: number): Change | undefined {
  if (execution.eventCount >= MOST_EVENTS) return undefined;
  const after = { ...execution, version: execution.version + 1, eventCount: execution.eventCount + 1 };
  const entry = entryOf({ ...after, updatedAt: now }, event, execution.state, { ...origin, data: { evidence: event.kind, ...eventData(event), ...origin.data } });
  return { before: execution, after, entries: [{ ...entry, event: 'late_evidence' }], effects: [] };
}

/** The submission of an execution that is new, and its first event. */
export function planSubmission(execution: Execution, origin: EventOrigin): { readonly change: Change; readonly entry: NewLogEntry } {
  const { id: executionId, deviceId, state: to, enqueuedAt: time } = execution;
  const entry: NewLogEntry = { executionId, deviceId, sequence: 1, time, layer: 1, event: 'submitted', from: undefined, to, source: origin.source, data: origin.data ?? {} };
  return { change: { before: execution, after: execution, entries: [entry], effects: [] }, entry };
}

function entryOf(after: Execution, event: ExecutionEvent, from: Execution['state'], origin: EventOrigin): NewLogEntry {
  return {
    executionId: after.id,
    deviceId: after.deviceId,
    sequence: after.eventCount,
    time: after.updatedAt,
    layer: layerOf(event),
    event: event.kind,
    from,
    to: after.state,
    source: origin.source,
    data: origin.data ?? {},
  };
}

function facts(after: Execution, event: ExecutionEvent, transition: Transition): Record<string, unknown> {
  const asked = transition.effects.includes('send_query') ? after.query?.tries[after.queriesSent - 1] : undefined;
  return { ...(event.kind === 'dispatch' && { attempt: after.attempts }), ...(asked && { query_execution_id: asked.executionId }) };
}
