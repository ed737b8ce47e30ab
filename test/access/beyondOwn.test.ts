import fc from 'fast-check';
import { compileAddresses, readAddresses } from '../../src/access/keys/addresses';
import { reachOf, type ApiKey, type KeyGrant } from '../../src/access/keys/apiKey';
import { beyondOf, beyondOwn, sees, withinOwn } from '../../src/access/keys/beyondOwn';
import { cleanGrant, cleanRestrictions, grantViolations } from '../../src/access/keys/grantRules';
import type { Principal } from '../../src/kernel/principal';
import { refuseKeyOfOwner } from '../../src/access/people/giver';
import { systemRoleOf } from '../../src/access/people/role';

const SEED = 20261123;
const SCOPES = ['devices:read', 'devices:write', 'commands:write', 'gateways:write', 'api-keys:write'];
const IDS = ['a', 'b', 'c'];
const NETWORKS = ['192.0.2.0/24', '192.0.2.0/25', '192.0.2.1', '198.51.100.7', '2001:db8::/32', '2001:db8::1'];
const PEERS = ['192.0.2.1', '192.0.2.200', '198.51.100.7', '2001:db8::1', '2001:db8:1::1', '203.0.113.9'];

const some = (items: readonly string[]): fc.Arbitrary<string[]> => fc.subarray([...items]);
const restrictions = fc.option(fc.record({ deviceIds: some(IDS), connectionIds: some(IDS), commandIds: some(IDS) }), { nil: undefined });
const addresses = fc.oneof(fc.constant([]), some(NETWORKS), some(NETWORKS.slice(0, 3)));
const expiresAt = fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined });
const grants: fc.Arbitrary<KeyGrant> = fc.record({ scopes: some(SCOPES), connectionIds: some(IDS), allConnections: fc.boolean(), restrictions, allowedAddresses: addresses, expiresAt }).map((grant) => {
  const forGateways = grant.scopes.includes('gateways:write') && !cleanRestrictions(grant.restrictions);
  const scopes = grant.scopes.filter((scope) => forGateways || scope !== 'gateways:write');
  return { ...grant, scopes, allConnections: forGateways && grant.allConnections, connectionIds: !forGateways || grant.allConnections ? [] : grant.connectionIds.length > 0 ? grant.connectionIds : ['a'] };
});
// Holds every scope but that of gateways, so that much can be given.
const wide = grants.map((grant) => ({ ...grant, scopes: SCOPES.filter((scope) => scope !== 'gateways:write'), connectionIds: [], allConnections: false }));
const steps = fc.oneof(
  fc.record({ do: fc.constant('create' as const), by: fc.nat(30), grant: grants, owner: fc.constantFrom('owner', 'admin') }),
  fc.record({ do: fc.constant('update' as const), by: fc.nat(30), of: fc.nat(30), restrictions, addresses, expiresAt }),
  fc.record({ do: fc.constant('rotate' as const), by: fc.nat(30), of: fc.nat(30) }),
);

type Step = typeof steps extends fc.Arbitrary<infer One> ? One : never;

/** A key as the service keeps it; it belongs to an owner or an admin, who is called as the role, so that this takes nothing away. */
function keyOf(id: string, grant: KeyGrant, ownerUserId = 'owner'): ApiKey {
  return { ...cleanGrant(grant), id, organizationId: 'o', ownerUserId, name: id, note: '', prefix: 'plr_', rotatedFrom: '', isAdmin: false, revision: 1, createdAt: 0, updatedAt: 0, revokedAt: undefined, lastUsedAt: undefined, lastUsedAddress: '' };
}

function principalOf(key: ApiKey, role = key.ownerUserId): Principal {
  const held = new Set(systemRoleOf(role)?.scopes);
  const { id: keyId, prefix: keyPrefix, organizationId, ownerUserId, allowedAddresses, isAdmin } = key;
  return { keyId, keyPrefix, organizationId, ownerUserId, scopes: new Set(key.scopes.filter((scope) => held.has(scope))), connections: key.allConnections ? 'all' : new Set(key.connectionIds), reach: reachOf(key.restrictions), allowedAddresses, roleId: role, isAdmin, expiresAt: key.expiresAt };
}

/** Keys, and those of them that come from the first one. */
interface Sitting {
  readonly keys: ApiKey[];
  readonly mine: Set<string>;
}

/** Takes a step as the service does; whether it was allowed. */
function take(step: Step, id: string, { keys, mine }: Sitting): boolean {
  const callers = keys.filter((key) => mine.has(key.id));
  const caller = principalOf(callers[step.by % callers.length] as ApiKey);
  if (step.do === 'create') {
    const grant = withinOwn(cleanGrant(step.grant), caller);
    if (beyondOwn(grant, caller).length > 0 || isKeptFrom(caller, step.owner)) return false;
    keys.push(keyOf(id, grant, step.owner));
    mine.add(id);
    return true;
  }
  const at = step.of % keys.length;
  const changed = changedBy(step, keys[at] as ApiKey, caller);
  if (!changed) return false;
  if (step.do === 'update') keys[at] = changed;
  else keys.push({ ...changed, id });
  mine.add(step.do === 'update' ? changed.id : id);
  return true;
}

