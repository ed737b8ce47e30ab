import fc from 'fast-check';
import { isFinal, computeRank } from '../../src/executions/execution';
import type { ExecutionEvent } from '../../src/executions/machine/executionEvent';
import { type MachineExecution, findExpiredTimer, getNextDeadline } from '../../src/executions/machine/executionTimes';
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
  { kind: 'answer_not_understood', message: 'm' },
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
const START = PROFILES.flatMap((profile) =>
  [undefined, 60].map((convergenceTimeout) => enqueued(profile, { convergenceTimeout })),
);

/** Returns a key of everything that the outcome of any event depends on: states with the same key behave the same. */
function getKey(x: MachineExecution): string {
  const armedTimers = [x.tDelivery, x.tAck, x.tConv, x.tQuery].map((at) => at !== undefined);
  return JSON.stringify([
    x.state,
    x.detail === 'verification_mismatch',
    x.detail === 'answer_not_understood',
    x.detail === '',
    x.holdsSlot,
    x.deliveredAt !== undefined,
    Math.min(x.attempts, 6),
    armedTimers,
  ]);
}

/** Runs only the timers: waits for each in turn, also beyond the end, until none is left. */
function runTimers(from: MachineExecution): MachineExecution {
  let x = from;
  for (let at = getNextDeadline(x), waited = 0; at !== undefined; at = getNextDeadline(x), waited++) {
    const timer = findExpiredTimer(x, at);
    const result = timer && apply(x, { kind: 'timer', timer }, at);
    if (!result || waited === 10) throw new Error(`nothing comes of the timers of ${JSON.stringify(x)}`);
    x = result.x;
  }
  return x;
}

/** Expects that the timers alone lead to an end with neither slot nor timer. */
function expectEnd(x: MachineExecution): void {
  const end = runTimers(x);
  expect({ isFinal: isFinal(end.state), holdsSlot: end.holdsSlot, next: getNextDeadline(end) }).toEqual({
    isFinal: true,
    holdsSlot: false,
    next: undefined,
  });
}

// Each of them comes from a query that ended, so there are two at most.
const BOUNDED_ELSEWHERE: readonly ExecutionEvent['kind'][] = ['query_answered', 'query_failed'];

/** Returns the events that change the execution, or only its log, however often they are repeated. */
function findUnboundedEvents(x: MachineExecution): string[] {
  return EVENTS.filter((event) => {
    let now = x;
    for (let repetition = 0; repetition < 3; repetition++) {
      const result = apply(now, event, T0);
      if (!result) return false;
      now = result.x;
    }
    return !BOUNDED_ELSEWHERE.includes(event.kind);
  }).map(({ kind }) => kind);
}

/**
 * Returns every state that is one event away. The backoff is over, and no deadline has passed except that of the timer.
 */
function listSuccessors(x: MachineExecution): MachineExecution[] {
  const timer = findExpiredTimer(x, Infinity);
  const byEvents = EVENTS.map((event) => apply({ ...x, notBefore: undefined }, event, T0)?.x);
  const byTimer = timer && apply(x, { kind: 'timer', timer }, getNextDeadline(x) ?? T0)?.x;
  return [...byEvents, byTimer].filter((next) => next !== undefined);
}

const STEPS = fc.array(
  fc.record({ event: fc.constantFrom<ExecutionEvent>(...EVENTS), wait: fc.integer({ min: 0, max: 40_000 }) }),
  { maxLength: 25 },
);

/** Applies the steps, timers first, and checks the invariants of the table at each step. */
function checkSteps(start: MachineExecution, steps: readonly { event: ExecutionEvent; wait: number }[]): void {
  let x = start;
  let now = T0;
  for (const { event, wait } of steps) {
    now += wait;
    const timer = findExpiredTimer(x, now);
    for (const happened of timer ? [{ kind: 'timer', timer } as const, event] : [event]) {
      const result = apply(x, happened, now);
      if (!result) continue;
      if (isFinal(x.state)) expect(result.x.state).toBe(x.state);
      else if (!result.rows.includes('T10'))
        expect(computeRank(result.x.state)).toBeGreaterThanOrEqual(computeRank(x.state));
      x = result.x;
    }
  }
  expectEnd(x);
  expect(x.queriesSent).toBeLessThanOrEqual(2);
}

describe.each(
  START.map(
    (x) =>
      [
        `${x.kind} ${x.strategy} ${x.expected.length ? 'with' : 'without'} expected states, ${x.convergenceTimeout ? 'own' : 'default'} window`,
        x,
      ] as const,
  ),
)('%s', (_name, start) => {
  it('has in every reachable state a timer that leads to an end without slot and timer, and accepts no event without limit', () => {
    const visited = new Map([[getKey(start), start]]);
    for (const x of visited.values()) {
      expectEnd(x);
      expect(findUnboundedEvents(x)).toEqual([]);
      for (const next of listSuccessors(x)) if (!visited.has(getKey(next))) visited.set(getKey(next), next);
    }
    expect(visited.size).toBeGreaterThan(5);
  });

  it('never leaves a final state, lowers the rank only by T10, and holds no slot and no timer once all its timers are over', () => {
    fc.assert(
      fc.property(STEPS, (steps) => checkSteps(start, steps)),
      { seed: SEED, numRuns: 150 },
    );
  });
});
