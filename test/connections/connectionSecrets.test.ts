import { readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { SecretBox, SecretKey } from '../../src/connections';
import type { NewConnection } from '../../src/connections/connectionService';
import { type Connection as ConnectionMessage, ConnectionServiceClient, type UpdateConnectionRequest } from '../../src/gen/connection/connection_service';
import { silentLogger } from '../../src/kernel/logger';
import { call, callFails, MemoryLog, temporaryFolder, type TestEdge } from '../support/edge';
import { engines } from '../support/engines';
import { openRoom, serveRoom, type ConnectionRoom } from './connectionRoom';
import { registerFake } from './fakeConnector';

const SEED = 20_261_121;
const PASSWORD = 'correct horse battery staple';
const TOKEN = 'tok-5ecret-of-the-broker';
const url = 'mqtt://broker.example';
const full = { url, username: 'plantroom', password: PASSWORD, token: TOKEN };
const input = (configuration: NewConnection['configuration']): NewConnection => ({ connectorId: 'fake', name: 'Broker', description: '', enabled: true, configuration, policy: {} });
const change = (configuration: NewConnection['configuration'] | undefined, enabled?: boolean) => ({ name: undefined, description: undefined, enabled, configuration, policy: undefined });

beforeAll(registerFake);

describe.each(engines())('secrets of connections on $name', (engine) => {
  let room: ConnectionRoom;
  beforeEach(async () => {
    room = await openRoom(engine);
  });
  afterEach(async () => await room.test.drop());

  const stored = async (id: string): Promise<string> => JSON.stringify(await room.test.database.db.knex('connections').where({ id }).first());
  const keyFile = (): string => join(room.test.dataDir, 'secrets.key');

  it('reach the connector, and are stored as nothing that can be read', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    expect(connection.configuration).toEqual({ url, username: 'plantroom' });
    expect(room.fake.taken.map(({ settings }) => settings)).toEqual([full]);
    expect(await stored(connection.id)).not.toMatch(/correct horse|5ecret/);
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    if (engine.name === 'sqlite') {
      const files = readdirSync(room.test.dataDir).filter((name) => name.startsWith('plantroom.db'));
      for (const name of files) expect(readFileSync(join(room.test.dataDir, name)).includes(PASSWORD)).toBe(false);
    }
  });

  it('stay when a change leaves them out, go when it gives null, and are replaced when it gives another one', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    const settings = async (configuration: NewConnection['configuration'] | undefined): Promise<unknown> => {
      const after = await room.service.update('org-1', connection.id, change(configuration), undefined);
      expect(JSON.stringify(after)).not.toMatch(/correct horse|5ecret|new one/);
      return room.fake.taken.at(-1)?.settings;
    };
    expect(await settings(undefined)).toEqual(full);
    expect(await settings({ url, username: 'u' })).toEqual({ url, username: 'u', password: PASSWORD, token: TOKEN });
    expect(await settings({ url, username: 'u', password: 'new one', token: null })).toEqual({ url, username: 'u', password: 'new one' });
    expect(await settings({ url, password: null })).toEqual({ url });
    expect((await room.service.get('org-1', connection.id)).connection.sealedSecrets).toEqual({});
    await expect(room.service.create('org-1', { ...input({ url, password: null, token: null }), name: 'Other' })).resolves.toMatchObject({ connection: { sealedSecrets: {} } });
  });

  it('are sent to no other place than they were given for', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    const elsewhere = { url: 'mqtt://listener.example', username: 'plantroom' };
    const refused = room.service.update('org-1', connection.id, change(elsewhere), undefined);
    const description = expect.stringMatching(/give it again.*`url` changed/);
    await expect(refused).rejects.toMatchObject({ reason: 'validation_failed', violations: [{ field: 'configuration.password', description }, { field: 'configuration.token', description }] });
    await expect(room.service.update('org-1', connection.id, change({ ...elsewhere, token: 'other' }), undefined)).rejects.toMatchObject({ violations: [{ field: 'configuration.password' }] });
    expect(room.fake.taken).toHaveLength(1);
    await room.service.update('org-1', connection.id, change({ ...elsewhere, token: 'other', password: null }), undefined);
    await room.service.update('org-1', connection.id, change({ ...elsewhere, keepaliveSeconds: 60 }), undefined);
    expect(room.fake.taken.at(-1)?.settings).toEqual({ ...elsewhere, token: 'other', keepaliveSeconds: 60 });
  });

  it.each<[string, NewConnection['configuration']]>([
    ['without TLS', { url: 'mqtt://broker.example' }],
    ['another host', { url: 'mqtts://listener.example' }],
    ['another port', { url: 'mqtts://broker.example:9999' }],
    ['another name of the certificate', { serverName: 'listener.example' }],
    ['another authority', { caCertificate: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----' }],
  ])('of a broker are for it alone: %s', async (_, changed) => {
    const mqtt = { url: 'mqtts://broker.example', username: 'u', uplinkTopic: 'up/{clientDeviceId}' };
    for (const [connectorId, configuration] of Object.entries({ mqtt, chirpstack: { url: mqtt.url, username: 'u', applicationId: '0190a0a0-0000-7000-8000-000000000000' } })) {
      const { connection } = await room.service.create('org-1', { ...input({ ...configuration, password: PASSWORD }), name: connectorId, connectorId });
      const error = await room.service.update('org-1', connection.id, change({ ...configuration, ...changed }), undefined).catch((e: unknown) => e);
      expect(error).toMatchObject({ violations: [{ field: 'configuration.password', description: expect.stringContaining(`\`${Object.keys(changed).join()}\` changed`) }] });
      await room.service.update('org-1', connection.id, change({ ...configuration, username: 'v', clientId: 'plantroom' }), undefined);
    }
  });

  it('are checked together with what stays', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    await expect(room.service.update('org-1', connection.id, change({ url }), undefined)).rejects.toMatchObject({ violations: [{ field: 'configuration.username' }] });
    const error = await room.service.update('org-1', connection.id, change({ url, username: 'u', token: { [TOKEN]: 1 } }), undefined).catch((e: unknown) => e);
    expect(error).toMatchObject({ violations: [{ field: 'configuration.token', description: 'must be a text' }] });
    expect(JSON.stringify(error)).not.toContain(TOKEN);
    expect(room.fake.taken).toHaveLength(1);
  });

  it('open with the key of their making only; the connection says so, and others work', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    const key = readFileSync(keyFile());
    writeFileSync(keyFile(), `${Buffer.alloc(32, 7).toString('base64')}\n`);
    const again = await openRoom(engine, undefined, room.test);
    again.hub.connectionChanged(connection);
    expect(again.fake.taken).toMatchObject([{ connection: { id: connection.id, enabled: false }, settings: { url } }]);
    expect(again.statuses.of(connection)).toMatchObject({ state: 'error', lastError: expect.stringMatching(/^secrets_unreadable: the secret fields `password`, `token` cannot be read: .*another key/) });
    expect(again.log.of('connection.not_opened')).toMatchObject([{ connection_id: connection.id }]);
    const other = await again.service.create('org-1', { ...input({ url, token: 'x' }), name: 'Other' });
    expect(again.fake.taken.at(-1)?.settings).toEqual({ url, token: 'x' });
    expect(again.statuses.of(other.connection).lastError).toBe('');
    await expect(again.service.update('org-1', connection.id, change({ url, username: 'u', token: 'y' }), undefined)).rejects.toMatchObject({ kind: 'conflict', reason: 'secrets_unreadable', message: expect.stringContaining('`password`') });
    await again.service.update('org-1', connection.id, { ...change(undefined), name: 'Renamed' }, undefined);
    await again.service.update('org-1', connection.id, change({ url, username: 'u', password: 'p', token: 'y' }), undefined);
    expect(again.fake.taken.at(-1)?.settings).toEqual({ url, username: 'u', password: 'p', token: 'y' });
    writeFileSync(keyFile(), key);
  });

  it.each([
    ['is missing', (file: string) => rmSync(file), 'is missing; put it back'],
    ['is something else', (file: string) => writeFileSync(file, 'key'), 'is not 32 bytes in base64'],
  ])('wait for a key that %s, without a restart', async (_, harm, says) => {
    const { connection } = await room.service.create('org-1', input(full));
    const key = readFileSync(keyFile());
    harm(keyFile());
    const again = await openRoom(engine, undefined, room.test);
    again.hub.connectionChanged(connection);
    expect(again.statuses.of(connection).lastError).toContain(says);
    writeFileSync(keyFile(), key);
    again.hub.connectionChanged(connection);
    expect(again.fake.taken.at(-1)?.settings).toEqual(full);
  });

  it('are never encrypted with a second key beside those of a lost one', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    rmSync(keyFile());
    const again = await openRoom(engine, undefined, room.test);
    const refused = { kind: 'conflict', reason: 'secrets_unreadable', message: expect.stringContaining('put it back') };
    await expect(again.service.create('org-2', input({ url, token: 'x' }))).rejects.toMatchObject(refused);
    await expect(again.service.update('org-1', connection.id, change({ url, token: 'x', password: 'y', username: 'u' }), undefined)).rejects.toMatchObject(refused);
    expect(readdirSync(room.test.dataDir)).not.toContain('secrets.key');
    await again.service.create('org-2', input({ url }));
    writeFileSync(keyFile(), Buffer.alloc(32, 9).toString('base64'));
    await again.service.update('org-1', connection.id, change({ url, token: 'x', password: null }), undefined);
    expect(again.fake.taken.at(-1)?.settings).toEqual({ url, token: 'x' });
  });

  it('are not encrypted with a key whose file is gone, and are opened with it', async () => {
    const { connection } = await room.service.create('org-1', input(full));
    rmSync(keyFile());
    await expect(room.service.create('org-1', { ...input({ url, token: 'x' }), name: 'Other' })).rejects.toMatchObject({ reason: 'secrets_unreadable' });
    await room.service.update('org-1', connection.id, change(undefined, true), undefined);
    expect(room.fake.taken.at(-1)?.settings).toEqual(full);
  });

  it('of a connection that is switched off are not opened', async () => {
    const { connection } = await room.service.create('org-1', { ...input(full), enabled: false });
    expect(room.fake.taken).toEqual([{ connection, settings: connection.configuration }]);
  });
});

