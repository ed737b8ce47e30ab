import { sortNewestFirst, getVendorVersion } from '../../src/profiles/catalogue/newestFirst';
import { compareVersions, pickNewest, parseVersion } from '../../src/profiles/catalogue/versions';

/** Returns the IDs of the given items, in order. */
const sortIds = (...items: readonly [id: string, version: string, ...hardware: string[]][]): string =>
  sortNewestFirst(
    items.map(([id, firmwareVersion, ...hardwareVersions]) => ({ id, firmwareVersion, hardwareVersions })),
  )
    .map(({ id }) => id)
    .join(' ');

describe('the comparison of versions', () => {
  it.each([
    ['1.10', '1.9'],
    ['1.0.1', '1.0'],
    ['1.0', '1'],
    ['2', '1.99.99'],
    ['20240101', '1.2'],
    ['1.0', '1.0-alpha'],
    ['1.0', '1.0-beta2'],
    ['1.0', '1.0.pre'],
    ['1.0', '1.0-preview'],
    ['1.0', '1.0-rc1'],
    ['1.0', '1.0 dev'],
    ['1.0', '1.0_draft'],
    ['1.0', '1.0 Test'],
    ['1.0-rc2', '1.0-rc1'],
    ['1.0rc10', '1.0rc9'],
    ['1.0-beta', '1.0-alpha'],
    ['1.0-patch', '1.0'],
    ['1.0.1', '1.0.patch'],
    ['1.0-patch', '1.0-rc1'],
    ['1.0b', '1.0a'],
    ['v1.1', '1.0'],
    ['1.1', 'v1.0'],
    ['V 2', 'v1'],
    ['vega', 'alpine'],
    ['1', 'vega'],
    ['1', ''],
  ])('considers %j newer than %j', (newer, older) => {
    expect(compareVersions(parseVersion(newer), parseVersion(older))).toBeGreaterThan(0);
    expect(compareVersions(parseVersion(older), parseVersion(newer))).toBeLessThan(0);
  });

  it.each([
    ['v1.0', '1.0'],
    ['V_1.0', '1-0'],
    [' 1.0 ', '1.0'],
    ['1.00', '1.0'],
    ['1.0-RC1', '1.0-rc1'],
    ['', '-'],
  ])('considers neither %j nor %j newer', (a, b) => {
    expect([
      compareVersions(parseVersion(a), parseVersion(b)),
      compareVersions(parseVersion(b), parseVersion(a)),
    ]).toEqual([0, 0]);
  });

  it.each([
    [[], undefined],
    [['1.9'], '1.9'],
    [['1.9', '1.10', '1.2'], '1.10'],
    [['1.10', '1.9'], '1.10'],
  ])('finds the newest of %j', (versions, newest) => {
    expect(pickNewest(versions)).toEqual(newest === undefined ? undefined : parseVersion(newest));
  });
});

describe('the order with the newest first', () => {
  it.each<[what: string, one: [string, string, ...string[]], other: [string, string, ...string[]]]>([
    ['firmware before hardware', ['z', '1.1', '1'], ['a', '1.0', '2']],
    ['hardware of one firmware by its newest', ['z', '1.0', '1', '10'], ['a', '1.0', '9']],
    ['known hardware before unknown', ['z', '1.0', '1'], ['a', '1.0']],
    ['the longer version first for one firmware and hardware', ['z', '1.0-hw2', '2'], ['a', '1.0', '2']],
    ["versions with a vendor's -hw suffix by what follows it", ['z', 'fw-hw3-2.0', '3'], ['a', 'fw-hw3-1.0', '3']],
    ['equal ones by ID', ['a', '1.0', '1'], ['z', 'v1.0', 'v1']],
  ])('sorts %s', (_what, one, other) => {
    expect([sortIds(one, other), sortIds(other, one)]).toEqual([`${one[0]} ${other[0]}`, `${one[0]} ${other[0]}`]);
  });

  it.each([
    ['1.0-hw2', ['2'], '1.0'],
    ['1.0-hw3-4-b', ['3/4 b'], '1.0'],
    ['1.0-hw1.9', ['1.10', '1.9'], '1.0'],
    ['1.0-hw1.10', ['1.10', '1.9'], '1.0-hw1.10'],
    ['1.0-hw2', ['1'], '1.0-hw2'],
    ['1.0-hw2', [], '1.0-hw2'],
    ['1.0-hw', [], '1.0-hw'],
    ['1.0-hw2-1', ['2'], '1.0-hw2-1'],
    ['1.0', ['2'], '1.0'],
  ])('removes from %j of hardware %j only the suffix that an import added', (version, hardware, own) => {
    expect(getVendorVersion(version, hardware)).toBe(own);
  });
});
