import { medianUplinkGap } from '../../src/devices';

describe('the gap between uplinks', () => {
  it.each([
    ['none', [], undefined],
    ['one uplink', [1000], undefined],
    ['two gaps, which are too few', [0, 10, 20], undefined],
    ['three gaps', [0, 10, 20, 30], 10],
    ['an even number of gaps', [0, 10, 30, 60, 100], 25],
    ['one long silence', [0, 60, 120, 9000, 9060], 60],
    ['uplinks of one moment', [5, 5, 5, 5], 0],
  ])('%s', (_name, times, gap) => expect(medianUplinkGap(times)).toBe(gap));
});
