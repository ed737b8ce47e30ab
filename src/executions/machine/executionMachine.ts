import { type ExecutionProgress, type ExecutionState, isFinal } from '../execution';
import type { EventKind, ExecutionEvent } from './executionEvent';
import { type MachineExecution, getTimerEnd } from './executionTimes';
import type { Draft, Effect } from './transitionChanges';
import { type Row, TRANSITIONS, keepsSlotAfterFinish } from './transitionTable';

/** The effect of an event on an execution. */
export interface Transition {
  /** The row of docs/executions.md, for example `T8`. */
  readonly row: string;
  readonly from: ExecutionState;
  readonly to: ExecutionState;
  /** The changed fields, including the state, without version and log. */
  readonly progress: Partial<ExecutionProgress>;
  readonly effects: readonly Effect[];
  /** The event that follows in the same transaction. */
  readonly next: ExecutionEvent | undefined;
}

/** The rows of the transition table by event, each list in the order of the table. */
const ROWS_BY_EVENT = new Map<EventKind, readonly Row[]>();
for (const row of TRANSITIONS) ROWS_BY_EVENT.set(row.on, [...(ROWS_BY_EVENT.get(row.on) ?? []), row]);

/**
 * The state machine of an execution: computes what an event at a time (Unix milliseconds) changes, by the first
 * matching row of the transition table; undefined if nothing changes.
 */
export function applyEvent(execution: MachineExecution, event: ExecutionEvent, now: number): Transition | undefined {
  const row = findRow(execution, event, now);
  if (!row) return undefined;
  const draft: Draft = { progress: { state: row.to }, effects: [] };
  for (const change of row.changes) change(execution, draft, event, now);
  if (row.evidence) draft.progress = { ...draft.progress, evidence: row.evidence };
  if (isFinal(row.to) && !isFinal(execution.state))
    draft.progress = { ...draft.progress, ...getFinalProgress(row, execution, event, now) };
  return {
    row: row.id,
    from: execution.state,
    to: row.to,
    progress: draft.progress,
    effects: draft.effects,
    next: row.settles ? { kind: 'settle' } : undefined,
  };
}

/**
 * Returns the first row of the transition table that applies; undefined if there is none or the timer has not expired.
 */
function findRow(execution: MachineExecution, event: ExecutionEvent, now: number): Row | undefined {
  if (event.kind === 'timer' && (getTimerEnd(execution, event.timer) ?? Infinity) > now) return undefined;
  return ROWS_BY_EVENT.get(event.kind)?.find(
    (row) => row.from.includes(execution.state) && row.when(execution, event, now),
  );
}

/**
 * Returns the fields of a final state: its reason, no timers, and no slot (a device receives one command at a time),
 * unless the network server may still send the command.
 */
function getFinalProgress(
  row: Row,
  execution: MachineExecution,
  event: ExecutionEvent,
  now: number,
): Partial<ExecutionProgress> {
  const detail = row.detail(execution, event);
  const storedMessage = detail === execution.detail ? execution.detailMessage : ''; // it belongs to the stored detail
  const detailMessage = 'message' in event ? (event.message ?? '') : storedMessage;
  const keepsSlot = keepsSlotAfterFinish(execution, row.to);
  return {
    detail,
    detailMessage,
    finishedAt: now,
    notBefore: undefined,
    tAck: undefined,
    tConv: undefined,
    tQuery: undefined,
    tDelivery: keepsSlot ? execution.tDelivery : undefined,
    holdsSlot: keepsSlot,
  };
}
