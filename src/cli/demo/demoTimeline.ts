import type { ExecutionState } from '../../executions';

/** An event of an execution, with or without a change of state. */
interface TimelineEvent {
  /** ISO 8601. */
  readonly time: string;
  readonly to: ExecutionState;
}

const BAR_WIDTH = 30;

const STATE_MEANINGS: Readonly<Record<ExecutionState, string>> = {
  enqueued: 'validated and stored; nothing was sent yet',
  in_transit: 'the intent is stored, the command is being sent',
  delivered: 'the gateway stored the command',
  accepted: 'the device acknowledged; waiting for its effect',
  converged: 'the sensor shows the effect',
  accepted_no_l4: 'a response or an uplink followed; no sensor showed the effect',
  unconfirmed: 'unknown whether the command was executed',
  protocol_rejected: 'the device rejected the command',
  transport_unreachable: 'not executed: the device was unreachable',
  transport_rejected: 'not executed: the gateway refused the command',
  request_rejected: 'the request was rejected',
};

/** Formats an execution as a timeline: one line per state with its start, its duration and its meaning. */
export function formatTimeline(events: readonly TimelineEvent[]): string[] {
  const states = events
    .filter(({ to }, index) => to !== events[index - 1]?.to)
    .map(({ time, to }) => ({ to, startMs: Date.parse(time) }));
  const start = states[0]?.startMs ?? 0;
  const totalMs = Math.max(1, (states.at(-1)?.startMs ?? start) - start);
  const nameWidth = Math.max(...states.map(({ to }) => to.length));
  // The position of a time in the bar, whose whole width is the duration of the execution.
  const getColumn = (timeMs: number): number => Math.round(((timeMs - start) / totalMs) * (BAR_WIDTH - 1));
  return states.map(({ to, startMs }, index) => {
    const next = states[index + 1];
    const bar = next ? '='.repeat(Math.max(1, getColumn(next.startMs) - getColumn(startMs))) : '*';
    const duration = next ? `${next.startMs - startMs} ms` : 'end';
    return `  ${to.padEnd(nameWidth)} ${`${startMs - start} ms`.padStart(8)}  ${(' '.repeat(getColumn(startMs)) + bar).padEnd(BAR_WIDTH)} ${duration.padStart(8)}  ${STATE_MEANINGS[to]}`;
  });
}
