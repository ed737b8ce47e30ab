import { readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { SecretCipher, SecretKey } from '../../src/connections';
import type { NewConnection } from '../../src/connections/connectionService';
import {
  type Connection as ConnectionMessage,
  ConnectionServiceClient,
  type UpdateConnectionRequest,
} from '../../src/gen/connection/connection_service';
import { silentLogger } from '../../src/kernel/logger';
import { call, callFails, MemoryLog, temporaryFolder, type TestEdge } from '../support/edge';
import { sqliteOnly } from '../support/engines';
import { openFixture, serveFixture, type ConnectionFixture } from './connectionFixture';
import { registerFake } from './fakeConnector';

const SEED = 20_261_121;
const PASSWORD = 'correct horse battery staple';
const TOKEN = 'tok-5ecret-of-the-broker';
const url = 'mqtt://broker.example';
const full = { url, username: 'plantroom', password: PASSWORD, token: TOKEN };
const input = (configuration: NewConnection['configuration']): NewConnection => ({
  connectorId: 'fake',
  name: 'Broker',
  description: '',
  enabled: true,
  configuration,
  policy: {},
});
const change = (configuration: NewConnection['configuration'] | undefined, enabled?: boolean) => ({
  name: undefined,
  description: undefined,
  enabled,
  configuration,
  policy: undefined,
});

beforeAll(registerFake);

describe.each(sqliteOnly())('secrets of connections on $name', (engine) => {
  let fixture: ConnectionFixture;
  beforeEach(async () => {
    fixture = await openFixture(engine);
  });
  afterEach(async () => await fixture.test.drop());

  const stored = async (id: string): Promise<string> =>
    JSON.stringify(await fixture.test.database.db.knex('connections').where({ id }).first());
  const keyFile = (): string => join(fixture.test.dataDir, 'secrets.key');

  it('reach the connector and are stored encrypted', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    expect(connection.configuration).toEqual({ url, username: 'plantroom' });
    expect(fixture.fake.changed.map(({ settings }) => settings)).toEqual([full]);
    expect(await stored(connection.id)).not.toMatch(/correct horse|5ecret/);
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    if (engine.name === 'sqlite') {
      const files = readdirSync(fixture.test.dataDir).filter((name) => name.startsWith('plantroom.db'));
      for (const name of files) expect(readFileSync(join(fixture.test.dataDir, name)).includes(PASSWORD)).toBe(false);
    }
  });

  it('are kept when a change omits them, deleted by null, and replaced by a new value', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    const settings = async (configuration: NewConnection['configuration'] | undefined): Promise<unknown> => {
      const after = await fixture.service.update('org-1', connection.id, change(configuration), undefined);
      expect(JSON.stringify(after)).not.toMatch(/correct horse|5ecret|new one/);
      return fixture.fake.changed.at(-1)?.settings;
    };
    expect(await settings(undefined)).toEqual(full);
    expect(await settings({ url, username: 'u' })).toEqual({ url, username: 'u', password: PASSWORD, token: TOKEN });
    expect(await settings({ url, username: 'u', password: 'new one', token: null })).toEqual({
      url,
      username: 'u',
      password: 'new one',
    });
    expect(await settings({ url, password: null })).toEqual({ url });
    expect((await fixture.service.get('org-1', connection.id)).connection.encryptedSecrets).toEqual({});
    await expect(
      fixture.service.create('org-1', { ...input({ url, password: null, token: null }), name: 'Other' }),
    ).resolves.toMatchObject({ connection: { encryptedSecrets: {} } });
  });

  it('are only sent to the address that they were set for', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    const elsewhere = { url: 'mqtt://listener.example', username: 'plantroom' };
    const refused = fixture.service.update('org-1', connection.id, change(elsewhere), undefined);
    const description = expect.stringMatching(/must be set again.*`url` changed/);
    await expect(refused).rejects.toMatchObject({
      reason: 'validation_failed',
      violations: [
        { field: 'configuration.password', description },
        { field: 'configuration.token', description },
      ],
    });
    await expect(
      fixture.service.update('org-1', connection.id, change({ ...elsewhere, token: 'other' }), undefined),
    ).rejects.toMatchObject({ violations: [{ field: 'configuration.password' }] });
    expect(fixture.fake.changed).toHaveLength(1);
    await fixture.service.update(
      'org-1',
      connection.id,
      change({ ...elsewhere, token: 'other', password: null }),
      undefined,
    );
    await fixture.service.update('org-1', connection.id, change({ ...elsewhere, keepaliveSeconds: 60 }), undefined);
    expect(fixture.fake.changed.at(-1)?.settings).toEqual({ ...elsewhere, token: 'other', keepaliveSeconds: 60 });
  });

  it.each<[string, NewConnection['configuration']]>([
    ['without TLS', { url: 'mqtt://broker.example' }],
    ['another host', { url: 'mqtts://listener.example' }],
    ['another port', { url: 'mqtts://broker.example:9999' }],
    ['another certificate name', { serverName: 'listener.example' }],
    [
      'another certificate authority',
      { caCertificate: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----' },
    ],
  ])('of a broker are bound to it: %s', async (_, changed) => {
    const mqtt = { url: 'mqtts://broker.example', username: 'u', uplinkTopic: 'up/{clientDeviceId}' };
    for (const [connectorId, configuration] of Object.entries({
      mqtt,
      chirpstack: { url: mqtt.url, username: 'u', applicationId: '0190a0a0-0000-7000-8000-000000000000' },
    })) {
      const { connection } = await fixture.service.create('org-1', {
        ...input({ ...configuration, password: PASSWORD }),
        name: connectorId,
        connectorId,
      });
      const error = await fixture.service
        .update('org-1', connection.id, change({ ...configuration, ...changed }), undefined)
        .catch((e: unknown) => e);
      expect(error).toMatchObject({
        violations: [
          {
            field: 'configuration.password',
            description: expect.stringContaining(`\`${Object.keys(changed).join()}\` changed`),
          },
        ],
      });
      await fixture.service.update(
        'org-1',
        connection.id,
        change({ ...configuration, username: 'v', clientId: 'plantroom' }),
        undefined,
      );
    }
  });

  it('are validated together with the stored ones', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    await expect(fixture.service.update('org-1', connection.id, change({ url }), undefined)).rejects.toMatchObject({
      violations: [{ field: 'configuration.username' }],
    });
    const error = await fixture.service
      .update('org-1', connection.id, change({ url, username: 'u', token: { [TOKEN]: 1 } }), undefined)
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ violations: [{ field: 'configuration.token', description: 'must be a string' }] });
    expect(JSON.stringify(error)).not.toContain(TOKEN);
    expect(fixture.fake.changed).toHaveLength(1);
  });

  it('are readable only with the key that encrypted them; the connection reports the error and others work', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    const key = readFileSync(keyFile());
    writeFileSync(keyFile(), `${Buffer.alloc(32, 7).toString('base64')}\n`);
    const again = await openFixture(engine, undefined, fixture.test);
    again.hub.connectionChanged(connection);
    expect(again.fake.changed).toMatchObject([
      { connection: { id: connection.id, enabled: false }, settings: { url } },
    ]);
    expect(again.statuses.getStatus(connection)).toMatchObject({
      state: 'error',
      lastError: expect.stringMatching(
        /^secrets_unreadable: the secret fields `password`, `token` are unreadable: .*different key/,
      ),
    });
    expect(again.log.of('connection.open_failed')).toMatchObject([{ connection_id: connection.id }]);
    const other = await again.service.create('org-1', { ...input({ url, token: 'x' }), name: 'Other' });
    expect(again.fake.changed.at(-1)?.settings).toEqual({ url, token: 'x' });
    expect(again.statuses.getStatus(other.connection).lastError).toBe('');
    await expect(
      again.service.update('org-1', connection.id, change({ url, username: 'u', token: 'y' }), undefined),
    ).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'secrets_unreadable',
      message: expect.stringContaining('`password`'),
    });
    await again.service.update('org-1', connection.id, { ...change(undefined), name: 'Renamed' }, undefined);
    await again.service.update(
      'org-1',
      connection.id,
      change({ url, username: 'u', password: 'p', token: 'y' }),
      undefined,
    );
    expect(again.fake.changed.at(-1)?.settings).toEqual({ url, username: 'u', password: 'p', token: 'y' });
    writeFileSync(keyFile(), key);
  });

  it.each([
    ['is missing', (file: string) => rmSync(file), 'is missing; restore it'],
    ['is malformed', (file: string) => writeFileSync(file, 'key'), 'is not 32 bytes in base64'],
  ])('wait for a key that %s, without a restart', async (_, damageKey, says) => {
    const { connection } = await fixture.service.create('org-1', input(full));
    const key = readFileSync(keyFile());
    damageKey(keyFile());
    const again = await openFixture(engine, undefined, fixture.test);
    again.hub.connectionChanged(connection);
    expect(again.statuses.getStatus(connection).lastError).toContain(says);
    writeFileSync(keyFile(), key);
    again.hub.connectionChanged(connection);
    expect(again.fake.changed.at(-1)?.settings).toEqual(full);
  });

  it('are never encrypted with a second key while stored secrets need a lost one', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    rmSync(keyFile());
    const again = await openFixture(engine, undefined, fixture.test);
    const refused = {
      kind: 'conflict',
      reason: 'secrets_unreadable',
      message: expect.stringContaining('restore the file'),
    };
    await expect(again.service.create('org-2', input({ url, token: 'x' }))).rejects.toMatchObject(refused);
    await expect(
      again.service.update(
        'org-1',
        connection.id,
        change({ url, token: 'x', password: 'y', username: 'u' }),
        undefined,
      ),
    ).rejects.toMatchObject(refused);
    expect(readdirSync(fixture.test.dataDir)).not.toContain('secrets.key');
    await again.service.create('org-2', input({ url }));
    writeFileSync(keyFile(), Buffer.alloc(32, 9).toString('base64'));
    await again.service.update('org-1', connection.id, change({ url, token: 'x', password: null }), undefined);
    expect(again.fake.changed.at(-1)?.settings).toEqual({ url, token: 'x' });
  });

  it('are not encrypted with a key whose file was deleted, but are decrypted with it', async () => {
    const { connection } = await fixture.service.create('org-1', input(full));
    rmSync(keyFile());
    await expect(
      fixture.service.create('org-1', { ...input({ url, token: 'x' }), name: 'Other' }),
    ).rejects.toMatchObject({
      reason: 'secrets_unreadable',
    });
    await fixture.service.update('org-1', connection.id, change(undefined, true), undefined);
    expect(fixture.fake.changed.at(-1)?.settings).toEqual(full);
  });

  it('of a disabled connection are not decrypted', async () => {
    const { connection } = await fixture.service.create('org-1', { ...input(full), enabled: false });
    expect(fixture.fake.changed).toEqual([{ connection, settings: connection.configuration }]);
  });
});

