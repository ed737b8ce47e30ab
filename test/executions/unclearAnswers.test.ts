import type { ExecutionState } from '../../src/executions/execution';
import type { ExecutionEvent } from '../../src/executions/machine/executionEvent';
import type { MachineExecution } from '../../src/executions/machine/executionTimes';
import { type Profile, T0, apply, enqueued, inState } from './machineExecution';

const UNCLEAR: ExecutionEvent = { kind: 'answer_not_understood', message: 'no status' };
const STORED = { detail: 'answer_not_understood', detailMessage: 'no status' };
const GATEWAY: Profile = { kind: 'gateway', strategy: 'no_verification', expects: false };
const ANSWERS: Profile = { kind: 'mqtt_answer', strategy: 'no_verification', expects: false };
const VERIFIED = { strategy: 'wait_next_uplink', expects: true } as const;

/** An execution whose gateway returned a result that was not understood. */
const withUnclearResult = (profile: Profile): MachineExecution =>
  apply(inState('delivered', profile), UNCLEAR, T0)?.x ?? enqueued();
const requeued = (): MachineExecution =>
  apply(inState('in_transit', ANSWERS), { kind: 'known_undelivered' }, T0)?.x ?? enqueued();
const ackTimer: ExecutionEvent = { kind: 'timer', timer: 'ack' };

describe('a response that is not understood', () => {
  it.each<[string, MachineExecution, string, ExecutionState, Partial<MachineExecution>]>([
    [
      'is no rejection and shows the delivery',
      inState('in_transit', ANSWERS),
      'T20',
      'unconfirmed',
      { ...STORED, deliveredAt: T0 },
    ],
    [
      'leaves the decision to the sensors',
      inState('in_transit', { ...ANSWERS, ...VERIFIED }),
      'T21',
      'delivered',
      { detail: '', tConv: T0 + 300_000, holdsSlot: false },
    ],
    ['shows that a requeued command arrived', requeued(), 'T15', 'unconfirmed', STORED],
    ['is stored in transit to a gateway', inState('in_transit', GATEWAY), 'T41', 'in_transit', STORED],
    [
      'is stored after a lost link',
      inState('in_transit', GATEWAY, { detail: 'delivery_unconfirmed' }),
      'T41',
      'in_transit',
      STORED,
    ],
    ['is stored after the receipt of a gateway', inState('delivered', GATEWAY), 'T41', 'delivered', STORED],
  ])('%s', (_name, execution, row, state, after) => {
    const result = apply(execution, UNCLEAR, T0);
    expect(result?.rows).toEqual([row]);
    expect(result?.x).toMatchObject({ ...after, state });
  });

  it('is stored once', () => {
    expect(apply(withUnclearResult(GATEWAY), UNCLEAR, T0)).toBeUndefined();
  });

  it('does not replace a mismatch that is judged at the result', () => {
    const deferred = apply(inState('delivered', { ...GATEWAY, ...VERIFIED }), { kind: 'uplink' }, T0)?.x ?? enqueued();
    expect(apply(deferred, UNCLEAR, T0)).toBeUndefined();
  });

  it('of a gateway stays the detail whether its receipt comes before or after it', () => {
    for (const order of [
      ['transport_ok', 'answer_not_understood'],
      ['answer_not_understood', 'transport_ok'],
    ] as const) {
      const delivered = order.reduce(
        (execution, kind) => apply(execution, kind === 'transport_ok' ? { kind } : UNCLEAR, T0)?.x ?? enqueued(),
        inState('in_transit', GATEWAY),
      );
      expect(delivered).toMatchObject({ ...STORED, state: 'delivered', deliveredAt: T0 });
      expect(apply(delivered, ackTimer, T0 + 90_000)?.x).toMatchObject({ ...STORED, state: 'unconfirmed' });
    }
  });

  it('of a gateway is the detail of the end unless a corrected result arrives', () => {
    const end = apply(withUnclearResult(GATEWAY), ackTimer, T0 + 90_000)?.x;
    expect(end).toMatchObject({ ...STORED, state: 'unconfirmed' });
    const corrected = apply(withUnclearResult({ ...GATEWAY, ...VERIFIED }), { kind: 'ack' }, T0)?.x;
    expect(corrected).toMatchObject({ detail: '', detailMessage: '', state: 'accepted' });
  });
});
