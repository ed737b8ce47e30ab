import type { ExecutionState } from '../../executions';

/** An event that moved the execution, or left it where it was. */
export interface PicturedEvent {
  /** ISO 8601. */
  readonly time: string;
  readonly to: ExecutionState;
}

const WIDTH = 30;

const SAID: Readonly<Record<ExecutionState, string>> = {
  enqueued: 'checked, frozen and on disk; nothing has left the server',
  in_transit: 'the intent is on disk, the command is on its way',
  delivered: 'the gateway stored it',
  accepted: 'the device acknowledged; its effect is awaited',
  converged: 'the sensor shows the effect',
  accepted_no_l4: 'the device acknowledged; no sensor showed it in time',
  unconfirmed: 'nobody knows whether it was done',
  protocol_rejected: 'the device refused it',
  transport_unreachable: 'it was not done: there was no path',
  transport_rejected: 'it was not done: the gateway refused it',
  request_rejected: 'it was never admitted',
};

/** The way of an execution as a picture: a line for each state, with when it began, how long it lasted, and what it claims. */
export function pictureOf(events: readonly PicturedEvent[]): string[] {
  const entered = events.filter(({ to }, at) => to !== events[at - 1]?.to).map(({ time, to }) => ({ to, at: Date.parse(time) }));
  const start = entered[0]?.at ?? 0;
  const whole = Math.max(1, (entered.at(-1)?.at ?? start) - start);
  const longest = Math.max(...entered.map(({ to }) => to.length));
  const column = (at: number): number => Math.round(((at - start) / whole) * (WIDTH - 1));
  return entered.map(({ to, at }, index) => {
    const next = entered[index + 1];
    const bar = next ? '='.repeat(Math.max(1, column(next.at) - column(at))) : '*';
    const lasted = next ? `${next.at - at} ms` : 'end';
    return `  ${to.padEnd(longest)} ${`${at - start} ms`.padStart(8)}  ${(' '.repeat(column(at)) + bar).padEnd(WIDTH)} ${lasted.padStart(8)}  ${SAID[to]}`;
  });
}