describe('secrets in the API', () => {
  let fixture: ConnectionFixture;
  let edge: TestEdge;
  let client: ConnectionServiceClient;
  const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
  beforeAll(async () => {
    fixture = await openFixture();
    edge = await serveFixture(fixture);
    edge.keys.add('key');
    client = edge.client(ConnectionServiceClient);
  });
  afterAll(async () => {
    await edge.stop();
    await fixture.test.drop();
  });

  it('appear in no response, error or log, but the names of those that are set do', async () => {
    const create = client.createConnection.bind(client);
    const request = { organizationId: '', connectorId: 'fake', name: 'Broker', configuration: full, policy: undefined };
    const created = await call<typeof request, ConnectionMessage>(create, request, fields);
    expect(created).toMatchObject({ configuration: { url, username: 'plantroom' }, secretsSet: ['password', 'token'] });
    const update: UpdateConnectionRequest = {
      id: created.id,
      organizationId: '',
      configuration: { url, username: 'u', token: null },
      policy: undefined,
    };
    const updated = await call<UpdateConnectionRequest, ConnectionMessage>(
      client.updateConnection.bind(client),
      update,
      fields,
    );
    expect(updated.secretsSet).toEqual(['password']);
    const list = await call(client.listConnections.bind(client), { organizationId: '', pageToken: '' }, fields);
    const failed = await callFails(
      create,
      { ...request, name: 'Other', configuration: { password: PASSWORD, [TOKEN.slice(0, 3)]: PASSWORD } },
      fields,
    );
    expect(failed.fields.toSorted()).toEqual(['configuration.tok', 'configuration.url', 'configuration.username']);
    const output = JSON.stringify([
      created,
      updated,
      list,
      { ...failed, trailers: failed.trailers.toJSON() },
      fixture.log.lines,
      edge.log.lines,
    ]);
    expect(output).not.toMatch(/correct horse|5ecret/);
  });
});

