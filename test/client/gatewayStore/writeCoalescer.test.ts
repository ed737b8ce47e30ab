import { WriteCoalescer } from '../../../src/client/gateway/store/writeCoalescer';

describe('the batching of disk writes', () => {
  let now = 0;
  let gathering: WriteCoalescer;
  beforeEach(() => {
    now = 1000;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    gathering = new WriteCoalescer();
  });
  afterEach(() => jest.restoreAllMocks());

  it('writes immediately if the disk has no latency', () => {
    expect(gathering.shouldWait(1)).toBe(false);
  });

  it('waits for more changes while they arrive, but not longer than the last disk write took', () => {
    gathering.recordWriteTime(10);
    for (let count = 1; count <= 9; count += 1) {
      expect(gathering.shouldWait(count)).toBe(true);
      now += 1;
    }
    now += 1;
    expect(gathering.shouldWait(10)).toBe(false);
    expect(gathering.shouldWait(1)).toBe(true); // This begins the next batch.
  });

  it('writes after three event loop turns without changes, and when a batch is full', () => {
    gathering.recordWriteTime(10);
    expect([1, 1, 2, 2, 2, 2].map((count) => gathering.shouldWait(count))).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
    ]);
    expect([gathering.shouldWait(999), gathering.shouldWait(1000)]).toEqual([true, false]);
  });

  it('waits at most 20 ms for a very slow disk', () => {
    gathering.recordWriteTime(5000);
    expect(gathering.shouldWait(1)).toBe(true);
    now += 20;
    expect(gathering.shouldWait(2)).toBe(false);
  });
});
