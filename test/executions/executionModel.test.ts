import fc from 'fast-check';
import { isFinal, rankOf } from '../../src/executions/execution';
import type { ExecutionEvent } from '../../src/executions/machine/executionEvent';
import { type MachineExecution, dueTimer, nextDeadline } from '../../src/executions/machine/executionTimes';
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

/** What timers alone make of it: waits for each in turn, also beyond the end, until none is left. */
function byTimersAlone(from: MachineExecution): MachineExecution {
  let x = from;
  for (let at = nextDeadline(x), waited = 0; at !== undefined; at = nextDeadline(x), waited++) {
    const timer = dueTimer(x, at);
    const result = timer && apply(x, { kind: 'timer', timer }, at);
    if (!result || waited === 10) throw new Error(`nothing comes of the timers of ${JSON.stringify(x)}`);
    x = result.x;
  }
  return x;
}

/** Timers alone lead to an end with neither slot nor timer. */
function expectEnd(x: MachineExecution): void {
  const end = byTimersAlone(x);
  expect({ isFinal: isFinal(end.state), holdsSlot: end.holdsSlot, next: nextDeadline(end) }).toEqual({ isFinal: true, holdsSlot: false, next: undefined });
}

// Each comes from a query that ends, so twice at most.
const BOUNDED_ELSEWHERE: readonly ExecutionEvent['kind'][] = ['query_answered', 'query_failed'];

/** The events that change it, or only its log, however often they are told. */
function neverEnough(x: MachineExecution): string[] {
  return EVENTS.filter((event) => {
    let now = x;
    for (let told = 0; told < 3; told++) {
      const result = apply(now, event, T0);
      if (!result) return false;
      now = result.x;
    }
    return !BOUNDED_ELSEWHERE.includes(event.kind);
  }).map(({ kind }) => kind);
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
  expectEnd(x);
  expect(x.queriesSent).toBeLessThanOrEqual(2);
}

describe.each(START.map((x) => [`${x.kind} ${x.strategy} ${x.expected.length ? 'with' : 'without'} expected states, ${x.convergenceTimeout ? 'own' : 'default'} window`, x] as const))('%s', (_name, start) => {
  it('has in every reachable state a timer that leads to an end without slot and timer, and takes no event for ever', () => {
    const seen = new Map([[keyOf(start), start]]);
    for (const x of seen.values()) {
      expectEnd(x);
      expect(neverEnough(x)).toEqual([]);
      for (const next of successors(x)) if (!seen.has(keyOf(next))) seen.set(keyOf(next), next);
    }
    expect(seen.size).toBeGreaterThan(5);
  });

  it('never leaves a final state, never lowers the rank but by T10, holds no slot and no timer once all its timers are over', () => {
    fc.assert(fc.property(STEPS, (steps) => live(start, steps)), { seed: SEED, numRuns: 150 });
  });
});