describe('the secret cipher', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeEach(async () => {
    folder = await temporaryFolder();
  });
  afterEach(async () => await folder.remove());

  const getKey = (options: { key?: string; keyFile?: string; dataDir?: string } = {}): SecretKey =>
    new SecretKey({ key: '', keyFile: '', dataDir: folder.path, log: silentLogger, ...options });

  it('decrypts what it encrypted, only at the same place, and never gives the same ciphertext twice', () => {
    const box = new SecretCipher(getKey());
    const place = fc.array(fc.string(), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.jsonValue(), place, place, (value, here, there) => {
        const sealed = box.encrypt(here, value);
        expect(JSON.stringify(box.decrypt(here, sealed))).toBe(JSON.stringify(value));
        expect(box.encrypt(here, value)).not.toBe(sealed);
        if (JSON.stringify(here) !== JSON.stringify(there))
          expect(() => box.decrypt(there, sealed)).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
      }),
      { seed: SEED },
    );
  });

  it('detects every change of the ciphertext', () => {
    const box = new SecretCipher(getKey());
    const sealed = box.encrypt(['a'], 'secret');
    fc.assert(
      fc.property(fc.nat(sealed.length - 1), fc.constantFrom('A', '.', 'z', ''), (at, other) => {
        const changed = sealed.slice(0, at) + other + sealed.slice(at + 1);
        if (changed !== sealed)
          expect(() => box.decrypt(['a'], changed)).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
      }),
      { seed: SEED },
    );
    expect(() => box.decrypt(['a'], '')).toThrow(expect.objectContaining({ reason: 'secrets_unreadable' }));
  });

  it('uses the key from the configuration or from a file and creates neither', () => {
    const key = Buffer.alloc(32, 3).toString('base64');
    const file = join(folder.path, 'my.key');
    writeFileSync(file, key);
    const sealed = new SecretCipher(getKey({ key })).encrypt(['a'], 1);
    expect(new SecretCipher(getKey({ keyFile: file })).decrypt(['a'], sealed)).toBe(1);
    expect(() => new SecretCipher(getKey({ keyFile: `${file}.other` })).encrypt(['a'], 1)).toThrow(
      expect.objectContaining({ reason: 'secrets_unreadable' }),
    );
    expect(readdirSync(folder.path)).toEqual(['my.key']);
  });

  it('creates a key to encrypt, but not to decrypt', () => {
    expect(() => new SecretCipher(getKey()).decrypt(['a'], 'v1.x.y')).toThrow(/is missing/);
    expect(readdirSync(folder.path)).toEqual([]);
    new SecretCipher(getKey()).encrypt(['a'], 1);
    expect(readdirSync(folder.path)).toEqual(['secrets.key']);
    const first = readFileSync(join(folder.path, 'secrets.key'), 'utf8');
    new SecretCipher(getKey()).encrypt(['a'], 1);
    expect(readFileSync(join(folder.path, 'secrets.key'), 'utf8')).toBe(first);
  });

  it('creates a key even if a server was killed while creating it', () => {
    writeFileSync(join(folder.path, `secrets.key.${process.pid}.new`), 'half');
    new SecretCipher(getKey()).encrypt(['a'], 1);
    expect(readdirSync(folder.path)).toEqual(['secrets.key']);
  });

  it('reports that the path of the key is not accessible', () => {
    const loop = join(folder.path, 'loop');
    symlinkSync(loop, loop);
    expect(() => new SecretCipher(getKey({ keyFile: join(loop, 'my.key') })).encrypt(['a'], 1)).toThrow(
      expect.objectContaining({ reason: 'secrets_unreadable', message: expect.stringContaining('is not readable') }),
    );
  });

  it('applies a key that replaces the first one', () => {
    const file = join(folder.path, 'my.key');
    writeFileSync(file, Buffer.alloc(32, 3).toString('base64'));
    const box = new SecretCipher(getKey({ keyFile: file }));
    const sealed = box.encrypt(['a'], 1);
    writeFileSync(`${file}.new`, Buffer.alloc(32, 4).toString('base64'));
    renameSync(`${file}.new`, file);
    expect(() => box.decrypt(['a'], sealed)).toThrow(/different key/);
    writeFileSync(`${file}.old`, Buffer.alloc(32, 3).toString('base64'));
    renameSync(`${file}.old`, file);
    expect(box.decrypt(['a'], sealed)).toBe(1);
  });

  it('reports that the key cannot be created', () => {
    const log = new MemoryLog();
    const box = new SecretCipher(new SecretKey({ key: '', keyFile: '', dataDir: join(folder.path, 'none'), log }));
    expect(() => box.encrypt(['a'], 1)).toThrow(
      expect.objectContaining({ kind: 'conflict', reason: 'secrets_unreadable' }),
    );
    expect(log.of('secrets.key_creation_failed')).toHaveLength(1);
  });
});
