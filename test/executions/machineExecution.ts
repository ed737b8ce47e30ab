import type { VerificationStrategy } from '../../src/commands';
import { CONNECTOR_KINDS, type ConnectorKind } from '../../src/connections';
import type { ExecutionState } from '../../src/executions/execution';
import type { ExecutionEvent } from '../../src/executions/machine/executionEvent';
import { applyEvent } from '../../src/executions/machine/executionMachine';
import type { MachineExecution } from '../../src/executions/machine/executionTimes';

/** A fixed time; the times in these tests are milliseconds after it. */
export const T0 = 1_700_000_000_000;

/** Kind, strategy and whether sensor states are expected. */
export interface Profile {
  readonly kind: ConnectorKind;
  readonly strategy: VerificationStrategy;
  readonly expects: boolean;
}

/** All 30 profiles. */
export const PROFILES: readonly Profile[] = CONNECTOR_KINDS.flatMap((kind) =>
  (['no_verification', 'wait_next_uplink', 'query_after_ack'] as const).flatMap((strategy) =>
    [true, false].map((expects) => ({ kind, strategy, expects })),
  ),
);

/** Creates an execution as submit stores it. */
export function enqueued(profile: Partial<Profile> = {}, overrides: Partial<MachineExecution> = {}): MachineExecution {
  return {
    state: 'enqueued',
    kind: profile.kind ?? 'gateway',
    strategy: profile.strategy ?? 'no_verification',
    expected: profile.expects ? [{ sensorId: 'sensor-1', valueType: 'number', value: 21 }] : [],
    convergenceTimeout: undefined,
    policy: {
      deliveryMs: 60_000,
      ackMs: 30_000,
      uplinkIntervalMs: 60_000,
      classA: profile.kind === 'chirpstack' || profile.kind === 'chirpstack_confirmed',
    },
    detail: '',
    detailMessage: '',
    evidence: undefined,
    attempts: 0,
    holdsSlot: false,
    notBefore: undefined,
    sentTo: undefined,
    sentBoot: undefined,
    tDelivery: T0 + 60_000,
    tAck: undefined,
    tConv: undefined,
    tQuery: undefined,
    queriesSent: 0,
    dispatchedAt: undefined,
    deliveredAt: undefined,
    deliveredArrival: undefined,
    peerDeliveredAt: undefined,
    peerDeliveredBy: undefined,
    deliveredFCnt: undefined,
    deliveredDevAddr: undefined,
    finishedAt: undefined,
    eventCount: 1,
    ...overrides,
  };
}

/**
 * Applies an event like the repository, with its consequences in the same transaction. Undefined: the event was
 * ignored.
 */
export function apply(
  x: MachineExecution,
  event: ExecutionEvent,
  now: number,
): { x: MachineExecution; rows: string[]; effects: string[] } | undefined {
  const first = applyEvent(x, event, now);
  if (!first) return undefined;
  const after = { ...x, ...first.progress, eventCount: x.eventCount + 1 };
  const followUp = first.next && apply(after, first.next, now);
  return {
    x: followUp?.x ?? after,
    rows: [first.row, ...(followUp?.rows ?? [])],
    effects: [...first.effects, ...(followUp?.effects ?? [])],
  };
}

/** Returns the same execution in a state that it reached through the usual events at T0. */
export function inState(
  state: ExecutionState,
  profile: Partial<Profile> = {},
  overrides: Partial<MachineExecution> = {},
): MachineExecution {
  const path: ExecutionEvent[] = [
    { kind: 'dispatch', peerId: 'gw', bootId: 'b1' },
    { kind: 'transport_ok' },
    { kind: 'ack' },
  ];
  let x = enqueued(profile, overrides);
  for (const event of path) {
    if (x.state === state) break;
    x = apply(x, event, T0)?.x ?? x;
  }
  if (x.state !== state) throw new Error(`the usual events lead to ${x.state}, not ${state}`);
  return x;
}
