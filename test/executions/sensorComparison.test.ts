import {
  isAfterDelivery,
  isNewerThanDispatch,
  replaces,
  matchesExpected,
} from '../../src/executions/evidence/sensorComparison';
import type { JsonValue } from '../../src/kernel/jsonValue';
import type { ValueType } from '../../src/sensorTemplates';

describe('the expected value of a sensor', () => {
  it.each<[ValueType, JsonValue, JsonValue, boolean]>([
    ['number', 21, 21.00002, true],
    ['number', 21, 21.00003, false],
    ['number', -1e6, -1_000_001, true],
    ['number', 0, 1e-9, true],
    ['number', 0, 2e-9, false],
    ['number', '21', 21, true],
    ['number', 'warm', 'warm', false],
    ['integer', 5_000_000, 5_000_001, false],
    ['integer', 5_000_000, 5_000_000, true],
    ['boolean', 'on', 1, true],
    ['boolean', 1, false, false],
    ['boolean', 'open', 'open', false],
    ['string', 'on', 'on', true],
    ['string', 'on', 'ON', false],
    ['json', { a: 1, b: [2] }, { b: [2], a: 1 }, true],
    ['json', [1, 2], [2, 1], false],
    ['json', null, null, true],
  ])('of type %s: %j by %j is %s', (valueType, value, sample, isMatch) => {
    expect(matchesExpected({ sensorId: 's', valueType, value }, sample)).toBe(isMatch);
  });
});

