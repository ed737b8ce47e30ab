import fc from 'fast-check';
import { hashKey, isWellFormed, newKeyText, prefixOf, type KeyGrant } from '../../src/access/keys/apiKey';
import { beyondOwn } from '../../src/access/keys/beyondOwn';
import { grantViolations } from '../../src/access/keys/grantRules';
import type { Principal } from '../../src/kernel/principal';

const SEED = 20261101;
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const NOW = 1_000_000;
const grant = (overrides: Partial<KeyGrant> = {}): KeyGrant => ({ scopes: ['devices:read'], connectionIds: [], allConnections: false, restrictions: undefined, allowedAddresses: [], expiresAt: undefined, ...overrides });
const fields = (overrides: Partial<KeyGrant>): string[] => grantViolations(grant(overrides), NOW).map(({ field }) => field);

describe('the text of a key', () => {
  it('is plr_ and 49 base62 digits, never the same twice', () => {
    const keys = Array.from({ length: 200 }, newKeyText);
    for (const key of keys) expect(key).toMatch(/^plr_[0-9A-Za-z]{49}$/);
    expect(keys.every(isWellFormed)).toBe(true);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it(`is refused with one character changed, whichever (seed ${SEED})`, () => {
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

  it(`is refused with two neighbours swapped or a character lost or doubled (seed ${SEED})`, () => {
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

  it('never reads anything else as a key', () => {
    for (const text of ['', 'plr_', 'x'.repeat(100_000), `plr_${'0'.repeat(49)}`, ` ${newKeyText()}`, `${newKeyText()}\n`]) expect(isWellFormed(text)).toBe(false);
  });

  it('shows ten characters and is stored as SHA-256', () => {
    const key = newKeyText();
    expect(prefixOf(key)).toBe(key.slice(0, 10));
    expect(hashKey('plr_example')).toBe('5419604c9524d1baace9a6f13a58fb938989c3768acdb279d0d7113800ed2c38');
  });
});

describe('a grant', () => {
  it('is right with known scopes, and with connections for gateways', () => {
    expect(fields({})).toEqual([]);
    expect(fields({ scopes: ['gateways:write'], connectionIds: ['a'] })).toEqual([]);
    expect(fields({ scopes: ['gateways:write'], allConnections: true })).toEqual([]);
    expect(fields({ expiresAt: NOW + 1 })).toEqual([]);
  });

  it('names each unknown scope and a past end together', () => {
    expect(fields({ scopes: ['devices:read', 'devices:all', '*'], expiresAt: NOW })).toEqual(['scopes[1]', 'scopes[2]', 'expiresAt']);
  });

  it('of gateways:write names connections or all of them, not both, and nobody else does', () => {
    expect(fields({ scopes: ['gateways:write'] })).toEqual(['connectionIds']);
    expect(fields({ scopes: ['gateways:write'], connectionIds: ['a'], allConnections: true })).toEqual(['connectionIds']);
    expect(fields({ connectionIds: ['a'] })).toEqual(['connectionIds']);
    expect(fields({ allConnections: true })).toEqual(['allConnections']);
  });

  it('goes beyond its giver in scopes, connections or end', () => {
    const own: Principal = { keyId: 'k', keyPrefix: 'plr_', organizationId: 'o', ownerUserId: 'u', scopes: new Set(['gateways:write']), connections: new Set(['a']), reach: undefined, allowedAddresses: [], roleId: 'owner', isAdmin: false, expiresAt: 5000 };
    const gateway = grant({ scopes: ['gateways:write'], connectionIds: ['a'], expiresAt: 5000 });
    expect(beyondOwn(gateway, own)).toEqual([]);
    expect(beyondOwn({ ...gateway, scopes: ['gateways:write', 'devices:read'] }, own)).toEqual(['scope devices:read']);
    expect(beyondOwn({ ...gateway, connectionIds: ['a', 'b'] }, own)).toEqual(['connection b']);
    expect(beyondOwn({ ...gateway, connectionIds: [], allConnections: true }, own)).toEqual(['all connections']);
    expect(beyondOwn({ ...gateway, expiresAt: 5001 }, own)).toEqual(['an end after 1970-01-01T00:00:05.000Z']);
    expect(beyondOwn({ ...gateway, expiresAt: undefined }, own)).toEqual(['an end after 1970-01-01T00:00:05.000Z']);
    expect(beyondOwn({ ...gateway, connectionIds: ['b'] }, { ...own, connections: 'all', expiresAt: undefined })).toEqual([]);
  });
});
