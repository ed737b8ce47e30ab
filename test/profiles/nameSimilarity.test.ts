import { normalizeName, computeDistance } from '../../src/profiles/catalogue/similarity';

/** Computes the textbook distance with the complete table. */
function levenshtein(a: string, b: string): number {
  const table = Array.from({ length: a.length + 1 }, (_, i) =>
    Array.from({ length: b.length + 1 }, (_unused, j) => (i === 0 ? j : i)),
  );
  for (let i = 1; i <= a.length; i += 1)
    for (let j = 1; j <= b.length; j += 1)
      table[i]![j] = Math.min(
        table[i - 1]![j]! + 1,
        table[i]![j - 1]! + 1,
        table[i - 1]![j - 1]! + Number(a[i - 1] !== b[j - 1]),
      );
  return table[a.length]![b.length]!;
}

describe('the similarity of names', () => {
  it.each([
    ['QW-10', 'qw 10', 0],
    ['Größe', 'gro\u0308ße', 0],
    ['pegel', 'pegel lang', 1],
    ['lang', 'pegel lang', 2],
    ['qw', 'qw1', 3],
    ['nord', 'north', 4],
    ['abc', 'abd', 3],
    ['abc', 'axd', undefined],
    ['', 'a', undefined],
    ['-', '-', undefined],
    ['pegel', 'regenmesser', undefined],
  ])('is this distance between %j and %j: %s', (a, b, apart) => {
    expect([
      computeDistance(normalizeName(a), normalizeName(b)),
      computeDistance(normalizeName(b), normalizeName(a)),
    ]).toEqual([apart, apart]);
  });

  it('matches the complete table of Levenshtein, up to its maximum', () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    const word = (): string => Array.from({ length: 4 + random(20) }, () => 'abc'[random(3)]).join('');
    const distances = new Set<unknown>();
    for (let run = 0; run < 5000; run += 1) {
      const a = word();
      const b =
        run % 2 === 0
          ? word()
          : Array.from(a)
              .map((letter) => (random(6) === 0 ? ['', 'a', 'bb'][random(3)] : letter))
              .join('');
      const [short, long] = [a, b].toSorted((one, other) => one.length - other.length) as [string, string];
      if (short.length < 4 || long.includes(short)) continue;
      const letters = levenshtein(short, long);
      const expected = letters <= Math.min(4, Math.max(2, Math.floor(short.length / 3))) ? 2 + letters : undefined;
      expect([a, b, computeDistance(a, b)]).toEqual([a, b, expected]);
      distances.add(expected);
    }
    expect(distances).toEqual(new Set([undefined, 3, 4, 5, 6]));
  });

  it('compares only the beginning of long texts', () => {
    expect(normalizeName('x'.repeat(255))).toHaveLength(64);
  });
});
