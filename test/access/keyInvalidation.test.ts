import { KeyInvalidation } from '../../src/access/keys/keyInvalidation';

describe('recent changes', () => {
  it('are reported by key and organization, after a given moment', () => {
    const changes = new KeyInvalidation();
    const before = changes.latestChange;
    changes.keyChanged('key');
    const between = changes.latestChange;
    changes.accessChanged('organization');
    expect([
      changes.hasChanged(before, 'key', 'x'),
      changes.hasChanged(before, 'x', 'organization'),
      changes.hasChanged(before, 'x', 'y'),
    ]).toEqual([true, true, false]);
    expect([
      changes.hasChanged(between, 'key', 'x'),
      changes.hasChanged(between, 'x', 'organization'),
      changes.hasChanged(changes.latestChange, 'key', 'organization'),
    ]).toEqual([false, true, false]);
  });

  it('count as changes of every key when there were too many to store', () => {
    const changes = new KeyInvalidation();
    const before = changes.latestChange;
    for (let id = 0; id < 10_000; id += 1) changes.keyChanged(String(id));
    expect(changes.hasChanged(before, 'x', 'y')).toBe(false);
    const recently = changes.latestChange;
    changes.keyChanged('one more');
    expect([
      changes.hasChanged(before, 'x', 'y'),
      changes.hasChanged(recently, 'x', 'y'),
      changes.hasChanged(recently, 'one more', 'y'),
    ]).toEqual([true, false, true]);
  });
});
