import { medianUplinkGap, type UplinkTimes } from '../../src/devices';
import { REMEMBERED_GAPS, type UplinkRhythm, withUplink } from '../../src/devices/uplinkGaps';

describe('the gap between uplinks', () => {
  it.each([
    ['none', [], undefined],
    ['two gaps, which are too few', [10, 10], undefined],
    ['three gaps', [10, 10, 10], 10],
    ['an even number of gaps', [10, 20, 30, 40], 25],
    ['one long silence', [60, 60, 8880, 60], 60],
  ])('%s', (_name, gaps, median) => expect(medianUplinkGap(gaps)).toBe(median));
});

function at(receivedAt: number, ownTime?: number, clock = 'gw-1'): UplinkTimes {
  return { receivedAt, ownTime, clock: ownTime === undefined ? undefined : clock };
}

function gapsOf(uplinks: readonly UplinkTimes[]): readonly number[] {
  return uplinks.reduce<UplinkRhythm>((rhythm, uplink) => withUplink(rhythm, uplink) ?? rhythm, { last: undefined, gaps: [] }).gaps;
}

describe('the rhythm of uplinks', () => {
  const MINUTE = 60_000;
  const buffered = Array.from({ length: 10 }, (_, count) => 3 * MINUTE + count * MINUTE);

  it.each<[string, UplinkTimes[], number[]]>([
    ['by the receipt, without times', [at(0), at(MINUTE), at(3 * MINUTE)], [MINUTE, 2 * MINUTE]],
    ['by the own times, whatever the way of the uplinks', [at(0, 100), at(5 * MINUTE, 100 + MINUTE)], [MINUTE]],
    ['by the receipt, where only one has a time', [at(0, 100), at(MINUTE)], [MINUTE]],
    ['by the receipt, on different clocks', [at(0, 100), at(MINUTE, 9 * MINUTE, 'gw-2')], [MINUTE]],
    ['by the receipt, on a clock that stands still', [at(0, 100), at(MINUTE, 100)], [MINUTE]],
    ['a buffer at once without times: it is one', [at(0), at(MINUTE), ...buffered.map((_, count) => at(13 * MINUTE + count)), at(14 * MINUTE)], [MINUTE, 12 * MINUTE, MINUTE]],
    ['a buffer at once with times', [at(0, 2 * MINUTE), ...buffered.map((time, count) => at(13 * MINUTE + count, time))], buffered.map(() => MINUTE)],
    ['a buffer at once, the last one first', buffered.toReversed().map((time, count) => at(13 * MINUTE + count, time)), buffered.slice(1).map(() => MINUTE)],
    ['many within a second', Array.from({ length: 31 }, (_, count) => at(count * 100)), [1000, 1000, 1000]],
  ])('%s', (_name, uplinks, gaps) => expect(gapsOf(uplinks)).toEqual(gaps));

  it('is that of the last uplinks', () => {
    const uplinks = Array.from({ length: 20 }, (_, count) => at(count * count * 1000));
    expect(gapsOf(uplinks)).toEqual(uplinks.slice(-REMEMBERED_GAPS).map((_, count) => (2 * (count + 9) + 1) * 1000));
  });
});
