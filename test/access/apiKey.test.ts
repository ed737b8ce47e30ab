import fc from 'fast-check';
import { hashKey, isWellFormed, newKeyText, getPrefix, type KeyGrant } from '../../src/access/keys/apiKey';
import { findExcessGrants } from '../../src/access/keys/excessGrants';
import { cleanGrant, findGrantViolations } from '../../src/access/keys/grantRules';
import type { Principal } from '../../src/kernel/principal';

const SEED = 20261101;
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const NOW = 1_000_000;
const grant = (overrides: Partial<KeyGrant> = {}): KeyGrant => ({
  scopes: ['devices:read'],
  connectionIds: [],
  allConnections: false,
  restrictions: undefined,
  allowedAddresses: [],
  expiresAt: undefined,
  ...overrides,
});
const fields = (overrides: Partial<KeyGrant>): string[] =>
  findGrantViolations(grant(overrides), NOW).map(({ field }) => field);

describe('the text of a key', () => {
  it('is plr_ and 49 base62 digits, different each time', () => {
    const keys = Array.from({ length: 200 }, newKeyText);
    for (const key of keys) expect(key).toMatch(/^plr_[0-9A-Za-z]{49}$/);
    expect(keys.every(isWellFormed)).toBe(true);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it(`is rejected when any one character is changed (seed ${SEED})`, () => {
    const key = newKeyText();
    const change = fc.tuple(fc.nat(key.length - 1), fc.constantFrom(...DIGITS.split(''), '_', '-', ' ', 'é'));
    fc.assert(
      fc.property(change, ([at, character]) => {
        fc.pre(key[at] !== character);
        expect(isWellFormed(key.slice(0, at) + character + key.slice(at + 1))).toBe(false);
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });

  it(`is rejected when two neighbours are swapped or a character is lost or doubled (seed ${SEED})`, () => {
    const key = newKeyText();
    fc.assert(
      fc.property(fc.nat(key.length - 2), (at) => {
        const [a, b] = [key.charAt(at), key.charAt(at + 1)];
        if (a !== b) expect(isWellFormed(key.slice(0, at) + b + a + key.slice(at + 2))).toBe(false);
        expect(isWellFormed(key.slice(0, at) + key.slice(at + 1))).toBe(false);
        expect(isWellFormed(key.slice(0, at) + a + key.slice(at))).toBe(false);
      }),
      { seed: SEED },
    );
  });

  it('is the only text that parses as a key', () => {
    for (const text of [
      '',
      'plr_',
      'x'.repeat(100_000),
      `plr_${'0'.repeat(49)}`,
      ` ${newKeyText()}`,
      `${newKeyText()}\n`,
    ])
      expect(isWellFormed(text)).toBe(false);
  });

  it('displays ten characters and is stored as SHA-256', () => {
    const key = newKeyText();
    expect(getPrefix(key)).toBe(key.slice(0, 10));
    expect(hashKey('plr_example')).toBe('5419604c9524d1baace9a6f13a58fb938989c3768acdb279d0d7113800ed2c38');
  });
});

describe('a grant', () => {
  it('is valid with known scopes, and with connections for gateways', () => {
    expect(fields({})).toEqual([]);
    expect(fields({ scopes: ['gateways:write'], connectionIds: ['a'] })).toEqual([]);
    expect(fields({ scopes: ['gateways:write'], allConnections: true })).toEqual([]);
    expect(fields({ expiresAt: NOW + 1 })).toEqual([]);
  });

  it('reports each unknown scope and an expiry in the past together', () => {
    expect(fields({ scopes: ['devices:read', 'devices:all', '*'], expiresAt: NOW })).toEqual([
      'scopes[1]',
      'scopes[2]',
      'expiresAt',
    ]);
  });

  it('names connections or all of them, not both, with gateways:write only', () => {
    expect(fields({ scopes: ['gateways:write'] })).toEqual(['connectionIds']);
    expect(fields({ scopes: ['gateways:write'], connectionIds: ['a'], allConnections: true })).toEqual([
      'connectionIds',
    ]);
    expect(fields({ connectionIds: ['a'] })).toEqual(['connectionIds']);
    expect(fields({ allConnections: true })).toEqual(['allConnections']);
  });

  it('is stored without duplicates', () => {
    const [scope, address] = ['gateways:write', '192.0.2.1'];
    expect(
      cleanGrant(
        grant({ scopes: [scope, scope], connectionIds: ['b', 'a', 'b'], allowedAddresses: [address, address] }),
      ),
    ).toEqual(grant({ scopes: [scope], connectionIds: ['b', 'a'], allowedAddresses: [address] }));
  });

  it('exceeds its grantor in scopes, connections or expiry', () => {
    const own: Principal = {
      keyId: 'k',
      keyPrefix: 'plr_',
      organizationId: 'o',
      ownerUserId: 'u',
      scopes: new Set(['gateways:write']),
      connections: new Set(['a']),
      resourceScope: undefined,
      allowedAddresses: [],
      canActAsOwner: true,
      isOwner: true,
      isAdmin: false,
      expiresAt: 5000,
    };
    const gateway = grant({ scopes: ['gateways:write'], connectionIds: ['a'], expiresAt: 5000 });
    expect(findExcessGrants(gateway, own)).toEqual([]);
    expect(findExcessGrants({ ...gateway, scopes: ['gateways:write', 'devices:read'] }, own)).toEqual([
      'scope devices:read',
    ]);
    expect(findExcessGrants({ ...gateway, connectionIds: ['a', 'b'] }, own)).toEqual(['connection b']);
    expect(findExcessGrants({ ...gateway, connectionIds: [], allConnections: true }, own)).toEqual(['all connections']);
    expect(findExcessGrants({ ...gateway, expiresAt: 5001 }, own)).toEqual([
      'an expiry after 1970-01-01T00:00:05.000Z',
    ]);
    expect(findExcessGrants({ ...gateway, expiresAt: undefined }, own)).toEqual([
      'an expiry after 1970-01-01T00:00:05.000Z',
    ]);
    expect(
      findExcessGrants({ ...gateway, connectionIds: ['b'] }, { ...own, connections: 'all', expiresAt: undefined }),
    ).toEqual([]);
  });
});