/** Whether a key of this role is none of the caller's business. */
function isKeptFrom(caller: Principal, role: string): boolean {
  try {
    refuseKeyOfOwner(caller, role);
    return false;
  } catch {
    return true;
  }
}

function changedBy(step: Exclude<Step, { do: 'create' }>, old: ApiKey, caller: Principal): ApiKey | undefined {
  if (!sees(caller, old) || beyondOf(old, caller).length > 0 || isKeptFrom(caller, old.ownerUserId)) return undefined;
  const changed = step.do === 'rotate' ? old : { ...old, restrictions: cleanRestrictions(step.restrictions), allowedAddresses: readAddresses(step.addresses, '').addresses, expiresAt: step.expiresAt };
  return beyondOf(changed, caller).length > 0 ? undefined : changed;
}

/** Everything that a key can be used for, one word each: another way to say what beyondOwn compares. */
function powers(key: ApiKey): Set<string> {
  const reach = reachOf(key.restrictions);
  const from = compileAddresses(key.allowedAddresses);
  const times = [1, 2, 3, 4, 5, 6].filter((time) => time <= (key.expiresAt ?? Infinity));
  const devices = ['a', 'b', 'c', 'other'].filter((id) => !reach?.devices || reach.devices.ids.has(id));
  const boundTo = ['a', 'b', 'c', 'other'].filter((id) => !reach?.devices || reach.devices.connectionIds.has(id));
  const commands = ['a', 'b', 'c', 'other'].filter((id) => !reach?.commands || reach.commands.has(id));
  const gateways = key.allConnections ? ['a', 'b', 'c', 'other'] : key.connectionIds;
  const words = [...key.scopes.map((s) => `scope ${s}`), ...times.map((t) => `at ${t}`), ...PEERS.filter(from).map((p) => `from ${p}`), ...devices.map((d) => `device ${d}`), ...boundTo.map((c) => `bound to ${c}`), ...commands.map((c) => `command ${c}`), ...gateways.map((c) => `gateway ${c}`)];
  return new Set(key.ownerUserId === 'owner' ? [...words, 'makes owners'] : words);
}

describe('what a key gives', () => {
  it(`never grows, by whatever chain of creations, changes and rotations (seed ${SEED})`, () => {
    let made = 0;
    fc.assert(
      fc.property(fc.oneof(grants, wide), fc.constantFrom('owner', 'admin'), fc.array(steps, { minLength: 10, maxLength: 30 }), (own, owner, chain) => {
        expect(grantViolations(own, 0)).toEqual([]);
        const first = keyOf('first', own, owner);
        const all = powers(first);
        // Only keys that come from the first one: whose are there besides, only `sees` and `beyondOf` keep apart.
        const keys = [first, keyOf('stranger', { scopes: SCOPES, connectionIds: [], allConnections: true, restrictions: undefined, allowedAddresses: [], expiresAt: undefined })];
        const mine = new Set(['first']);
        const sitting = { keys, mine };
        for (const [n, step] of chain.entries()) made += take(step, `key ${n}`, sitting) ? 1 : 0;
        for (const key of keys.filter(({ id }) => mine.has(id))) expect([...powers(key)].filter((power) => !all.has(power))).toEqual([]);
      }),
      { seed: SEED, numRuns: 120 },
    );
    expect(made).toBeGreaterThan(500); // else nothing was looked at
  });

  it(`is beyond exactly where it can do something more, of grants that differ in one thing (seed ${SEED})`, () => {
    fc.assert(
      fc.property(grants, grants, fc.constantFrom('restrictions', 'allowedAddresses', 'expiresAt', 'scopes') as fc.Arbitrary<keyof KeyGrant>, (one, other, thing) => {
        const bare = { ...one, scopes: ['devices:read'], connectionIds: [], allConnections: false };
        const [own, given] = [keyOf('own', bare), keyOf('given', { ...bare, [thing]: other[thing] })];
        const more = [...powers(given)].some((power) => !powers(own).has(power));
        const beyond = beyondOwn(given, principalOf(own)).length > 0;
        // What is more is always seen; the other way round two networks can hold the same few peers of this test.
        if (more || thing !== 'allowedAddresses') expect(beyond).toBe(more);
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it('counts of the own key only what the role of its owner leaves of it', () => {
    const grant = { scopes: ['devices:read', 'devices:write'], connectionIds: [], allConnections: false, restrictions: undefined, allowedAddresses: [], expiresAt: undefined };
    const key = keyOf('own', grant);
    const viewer = principalOf(key, 'viewer');
    expect(beyondOf(key, viewer)).toEqual([]);
    expect(beyondOf({ ...key, id: 'another' }, viewer)).toEqual(['scope devices:write']);
    expect(beyondOf({ ...key, isAdmin: true }, viewer)).toEqual(['the whole installation']);
    expect(beyondOf({ ...key, expiresAt: 5 }, { ...viewer, expiresAt: 4 })).toEqual(['an end after 1970-01-01T00:00:00.004Z']);
  });
});
