import { UnitOfWork } from '../../src/database';
import { createAccessRepositories } from '../../src/access';
import { newKeyText } from '../../src/access/keys/apiKey';
import { ApiKeyRepository } from '../../src/access/keys/apiKeyRepository';
import { KnownKeyRepository } from '../../src/access/keys/knownKeyRepository';
import type {
  ListApiKeysRequest,
  ListApiKeysResponse,
} from '../../src/gen/organization_access_control/access_control_service';
import type { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import type { ApiKeyRejectedError, Principal } from '../../src/kernel/principal';
import { call, callFails } from '../support/edge';
import { engines } from '../support/engines';
import { openAccess, startAccessFixture, type AccessFixture } from './accessFixture';

const SECOND = 1000;
const PEER = '192.0.2.7';

describe.each(engines())('authentication on $name', (engine) => {
  let fixture: AccessFixture;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  const check = async (key: string | undefined): Promise<Principal> =>
    await fixture.authentication.authenticate(key, PEER);
  const refusal = async (key: string | undefined): Promise<string> => {
    try {
      await check(key);
      return 'passed';
    } catch (error) {
      return (error as DomainError).reason;
    }
  };

  it('rejects in this order: missing, mistyped, unknown, revoked, expired', async () => {
    const { id, key } = await fixture.createKey({ expiresAt: fixture.clock.now() + SECOND });
    const unknown = newKeyText();
    expect(await refusal(undefined)).toBe('api_key_missing');
    expect(await refusal('')).toBe('api_key_missing');
    expect(await refusal(`${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`)).toBe('api_key_invalid');
    expect(await refusal(unknown)).toBe('api_key_invalid');
    expect(await refusal(key)).toBe('passed');
    fixture.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_expired');
    await fixture.keys.revoke(fixture.first.organization.id, id);
    expect(await refusal(key)).toBe('api_key_revoked');
    expect(await refusal(unknown)).toBe('api_key_invalid');
  });

  it('sends the grant of a key, and checks for a missing key before the scope', async () => {
    const { id, key } = await fixture.createKey({
      scopes: ['devices:read', 'gateways:write'],
      connectionIds: ['connection-1'],
    });
    expect(await check(key)).toEqual({
      keyId: id,
      keyPrefix: key.slice(0, 10),
      organizationId: fixture.first.organization.id,
      ownerUserId: fixture.first.user.id,
      scopes: new Set(['devices:read', 'gateways:write']),
      resourceScope: undefined,
      allowedAddresses: [],
      canActAsOwner: true,
      isOwner: true,
      connections: new Set(['connection-1']),
      isAdmin: false,
      expiresAt: undefined,
    });
    const list = fixture.client.listApiKeys.bind(fixture.client);
    const request = { organizationId: '', pageToken: '' };
    expect((await callFails(list, request, {})).reason).toBe('api_key_missing');
    expect((await callFails(list, request, fixture.as(key))).reason).toBe('insufficient_scope');
    expect(
      (await call<ListApiKeysRequest, ListApiKeysResponse>(list, request, fixture.as())).apiKeys.length,
    ).toBeGreaterThan(0);
  });

  it('grants a key at any time only what the role of its owner holds too', async () => {
    const { organization } = fixture.first;
    const { members, roles } = fixture.uow.repos;
    const person = { id: newId(), name: 'Technician', email: '', createdAt: 0, updatedAt: 0, removedAt: undefined };
    await fixture.uow.repos.users.create(person);
    await members.create(organization.id, { userId: person.id, roleId: 'admin', at: 0 });
    const { key } = await fixture.createKey({
      ownerUserId: person.id,
      scopes: ['devices:read', 'devices:write', 'media:read'],
    });
    const getGrantedScopes = async (roleId: string): Promise<string[]> => {
      await members.setRole(organization.id, person.id, roleId, 0);
      fixture.authentication.invalidation.accessChanged(organization.id);
      return [...(await check(key)).scopes];
    };
    expect(await getGrantedScopes('operator')).toEqual(['devices:read', 'media:read']);
    const own = {
      id: newId(),
      organizationId: organization.id,
      name: 'Writers',
      description: '',
      scopes: ['devices:write', 'telemetry:read'],
      isSystem: false,
      createdAt: 0,
      updatedAt: 0,
      revision: 1,
    };
    await roles.create(organization.id, own);
    expect(await getGrantedScopes(own.id)).toEqual(['devices:write']);
    await roles.update(organization.id, { ...own, scopes: ['media:read'] });
    fixture.clock.advance(SECOND - 1);
    expect([...(await check(key)).scopes]).toEqual(['devices:write']); // as far as this process knows
    fixture.clock.advance(1);
    expect([...(await check(key)).scopes]).toEqual(['media:read']);
    const principal = await check(key);
    await members.remove(organization.id, person.id);
    fixture.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_revoked');
    await expect(fixture.authentication.recheck(principal)).rejects.toMatchObject({
      reason: 'api_key_revoked',
      key: { keyId: principal.keyId },
    });
  });

  it('rejects the keys of an organization that is being deleted', async () => {
    const { id } = await fixture.organizations.create('Short-lived', fixture.first.user.id);
    const { key } = await fixture.keys.create(id, {
      name: 'Key',
      scopes: ['devices:read'],
      connectionIds: [],
      allConnections: false,
      expiresAt: undefined,
      isAdmin: false,
      ownerUserId: fixture.first.user.id,
    });
    expect(await refusal(key)).toBe('passed');
    await fixture.db.database.db.knex('organizations').where({ id }).update({ deleted_at: 1 });
    fixture.authentication.invalidation.accessChanged(id);
    expect(await refusal(key)).toBe('api_key_revoked');
  });

  it('rejects a key from an address that is not allowed, after all other checks of the key', async () => {
    const { id, key } = await fixture.createKey({
      allowedAddresses: ['192.0.2.0/28', '2001:db8::/32'],
      expiresAt: fixture.clock.now() + SECOND,
    });
    const from = async (peer: string): Promise<unknown> =>
      await Promise.resolve()
        .then(async () => await fixture.authentication.authenticate(key, peer))
        .then(
          ({ keyId }) => keyId,
          ({ kind, reason, metadata, key: rejectedKey }: ApiKeyRejectedError) => ({
            kind,
            reason,
            metadata,
            keyId: rejectedKey.keyId,
          }),
        );
    const refused = (address: string) => ({
      kind: 'permission_denied',
      reason: 'address_not_allowed',
      metadata: { address },
      keyId: id,
    });
    for (const peer of [PEER, '192.0.2.15', '2001:db8:1::1']) expect(await from(peer)).toBe(id);
    for (const peer of ['192.0.2.16', '198.51.100.7', '2001:db9::1', 'unknown'])
      expect(await from(peer)).toEqual(refused(peer));
    expect(await from(PEER)).toBe(id);
    const principal = await check(key);
    fixture.authentication.assertAddressAllowed(principal, PEER);
    expect(() => fixture.authentication.assertAddressAllowed(principal, '198.51.100.7')).toThrow(
      expect.objectContaining({ reason: 'address_not_allowed' }) as Error,
    );
    fixture.clock.advance(SECOND);
    expect(await from('192.0.2.16')).toMatchObject({ reason: 'api_key_expired' });
  });

  it('returns a cached key without a promise for one second', async () => {
    const { key } = await fixture.createKey();
    expect(fixture.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
    await check(key);
    fixture.clock.advance(SECOND - 1);
    expect(fixture.authentication.authenticate(key, PEER)).not.toBeInstanceOf(Promise);
    fixture.clock.advance(1);
    expect(fixture.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
    await check(key);
  });

  it('rejects a revoked key at once, and notifies listeners once the change is on disk', async () => {
    const { id, key } = await fixture.createKey();
    const principal = await check(key);
    await fixture.authentication.recheck(principal);
    const changedKeys: string[] = [];
    const stop = fixture.authentication.invalidation.onKeyChanged((keyId) => changedKeys.push(keyId));
    await fixture.keys.revoke(fixture.first.organization.id, id);
    await fixture.keys.revoke(fixture.first.organization.id, id);
    stop();
    expect(changedKeys).toEqual([id]);
    expect(await refusal(key)).toBe('api_key_revoked');
    await expect(fixture.authentication.recheck(principal)).rejects.toMatchObject({
      kind: 'unauthenticated',
      reason: 'api_key_revoked',
    });
  });

  it('never accepts a key that is revoked while it is being read', async () => {
    const { id, key } = await fixture.createKey();
    const reads = Array.from({ length: 10 }, async () => await refusal(key));
    await fixture.keys.revoke(fixture.first.organization.id, id);
    await Promise.all(reads);
    expect(await refusal(key)).toBe('api_key_revoked');
  });

  it('reads a key again only after changes of the key or its organization, and at most twice per call', async () => {
    const { id, key } = await fixture.createKey();
    await check(key);
    fixture.authentication.invalidation.keyChanged(newId());
    fixture.authentication.invalidation.accessChanged(newId());
    expect(fixture.authentication.authenticate(key, PEER)).not.toBeInstanceOf(Promise);
    for (const change of [
      () => fixture.authentication.invalidation.keyChanged(id),
      () => fixture.authentication.invalidation.accessChanged(fixture.first.organization.id),
    ]) {
      change();
      expect(fixture.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
      await check(key);
    }
    const real = new KnownKeyRepository(fixture.db.database.db);
    const find = real.findByHashes.bind(real);
    const flooded = jest.spyOn(KnownKeyRepository.prototype, 'findByHashes').mockImplementation(async (hashes) => {
      const found = await find(hashes);
      fixture.authentication.invalidation.accessChanged(fixture.first.organization.id);
      return found;
    });
    fixture.authentication.invalidation.keyChanged(id);
    expect(await refusal(key)).toBe('passed');
    expect(flooded).toHaveBeenCalledTimes(2);
    // an outdated result is not cached for other calls
    expect(fixture.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
    flooded.mockRestore();
  });

  it('reads the keys of calls before those of streams, without starving streams', async () => {
    const keys = await Promise.all(Array.from({ length: 100 }, async () => (await fixture.createKey()).key));
    const principals = await Promise.all(keys.map(async (key) => await check(key)));
    const { key } = await fixture.createKey();
    const done: string[] = [];
    const rechecks = principals.map(
      async (principal) => (await fixture.authentication.recheck(principal), done.push('stream')),
    );
    const callOf = check(key).then(() => done.push('call'));
    await callOf;
    expect(done.length).toBeLessThanOrEqual(32);
    await Promise.all(rechecks);
    const flood = Promise.all(
      Array.from({ length: 300 }, async () => (await refusal(newKeyText()), done.push('unknown'))),
    );
    done.length = 0;
    await fixture.authentication.recheck(principals[0] as Principal);
    expect(done.length).toBeLessThanOrEqual(32);
    await flood;
  });

  it('sees the changes of another process within a second', async () => {
    const { id, key } = await fixture.createKey();
    await check(key);
    const otherDatabase = await fixture.db.open();
    const other = openAccess(otherDatabase, fixture.clock, fixture.log);
    await other.keys.revoke(fixture.first.organization.id, id);
    expect(await refusal(key)).toBe('passed');
    fixture.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_revoked');
    await otherDatabase.close();
  });

  it('rejects a key whose row was deleted', async () => {
    const { id, key } = await fixture.createKey();
    const principal = await check(key);
    await fixture.db.database.db.knex('api_keys').where({ id }).delete();
    fixture.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_invalid');
    await expect(fixture.authentication.recheck(principal)).rejects.toMatchObject({ reason: 'api_key_invalid' });
  });

  it('stores the last use to the minute, when flushed or at the end, not with each call', async () => {
    const { id, key } = await fixture.createKey();
    const { apiKeys } = new UnitOfWork(fixture.db.database, createAccessRepositories).repos;
    const lastUse = async (): Promise<unknown[]> => {
      const record = await apiKeys.get(fixture.first.organization.id, id);
      return [record.lastUsedAt, record.lastUsedAddress];
    };
    const minute = Math.floor(fixture.clock.now() / 60_000) * 60_000;
    await check(key);
    await fixture.authentication.authenticate(key, '2001:db8::1');
    expect(await lastUse()).toEqual([undefined, '']);
    await fixture.authentication.usage.flush();
    expect(await lastUse()).toEqual([minute, '2001:db8::1']);
    fixture.clock.advance(60_000);
    await check(key);
    await fixture.authentication.usage.flush();
    expect(await lastUse()).toEqual([minute + 60_000, PEER]);
    expect((await apiKeys.get(fixture.first.organization.id, id)).updatedAt).toBeLessThan(fixture.clock.now());
    const writes = jest.spyOn(ApiKeyRepository.prototype, 'storeUse');
    for (let call = 0; call < 50; call += 1)
      await fixture.authentication.authenticate(key, call % 2 === 0 ? PEER : '2001:db8::1');
    expect(writes).not.toHaveBeenCalled();
    await fixture.authentication.usage.flush();
    expect(writes.mock.calls.filter(([, keyId]) => keyId === id)).toHaveLength(1);
    expect(await lastUse()).toEqual([minute + 60_000, '2001:db8::1']);
    writes.mockRestore();
  });

  it('keeps the last uses for the next flush when they cannot be written', async () => {
    const otherDatabase = await fixture.db.open();
    const other = openAccess(otherDatabase, fixture.clock, fixture.log);
    await other.authentication.authenticate(fixture.first.key, PEER);
    await otherDatabase.close();
    await other.authentication.usage.close();
    expect(fixture.log.of('auth.last_used_flush_failed')).toMatchObject([{ keys: 1 }]);
  });

  it('never writes a key to the log', async () => {
    const { key } = await fixture.createKey();
    await callFails(
      fixture.client.listApiKeys.bind(fixture.client),
      { organizationId: '', pageToken: '' },
      fixture.as(key),
    );
    await callFails(
      fixture.client.listApiKeys.bind(fixture.client),
      { organizationId: '', pageToken: '' },
      fixture.as(`${key}x`),
    );
    const text = JSON.stringify(fixture.log.lines);
    expect(text).toContain('api_key_invalid');
    expect(text).not.toContain(key.slice(0, 20));
  });
});
