import { addReading, compareReadings, type ReadingTotals } from '../../scripts/crash/countReadings';

/** Adds up readings. */
function sum(...values: readonly number[]): ReadingTotals {
  return values.reduce<ReadingTotals>(addReading, { count: 0, sum: 0 });
}

describe('the comparison of uplinks and readings in the crash test', () => {
  it.each([
    ['nothing if each uplink is stored once, in any order', sum(3, 1, 2), [0, 0]],
    ['a lost uplink', sum(1, 2), [1, 0]],
    ['an uplink that is stored twice', sum(1, 2, 3, 3), [0, 1]],
    ['a lost uplink that another one stored twice replaces', sum(1, 2, 2), [1, 1]],
  ])('finds %s', (_name, stored, expected) => {
    const { lost, doubled } = compareReadings(sum(1, 2, 3), stored);
    expect([lost.length, doubled.length]).toEqual(expected);
  });
});
