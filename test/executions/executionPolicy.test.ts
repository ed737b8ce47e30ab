import type { ConnectionPolicy } from '../../src/connections';
import type { Device, PhysicalDevice } from '../../src/devices';
import { CONNECTOR_KINDS, type ConnectorKind } from '../../src/connections';
import type { ExecutionPolicy } from '../../src/executions/execution';
import { getQueueLimit, computeExecutionPolicy } from '../../src/executions/submit/executionPolicy';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

interface Case {
  readonly deviceClass?: unknown;
  /** The connector data of the last uplink. */
  readonly reportedClass?: string;
  readonly interval?: Device['dataSendingInterval'];
  /** The measured interval between uplinks. */
  readonly gap?: number;
  /** The interval of the device's profile in seconds. */
  readonly profileInterval?: number;
  readonly policy?: ConnectionPolicy;
}

function computePolicy(
  kind: ConnectorKind,
  { deviceClass, reportedClass, interval, gap, profileInterval, policy = {} }: Case,
): ExecutionPolicy {
  const uplinkGaps = gap === undefined ? [] : [gap, gap, gap];
  const physicalDevice: PhysicalDevice = {
    id: 'p',
    clientDeviceId: 'c',
    connectionId: 'x',
    configuration: deviceClass === undefined ? {} : { deviceClass },
    sensorMappings: [],
    uplinkGaps,
    reportedClass,
    profileInterval,
    networkDecodes: undefined,
    lastUplinkFailure: undefined,
    lastDecoderWarnings: undefined,
    createdAt: 0,
    updatedAt: 0,
  };
  return computeExecutionPolicy({ kind, policy, device: { dataSendingInterval: interval, physicalDevice } });
}

const unbound: Device['dataSendingInterval'] = { unit: 'hour', value: 1 };
const two = { unit: 'hour', value: 2 } as const;

