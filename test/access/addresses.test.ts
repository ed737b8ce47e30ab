import fc from 'fast-check';
import { compileAddressCheck, isWithin, readAddresses } from '../../src/access/keys/addresses';

const SEED = 20261122;
const spelled = (text: string): string | undefined => readAddresses([text], 'allowedAddresses').addresses[0];

describe('addresses and networks', () => {
  it.each([
    ['192.0.2.10', '192.0.2.10'],
    ['192.0.2.10/32', '192.0.2.10'],
    ['192.0.2.0/24', '192.0.2.0/24'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8:0::1', '2001:db8::1'],
    ['2001:db8::/32', '2001:db8::/32'],
    ['2001:db8::1/128', '2001:db8::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.0/120', '192.0.2.0/24'],
    ['::/0', '::/0'],
  ])('%s is %s', (text, canonical) => expect(spelled(text)).toBe(canonical));

  it.each([
    '',
    'localhost',
    '192.0.2',
    '192.0.2.256',
    '010.0.0.1',
    '0x7f.0.0.1',
    '1.2',
    '192.0.2.0/33',
    '192.0.2.0/',
    '192.0.2.0/-1',
    '192.0.2.0/255.255.255.0',
    'fe80::1%eth0',
    '2001:db8::/129',
    ' 192.0.2.1',
    '192.0.2.1:443',
    '[::1]',
    '192.0.2.0/24/8',
  ])('%j is neither an address nor a network', (text) => {
    expect(readAddresses(['192.0.2.1', text], 'allowedAddresses')).toEqual({
      addresses: ['192.0.2.1'],
      violations: [
        { field: 'allowedAddresses[1]', description: expect.stringContaining('use an address such as 192.0.2.10') },
      ],
    });
  });

  it('names the network of a text that has bits set after its prefix', () => {
    expect(
      readAddresses(['192.0.2.5/24', '2001:db8::1/32', '::ffff:192.0.2.5/120'], 'list').violations.map(
        ({ description }) => description,
      ),
    ).toEqual([
      '"192.0.2.5/24" has bits set after its prefix: use 192.0.2.0/24, or the address without a prefix',
      '"2001:db8::1/32" has bits set after its prefix: use 2001:db8::/32, or the address without a prefix',
      '"::ffff:192.0.2.5/120" has bits set after its prefix: use 192.0.2.0/24, or the address without a prefix',
    ]);
  });

  it('removes duplicates that are spelled differently', () => {
    expect(readAddresses(['192.0.2.1', '::ffff:192.0.2.1', '192.0.2.1/32'], 'list').addresses).toEqual(['192.0.2.1']);
  });

  it('detects which addresses are inside a network', () => {
    const allowed = compileAddressCheck(['192.0.2.0/24', '198.51.100.7', '2001:db8::/32', 'fe80::1']);
    for (const inside of [
      '192.0.2.1',
      '192.0.2.255',
      '::ffff:192.0.2.9',
      '::ffff:c000:209',
      '198.51.100.7',
      '2001:db8:1::5',
      'fe80::1%eth0',
    ])
      expect([inside, allowed(inside)]).toEqual([inside, true]);
    for (const outside of [
      '192.0.3.1',
      '198.51.100.8',
      '2001:db9::1',
      '::1',
      '127.0.0.1',
      '',
      'unknown',
      '::ffff:198.51.100.8',
    ])
      expect([outside, allowed(outside)]).toEqual([outside, false]);
    expect(['', '192.0.2.1', 'unknown'].map(compileAddressCheck([]))).toEqual([true, true, true]);
    expect(compileAddressCheck(['0.0.0.0/0'])('2001:db8::1')).toBe(false);
    expect(compileAddressCheck(['::/0'])('::ffff:192.0.2.1')).toBe(false);
  });

  it(`a network lies within another exactly if all of its addresses do (seed ${SEED})`, () => {
    // Few bits make it likely that the networks overlap.
    const network = fc
      .tuple(fc.constantFrom(4, 6), fc.nat(15), fc.integer({ min: 0, max: 4 }))
      .map(([family, value, bits]) => {
        const masked = value & (0b1111 << (4 - bits)) & 0b1111;
        return family === 4
          ? { text: `198.51.100.${masked}/${28 + bits}`, family, value: masked, bits }
          : { text: `2001:db8::${masked.toString(16)}/${124 + bits}`, family, value: masked, bits };
      });
    fc.assert(
      fc.property(network, network, (one, other) => {
        const [inner = '', outer = ''] = [spelled(one.text), spelled(other.text)];
        const allowed = compileAddressCheck([outer]);
        const all = Array.from({ length: 16 }, (_, n) => n).filter(
          (n) => n >> (4 - one.bits) === one.value >> (4 - one.bits),
        );
        const every = all.every((n) => allowed(one.family === 4 ? `198.51.100.${n}` : `2001:db8::${n.toString(16)}`));
        expect(isWithin(inner, outer)).toBe(every);
      }),
      { seed: SEED, numRuns: 500 },
    );
  });
});
