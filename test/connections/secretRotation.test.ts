import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rotateSecrets, SecretCipher, SecretKey, ConnectionSecrets, ConnectionRepository } from '../../src/connections';
import type { NewConnection } from '../../src/connections/connectionService';
import { findKeyIdIn, getKeyId } from '../../src/connections/secrets/secretCipher';
import { silentLogger } from '../../src/kernel/logger';
import { MemoryLog } from '../support/edge';
import { Child } from '../support/child';
import { plantroomHere } from '../support/commandInProcess';
import { engines } from '../support/engines';
import { openFixture, type ConnectionFixture } from './connectionFixture';
import { registerFake } from './fakeConnector';

const url = 'mqtt://broker.example';
const input = (name: string, configuration: NewConnection['configuration']): NewConnection => ({
  connectorId: 'fake',
  name,
  description: '',
  enabled: false,
  configuration,
  policy: {},
});
const OTHER = Buffer.alloc(32, 7);

beforeAll(registerFake);

describe.each(engines())('a new secrets key on $name', (engine) => {
  let fixture: ConnectionFixture;
  let began: number;
  beforeEach(async () => {
    fixture = await openFixture(engine);
    began = 0;
  });
  afterEach(async () => await fixture.test.drop());

  const file = (end = ''): string => join(fixture.test.dataDir, `secrets.key${end}`);
  const options = (key = '') => ({ key, keyFile: '', dataDir: fixture.test.dataDir, log: silentLogger });
  const rotate = async (newKey?: Buffer, key = '') =>
    await rotateSecrets({
      ...options(key),
      database: fixture.test.database,
      newKey,
      begin: async () => await Promise.resolve(void (began += 1)),
    });
  const fill = async (): Promise<void> => {
    await fixture.service.create('org-1', input('One', { url, username: 'u', password: 'first', token: 'second' }));
    await fixture.service.create('org-2', input('Two', { url, username: 'u', password: 'third' }));
    await fixture.service.create('org-2', input('Without', { url }));
  };
  /** Returns the secrets as a newly started server reads them. */
  const decryptSecrets = async (key = '', log = new MemoryLog()): Promise<unknown[]> => {
    const secrets = new ConnectionSecrets(new SecretCipher(new SecretKey({ ...options(key), log })));
    const sealed = await new ConnectionRepository(fixture.test.database.db).listWithSecrets('', 10);
    return sealed
      .map((connection) => secrets.openConnection(connection).settings)
      .map(({ password, token }) => [password, token]);
  };
  const all = [
    ['first', 'second'],
    ['third', undefined],
  ];
  const keysInUse = async (): Promise<Set<string | undefined>> =>
    new Set(
      (await new ConnectionRepository(fixture.test.database.db).listWithSecrets('', 10)).flatMap((connection) =>
        Object.values(connection.encryptedSecrets).map(findKeyIdIn),
      ),
    );

  it('decrypts all secrets, and the old one no longer decrypts any', async () => {
    await fill();
    const before = readFileSync(file(), 'utf8');
    expect(await rotate()).toEqual({ connections: 2, keyFile: file(), oldKeyFile: file('.old') });
    expect(began).toBe(1);
    expect(await decryptSecrets()).toEqual(all);
    expect(await keysInUse()).toEqual(new Set([getKeyId(new SecretKey(options()).get())]));
    expect(readFileSync(file(), 'utf8')).not.toBe(before);
    expect(readFileSync(file('.old'), 'utf8')).toBe(before);
    for (const end of ['', '.old']) expect(statSync(file(end)).mode & 0o777).toBe(0o600);
    expect(existsSync(file('.next'))).toBe(false);
    await expect(decryptSecrets(before.trim())).rejects.toMatchObject({ reason: 'secrets_unreadable' });
  });

  it('loses nothing when the rotation is killed at any moment, and the next run continues', async () => {
    await fill();
    // The rotation is killed before the secrets were encrypted again.
    const [old, next] = [readFileSync(file(), 'utf8'), `${OTHER.toString('base64')}\n`];
    writeFileSync(file('.next'), next);
    expect(await decryptSecrets()).toEqual(all);
    await rotate();
    expect(await keysInUse()).toEqual(new Set([getKeyId(OTHER)]));
    // The rotation is killed after that, and before the new key was moved into place.
    writeFileSync(file(), old);
    writeFileSync(file('.next'), next);
    const log = new MemoryLog();
    expect(await decryptSecrets('', log)).toEqual(all);
    expect(log.of('secrets.key_change_unfinished')).toHaveLength(1);
    // A server that runs in the meantime encrypts with the old key.
    await fixture.service.create('org-1', input('Three', { url, username: 'u', password: 'fourth' }));
    expect(await keysInUse()).toHaveProperty('size', 2);
    await rotate();
    expect(await decryptSecrets()).toEqual([...all, ['fourth', undefined]]);
    expect([await keysInUse(), readFileSync(file(), 'utf8'), existsSync(file('.next'))]).toEqual([
      new Set([getKeyId(OTHER)]),
      next,
      false,
    ]);
  });

  it('comes from the caller when the configuration contains the old one', async () => {
    await fill();
    const old = readFileSync(file(), 'utf8').trim();
    rmSync(file());
    await expect(rotate(undefined, old)).rejects.toMatchObject({
      kind: 'invalid_argument',
      reason: 'secrets_key_already_set',
      message: expect.stringContaining('--new-key-file') as string,
    });
    expect(await rotate(OTHER, old)).toEqual({ connections: 2, keyFile: undefined, oldKeyFile: undefined });
    expect(await decryptSecrets(OTHER.toString('base64'))).toEqual(all);
    // A repeated rotation changes nothing, with either key in the configuration.
    for (const key of [old, OTHER.toString('base64')])
      expect(await rotate(OTHER, key)).toMatchObject({ connections: 2 });
    expect(await decryptSecrets(OTHER.toString('base64'))).toEqual(all);
  });

  it('is not created when a secret cannot be decrypted, and nothing changes', async () => {
    await expect(rotate()).rejects.toMatchObject({ reason: 'no_secrets' });
    expect(began).toBe(0);
    await fill();
    const [before, rows] = [
      readFileSync(file(), 'utf8'),
      await fixture.test.database.db.knex('connections').orderBy('id'),
    ];
    writeFileSync(file(), `${OTHER.toString('base64')}\n`);
    await expect(rotate()).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'secrets_unreadable',
      message: expect.stringMatching(/the connections "One", "Two"; nothing was changed\. Restore the key/) as string,
    });
    rmSync(file());
    await expect(rotate()).rejects.toMatchObject({
      reason: 'secrets_unreadable',
      message: expect.stringContaining('is missing; restore it') as string,
    });
    expect(existsSync(file('.next'))).toBe(false);
    expect(await fixture.test.database.db.knex('connections').orderBy('id')).toEqual(rows);
    writeFileSync(file(), before);
    expect(await decryptSecrets()).toEqual(all);
  });
});

