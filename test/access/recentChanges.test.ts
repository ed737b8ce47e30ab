import { RecentChanges } from '../../src/access/keys/recentChanges';

describe('recent changes', () => {
  it('are told by key and organization, after the moment that is asked about', () => {
    const changes = new RecentChanges();
    const before = changes.latest;
    changes.note('key');
    const between = changes.latest;
    changes.note('organization');
    expect([changes.hasChanged(before, 'key', 'x'), changes.hasChanged(before, 'x', 'organization'), changes.hasChanged(before, 'x', 'y')]).toEqual([true, true, false]);
    expect([changes.hasChanged(between, 'key', 'x'), changes.hasChanged(between, 'x', 'organization'), changes.hasChanged(changes.latest, 'key', 'organization')]).toEqual([false, true, false]);
  });

  it('are taken for changes of everybody where they were too many to be kept', () => {
    const changes = new RecentChanges();
    const before = changes.latest;
    for (let id = 0; id < 10_000; id += 1) changes.note(String(id));
    expect(changes.hasChanged(before, 'x', 'y')).toBe(false);
    const recently = changes.latest;
    changes.note('one more');
    expect([changes.hasChanged(before, 'x', 'y'), changes.hasChanged(recently, 'x', 'y'), changes.hasChanged(recently, 'one more', 'y')]).toEqual([true, false, true]);
  });
});