describe('the policy of an execution', () => {
  const delivery: readonly [string, ConnectorKind, Case, number][] = [
    ['mqtt', 'mqtt', {}, MINUTE],
    ['mqtt with answers', 'mqtt_answer', {}, MINUTE],
    ['gateway', 'gateway', {}, MINUTE],
    ['sleepy mqtt', 'mqtt', { policy: { sleepy: true } }, DAY],
    ['sleepy gateway', 'gateway', { policy: { sleepy: true } }, DAY],
    ['class A, unknown interval', 'chirpstack', {}, 3 * HOUR + MINUTE],
    ['class A, confirmed', 'chirpstack_confirmed', { deviceClass: 'A', interval: two }, 6 * HOUR + MINUTE],
    ['class A, never under 10 minutes', 'chirpstack', { interval: { unit: 'minute', value: 1 } }, 10 * MINUTE],
    ['class A, never over 7 days', 'chirpstack', { interval: { unit: 'month', value: 1 } }, 7 * DAY],
    ['class A, sleepy has no effect', 'chirpstack', { policy: { sleepy: true } }, 3 * HOUR + MINUTE],
    ['an invalid class', 'chirpstack', { deviceClass: 7 }, 3 * HOUR + MINUTE],
    ['class B', 'chirpstack', { deviceClass: 'B' }, 2 * MINUTE],
    ['class C', 'chirpstack_confirmed', { deviceClass: 'c' }, 2 * MINUTE],
    ['class C, by its last uplink', 'chirpstack', { reportedClass: 'C' }, 2 * MINUTE],
    [
      'the configuration before the last uplink',
      'chirpstack',
      { deviceClass: 'A', reportedClass: 'C' },
      3 * HOUR + MINUTE,
    ],
    ['policy on a gateway', 'gateway', { policy: { deliveryTimeout: 5, sleepy: true } }, 5 * SECOND],
    ['policy on class A', 'chirpstack', { policy: { deliveryTimeout: 5 } }, 5 * SECOND],
  ];
  it.each(delivery)('include the delivery: %s', (_name, kind, of, expected) =>
    expect(computePolicy(kind, of).deliveryMs).toBe(expected),
  );

  const ack: readonly [string, ConnectorKind, Case, number][] = [
    ['mqtt', 'mqtt', {}, 30 * SECOND],
    ['mqtt with answers', 'mqtt_answer', {}, 30 * SECOND],
    ['gateway', 'gateway', {}, MINUTE],
    ['class A', 'chirpstack_confirmed', { interval: two }, 4 * HOUR + MINUTE],
    ['class B', 'chirpstack_confirmed', { deviceClass: 'B', interval: two }, MINUTE],
    ['class C', 'chirpstack_confirmed', { deviceClass: 'C', interval: two }, MINUTE],
    ['policy', 'chirpstack_confirmed', { policy: { ackTimeout: 7 } }, 7 * SECOND],
  ];
  it.each(ack)('include the answer: %s', (_name, kind, of, expected) =>
    expect(computePolicy(kind, of).ackMs).toBe(expected),
  );

  const interval: readonly [string, ConnectorKind, Case, number][] = [
    ['nothing known', 'gateway', {}, MINUTE],
    ['nothing known on LoRaWAN', 'chirpstack', {}, HOUR],
    ['the policy', 'mqtt', { policy: { uplinkInterval: 90 } }, 90 * SECOND],
    ['the measured interval, preferred to the policy', 'mqtt', { gap: 7000, policy: { uplinkInterval: 90 } }, 7000],
    ['its profile', 'gateway', { profileInterval: 600 }, 10 * MINUTE],
    ['its profile, on LoRaWAN', 'chirpstack', { profileInterval: 600 }, 10 * MINUTE],
    [
      'the policy, preferred to its profile',
      'chirpstack',
      { profileInterval: 600, policy: { uplinkInterval: 90 } },
      90 * SECOND,
    ],
    ['the measured interval, preferred to its profile', 'chirpstack', { gap: 7000, profileInterval: 600 }, 7000],
    [
      "the device's own interval, preferred to all others",
      'mqtt',
      { interval: unbound, gap: 7000, policy: { uplinkInterval: 90 } },
      HOUR,
    ],
    ['minutes', 'gateway', { interval: { unit: 'minute', value: 5 } }, 5 * MINUTE],
    ['days', 'gateway', { interval: { unit: 'day', value: 2 } }, 2 * DAY],
    ['weeks', 'gateway', { interval: { unit: 'week', value: 1 } }, 7 * DAY],
    ['months of 30 days', 'gateway', { interval: { unit: 'month', value: 2 } }, 60 * DAY],
  ];
  it.each(interval)('include the uplink interval: %s', (_name, kind, of, expected) =>
    expect(computePolicy(kind, of).uplinkIntervalMs).toBe(expected),
  );

  it.each(CONNECTOR_KINDS)('depend on a class only for LoRaWAN: %s', (kind) =>
    expect([computePolicy(kind, {}).classA, computePolicy(kind, { deviceClass: 'C' }).classA]).toEqual([
      kind.startsWith('chirpstack'),
      false,
    ]),
  );

  it('follow the formulas unless the policy sets them', () => {
    expect(computePolicy('mqtt', {})).toMatchObject({ implicitAckMs: undefined, convergenceMs: undefined });
    expect(computePolicy('mqtt', { policy: { implicitAckTimeout: 3, convergenceTimeout: 4 } })).toMatchObject({
      implicitAckMs: 3000,
      convergenceMs: 4000,
    });
  });

  it('exist for a device that is not bound', () => {
    expect(
      computeExecutionPolicy({
        kind: undefined,
        policy: {},
        device: { dataSendingInterval: undefined, physicalDevice: undefined },
      }),
    ).toMatchObject({ deliveryMs: MINUTE, ackMs: MINUTE, uplinkIntervalMs: MINUTE, classA: false });
  });
});

describe('the limit of a queue', () => {
  it.each([
    ['gateway', {}, 64],
    ['mqtt_answer', {}, 64],
    ['chirpstack', {}, 16],
    ['chirpstack_confirmed', {}, 16],
    ['chirpstack', { queueLimit: 1000 }, 1000],
    [undefined, {}, 64],
  ] as const)('is checked for %s %j', (kind, policy, limit) => expect(getQueueLimit(kind, policy)).toBe(limit));
});