describe('secrets of connections', () => {
  let room: ConnectionRoom;
  let edge: TestEdge;
  let client: ConnectionServiceClient;
  const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
  beforeAll(async () => {
    room = await openRoom();
    edge = await serveRoom(room);
    edge.keys.add('key');
    client = edge.client(ConnectionServiceClient);
  });
  afterAll(async () => {
    await edge.stop();
    await room.test.drop();
  });

  it('are in no answer, no error and no log; the names of those that are set are', async () => {
    const create = client.createConnection.bind(client);
    const request = { organizationId: '', connectorId: 'fake', name: 'Broker', configuration: full, policy: undefined };
    const created = await call<typeof request, ConnectionMessage>(create, request, fields);
    expect(created).toMatchObject({ configuration: { url, username: 'plantroom' }, secretsSet: ['password', 'token'] });
    const update: UpdateConnectionRequest = { id: created.id, organizationId: '', configuration: { url, username: 'u', token: null }, policy: undefined };
    const updated = await call<UpdateConnectionRequest, ConnectionMessage>(client.updateConnection.bind(client), update, fields);
    expect(updated.secretsSet).toEqual(['password']);
    const list = await call(client.listConnections.bind(client), { organizationId: '', pageToken: '' }, fields);
    const failed = await callFails(create, { ...request, name: 'Other', configuration: { password: PASSWORD, [TOKEN.slice(0, 3)]: PASSWORD } }, fields);
    expect(failed.fields.toSorted()).toEqual(['configuration.tok', 'configuration.url', 'configuration.username']);
    const seen = JSON.stringify([created, updated, list, { ...failed, trailers: failed.trailers.toJSON() }, room.log.lines, edge.log.lines]);
    expect(seen).not.toMatch(/correct horse|5ecret/);
  });
});

