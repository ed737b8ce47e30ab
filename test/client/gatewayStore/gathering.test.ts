import { Gathering } from '../../../src/client/gateway/store/gathering';

describe('what waits for the disk', () => {
  let now = 0;
  let gathering: Gathering;
  beforeEach(() => {
    now = 1000;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    gathering = new Gathering();
  });
  afterEach(() => jest.restoreAllMocks());

  it('is written at once where the disk costs nothing', () => {
    expect(gathering.goesOn(1)).toBe(false);
  });

  it('waits for more as long as turns bring it, and no longer than the disk took the last time', () => {
    gathering.took(10);
    for (let count = 1; count <= 9; count += 1) {
      expect(gathering.goesOn(count)).toBe(true);
      now += 1;
    }
    now += 1;
    expect(gathering.goesOn(10)).toBe(false);
    expect(gathering.goesOn(1)).toBe(true); // the next batch
  });

  it('is written after three turns that brought nothing, and where it is a whole batch', () => {
    gathering.took(10);
    expect([1, 1, 2, 2, 2, 2].map((count) => gathering.goesOn(count))).toEqual([true, true, true, true, true, false]);
    expect([gathering.goesOn(999), gathering.goesOn(1000)]).toEqual([true, false]);
  });

  it('waits 20 ms at the most for a disk that is very slow', () => {
    gathering.took(5000);
    expect(gathering.goesOn(1)).toBe(true);
    now += 20;
    expect(gathering.goesOn(2)).toBe(false);
  });
});
