import fc from 'fast-check';
import { isFinal, rankOf } from '../../src/executions/execution';
import type { ExecutionEvent } from '../../src/executions/executionEvent';
import { type MachineExecution, dueTimer, nextDeadline } from '../../src/executions/executionTimes';
import { PROFILES, T0, apply, enqueued } from './machineExecution';

const EVENTS: readonly ExecutionEvent[] = [
  { kind: 'dispatch', peerId: 'gw', bootId: 'b1' },
  { kind: 'transport_ok' },
  { kind: 'settle' },
  { kind: 'known_undelivered' },
  { kind: 'refused', code: 'c', message: '' },
  { kind: 'unreachable', code: 'c', message: '' },
  { kind: 'network_retry', code: 'c', message: '' },
  { kind: 'link_lost' },
  { kind: 'ack' },
  { kind: 'negative', code: 'c', message: '' },
  { kind: 'no_answer', code: 'c', message: '' },
  { kind: 'uplink' },
  { kind: 'sensors_matched', changed: true },
  { kind: 'sensors_matched', changed: false },
  { kind: 'query_answered' },
  { kind: 'query_failed', queryExecutionId: 'q', state: 'unconfirmed', detail: '' },
  { kind: 'superseded', byExecutionId: 'e2' },
  { kind: 'removed', reason: 'device_deleted' },
  { kind: 'cancelled' },
  { kind: 'restored' },
];
const SEED = 20261120;
const START = PROFILES.flatMap((profile) => [undefined, 60].map((convergenceTimeout) => enqueued(profile, { convergenceTimeout })));

/** What the outcome of any event depends on: states with the same key behave the same. */
function keyOf(x: MachineExecution): string {
  const armed = [x.tDelivery, x.tAck, x.tConv, x.tQuery].map((at) => at !== undefined);
  return JSON.stringify([x.state, x.detail === 'l4_mismatch', x.detail === '', x.holdsSlot, x.deliveredAt !== undefined, Math.min(x.attempts, 6), armed]);
}

/** Waits for each timer in turn; the states that it goes through. */
function byTimersAlone(from: MachineExecution): MachineExecution[] {
  const passed = [from];
  for (let x = from; !isFinal(x.state) && passed.length < 10; ) {
    const at = nextDeadline(x);
    if (at === undefined) throw new Error(`no timer in ${JSON.stringify(x)}`);
    const timer = dueTimer(x, at);
    const result = timer && apply(x, { kind: 'timer', timer }, at);
    if (!result) throw new Error(`nothing happens at the timer of ${JSON.stringify(x)}`);
    x = result.x;
    passed.push(x);
  }
  return passed;
}

/** Whether timers alone lead to a final state without a slot. */
function endsByItself(x: MachineExecution): boolean {
  const end = byTimersAlone(x).at(-1) ?? x;
  return isFinal(end.state) && (!end.holdsSlot || nextDeadline(end) !== undefined);
}

/** Every state that is one event away; the backoff is over, and no deadline has come but that of the timer. */
function successors(x: MachineExecution): MachineExecution[] {
  const timer = dueTimer(x, Infinity);
  const byEvents = EVENTS.map((event) => apply({ ...x, notBefore: undefined }, event, T0)?.x);
  const byTimer = timer && apply(x, { kind: 'timer', timer }, nextDeadline(x) ?? T0)?.x;
  return [...byEvents, byTimer].filter((next) => next !== undefined);
}

const STEPS = fc.array(fc.record({ event: fc.constantFrom<ExecutionEvent>(...EVENTS), wait: fc.integer({ min: 0, max: 40_000 }) }), { maxLength: 25 });

/** Goes through the steps, timers first, and checks the laws of the table at each. */
function live(start: MachineExecution, steps: readonly { event: ExecutionEvent; wait: number }[]): void {
  let x = start;
  let now = T0;
  for (const { event, wait } of steps) {
    now += wait;
    const timer = dueTimer(x, now);
    for (const happened of timer ? [{ kind: 'timer', timer } as const, event] : [event]) {
      const result = apply(x, happened, now);
      if (!result) continue;
      if (isFinal(x.state)) expect(result.x.state).toBe(x.state);
      else if (!result.rows.includes('T10')) expect(rankOf(result.x.state)).toBeGreaterThanOrEqual(rankOf(x.state));
      x = result.x;
    }
  }
  expect(endsByItself(x)).toBe(true);
  expect(x.queriesSent).toBeLessThanOrEqual(2);
}

describe.each(START.map((x) => [`${x.kind} ${x.strategy} ${x.expected.length ? 'with' : 'without'} expected states, ${x.convergenceTimeout ? 'own' : 'default'} window`, x] as const))('%s', (_name, start) => {
  it('has in every reachable state a timer that leads to a final one', () => {
    const seen = new Map([[keyOf(start), start]]);
    for (const x of seen.values()) {
      expect(endsByItself(x)).toBe(true);
      for (const next of successors(x)) if (!seen.has(keyOf(next))) seen.set(keyOf(next), next);
    }
    expect(seen.size).toBeGreaterThan(5);
  });

  it('never leaves a final state, never lowers the rank but by T10, holds no slot and no timer at the end', () => {
    fc.assert(fc.property(STEPS, (steps) => live(start, steps)), { seed: SEED, numRuns: 150 });
  });
});
