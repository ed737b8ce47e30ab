import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { ConnectionRepository, ConnectionStarter } from '../../src/connections';
import type { NewConnection } from '../../src/connections/connectionService';
import type { Database } from '../../src/database';
import { engines } from '../support/engines';
import { openRoom, type ConnectionRoom } from './connectionRoom';
import { registerFake } from './fakeConnector';

const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({ connectorId: 'fake', name: 'Broker', description: '', enabled: true, configuration: { url: 'mqtt://b' }, policy: {}, ...overrides });
const nothing = { name: undefined, description: undefined, enabled: undefined, configuration: undefined, policy: undefined };

beforeAll(registerFake);

describe.each(engines())('connections and their connectors on $name', (engine) => {
  let room: ConnectionRoom;
  beforeEach(async () => {
    room = await openRoom(engine);
  });
  afterEach(async () => await room.test.drop());

  const starterOf = (database: Database = room.test.database): ConnectionStarter => new ConnectionStarter({ database, hub: room.hub, opener: room.opener, log: room.log, retryMs: 1, reopenMs: 1 });
  const restarted = async (): Promise<void> => {
    room = await openRoom(engine, undefined, room.test);
  };
  const takenNames = (): string[] => room.fake.taken.map(({ connection }) => connection.name).toSorted();

  it('are told of each other when a connection is created, changed, switched and deleted, once that is on disk', async () => {
    const seenOnDisk: Promise<unknown>[] = [];
    const repository = new ConnectionRepository(room.test.database.db);
    room.fake.onTaken = ({ connection }) => seenOnDisk.push(repository.get('org-1', connection.id).then(({ revision }) => revision));
    const { connection } = await room.service.create('org-1', input());
    await Promise.all(seenOnDisk);
    await room.service.update('org-1', connection.id, { ...nothing, policy: { maxInFlight: 3 } }, undefined);
    await Promise.all(seenOnDisk);
    await room.service.update('org-1', connection.id, { ...nothing, enabled: false }, undefined);
    expect(await Promise.all(seenOnDisk)).toEqual([1, 2, 3]);
    await room.service.delete('org-1', connection.id, undefined);
    expect(room.fake.taken).toMatchObject([{ connection: { revision: 1, enabled: true } }, { connection: { revision: 2, policy: { maxInFlight: 3 } } }, { connection: { revision: 3, enabled: false } }]);
    expect(room.fake.deleted).toEqual([connection.id]);
  });

  it('are not told of what was refused', async () => {
    await room.service.create('org-1', input());
    await expect(room.service.create('org-1', input())).rejects.toMatchObject({ reason: 'name_taken' });
    expect(room.fake.taken).toHaveLength(1);
  });

  it('meet again when the server starts: those of all organizations that are switched on', async () => {
    const { connection } = await room.service.create('org-1', input({ configuration: { url: 'mqtt://b', token: 'secret' } }));
    await room.service.create('org-1', input({ name: 'Off', enabled: false }));
    await room.service.create('org-1', input({ name: 'Gateway', connectorId: 'gateway', configuration: {} }));
    for (let n = 0; n < 120; n += 1) await room.service.create('org-2', input({ name: `Broker ${n}` }));
    await restarted();
    const starter = starterOf();
    starter.start();
    await starter.done();
    await starter.stop();
    expect(takenNames()).toEqual(['Broker', ...Array.from({ length: 120 }, (_, n) => `Broker ${n}`)].toSorted());
    expect(room.fake.taken.find((taken) => taken.connection.id === connection.id)).toMatchObject({ settings: { url: 'mqtt://b', token: 'secret' } });
  });

  it('are kept up by none that is broken', async () => {
    for (const name of ['a', 'b', 'c']) await room.service.create('org-1', input({ name }));
    await restarted();
    room.fake.onTaken = ({ connection }) => {
      if (connection.name === 'b') throw new Error('broken');
    };
    const starter = starterOf();
    starter.start();
    await starter.done();
    await starter.stop();
    expect(takenNames()).toEqual(['a', 'b', 'c']);
    expect(room.log.of('connection.not_started')).toMatchObject([{ organization_id: 'org-1' }]);
  });

  it.each(['configuration', 'secrets', 'policy'])('are kept up by none whose %s cannot be read; giving it again mends it', async (column) => {
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c']) ids.push((await room.service.create('org-1', input({ name }))).connection.id);
    const [, id = ''] = ids;
    await room.test.database.db.knex('connections').where({ id }).update({ [column]: '{' });
    await restarted();
    const starter = starterOf();
    starter.start();
    await starter.done();
    await starter.stop();
    expect(room.fake.taken.filter(({ connection }) => connection.enabled).map(({ connection }) => connection.name)).toEqual(['a', 'c']);
    const lastError = expect.stringMatching(new RegExp(`^connection_damaged: the ${column} of the connection cannot be read`));
    expect((await room.service.list('org-1', undefined, '')).connections.map(({ connection, status }) => [connection.name, status.state, status.lastError])).toEqual([
      ['c', 'disconnected', ''],
      ['b', 'error', lastError],
      ['a', 'disconnected', ''],
    ]);
    const stopped = new AbortController().signal;
    await expect(room.trials.test('org-1', { kind: 'stored', id, configuration: undefined }, stopped)).rejects.toMatchObject({ reason: 'connection_damaged' });
    const field = column === 'policy' ? 'policy' : 'configuration';
    await expect(room.service.update('org-1', id, { ...nothing, name: 'd' }, undefined)).rejects.toMatchObject({ violations: [{ field }] });
    await room.service.update('org-1', id, { ...nothing, ...(field === 'policy' ? { policy: {} } : { configuration: { url: 'mqtt://b' } }) }, undefined);
    expect(room.fake.taken.at(-1)).toMatchObject({ connection: { id, enabled: true }, settings: { url: 'mqtt://b' } });
    expect((await room.service.get('org-1', id)).connection).not.toHaveProperty('damaged');
  });

  it('say so where this server has no such connector', async () => {
    const { connection } = await room.service.create('org-1', input());
    await room.test.database.db.knex('connections').where({ id: connection.id }).update({ connector_id: 'pigeon' });
    await restarted();
    const starter = starterOf();
    starter.start();
    await starter.done();
    await starter.stop();
    expect((await room.service.get('org-1', connection.id)).status).toMatchObject({ state: 'error', lastError: expect.stringMatching(/^connector_unknown: .*"pigeon"/) });
  });

  it('meet when the key of their secrets is put back', async () => {
    const configuration = { url: 'mqtt://b', token: 'secret' };
    await room.service.create('org-1', input({ configuration }));
    const file = join(room.test.dataDir, 'secrets.key');
    renameSync(file, `${file}.away`);
    await restarted();
    const opened = new Promise<unknown>((resolve) => {
      room.fake.onTaken = ({ connection, settings }) => connection.enabled && resolve(settings);
    });
    const starter = starterOf();
    starter.start();
    await room.log.until('connection.not_opened', 1);
    renameSync(`${file}.away`, file);
    expect(await opened).toEqual(configuration);
    await starter.stop();
    expect(room.log.of('connection.not_opened')).toHaveLength(1);
  });

  it('meet as they are now, not as they were when the start read them', async () => {
    const first = await room.service.create('org-1', input({ name: 'a' }));
    const second = await room.service.create('org-1', input({ name: 'b' }));
    await restarted();
    room.hub.connectionDeleted(second.connection.id);
    room.hub.connectionChanged({ ...first.connection, revision: 2, description: 'newer' });
    const starter = starterOf();
    starter.start();
    await starter.done();
    await starter.stop();
    expect(room.fake.taken).toMatchObject([{ connection: { description: 'newer' } }]);
  });

  it('wait for a database that is away, and not longer than the server lives', async () => {
    await room.service.create('org-1', input());
    await restarted();
    const away = await room.test.open();
    await away.close();
    const starter = starterOf(away);
    starter.start();
    await room.log.until('connections.start_failed', 3);
    await starter.stop();
    expect(room.fake.taken).toEqual([]);
  });
});
