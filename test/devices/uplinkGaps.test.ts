import { computeMedianUplinkGap, type UplinkTimes } from '../../src/devices';
import { MAX_UPLINK_GAPS, type UplinkHistory, addUplink } from '../../src/devices/uplinkGaps';

describe('the median gap between uplinks', () => {
  it.each([
    ['is unknown without gaps', [], undefined],
    ['is unknown with two gaps', [10, 10], undefined],
    ['is computed from three gaps', [10, 10, 10], 10],
    ['is the mean of the middle gaps for an even number', [10, 20, 30, 40], 25],
    ['ignores one long silence', [60, 60, 8880, 60], 60],
  ])('%s', (_name, gaps, median) => expect(computeMedianUplinkGap(gaps)).toBe(median));
});

function at(receivedAt: number, ownTime?: number, clock = 'gw-1'): UplinkTimes {
  return { receivedAt, ownTime, clock: ownTime === undefined ? undefined : clock };
}

function listGaps(uplinks: readonly UplinkTimes[]): readonly number[] {
  return uplinks.reduce<UplinkHistory>((rhythm, uplink) => addUplink(rhythm, uplink) ?? rhythm, {
    last: undefined,
    gaps: [],
  }).gaps;
}

describe('the gaps of an uplink history', () => {
  const MINUTE = 60_000;
  const buffered = Array.from({ length: 10 }, (_, count) => 3 * MINUTE + count * MINUTE);

  it.each<[string, UplinkTimes[], number[]]>([
    ['use the time of receipt without device times', [at(0), at(MINUTE), at(3 * MINUTE)], [MINUTE, 2 * MINUTE]],
    ['use device times regardless of the delay of the uplinks', [at(0, 100), at(5 * MINUTE, 100 + MINUTE)], [MINUTE]],
    ['use the time of receipt when only one uplink has a device time', [at(0, 100), at(MINUTE)], [MINUTE]],
    ['use the time of receipt for different device clocks', [at(0, 100), at(MINUTE, 9 * MINUTE, 'gw-2')], [MINUTE]],
    ['use the time of receipt for a stopped device clock', [at(0, 100), at(MINUTE, 100)], [MINUTE]],
    [
      'treat a buffer without device times as one uplink',
      [at(0), at(MINUTE), ...buffered.map((_, count) => at(13 * MINUTE + count)), at(14 * MINUTE)],
      [MINUTE, 12 * MINUTE, MINUTE],
    ],
    [
      'use the device times of a buffer',
      [at(0, 2 * MINUTE), ...buffered.map((time, count) => at(13 * MINUTE + count, time))],
      buffered.map(() => MINUTE),
    ],
    [
      'use the device times of a buffer in reverse order',
      buffered.toReversed().map((time, count) => at(13 * MINUTE + count, time)),
      buffered.slice(1).map(() => MINUTE),
    ],
    [
      'treat many uplinks within a second as one',
      Array.from({ length: 31 }, (_, count) => at(count * 100)),
      [1000, 1000, 1000],
    ],
  ])('%s', (_name, uplinks, gaps) => expect(listGaps(uplinks)).toEqual(gaps));

  it('are those of the most recent uplinks', () => {
    const uplinks = Array.from({ length: 20 }, (_, count) => at(count * count * 1000));
    expect(listGaps(uplinks)).toEqual(uplinks.slice(-MAX_UPLINK_GAPS).map((_, count) => (2 * (count + 9) + 1) * 1000));
  });
});
