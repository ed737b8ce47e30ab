import { isAfterDelivery, isAfterDispatch, replaces, showsExpected } from '../../src/executions/evidence/sensorComparison';
import type { JsonValue } from '../../src/kernel/jsonValue';
import type { ValueType } from '../../src/sensorTemplates';

describe('what a sensor has to show', () => {
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
  ])('of type %s: %j by %j is %s', (valueType, value, shown, shows) => {
    expect(showsExpected({ sensorId: 's', valueType, value }, shown)).toBe(shows);
  });
});

describe('whether a sample is newer than the command', () => {
  const times = { deliveryMs: 0, ackMs: 0, uplinkIntervalMs: 0, classA: false };
  const x = { deliveredAt: 1000, deliveredArrival: 1000.5, deliveredFCnt: undefined, peerDeliveredAt: 50_000, peerDeliveredBy: 'gw-1', times };
  it.each([
    ['received right behind the evidence, no time of its own', 1000.501, undefined, 'gw-1', true],
    ['received before, in the same millisecond', 1000.499, undefined, 'gw-1', false],
    ['the evidence itself', 1000.5, undefined, 'gw-1', false],
    ['received before, whatever its time', 999, 60_000, 'gw-1', false],
    ['later on the clock of the other side', 1001, 50_001, 'gw-1', true],
    ['later on another clock', 1001, 50_001, 'gw-2', false],
    ['buffered since before', 9000, 49_999, 'gw-1', false],
    ['of the very moment', 9000, 50_000, 'gw-1', false],
  ])('%s', (_name, receivedAt, ownTime, clock, expected) => {
    expect(isAfterDelivery(x, { receivedAt, ownTime, clock })).toBe(expected);
  });

  it('believes no time of its own where the delivery has none', () => {
    const untold = { ...x, deliveredArrival: 1000, peerDeliveredAt: undefined, peerDeliveredBy: undefined };
    expect(isAfterDelivery(untold, { receivedAt: 1001, ownTime: 5, clock: 'gw-1' })).toBe(false);
    expect(isAfterDelivery(untold, { receivedAt: 1001, ownTime: undefined, clock: undefined })).toBe(true);
    expect(isAfterDelivery({ ...untold, deliveredArrival: undefined }, { receivedAt: 1001, ownTime: undefined, clock: undefined })).toBe(false);
  });

  it.each([
    ['in the same whole second', 9_000, true],
    ['later', 10_400, true],
    ['before', 8_999, false],
  ])('holds a time on a clock that no delivery is told on against the server: %s', (_name, ownTime, expected) => {
    const delivered = { ...x, deliveredAt: 9_900, deliveredArrival: 9_900, peerDeliveredAt: undefined, peerDeliveredBy: undefined };
    expect(isAfterDelivery(delivered, { receivedAt: 9_901, ownTime, clock: undefined })).toBe(expected);
    expect(isAfterDispatch({ kind: 'gateway', dispatchedAt: 9_900 }, { receivedAt: 9_901, ownTime, clock: undefined })).toBe(expected);
  });

  it('never counts what was buffered', () => {
    const sample = { receivedAt: 2000, ownTime: undefined, clock: undefined, isBuffered: true };
    expect(isAfterDelivery(x, sample)).toBe(false);
    expect(isAfterDispatch({ kind: 'gateway', dispatchedAt: 10 }, sample)).toBe(false);
  });

  it.each([
    ['the frame that opened the receive window', true, 7, 7, false],
    ['an earlier frame, told late', true, 7, 6, false],
    ['the next frame', true, 7, 8, true],
    ['a frame after a delivery of which no frame is known', true, undefined, 1, true],
    ['a frame that is not known', true, 7, undefined, true],
    ['a device that listens always', false, 7, 6, true],
  ])('compares frames of class A: %s', (_name, classA, deliveredFCnt, fCnt, expected) => {
    expect(isAfterDelivery({ ...x, deliveredFCnt, times: { ...times, classA } }, { receivedAt: 2000, ownTime: undefined, clock: undefined, fCnt })).toBe(expected);
  });

  it('knows nothing of the dispatch on another clock', () => {
    const untimed = { ownTime: undefined, clock: undefined };
    expect(isAfterDispatch({ kind: 'gateway', dispatchedAt: 10 }, { receivedAt: 11, ...untimed })).toBe(true);
    expect(isAfterDispatch({ kind: 'gateway', dispatchedAt: 10 }, { receivedAt: 10.9, ...untimed })).toBe(false);
    expect(isAfterDispatch({ kind: 'gateway', dispatchedAt: 10 }, { receivedAt: 11, ownTime: 99, clock: 'gw-1' })).toBe(false);
    expect(isAfterDispatch({ kind: 'chirpstack', dispatchedAt: 10_500 }, { receivedAt: 10_501, ownTime: 10_000, clock: 'chirpstack' })).toBe(true);
    expect(isAfterDispatch({ kind: 'chirpstack', dispatchedAt: 10_500 }, { receivedAt: 10_501, ownTime: 9_999, clock: 'chirpstack' })).toBe(false);
    expect(isAfterDispatch({ kind: 'gateway', dispatchedAt: undefined }, { receivedAt: 11, ...untimed })).toBe(false);
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
    ['the stored one is of the future', [200, 60], [100, 999], true],
  ])('%s', (_name, [receivedAt, ownTime, clock = 'gw-1'], [storedAt, storedTime], expected) => {
    expect(replaces({ receivedAt, ownTime, clock }, { receivedAt: storedAt, ownTime: storedTime, clock: 'gw-1' })).toBe(expected);
  });

  it('is any where none is stored', () => expect(replaces({ receivedAt: 1, ownTime: 1, clock: 'gw-1' }, undefined)).toBe(true));
});