describe('the box of secrets', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeEach(async () => {
    folder = await temporaryFolder();
  });
  afterEach(async () => await folder.remove());

  const keyOf = (options: { key?: string; keyFile?: string; dataDir?: string } = {}): SecretKey => new SecretKey({ key: '', keyFile: '', dataDir: folder.path, log: silentLogger, ...options });

  it('gives back what was put in, at the same place only, and never shows the same twice', () => {
    const box = new SecretBox(keyOf());
    const place = fc.array(fc.string(), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.jsonValue(), place, place, (value, here, there) => {
        const sealed = box.seal(here, value);
        expect(JSON.stringify(box.open(here, sealed))).toBe(JSON.stringify(value));
        expect(box.seal(here, value)).not.toBe(sealed);
        if (JSON.stringify(here) !== JSON.stringify(there)) expect(() => box.open(there, sealed)).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
      }),
      { seed: SEED },
    );
  });

  it('notices every change of what is stored', () => {
    const box = new SecretBox(keyOf());
    const sealed = box.seal(['a'], 'secret');
    fc.assert(
      fc.property(fc.nat(sealed.length - 1), fc.constantFrom('A', '.', 'z', ''), (at, other) => {
        const changed = sealed.slice(0, at) + other + sealed.slice(at + 1);
        if (changed !== sealed) expect(() => box.open(['a'], changed)).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
      }),
      { seed: SEED },
    );
    expect(() => box.open(['a'], '')).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
  });

  it('takes the key of the configuration, or that of a file, and makes neither', () => {
    const key = Buffer.alloc(32, 3).toString('base64');
    const file = join(folder.path, 'my.key');
    writeFileSync(file, key);
    const sealed = new SecretBox(keyOf({ key })).seal(['a'], 1);
    expect(new SecretBox(keyOf({ keyFile: file })).open(['a'], sealed)).toBe(1);
    expect(() => new SecretBox(keyOf({ keyFile: `${file}.other` })).seal(['a'], 1)).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
    expect(readdirSync(folder.path)).toEqual(['my.key']);
  });

  it('makes a key when there is something to put in, not to take out', () => {
    expect(() => new SecretBox(keyOf()).open(['a'], 'v1.x.y')).toThrow(/is missing/);
    expect(readdirSync(folder.path)).toEqual([]);
    new SecretBox(keyOf()).seal(['a'], 1);
    expect(readdirSync(folder.path)).toEqual(['secrets.key']);
    const first = readFileSync(join(folder.path, 'secrets.key'), 'utf8');
    new SecretBox(keyOf()).seal(['a'], 1);
    expect(readFileSync(join(folder.path, 'secrets.key'), 'utf8')).toBe(first);
  });

  it('makes a key though a server was killed while it made one', () => {
    writeFileSync(join(folder.path, `secrets.key.${process.pid}.new`), 'half');
    new SecretBox(keyOf()).seal(['a'], 1);
    expect(readdirSync(folder.path)).toEqual(['secrets.key']);
  });

  it('says so if the way to the key is barred', () => {
    const loop = join(folder.path, 'loop');
    symlinkSync(loop, loop);
    expect(() => new SecretBox(keyOf({ keyFile: join(loop, 'my.key') })).seal(['a'], 1)).toThrow(expect.objectContaining({ reason: 'secrets_unreadable', message: expect.stringContaining('cannot be read') }));
  });

  it('takes up another key that takes the place of the first', () => {
    const file = join(folder.path, 'my.key');
    writeFileSync(file, Buffer.alloc(32, 3).toString('base64'));
    const box = new SecretBox(keyOf({ keyFile: file }));
    const sealed = box.seal(['a'], 1);
    writeFileSync(`${file}.new`, Buffer.alloc(32, 4).toString('base64'));
    renameSync(`${file}.new`, file);
    expect(() => box.open(['a'], sealed)).toThrow(/another key/);
    writeFileSync(`${file}.old`, Buffer.alloc(32, 3).toString('base64'));
    renameSync(`${file}.old`, file);
    expect(box.open(['a'], sealed)).toBe(1);
  });

  it('says so if the key cannot be made', () => {
    const log = new MemoryLog();
    const box = new SecretBox(new SecretKey({ key: '', keyFile: '', dataDir: join(folder.path, 'none'), log }));
    expect(() => box.seal(['a'], 1)).toThrow(expect.objectContaining({ kind: 'conflict', reason: 'secrets_unreadable' }));
    expect(log.of('secrets.key_not_made')).toHaveLength(1);
  });
});
