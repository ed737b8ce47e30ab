import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { ConnectionRepository, ConnectionBootstrapper } from '../../src/connections';
import type { NewConnection } from '../../src/connections/connectionService';
import type { Database } from '../../src/database';
import { sqliteOnly } from '../support/engines';
import { openFixture, type ConnectionFixture } from './connectionFixture';
import { registerFake } from './fakeConnector';

const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({
  connectorId: 'fake',
  name: 'Broker',
  description: '',
  enabled: true,
  configuration: { url: 'mqtt://b' },
  policy: {},
  ...overrides,
});
const nothing = {
  name: undefined,
  description: undefined,
  enabled: undefined,
  configuration: undefined,
  policy: undefined,
};

beforeAll(registerFake);

describe.each(sqliteOnly())('connections and their connectors on $name', (engine) => {
  let fixture: ConnectionFixture;
  beforeEach(async () => {
    fixture = await openFixture(engine);
  });
  afterEach(async () => await fixture.test.drop());

  const getStarter = (database: Database = fixture.test.database): ConnectionBootstrapper =>
    new ConnectionBootstrapper({
      database,
      hub: fixture.hub,
      factory: fixture.opener,
      log: fixture.log,
      retryIntervalMs: 1,
      reopenIntervalMs: 1,
    });
  const restarted = async (): Promise<void> => {
    fixture = await openFixture(engine, undefined, fixture.test);
  };
  const getChangedNames = (): string[] => fixture.fake.changed.map(({ connection }) => connection.name).toSorted();

  it('notify each other after a create, update, enable, disable or delete was stored', async () => {
    const seenOnDisk: Promise<unknown>[] = [];
    const repository = new ConnectionRepository(fixture.test.database.db);
    fixture.fake.onChanged = ({ connection }) =>
      seenOnDisk.push(repository.get('org-1', connection.id).then(({ revision }) => revision));
    const { connection } = await fixture.service.create('org-1', input());
    await Promise.all(seenOnDisk);
    await fixture.service.update('org-1', connection.id, { ...nothing, policy: { maxInFlight: 3 } }, undefined);
    await Promise.all(seenOnDisk);
    await fixture.service.update('org-1', connection.id, { ...nothing, enabled: false }, undefined);
    expect(await Promise.all(seenOnDisk)).toEqual([1, 2, 3]);
    await fixture.service.delete('org-1', connection.id, undefined);
    expect(fixture.fake.changed).toMatchObject([
      { connection: { revision: 1, enabled: true } },
      { connection: { revision: 2, policy: { maxInFlight: 3 } } },
      { connection: { revision: 3, enabled: false } },
    ]);
    expect(fixture.fake.deleted).toEqual([connection.id]);
  });

  it('receive no notification about a rejected change', async () => {
    await fixture.service.create('org-1', input());
    await expect(fixture.service.create('org-1', input())).rejects.toMatchObject({ reason: 'name_taken' });
    expect(fixture.fake.changed).toHaveLength(1);
  });

  it('are connected at server start: those of all organizations that are enabled', async () => {
    const { connection } = await fixture.service.create(
      'org-1',
      input({ configuration: { url: 'mqtt://b', token: 'secret' } }),
    );
    await fixture.service.create('org-1', input({ name: 'Off', enabled: false }));
    await fixture.service.create('org-1', input({ name: 'Gateway', connectorId: 'gateway', configuration: {} }));
    for (let n = 0; n < 120; n += 1) await fixture.service.create('org-2', input({ name: `Broker ${n}` }));
    await restarted();
    const starter = getStarter();
    starter.start();
    await starter.waitForInitialStart();
    await starter.stop();
    expect(getChangedNames()).toEqual(['Broker', ...Array.from({ length: 120 }, (_, n) => `Broker ${n}`)].toSorted());
    expect(fixture.fake.changed.find((taken) => taken.connection.id === connection.id)).toMatchObject({
      settings: { url: 'mqtt://b', token: 'secret' },
    });
  });

  it('start even when one of them fails', async () => {
    for (const name of ['a', 'b', 'c']) await fixture.service.create('org-1', input({ name }));
    await restarted();
    fixture.fake.onChanged = ({ connection }) => {
      if (connection.name === 'b') throw new Error('broken');
    };
    const starter = getStarter();
    starter.start();
    await starter.waitForInitialStart();
    await starter.stop();
    expect(getChangedNames()).toEqual(['a', 'b', 'c']);
    expect(fixture.log.of('connection.start_failed')).toMatchObject([{ organization_id: 'org-1' }]);
  });

  it.each(['configuration', 'secrets', 'policy'])(
    'start even when the %s of one cannot be read; setting it again fixes it',
    async (column) => {
      const ids: string[] = [];
      for (const name of ['a', 'b', 'c'])
        ids.push((await fixture.service.create('org-1', input({ name }))).connection.id);
      const [, id = ''] = ids;
      await fixture.test.database.db
        .knex('connections')
        .where({ id })
        .update({ [column]: '{' });
      await restarted();
      const starter = getStarter();
      starter.start();
      await starter.waitForInitialStart();
      await starter.stop();
      expect(
        fixture.fake.changed.filter(({ connection }) => connection.enabled).map(({ connection }) => connection.name),
      ).toEqual(['a', 'c']);
      const lastError = expect.stringMatching(
        new RegExp(`^connection_corrupt: the ${column} of the connection is unreadable`),
      );
      expect(
        (await fixture.service.list('org-1', undefined, '')).connections.map(({ connection, status }) => [
          connection.name,
          status.state,
          status.lastError,
        ]),
      ).toEqual([
        ['c', 'disconnected', ''],
        ['b', 'error', lastError],
        ['a', 'disconnected', ''],
      ]);
      const stopped = new AbortController().signal;
      await expect(
        fixture.trials.test('org-1', { kind: 'stored', id, configuration: undefined }, stopped),
      ).rejects.toMatchObject({ reason: 'connection_corrupt' });
      const field = column === 'policy' ? 'policy' : 'configuration';
      await expect(fixture.service.update('org-1', id, { ...nothing, name: 'd' }, undefined)).rejects.toMatchObject({
        violations: [{ field }],
      });
      await fixture.service.update(
        'org-1',
        id,
        { ...nothing, ...(field === 'policy' ? { policy: {} } : { configuration: { url: 'mqtt://b' } }) },
        undefined,
      );
      expect(fixture.fake.changed.at(-1)).toMatchObject({
        connection: { id, enabled: true },
        settings: { url: 'mqtt://b' },
      });
      expect((await fixture.service.get('org-1', id)).connection).not.toHaveProperty('corruptParts');
    },
  );

  it('report that this server lacks the connector', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    await fixture.test.database.db.knex('connections').where({ id: connection.id }).update({ connector_id: 'pigeon' });
    await restarted();
    const starter = getStarter();
    starter.start();
    await starter.waitForInitialStart();
    await starter.stop();
    expect((await fixture.service.get('org-1', connection.id)).status).toMatchObject({
      state: 'error',
      lastError: expect.stringMatching(/^connector_unsupported: .*"pigeon"/),
    });
  });

  it('start when the key of their secrets is restored', async () => {
    const configuration = { url: 'mqtt://b', token: 'secret' };
    await fixture.service.create('org-1', input({ configuration }));
    const file = join(fixture.test.dataDir, 'secrets.key');
    renameSync(file, `${file}.away`);
    await restarted();
    const opened = new Promise<unknown>((resolve) => {
      fixture.fake.onChanged = ({ connection, settings }) => connection.enabled && resolve(settings);
    });
    const starter = getStarter();
    starter.start();
    await fixture.log.until('connection.open_failed', 1);
    renameSync(`${file}.away`, file);
    expect(await opened).toEqual(configuration);
    await starter.stop();
    expect(fixture.log.of('connection.open_failed')).toHaveLength(1);
  });

  it('start with their current state, not the state that the start read', async () => {
    const first = await fixture.service.create('org-1', input({ name: 'a' }));
    const second = await fixture.service.create('org-1', input({ name: 'b' }));
    await restarted();
    fixture.hub.connectionDeleted(second.connection.id);
    fixture.hub.connectionChanged({ ...first.connection, revision: 2, description: 'newer' });
    const starter = getStarter();
    starter.start();
    await starter.waitForInitialStart();
    await starter.stop();
    expect(fixture.fake.changed).toMatchObject([{ connection: { description: 'newer' } }]);
  });

  it('wait for an unavailable database, until the server stops', async () => {
    await fixture.service.create('org-1', input());
    await restarted();
    const unavailable = await fixture.test.open();
    await unavailable.close();
    const starter = getStarter(unavailable);
    starter.start();
    await fixture.log.until('connections.start_failed', 3);
    await starter.stop();
    expect(fixture.fake.changed).toEqual([]);
  });
});
