import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rotateSecrets, SecretBox, SecretKey, ConnectionSecrets, ConnectionRepository } from '../../src/connections';
import type { NewConnection } from '../../src/connections/connectionService';
import { findKeyIdIn, keyIdOf } from '../../src/connections/secrets/secretBox';
import { silentLogger } from '../../src/kernel/logger';
import { MemoryLog } from '../support/edge';
import { Child } from '../support/child';
import { plantroomHere } from '../support/commandInProcess';
import { engines } from '../support/engines';
import { openRoom, type ConnectionRoom } from './connectionRoom';
import { registerFake } from './fakeConnector';

const url = 'mqtt://broker.example';
const input = (name: string, configuration: NewConnection['configuration']): NewConnection => ({ connectorId: 'fake', name, description: '', enabled: false, configuration, policy: {} });
const OTHER = Buffer.alloc(32, 7);

beforeAll(registerFake);

describe.each(engines())('a new key for secrets on $name', (engine) => {
  let room: ConnectionRoom;
  let began: number;
  beforeEach(async () => {
    room = await openRoom(engine);
    began = 0;
  });
  afterEach(async () => await room.test.drop());

  const file = (end = ''): string => join(room.test.dataDir, `secrets.key${end}`);
  const options = (key = '') => ({ key, keyFile: '', dataDir: room.test.dataDir, log: silentLogger });
  const rotate = async (newKey?: Buffer, key = '') => await rotateSecrets({ ...options(key), database: room.test.database, newKey, begin: async () => await Promise.resolve(void (began += 1)) });
  const fill = async (): Promise<void> => {
    await room.service.create('org-1', input('One', { url, username: 'u', password: 'first', token: 'second' }));
    await room.service.create('org-2', input('Two', { url, username: 'u', password: 'third' }));
    await room.service.create('org-2', input('Without', { url }));
  };
  /** As a server reads them that starts now. */
  const opened = async (key = '', log = new MemoryLog()): Promise<unknown[]> => {
    const secrets = new ConnectionSecrets(new SecretBox(new SecretKey({ ...options(key), log })));
    const sealed = await new ConnectionRepository(room.test.database.db).listSealed('', 10);
    return sealed.map((connection) => secrets.open(connection).settings).map(({ password, token }) => [password, token]);
  };
  const all = [['first', 'second'], ['third', undefined]];
  const keysInUse = async (): Promise<Set<string | undefined>> => new Set((await new ConnectionRepository(room.test.database.db).listSealed('', 10)).flatMap((connection) => Object.values(connection.sealedSecrets).map(findKeyIdIn)));

  it('opens all of them, and the old one none any more', async () => {
    await fill();
    const before = readFileSync(file(), 'utf8');
    expect(await rotate()).toEqual({ connections: 2, keyFile: file(), oldKeyFile: file('.old') });
    expect(began).toBe(1);
    expect(await opened()).toEqual(all);
    expect(await keysInUse()).toEqual(new Set([keyIdOf(new SecretKey(options()).get())]));
    expect(readFileSync(file(), 'utf8')).not.toBe(before);
    expect(readFileSync(file('.old'), 'utf8')).toBe(before);
    for (const end of ['', '.old']) expect(statSync(file(end)).mode & 0o777).toBe(0o600);
    expect(existsSync(file('.next'))).toBe(false);
    await expect(opened(before.trim())).rejects.toMatchObject({ reason: 'secrets_unreadable' });
  });

  it('loses nothing when it is killed at any moment, and goes on', async () => {
    await fill();
    // Before the secrets were encrypted anew.
    const [old, next] = [readFileSync(file(), 'utf8'), `${OTHER.toString('base64')}\n`];
    writeFileSync(file('.next'), next);
    expect(await opened()).toEqual(all);
    await rotate();
    expect(await keysInUse()).toEqual(new Set([keyIdOf(OTHER)]));
    // After it, and before the new key was put in its place.
    writeFileSync(file(), old);
    writeFileSync(file('.next'), next);
    const log = new MemoryLog();
    expect(await opened('', log)).toEqual(all);
    expect(log.of('secrets.key_change_unfinished')).toHaveLength(1);
    // A server that runs meanwhile encrypts with the old one.
    await room.service.create('org-1', input('Three', { url, username: 'u', password: 'fourth' }));
    expect(await keysInUse()).toHaveProperty('size', 2);
    await rotate();
    expect(await opened()).toEqual([...all, ['fourth', undefined]]);
    expect([await keysInUse(), readFileSync(file(), 'utf8'), existsSync(file('.next'))]).toEqual([new Set([keyIdOf(OTHER)]), next, false]);
  });

  it('is given by the caller where the configuration gives the old one', async () => {
    await fill();
    const old = readFileSync(file(), 'utf8').trim();
    rmSync(file());
    await expect(rotate(undefined, old)).rejects.toMatchObject({ kind: 'invalid_argument', reason: 'secrets_key_given', message: expect.stringContaining('--new-key-file') as string });
    expect(await rotate(OTHER, old)).toEqual({ connections: 2, keyFile: undefined, oldKeyFile: undefined });
    expect(await opened(OTHER.toString('base64'))).toEqual(all);
    // The same again changes nothing, with either key in the configuration.
    for (const key of [old, OTHER.toString('base64')]) expect(await rotate(OTHER, key)).toMatchObject({ connections: 2 });
    expect(await opened(OTHER.toString('base64'))).toEqual(all);
  });

  it('is not made where a secret does not open, and nothing is changed', async () => {
    await expect(rotate()).rejects.toMatchObject({ reason: 'no_secrets' });
    expect(began).toBe(0);
    await fill();
    const [before, rows] = [readFileSync(file(), 'utf8'), await room.test.database.db.knex('connections').orderBy('id')];
    writeFileSync(file(), `${OTHER.toString('base64')}\n`);
    await expect(rotate()).rejects.toMatchObject({ kind: 'conflict', reason: 'secrets_unreadable', message: expect.stringMatching(/the connections "One", "Two"; nothing was changed\. Put the key back/) as string });
    rmSync(file());
    await expect(rotate()).rejects.toMatchObject({ reason: 'secrets_unreadable', message: expect.stringContaining('is missing; put it back') as string });
    expect(existsSync(file('.next'))).toBe(false);
    expect(await room.test.database.db.knex('connections').orderBy('id')).toEqual(rows);
    writeFileSync(file(), before);
    expect(await opened()).toEqual(all);
  });
});