describe('whether a sample is newer than the command', () => {
  const policy = { deliveryMs: 0, ackMs: 0, uplinkIntervalMs: 0, classA: false };
  const x = {
    deliveredAt: 1000,
    deliveredArrival: 1000.5,
    deliveredFCnt: undefined,
    deliveredDevAddr: undefined,
    peerDeliveredAt: 50_000,
    peerDeliveredBy: 'gw-1',
    policy,
  };
  it.each([
    ['received right after the evidence, without its own time', 1000.501, undefined, 'gw-1', true],
    ['received before, in the same millisecond', 1000.499, undefined, 'gw-1', false],
    ['the evidence itself', 1000.5, undefined, 'gw-1', false],
    ['received before, with any time', 999, 60_000, 'gw-1', false],
    ['later on the clock of the other side', 1001, 50_001, 'gw-1', true],
    ['later on another clock', 1001, 50_001, 'gw-2', false],
    ['buffered since before', 9000, 49_999, 'gw-1', false],
    ['at the same time', 9000, 50_000, 'gw-1', false],
  ])('%s', (_name, receivedAt, deviceTime, clock, expected) => {
    expect(isAfterDelivery(x, { receivedAt, deviceTime, clock })).toBe(expected);
  });

  it('does not trust a time of the sample when the delivery has none', () => {
    const withoutTime = { ...x, deliveredArrival: 1000, peerDeliveredAt: undefined, peerDeliveredBy: undefined };
    expect(isAfterDelivery(withoutTime, { receivedAt: 1001, deviceTime: 5, clock: 'gw-1' })).toBe(false);
    expect(isAfterDelivery(withoutTime, { receivedAt: 1001, deviceTime: undefined, clock: undefined })).toBe(true);
    expect(
      isAfterDelivery(
        { ...withoutTime, deliveredArrival: undefined },
        { receivedAt: 1001, deviceTime: undefined, clock: undefined },
      ),
    ).toBe(false);
  });

  it.each([
    ['in the same whole second', 9_000, true],
    ['later', 10_400, true],
    ['before', 8_999, false],
  ])('compares a time on a clock without a delivery to that of the server: %s', (_name, deviceTime, expected) => {
    const delivered = {
      ...x,
      deliveredAt: 9_900,
      deliveredArrival: 9_900,
      peerDeliveredAt: undefined,
      peerDeliveredBy: undefined,
    };
    expect(isAfterDelivery(delivered, { receivedAt: 9_901, deviceTime, clock: undefined })).toBe(expected);
    expect(
      isNewerThanDispatch(
        { kind: 'gateway', dispatchedAt: 9_900 },
        { receivedAt: 9_901, deviceTime, clock: undefined },
      ),
    ).toBe(expected);
  });

  it('never counts buffered samples', () => {
    const sample = { receivedAt: 2000, deviceTime: undefined, clock: undefined, isBuffered: true };
    expect(isAfterDelivery(x, sample)).toBe(false);
    expect(isNewerThanDispatch({ kind: 'gateway', dispatchedAt: 10 }, sample)).toBe(false);
  });

  it.each([
    ['the frame that opened the receive window', true, 7, 7, false],
    ['an earlier frame, reported late', true, 7, 6, false],
    ['the next frame', true, 7, 8, true],
    ['a frame after a delivery with an unknown frame', true, undefined, 1, true],
    ['an unknown frame', true, 7, undefined, true],
    ['a device that always listens', false, 7, 6, true],
  ])('compares frames of class A: %s', (_name, classA, deliveredFCnt, fCnt, expected) => {
    expect(
      isAfterDelivery(
        { ...x, deliveredFCnt, policy: { ...policy, classA } },
        { receivedAt: 2000, deviceTime: undefined, clock: undefined, fCnt },
      ),
    ).toBe(expected);
  });

  it.each([
    ['a smaller counter of the previous session', 3, 'session-1', undefined, false],
    ['the first frame of a new session', 0, 'session-2', undefined, true],
    ['the same counter in a new session', 7, 'session-2', undefined, true],
    ['a counter that was reset, heard later by the network server', 0, 'session-1', 50_001, true],
    ['the frame that opened the receive window, reported with a later time', 7, 'session-1', 50_001, false],
    ['a smaller counter heard before the delivery', 3, 'session-1', 49_999, false],
    ['an unknown session', 3, undefined, undefined, false],
  ])('compares frames of class A within one session: %s', (_name, fCnt, devAddr, deviceTime, expected) => {
    const delivered = { ...x, deliveredFCnt: 7, deliveredDevAddr: 'session-1', policy: { ...policy, classA: true } };
    const clock = deviceTime === undefined ? undefined : 'gw-1';
    expect(isAfterDelivery(delivered, { receivedAt: 2000, deviceTime, clock, fCnt, devAddr })).toBe(expected);
  });

  it('makes no claim about the dispatch with another clock', () => {
    const withoutOwnTime = { deviceTime: undefined, clock: undefined };
    expect(isNewerThanDispatch({ kind: 'gateway', dispatchedAt: 10 }, { receivedAt: 11, ...withoutOwnTime })).toBe(
      true,
    );
    expect(isNewerThanDispatch({ kind: 'gateway', dispatchedAt: 10 }, { receivedAt: 10.9, ...withoutOwnTime })).toBe(
      false,
    );
    expect(
      isNewerThanDispatch({ kind: 'gateway', dispatchedAt: 10 }, { receivedAt: 11, deviceTime: 99, clock: 'gw-1' }),
    ).toBe(false);
    expect(
      isNewerThanDispatch(
        { kind: 'chirpstack', dispatchedAt: 10_500 },
        { receivedAt: 10_501, deviceTime: 10_000, clock: 'chirpstack' },
      ),
    ).toBe(true);
    expect(
      isNewerThanDispatch(
        { kind: 'chirpstack', dispatchedAt: 10_500 },
        { receivedAt: 10_501, deviceTime: 9_999, clock: 'chirpstack' },
      ),
    ).toBe(false);
    expect(
      isNewerThanDispatch({ kind: 'gateway', dispatchedAt: undefined }, { receivedAt: 11, ...withoutOwnTime }),
    ).toBe(false);
  });
});

describe('which reading is the last', () => {
  it.each<[string, [number, number | undefined, string?], [number, number | undefined], boolean]>([
    ['later on one clock', [200, 60], [100, 50], true],
    ['earlier on one clock, though it came later', [200, 40], [100, 50], false],
    ['earlier on another clock, and it came later', [200, 40, 'gw-2'], [100, 50], true],
    ['later on another clock, and it came earlier', [99, 60, 'gw-2'], [100, 50], false],
    ['at the same time', [200, 50], [100, 50], true],
    ['came later, one without a time', [200, undefined], [100, 50], true],
    ['came earlier, one without a time', [90, 10], [100, undefined], false],
    ['the stored one is in the future', [200, 60], [100, 999], true],
  ])('is decided by time: %s', (_name, [receivedAt, deviceTime, clock = 'gw-1'], [storedAt, storedTime], expected) => {
    expect(
      replaces({ receivedAt, deviceTime, clock }, { receivedAt: storedAt, deviceTime: storedTime, clock: 'gw-1' }),
    ).toBe(expected);
  });

  it('accepts any reading when none is stored', () =>
    expect(replaces({ receivedAt: 1, deviceTime: 1, clock: 'gw-1' }, undefined)).toBe(true));
});
