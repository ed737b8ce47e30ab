import fc from 'fast-check';
import { atob as ourAtob, btoa as ourBtoa } from '../../src/codec/guest/base64';
import { TextDecoder as OurDecoder, TextEncoder as OurEncoder } from '../../src/codec/guest/textCoding';
import { openSandbox } from './sandboxFixture';

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

describe(`text encodings inside the sandbox (seed ${SEED})`, () => {
  it('write UTF-8 as Node.js does', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect([...new OurEncoder().encode(text)]).toEqual([...new TextEncoder().encode(text)]);
        const [actual, expected] = [new Uint8Array(7), new Uint8Array(7)];
        expect(new OurEncoder().encodeInto(text, actual)).toEqual(new TextEncoder().encodeInto(text, expected));
        expect(actual).toEqual(expected);
      }),
      RUNS,
    );
  });

  it('read UTF-8 as Node.js does, including invalid bytes', () => {
    const lead = fc.constantFrom(
      0xe0,
      0xed,
      0xef,
      0xf0,
      0xf4,
      0xc2,
      0xbb,
      0xbf,
      0x80,
      0x9f,
      0xa0,
      0x8f,
      0x90,
      0x41,
      0xf5,
      0xc1,
    );
    fc.assert(
      fc.property(
        fc.oneof(
          bytes,
          fc.array(lead, { maxLength: 8 }).map((list) => Uint8Array.from(list)),
        ),
        (input) => {
          expect(new OurDecoder().decode(input)).toBe(new TextDecoder().decode(input));
          const strict = { fatal: true, ignoreBOM: true };
          expect(outcome(() => new OurDecoder('utf8', strict).decode(input))).toBe(
            outcome(() => new TextDecoder('utf8', strict).decode(input)),
          );
        },
      ),
      RUNS,
    );
    expect(new OurDecoder().decode()).toBe('');
    expect(new OurDecoder().decode(Uint8Array.of(97).buffer)).toBe('a');
    expect(() => new OurDecoder('utf-16')).toThrow('TextDecoder knows utf-8 only, not utf-16');
  });

  it('write and read Base64 as Node.js does', () => {
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

describe(`byte transfer (seed ${SEED})`, () => {
  const fixture = openSandbox({ workers: 1 });
  afterAll(async () => await fixture.sandbox.stop());

  it('preserves all bytes', async () => {
    const returned = fc.constantFrom(
      'input.data',
      '{ bytes: new Uint8Array(input.data) }',
      '{ bytes: Buffer.from(input.data) }',
      '{ bytes: new Float64Array(input.data) }',
    );
    await fc.assert(
      fc.asyncProperty(bytes, returned, async (input, value) => {
        expect(
          await fixture.bytes(`function encodeDownlink(input) { return ${value}; }`, { data: [...input] }),
        ).toEqual([...input]);
      }),
      { seed: SEED, numRuns: 100 },
    );
  });
});