describe('plantroom secrets rotate', () => {
  it('needs the server stopped, and is in the audit trail of every organization', async () => {
    const room = await openRoom();
    const { dataDir } = room.test;
    try {
      const holder = Child.start(`import { lockDataFolder } from './src/database'; void lockDataFolder(process.argv[2]!).then(() => { process.stdout.write('held'); setInterval(() => {}, 1000); });`, [dataDir]);
      await holder.wrote('held');
      await room.service.create('org-1', input('One', { url, username: 'u', password: 'first' }));
      const run = async (...more: string[]) => await plantroomHere(['secrets', 'rotate', '--json', '--data-dir', dataDir, ...more]);
      expect(await run()).toMatchObject({ code: 1, stderr: expect.stringContaining('stop that one') as string });
      await holder.kill();
      expect(await run('--new-key-file', join(dataDir, 'none'))).toMatchObject({ code: 2, stderr: expect.stringContaining('openssl rand -base64 32') as string });
      const ended = await run();
      expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining('Start the server') as string });
      expect(JSON.parse(ended.stdout)).toEqual({ connections: 1, keyFile: join(dataDir, 'secrets.key'), oldKeyFile: join(dataDir, 'secrets.key.old') });
      const events = await room.test.database.db.knex('audit_events').where({ method: 'secrets rotate' }).orderBy('chain').select('chain', 'outcome');
      expect(events).toEqual(['org-1', 'org-2'].map((chain) => ({ chain, outcome: 'succeeded' })));
    } finally {
      await room.test.drop();
    }
  });
});
