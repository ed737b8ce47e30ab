import fc from 'fast-check';
import { atob as ourAtob, btoa as ourBtoa } from '../../src/codec/guest/base64';
import { TextDecoder as OurDecoder, TextEncoder as OurEncoder } from '../../src/codec/guest/textCoding';
import { Turns } from '../../src/codec/turns';
import { openSandbox } from './sandboxRoom';

const SEED = 20_261_121;
const RUNS = { seed: SEED, numRuns: 500 };
const bytes = fc.uint8Array({ maxLength: 24 });
const outcome = (work: () => string): string => {
  try {
    return work();
  } catch (error) {
    return (error as Error).name;
  }
};

describe(`the coding of text inside the sandbox (seed ${SEED})`, () => {
  it('writes UTF-8 as Node does', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect([...new OurEncoder().encode(text)]).toEqual([...new TextEncoder().encode(text)]);
        const [ours, theirs] = [new Uint8Array(7), new Uint8Array(7)];
        expect(new OurEncoder().encodeInto(text, ours)).toEqual(new TextEncoder().encodeInto(text, theirs));
        expect(ours).toEqual(theirs);
      }),
      RUNS,
    );
  });

  it('reads UTF-8 as Node does, wrong bytes too', () => {
    const lead = fc.constantFrom(0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xc2, 0xbb, 0xbf, 0x80, 0x9f, 0xa0, 0x8f, 0x90, 0x41, 0xf5, 0xc1);
    fc.assert(
      fc.property(fc.oneof(bytes, fc.array(lead, { maxLength: 8 }).map((list) => Uint8Array.from(list))), (input) => {
        expect(new OurDecoder().decode(input)).toBe(new TextDecoder().decode(input));
        const strict = { fatal: true, ignoreBOM: true };
        expect(outcome(() => new OurDecoder('utf8', strict).decode(input))).toBe(outcome(() => new TextDecoder('utf8', strict).decode(input)));
      }),
      RUNS,
    );
    expect(new OurDecoder().decode()).toBe('');
    expect(new OurDecoder().decode(Uint8Array.of(97).buffer)).toBe('a');
    expect(() => new OurDecoder('utf-16')).toThrow('TextDecoder knows utf-8 only, not utf-16');
  });

  it('writes and reads Base64 as Node does', () => {
    fc.assert(
      fc.property(bytes, (input) => {
        const text = String.fromCharCode(...input);
        expect(ourBtoa(text)).toBe(btoa(text));
        expect(ourAtob(btoa(text))).toBe(text);
      }),
      RUNS,
    );
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...'AZaz09+/=== \n-_é'.split('')), { maxLength: 9 }), (letters) => {
        const text = letters.join('');
        expect(outcome(() => ourAtob(text))).toBe(outcome(() => atob(text)));
        expect(outcome(() => ourBtoa(text))).toBe(outcome(() => btoa(text)));
      }),
      RUNS,
    );
    expect(() => ourBtoa('€')).toThrow('btoa takes characters from 0 to 255 only');
  });
});

/** What must wait, kept in the plainest way. */
class Rows {
  private readonly rows = new Map<string, string[]>();
  private readonly skipped = new Map<string, number>();

  all(): string[] {
    return [...this.rows.values()].flat();
  }

  /** Whether there is room. */
  add(owner: string, value: string): boolean {
    const row = this.rows.get(owner) ?? [];
    const fits = row.length < 5 && this.all().length < 12;
    if (fits) this.rows.set(owner, row.concat(value));
    return fits;
  }

  /** Takes note of what was served, the first of its row, and answers how often the most unlucky owner was passed over. */
  took(value: string | undefined): number {
    expect(value === undefined).toBe(this.all().length === 0);
    const from = value?.charAt(0) ?? '';
    expect(value).toBe(this.rows.get(from)?.[0]);
    const unlucky = (owner: string, row: readonly string[]): boolean => owner !== from && row.length > 0;
    for (const [owner, row] of this.rows) this.skipped.set(owner, unlucky(owner, row) ? (this.skipped.get(owner) ?? 0) + 1 : 0);
    if (value !== undefined) this.rows.get(from)?.shift();
    return Math.max(0, ...this.skipped.values());
  }
}

const notA = (owner: string): boolean => owner !== 'a';

describe('turns', () => {
  it(`serve every owner within one round, in the order of each, and lose nothing (seed ${SEED})`, () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.constantFrom('a', 'b', 'c', 'd')), { maxLength: 60 }), (steps) => {
        const turns = new Turns<string>({ each: { items: 5, weight: 1000 }, all: { items: 12, weight: 1000 } });
        const model = new Rows();
        steps.forEach((owner, at) => {
          if (owner !== null) expect(turns.add(owner, `${owner}${at}`, 1)).toBe(model.add(owner, `${owner}${at}`));
          else expect(model.took(turns.next())).toBeLessThan(4);
        });
        expect([...turns.takeAll()].toSorted()).toEqual(model.all().toSorted());
      }),
      RUNS,
    );
  });

  it('keep the place of who may not go now', () => {
    const turns = new Turns<string>({ each: { items: 9, weight: 9 }, all: { items: 9, weight: 9 } });
    for (const value of ['a1', 'a2', 'b1', 'c1']) turns.add(value.charAt(0), value, 1);
    expect([turns.next(notA), turns.next(), turns.next(notA), turns.next(notA), turns.next()]).toEqual(['b1', 'a1', 'c1', undefined, 'a2']);
  });

  it('let one leave, and give its place and weight back', () => {
    const turns = new Turns<string>({ each: { items: 2, weight: 10 }, all: { items: 2, weight: 10 } });
    expect([turns.add('a', 'a1', 6), turns.add('a', 'a2', 4), turns.add('a', 'a3', 1)]).toEqual([true, true, false]);
    expect([turns.remove('a', 'a1'), turns.remove('a', 'a1'), turns.remove('b', 'a2')]).toEqual([true, false, false]);
    expect([turns.add('b', 'b1', 6), turns.remove('a', 'a2'), turns.next(), turns.next()]).toEqual([true, true, 'b1', undefined]);
  });

  it('bound the weight by owner and in all, and give it back', () => {
    const turns = new Turns<number>({ each: { items: 9, weight: 10 }, all: { items: 9, weight: 15 } });
    expect([turns.add('a', 1, 6), turns.add('a', 2, 5), turns.add('a', 3, 4), turns.add('b', 4, 6), turns.add('b', 5, 5)]).toEqual([true, false, true, false, true]);
    expect([turns.next(), turns.add('a', 6, 6), turns.next(), turns.next(), turns.next(), turns.next()]).toEqual([1, true, 5, 3, 6, undefined]);
  });
});

describe(`bytes (seed ${SEED})`, () => {
  const room = openSandbox({ workers: 1 });
  afterAll(async () => await room.sandbox.stop());

  it('come out as they went in', async () => {
    const returned = fc.constantFrom('input.data', '{ bytes: new Uint8Array(input.data) }', '{ bytes: Buffer.from(input.data) }', '{ bytes: new Float64Array(input.data) }');
    await fc.assert(
      fc.asyncProperty(bytes, returned, async (input, value) => {
        expect(await room.bytes(`function encodeDownlink(input) { return ${value}; }`, { data: [...input] })).toEqual([...input]);
      }),
      { seed: SEED, numRuns: 100 },
    );
  });
});