describe('plantroom secrets rotate', () => {
  it('requires a stopped server and is in the audit trail of every organization', async () => {
    const fixture = await openFixture();
    const { dataDir } = fixture.test;
    try {
      const holder = Child.start(
        `import { lockDataFolder } from './src/database'; void lockDataFolder(process.argv[2]!).then(() => { process.stdout.write('held'); setInterval(() => {}, 1000); });`,
        [dataDir],
      );
      await holder.wrote('held');
      await fixture.service.create('org-1', input('One', { url, username: 'u', password: 'first' }));
      const run = async (...more: string[]) =>
        await plantroomHere(['secrets', 'rotate', '--json', '--data-dir', dataDir, ...more]);
      expect(await run()).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('stop that server first') as string,
      });
      await holder.kill();
      expect(await run('--new-key-file', join(dataDir, 'none'))).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('openssl rand -base64 32') as string,
      });
      const ended = await run();
      expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining('Start the server') as string });
      expect(JSON.parse(ended.stdout)).toEqual({
        connections: 1,
        keyFile: join(dataDir, 'secrets.key'),
        oldKeyFile: join(dataDir, 'secrets.key.old'),
      });
      const events = await fixture.test.database.db
        .knex('audit_events')
        .where({ method: 'secrets rotate' })
        .orderBy('chain')
        .select('chain', 'outcome');
      expect(events).toEqual(['org-1', 'org-2'].map((chain) => ({ chain, outcome: 'succeeded' })));
    } finally {
      await fixture.test.drop();
    }
  });
});
