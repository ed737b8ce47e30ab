import { type ExecutionProgress, type ExecutionState, isFinal } from '../execution';
import type { EventKind, ExecutionEvent } from './executionEvent';
import { type MachineExecution, timerEnd } from './executionTimes';
import type { Draft, Effect } from './transitionChanges';
import { type Row, TRANSITIONS, slotOutlives } from './transitionTable';

/** What an event does to an execution. */
export interface Transition {
  /** The row of docs/executions.md, for example `T8`. */
  readonly row: string;
  readonly from: ExecutionState;
  readonly to: ExecutionState;
  /** What changes beside the version and the log, the state included. */
  readonly progress: Partial<ExecutionProgress>;
  readonly effects: readonly Effect[];
  /** The event that follows in the same transaction. */
  readonly next: ExecutionEvent | undefined;
}

const ROWS_OF = new Map<EventKind, readonly Row[]>();
for (const row of TRANSITIONS) ROWS_OF.set(row.on, [...(ROWS_OF.get(row.on) ?? []), row]);

/** The whole life of an execution: what the event does to it at that time (Unix milliseconds); undefined: nothing. */
export function advance(x: MachineExecution, event: ExecutionEvent, now: number): Transition | undefined {
  const row = rowFor(x, event, now);
  if (!row) return undefined;
  const draft: Draft = { progress: { state: row.to }, effects: [] };
  for (const change of row.changes) change(x, draft, event, now);
  if (row.evidence) draft.progress = { ...draft.progress, evidence: row.evidence };
  if (isFinal(row.to) && !isFinal(x.state)) draft.progress = { ...draft.progress, ...ended(row, x, event, now) };
  return { row: row.id, from: x.state, to: row.to, progress: draft.progress, effects: draft.effects, next: row.settles ? { kind: 'settle' } : undefined };
}

function rowFor(x: MachineExecution, event: ExecutionEvent, now: number): Row | undefined {
  if (event.kind === 'timer' && (timerEnd(x, event.timer) ?? Infinity) > now) return undefined;
  return ROWS_OF.get(event.kind)?.find((row) => row.from.includes(x.state) && row.when(x, event, now));
}

/** A final state has no timers and no slot, and says why it is one. */
function ended(row: Row, x: MachineExecution, event: ExecutionEvent, now: number): Partial<ExecutionProgress> {
  const detail = row.detail(x, event);
  const detailMessage = 'message' in event ? event.message ?? '' : detail === x.detail ? x.detailMessage : '';
  const outlives = slotOutlives(x, row.to);
  return { detail, detailMessage, finishedAt: now, notBefore: undefined, tAck: undefined, tConv: undefined, tQuery: undefined, tDelivery: outlives ? x.tDelivery : undefined, holdsSlot: outlives };
}
