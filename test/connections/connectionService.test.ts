import type { NewConnection } from '../../src/connections/connectionService';
import { ConnectionRepository, missingGateways } from '../../src/connections';
import { engines } from '../support/engines';
import { openRoom, type ConnectionRoom } from './connectionRoom';

const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({ connectorId: 'gateway', name: 'Plant room', description: '', enabled: true, configuration: {}, policy: {}, ...overrides });

describe.each(engines())('connections on $name', (engine) => {
  let room: ConnectionRoom;
  beforeEach(async () => {
    room = await openRoom(engine);
  });
  afterEach(async () => await room.test.drop());

  it('keeps what it was given', async () => {
    const policy = { queueLimit: 3, sleepy: true, maxInFlight: 2 };
    const { connection } = await room.service.create('org-1', input({ name: 'Zürich', description: 'the cellar', enabled: false, policy }));
    const view = await room.service.get('org-1', connection.id);
    expect(view).toEqual({
      connection: { ...input({ name: 'Zürich', description: 'the cellar', enabled: false, policy }), sealedSecrets: {}, id: connection.id, organizationId: 'org-1', createdAt: room.clock.now(), updatedAt: room.clock.now(), revision: 1 },
      status: { state: 'disabled', since: undefined, lastError: '', lastMessageAt: undefined, warnings: [], software: '' },
      deviceCount: 0,
    });
  });

  it('refuses a name that another connection of the organization has, whatever the case', async () => {
    await room.service.create('org-1', input({ name: 'Roof' }));
    const { connection } = await room.service.create('org-1', input({ name: 'Cellar' }));
    await room.service.create('org-2', input({ name: 'roof' }));
    await expect(room.service.create('org-1', input({ name: 'ROOF' }))).rejects.toMatchObject({ kind: 'already_exists', reason: 'name_taken' });
    await expect(room.service.update('org-1', connection.id, { ...nothing, name: 'roof' }, undefined)).rejects.toMatchObject({ reason: 'name_taken' });
    await room.service.update('org-1', connection.id, { ...nothing, name: 'CELLAR' }, undefined);
  });

  it('says everything that is wrong with connector and configuration', async () => {
    await expect(room.service.create('org-1', input({ connectorId: 'pigeon' }))).rejects.toMatchObject({ violations: [{ field: 'connectorId' }] });
    await expect(room.service.create('org-1', input({ configuration: { host: 'h', port: 1 } }))).rejects.toMatchObject({ violations: [{ field: 'configuration.host' }, { field: 'configuration.port' }] });
    expect((await room.service.list('org-1', undefined, '')).connections).toEqual([]);
  });

  it('lists newest first, page by page, with device counts', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await room.service.create('org-1', input({ name }));
      if (name !== 'b') room.clock.advance(1); // b and c share a time
    }
    await room.service.create('org-2', input({ name: 'foreign' }));
    const names: string[] = [];
    let token = '';
    do {
      const page = await room.service.list('org-1', 2, token);
      names.push(...page.connections.map(({ connection }) => connection.name));
      token = page.nextPageToken;
    } while (token);
    expect(names).toEqual(['e', 'd', 'c', 'b', 'a']);
    const [first] = (await room.service.list('org-1', 1, '')).connections;
    room.devices.set(first?.connection.id ?? '', 7);
    expect((await room.service.list('org-1', 1, '')).connections).toMatchObject([{ deviceCount: 7 }]);
    const foreign = (await room.service.list('org-1', 2, '')).nextPageToken;
    await expect(room.service.list('org-2', 2, foreign)).rejects.toMatchObject({ violations: [{ field: 'pageToken' }] });
  });

  it('changes only the given fields, and only what the etag fits', async () => {
    const { connection } = await room.service.create('org-1', input({ policy: { queueLimit: 3 } }));
    room.clock.advance(10);
    const after = await room.service.update('org-1', connection.id, { ...nothing, description: 'new' }, '"1"');
    expect(after.connection).toEqual({ ...connection, description: 'new', updatedAt: connection.createdAt + 10, revision: 2 });
    await expect(room.service.update('org-1', connection.id, { ...nothing, name: 'late' }, '"1"')).rejects.toMatchObject({ reason: 'changed_meanwhile', metadata: { etag: '"2"' } });
    await expect(room.service.delete('org-1', connection.id, '"1"')).rejects.toMatchObject({ reason: 'changed_meanwhile' });
    expect((await room.service.update('org-1', connection.id, { ...nothing, policy: {} }, '"2"')).connection.policy).toEqual({});
    await expect(room.service.update('org-1', connection.id, { ...nothing, configuration: { host: 'h' } }, undefined)).rejects.toMatchObject({ violations: [{ field: 'configuration.host' }] });
    expect((await room.service.get('org-1', connection.id)).connection).toMatchObject({ description: 'new', revision: 3 });
  });

  it('loses no change of two at once', async () => {
    const { connection } = await room.service.create('org-1', input());
    await Promise.all([room.service.update('org-1', connection.id, { ...nothing, description: 'one' }, undefined), room.service.update('org-1', connection.id, { ...nothing, name: 'two' }, undefined)]);
    expect((await room.service.get('org-1', connection.id)).connection).toMatchObject({ description: 'one', name: 'two', revision: 3 });
  });

  it('does not find what belongs to another organization', async () => {
    const { connection } = await room.service.create('org-2', input());
    const missing = { kind: 'not_found', reason: 'connection_not_found' };
    await expect(room.service.get('org-1', connection.id)).rejects.toMatchObject(missing);
    await expect(room.service.update('org-1', connection.id, { ...nothing, name: 'x' }, undefined)).rejects.toMatchObject(missing);
    await expect(room.service.delete('org-1', connection.id, undefined)).rejects.toMatchObject(missing);
    const repository = new ConnectionRepository(room.test.database.db);
    expect(await repository.findMany('org-1', [connection.id])).toEqual([]);
    expect(await repository.find('org-1', connection.id)).toBeUndefined();
    expect(await room.service.get('org-2', connection.id)).toMatchObject({ connection: { name: 'Plant room', revision: 1 } });
  });

  it('keeps a connection that devices are bound to, and says how many', async () => {
    const { connection } = await room.service.create('org-1', input());
    room.devices.set(connection.id, 2);
    await expect(room.service.delete('org-1', connection.id, undefined)).rejects.toMatchObject({ kind: 'conflict', reason: 'connection_in_use', message: expect.stringContaining('2 devices'), metadata: { devices: '2' } });
  });

  it('keeps a connection that a device was bound to after the count', async () => {
    const { connection } = await room.service.create('org-1', input());
    const times = { created_at: 1, updated_at: 1 };
    const { knex } = room.test.database.db;
    await knex('digital_devices').insert({ id: 'd', organization_id: 'org-1', name: 'd', name_folded: 'd', revision: 1, ...times });
    await knex('physical_devices').insert({ id: 'p', organization_id: 'org-1', device_id: 'd', connection_id: connection.id, client_device_id: 'c', configuration: '{}', ...times });
    await expect(room.service.delete('org-1', connection.id, undefined)).rejects.toMatchObject({ reason: 'connection_in_use' });
    await knex('physical_devices').delete();
    await room.service.delete('org-1', connection.id, undefined);
    await expect(room.service.get('org-1', connection.id)).rejects.toMatchObject({ reason: 'connection_not_found' });
  });

  it('tells which ids are no gateways of the organization', async () => {
    const mine = (await room.service.create('org-1', input())).connection;
    const foreign = (await room.service.create('org-2', input())).connection;
    await new ConnectionRepository(room.test.database.db).create('org-1', { ...mine, id: 'other-kind', name: 'other', connectorId: 'mqtt' });
    expect(await missingGateways(room.test.database)('org-1', [mine.id, foreign.id, 'other-kind', 'none'])).toEqual([foreign.id, 'other-kind', 'none']);
  });
});

const nothing = { name: undefined, description: undefined, enabled: undefined, configuration: undefined, policy: undefined };
