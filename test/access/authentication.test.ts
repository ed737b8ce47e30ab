import { UnitOfWork } from '../../src/database';
import { accessRepositories } from '../../src/access';
import { newKeyText } from '../../src/access/keys/apiKey';
import { ApiKeyRepository } from '../../src/access/keys/apiKeyRepository';
import { KnownKeyRepository } from '../../src/access/keys/knownKeyRepository';
import type { ListApiKeysRequest, ListApiKeysResponse } from '../../src/gen/organization_access_control/access_control_service';
import type { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import type { KeyRefused, Principal } from '../../src/kernel/principal';
import { call, callFails } from '../support/edge';
import { engines } from '../support/engines';
import { openAccess, startAccessRoom, type AccessRoom } from './accessRoom';

const SECOND = 1000;
const PEER = '192.0.2.7';

describe.each(engines())('authentication on $name', (engine) => {
  let room: AccessRoom;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
  });
  afterAll(async () => await room.stop());

  const check = async (key: string | undefined): Promise<Principal> => await room.authentication.authenticate(key, PEER);
  const refusal = async (key: string | undefined): Promise<string> => {
    try {
      await check(key);
      return 'passed';
    } catch (error) {
      return (error as DomainError).reason;
    }
  };

  it('refuses in order: missing, mistyped, unknown, revoked, expired', async () => {
    const { id, key } = await room.key({ expiresAt: room.clock.now() + SECOND });
    const unknown = newKeyText();
    expect(await refusal(undefined)).toBe('api_key_missing');
    expect(await refusal('')).toBe('api_key_missing');
    expect(await refusal(`${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`)).toBe('api_key_invalid');
    expect(await refusal(unknown)).toBe('api_key_invalid');
    expect(await refusal(key)).toBe('passed');
    room.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_expired');
    await room.keys.revoke(room.first.organization.id, id);
    expect(await refusal(key)).toBe('api_key_revoked');
    expect(await refusal(unknown)).toBe('api_key_invalid');
  });

  it('says on the wire what a key may do, and refuses calls without one before the scope', async () => {
    const { id, key } = await room.key({ scopes: ['devices:read', 'gateways:write'], connectionIds: ['connection-1'] });
    expect(await check(key)).toEqual({
      keyId: id,
      keyPrefix: key.slice(0, 10),
      organizationId: room.first.organization.id,
      ownerUserId: room.first.user.id,
      scopes: new Set(['devices:read', 'gateways:write']),
      reach: undefined,
      allowedAddresses: [],
      roleId: 'owner',
      connections: new Set(['connection-1']),
      isAdmin: false,
      expiresAt: undefined,
    });
    const list = room.client.listApiKeys.bind(room.client);
    const request = { organizationId: '', pageToken: '' };
    expect((await callFails(list, request, {})).reason).toBe('api_key_missing');
    expect((await callFails(list, request, room.as(key))).reason).toBe('scope_missing');
    expect((await call<ListApiKeysRequest, ListApiKeysResponse>(list, request, room.as())).apiKeys.length).toBeGreaterThan(0);
  });

  it('lets a key do what the role of its owner holds too, at every moment', async () => {
    const { organization } = room.first;
    const { members, roles } = room.uow.repos;
    const person = { id: newId(), name: 'Technician', email: '', createdAt: 0, updatedAt: 0, removedAt: undefined };
    await room.uow.repos.users.create(person);
    await members.create(organization.id, { userId: person.id, roleId: 'admin', at: 0 });
    const { key } = await room.key({ ownerUserId: person.id, scopes: ['devices:read', 'devices:write', 'media:read'] });
    const may = async (roleId: string): Promise<string[]> => {
      await members.setRole(organization.id, person.id, roleId, 0);
      room.authentication.accessChanged(organization.id);
      return [...(await check(key)).scopes];
    };
    expect(await may('operator')).toEqual(['devices:read', 'media:read']);
    const own = { id: newId(), organizationId: organization.id, name: 'Writers', description: '', scopes: ['devices:write', 'telemetry:read'], isSystem: false, createdAt: 0, updatedAt: 0, revision: 1 };
    await roles.create(organization.id, own);
    expect(await may(own.id)).toEqual(['devices:write']);
    await roles.update(organization.id, { ...own, scopes: ['media:read'] });
    room.clock.advance(SECOND - 1);
    expect([...(await check(key)).scopes]).toEqual(['devices:write']); // as far as this process knows
    room.clock.advance(1);
    expect([...(await check(key)).scopes]).toEqual(['media:read']);
    const principal = await check(key);
    await members.remove(organization.id, person.id);
    room.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_revoked');
    await expect(room.authentication.recheck(principal)).rejects.toMatchObject({ reason: 'api_key_revoked', key: { keyId: principal.keyId } });
  });

  it('refuses the keys of an organization that is being deleted', async () => {
    const { id } = await room.organizations.create('Short-lived', room.first.user.id);
    const { key } = await room.keys.create(id, { name: 'Key', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: room.first.user.id });
    expect(await refusal(key)).toBe('passed');
    await room.db.database.db.knex('organizations').where({ id }).update({ deleted_at: 1 });
    room.authentication.accessChanged(id);
    expect(await refusal(key)).toBe('api_key_revoked');
  });

  it('refuses a key from an address that it does not allow, after all else that ends a key', async () => {
    const { id, key } = await room.key({ allowedAddresses: ['192.0.2.0/28', '2001:db8::/32'], expiresAt: room.clock.now() + SECOND });
    const from = async (peer: string): Promise<unknown> => await Promise.resolve().then(async () => await room.authentication.authenticate(key, peer)).then(({ keyId }) => keyId, ({ kind, reason, metadata, key: whose }: KeyRefused) => ({ kind, reason, metadata, keyId: whose.keyId }));
    const refused = (address: string) => ({ kind: 'permission_denied', reason: 'address_not_allowed', metadata: { address }, keyId: id });
    for (const peer of [PEER, '192.0.2.15', '2001:db8:1::1']) expect(await from(peer)).toBe(id);
    for (const peer of ['192.0.2.16', '198.51.100.7', '2001:db9::1', 'unknown']) expect(await from(peer)).toEqual(refused(peer));
    expect(await from(PEER)).toBe(id);
    const principal = await check(key);
    room.authentication.requireAllowed(principal, PEER);
    expect(() => room.authentication.requireAllowed(principal, '198.51.100.7')).toThrow(expect.objectContaining({ reason: 'address_not_allowed' }) as Error);
    room.clock.advance(SECOND);
    expect(await from('192.0.2.16')).toMatchObject({ reason: 'api_key_expired' });
  });

  it('answers without a promise for a second', async () => {
    const { key } = await room.key();
    expect(room.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
    await check(key);
    room.clock.advance(SECOND - 1);
    expect(room.authentication.authenticate(key, PEER)).not.toBeInstanceOf(Promise);
    room.clock.advance(1);
    expect(room.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
    await check(key);
  });

  it('refuses a revoked key at once, and tells who listens once it is on disk', async () => {
    const { id, key } = await room.key();
    const principal = await check(key);
    await room.authentication.recheck(principal);
    const told: string[] = [];
    const stop = room.authentication.onKeyChanged((keyId) => told.push(keyId));
    await room.keys.revoke(room.first.organization.id, id);
    await room.keys.revoke(room.first.organization.id, id);
    stop();
    expect(told).toEqual([id]);
    expect(await refusal(key)).toBe('api_key_revoked');
    await expect(room.authentication.recheck(principal)).rejects.toMatchObject({ kind: 'unauthenticated', reason: 'api_key_revoked' });
  });

  it('never takes a key that is revoked while it is read for a good one afterwards', async () => {
    const { id, key } = await room.key();
    const reads = Array.from({ length: 10 }, async () => await refusal(key));
    await room.keys.revoke(room.first.organization.id, id);
    await Promise.all(reads);
    expect(await refusal(key)).toBe('api_key_revoked');
  });

  it('reads a key again after changes of its own and of its organization alone, and twice at most for one call, however many there are', async () => {
    const { id, key } = await room.key();
    await check(key);
    room.authentication.keyChanged(newId());
    room.authentication.accessChanged(newId());
    expect(room.authentication.authenticate(key, PEER)).not.toBeInstanceOf(Promise);
    for (const change of [() => room.authentication.keyChanged(id), () => room.authentication.accessChanged(room.first.organization.id)]) {
      change();
      expect(room.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise);
      await check(key);
    }
    const real = new KnownKeyRepository(room.db.database.db);
    const find = real.findByHashes.bind(real);
    const flooded = jest.spyOn(KnownKeyRepository.prototype, 'findByHashes').mockImplementation(async (hashes) => {
      const found = await find(hashes);
      room.authentication.accessChanged(room.first.organization.id);
      return found;
    });
    room.authentication.keyChanged(id);
    expect(await refusal(key)).toBe('passed');
    expect(flooded).toHaveBeenCalledTimes(2);
    expect(room.authentication.authenticate(key, PEER)).toBeInstanceOf(Promise); // what was overtaken is kept for nobody else
    flooded.mockRestore();
  });

  it('reads the keys of calls before those of streams, and those of streams all the same', async () => {
    const keys = await Promise.all(Array.from({ length: 100 }, async () => (await room.key()).key));
    const principals = await Promise.all(keys.map(async (key) => await check(key)));
    const { key } = await room.key();
    const done: string[] = [];
    const rechecks = principals.map(async (principal) => (await room.authentication.recheck(principal), done.push('stream')));
    const callOf = check(key).then(() => done.push('call'));
    await callOf;
    expect(done.length).toBeLessThanOrEqual(32);
    await Promise.all(rechecks);
    const flood = Promise.all(Array.from({ length: 300 }, async () => (await refusal(newKeyText()), done.push('unknown'))));
    done.length = 0;
    await room.authentication.recheck(principals[0] as Principal);
    expect(done.length).toBeLessThanOrEqual(32);
    await flood;
  });

  it('sees within a second what another process did', async () => {
    const { id, key } = await room.key();
    await check(key);
    const elsewhere = await room.db.open();
    const other = openAccess(elsewhere, room.clock, room.log);
    await other.keys.revoke(room.first.organization.id, id);
    expect(await refusal(key)).toBe('passed');
    room.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_revoked');
    await elsewhere.close();
  });

  it('refuses a key whose row is gone', async () => {
    const { id, key } = await room.key();
    const principal = await check(key);
    await room.db.database.db.knex('api_keys').where({ id }).delete();
    room.clock.advance(SECOND);
    expect(await refusal(key)).toBe('api_key_invalid');
    await expect(room.authentication.recheck(principal)).rejects.toMatchObject({ reason: 'api_key_invalid' });
  });

  it('writes down the last use to the minute, when told or at the end, not with each call', async () => {
    const { id, key } = await room.key();
    const { apiKeys } = new UnitOfWork(room.db.database, accessRepositories).repos;
    const lastUse = async (): Promise<unknown[]> => {
      const record = await apiKeys.get(room.first.organization.id, id);
      return [record.lastUsedAt, record.lastUsedAddress];
    };
    const minute = Math.floor(room.clock.now() / 60_000) * 60_000;
    await check(key);
    await room.authentication.authenticate(key, '2001:db8::1');
    expect(await lastUse()).toEqual([undefined, '']);
    await room.authentication.flush();
    expect(await lastUse()).toEqual([minute, '2001:db8::1']);
    room.clock.advance(60_000);
    await check(key);
    await room.authentication.flush();
    expect(await lastUse()).toEqual([minute + 60_000, PEER]);
    expect((await apiKeys.get(room.first.organization.id, id)).updatedAt).toBeLessThan(room.clock.now());
    const writes = jest.spyOn(ApiKeyRepository.prototype, 'noteUse');
    for (let call = 0; call < 50; call += 1) await room.authentication.authenticate(key, call % 2 === 0 ? PEER : '2001:db8::1');
    expect(writes).not.toHaveBeenCalled();
    await room.authentication.flush();
    expect(writes.mock.calls.filter(([, keyId]) => keyId === id)).toHaveLength(1);
    expect(await lastUse()).toEqual([minute + 60_000, '2001:db8::1']);
    writes.mockRestore();
  });

  it('keeps the last uses for the next time when they cannot be written', async () => {
    const elsewhere = await room.db.open();
    const other = openAccess(elsewhere, room.clock, room.log);
    await other.authentication.authenticate(room.first.key, PEER);
    await elsewhere.close();
    await other.authentication.close();
    expect(room.log.of('access.key_uses_not_written')).toMatchObject([{ keys: 1 }]);
  });

  it('never writes a key into the log', async () => {
    const { key } = await room.key();
    await callFails(room.client.listApiKeys.bind(room.client), { organizationId: '', pageToken: '' }, room.as(key));
    await callFails(room.client.listApiKeys.bind(room.client), { organizationId: '', pageToken: '' }, room.as(`${key}x`));
    const text = JSON.stringify(room.log.lines);
    expect(text).toContain('api_key_invalid');
    expect(text).not.toContain(key.slice(0, 20));
  });
});
