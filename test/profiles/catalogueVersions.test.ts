import { newestFirst, vendorVersionOf } from '../../src/profiles/catalogue/newestFirst';
import { compareVersions, newestOf, versionOf } from '../../src/profiles/catalogue/versions';

/** The ids of what was given, in order. */
const sorted = (...items: readonly [id: string, version: string, ...hardware: string[]][]): string =>
  newestFirst(items.map(([id, firmwareVersion, ...hardwareVersions]) => ({ id, firmwareVersion, hardwareVersions }))).map(({ id }) => id).join(' ');

describe('versions', () => {
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
  ])('has %j newer than %j', (newer, older) => {
    expect(compareVersions(versionOf(newer), versionOf(older))).toBeGreaterThan(0);
    expect(compareVersions(versionOf(older), versionOf(newer))).toBeLessThan(0);
  });

  it.each([
    ['v1.0', '1.0'],
    ['V_1.0', '1-0'],
    [' 1.0 ', '1.0'],
    ['1.00', '1.0'],
    ['1.0-RC1', '1.0-rc1'],
    ['', '-'],
  ])('finds none of %j and %j newer', (a, b) => {
    expect([compareVersions(versionOf(a), versionOf(b)), compareVersions(versionOf(b), versionOf(a))]).toEqual([0, 0]);
  });

  it.each([
    [[], undefined],
    [['1.9'], '1.9'],
    [['1.9', '1.10', '1.2'], '1.10'],
    [['1.10', '1.9'], '1.10'],
  ])('has of %j the newest', (versions, newest) => {
    expect(newestOf(versions)).toEqual(newest === undefined ? undefined : versionOf(newest));
  });
});

describe('the newest first', () => {
  it.each<[what: string, one: [string, string, ...string[]], other: [string, string, ...string[]]]>([
    ['firmware before hardware', ['z', '1.1', '1'], ['a', '1.0', '2']],
    ['hardware of one firmware by its newest', ['z', '1.0', '1', '10'], ['a', '1.0', '9']],
    ['known hardware before none', ['z', '1.0', '1'], ['a', '1.0']],
    ['of one firmware and hardware the version with more behind it', ['z', '1.0-hw2', '2'], ['a', '1.0', '2']],
    ['versions with their vendor\'s -hw by what stands behind it', ['z', 'fw-hw3-2.0', '3'], ['a', 'fw-hw3-1.0', '3']],
    ['equal ones by id', ['a', '1.0', '1'], ['z', 'v1.0', 'v1']],
  ])('puts %s', (_what, one, other) => {
    expect([sorted(one, other), sorted(other, one)]).toEqual([`${one[0]} ${other[0]}`, `${one[0]} ${other[0]}`]);
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
  ])('takes from %j of hardware %j only what an import put there', (version, hardware, own) => {
    expect(vendorVersionOf(version, hardware)).toBe(own);
  });
});
