import { isAfterDelivery, isAfterDispatch, replaces, showsExpected } from '../../src/executions/sensorComparison';
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
  const x = { deliveredAt: 1000, peerDeliveredAt: 50_000 };
  it.each([
    ['received with the evidence, no time of its own', 1000, undefined, true],
    ['received before', 999, undefined, false],
    ['received before, whatever its time', 999, 60_000, false],
    ['later on the clock of the other side', 1001, 50_001, true],
    ['buffered since before', 9000, 49_999, false],
    ['of the very moment', 9000, 50_000, false],
  ])('%s', (_name, receivedAt, ownTime, expected) => {
    expect(isAfterDelivery(x, { receivedAt, ownTime })).toBe(expected);
  });

  it('looks at the receipt alone where the delivery has no time on that clock', () => {
    expect(isAfterDelivery({ deliveredAt: 1000, peerDeliveredAt: undefined }, { receivedAt: 1000, ownTime: 5 })).toBe(true);
    expect(isAfterDelivery({ deliveredAt: undefined, peerDeliveredAt: undefined }, { receivedAt: 1000, ownTime: undefined })).toBe(false);
  });

  it('knows nothing of the dispatch on another clock', () => {
    expect(isAfterDispatch({ dispatchedAt: 10 }, { receivedAt: 11, ownTime: undefined })).toBe(true);
    expect(isAfterDispatch({ dispatchedAt: 10 }, { receivedAt: 10, ownTime: undefined })).toBe(false);
    expect(isAfterDispatch({ dispatchedAt: 10 }, { receivedAt: 11, ownTime: 99 })).toBe(false);
    expect(isAfterDispatch({ dispatchedAt: undefined }, { receivedAt: 11, ownTime: undefined })).toBe(false);
  });
});

describe('which reading is the last', () => {
  it.each<[string, [number, number | undefined], [number, number | undefined], boolean]>([
    ['later on one clock', [200, 60], [100, 50], true],
    ['earlier on one clock, though it came later', [200, 40], [100, 50], false],
    ['at the same time', [200, 50], [100, 50], true],
    ['came later, one without a time', [200, undefined], [100, 50], true],
    ['came earlier, one without a time', [90, 10], [100, undefined], false],
    ['the stored one is of the future', [200, 60], [100, 999], true],
  ])('%s', (_name, [receivedAt, ownTime], [storedAt, storedTime], expected) => {
    expect(replaces({ receivedAt, ownTime }, { receivedAt: storedAt, ownTime: storedTime })).toBe(expected);
  });

  it('is any where none is stored', () => expect(replaces({ receivedAt: 1, ownTime: 1 }, undefined)).toBe(true));
});
