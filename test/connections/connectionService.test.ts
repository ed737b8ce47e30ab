import type { NewConnection } from '../../src/connections/connectionService';
import { ConnectionRepository, createMissingGatewaysQuery } from '../../src/connections';
import { engines } from '../support/engines';
import { openFixture, type ConnectionFixture } from './connectionFixture';

const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({
  connectorId: 'gateway',
  name: 'Plant room',
  description: '',
  enabled: true,
  configuration: {},
  policy: {},
  ...overrides,
});

describe.each(engines())('connections on $name', (engine) => {
  let fixture: ConnectionFixture;
  beforeEach(async () => {
    fixture = await openFixture(engine);
  });
  afterEach(async () => await fixture.test.drop());

  it('stores the given values', async () => {
    const policy = { queueLimit: 3, sleepy: true, maxInFlight: 2 };
    const { connection } = await fixture.service.create(
      'org-1',
      input({ name: 'Zürich', description: 'the cellar', enabled: false, policy }),
    );
    const view = await fixture.service.get('org-1', connection.id);
    expect(view).toEqual({
      connection: {
        ...input({ name: 'Zürich', description: 'the cellar', enabled: false, policy }),
        encryptedSecrets: {},
        id: connection.id,
        organizationId: 'org-1',
        createdAt: fixture.clock.now(),
        updatedAt: fixture.clock.now(),
        revision: 1,
      },
      status: {
        state: 'disabled',
        since: undefined,
        lastError: '',
        lastMessageAt: undefined,
        warnings: [],
        dataWarnings: [],
        software: '',
      },
      deviceCount: 0,
    });
  });

  it('rejects a name that another connection of the organization has, ignoring case', async () => {
    await fixture.service.create('org-1', input({ name: 'Roof' }));
    const { connection } = await fixture.service.create('org-1', input({ name: 'Cellar' }));
    await fixture.service.create('org-2', input({ name: 'roof' }));
    await expect(fixture.service.create('org-1', input({ name: 'ROOF' }))).rejects.toMatchObject({
      kind: 'already_exists',
      reason: 'name_taken',
    });
    await expect(
      fixture.service.update('org-1', connection.id, { ...nothing, name: 'roof' }, undefined),
    ).rejects.toMatchObject({ reason: 'name_taken' });
    await fixture.service.update('org-1', connection.id, { ...nothing, name: 'CELLAR' }, undefined);
  });

  it('reports all violations of connector and configuration', async () => {
    await expect(fixture.service.create('org-1', input({ connectorId: 'pigeon' }))).rejects.toMatchObject({
      violations: [{ field: 'connectorId' }],
    });
    await expect(
      fixture.service.create('org-1', input({ configuration: { host: 'h', port: 1 } })),
    ).rejects.toMatchObject({
      violations: [{ field: 'configuration.host' }, { field: 'configuration.port' }],
    });
    expect((await fixture.service.list('org-1', undefined, '')).connections).toEqual([]);
  });

  it('lists newest first, page by page, with device counts', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await fixture.service.create('org-1', input({ name }));
      if (name !== 'b') fixture.clock.advance(1); // b and c share a creation time.
    }
    await fixture.service.create('org-2', input({ name: 'foreign' }));
    const names: string[] = [];
    let token = '';
    do {
      const page = await fixture.service.list('org-1', 2, token);
      names.push(...page.connections.map(({ connection }) => connection.name));
      token = page.nextPageToken;
    } while (token);
    expect(names).toEqual(['e', 'd', 'c', 'b', 'a']);
    const [first] = (await fixture.service.list('org-1', 1, '')).connections;
    fixture.devices.set(first?.connection.id ?? '', 7);
    expect((await fixture.service.list('org-1', 1, '')).connections).toMatchObject([{ deviceCount: 7 }]);
    const foreign = (await fixture.service.list('org-1', 2, '')).nextPageToken;
    await expect(fixture.service.list('org-2', 2, foreign)).rejects.toMatchObject({
      violations: [{ field: 'pageToken' }],
    });
  });

  it('changes only the given fields, and only with a matching etag', async () => {
    const { connection } = await fixture.service.create('org-1', input({ policy: { queueLimit: 3 } }));
    fixture.clock.advance(10);
    const after = await fixture.service.update('org-1', connection.id, { ...nothing, description: 'new' }, '"1"');
    expect(after.connection).toEqual({
      ...connection,
      description: 'new',
      updatedAt: connection.createdAt + 10,
      revision: 2,
    });
    await expect(
      fixture.service.update('org-1', connection.id, { ...nothing, name: 'late' }, '"1"'),
    ).rejects.toMatchObject({ reason: 'version_conflict', metadata: { etag: '"2"' } });
    await expect(fixture.service.delete('org-1', connection.id, '"1"')).rejects.toMatchObject({
      reason: 'version_conflict',
    });
    expect(
      (await fixture.service.update('org-1', connection.id, { ...nothing, policy: {} }, '"2"')).connection.policy,
    ).toEqual({});
    await expect(
      fixture.service.update('org-1', connection.id, { ...nothing, configuration: { host: 'h' } }, undefined),
    ).rejects.toMatchObject({ violations: [{ field: 'configuration.host' }] });
    expect((await fixture.service.get('org-1', connection.id)).connection).toMatchObject({
      description: 'new',
      revision: 3,
    });
  });

  it('keeps both of two parallel changes', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    await Promise.all([
      fixture.service.update('org-1', connection.id, { ...nothing, description: 'one' }, undefined),
      fixture.service.update('org-1', connection.id, { ...nothing, name: 'two' }, undefined),
    ]);
    expect((await fixture.service.get('org-1', connection.id)).connection).toMatchObject({
      description: 'one',
      name: 'two',
      revision: 3,
    });
  });

  it('clears the data warnings with every change, also of the name or the policy', async () => {
    const configuration = { url: 'mqtt://broker.example', uplinkTopic: 'site/{clientDeviceId}/up' };
    const { connection } = await fixture.service.create('org-1', input({ connectorId: 'mqtt', configuration }));
    const cause = { reason: 'json_invalid: x', example: '' };
    for (const change of [{ name: 'Renamed' }, { policy: { maxInFlight: 3 } }]) {
      fixture.statuses.addDataWarning(connection, 'uplinks_unreadable', cause);
      const { status } = await fixture.service.get('org-1', connection.id);
      expect(status.dataWarnings).toMatchObject([{ count: 1 }]);
      const changed = await fixture.service.update('org-1', connection.id, { ...nothing, ...change }, undefined);
      expect(changed.status.dataWarnings).toEqual([]);
    }
  });

  it('does not find connections of another organization', async () => {
    const { connection } = await fixture.service.create('org-2', input());
    const missing = { kind: 'not_found', reason: 'connection_not_found' };
    await expect(fixture.service.get('org-1', connection.id)).rejects.toMatchObject(missing);
    await expect(
      fixture.service.update('org-1', connection.id, { ...nothing, name: 'x' }, undefined),
    ).rejects.toMatchObject(missing);
    await expect(fixture.service.delete('org-1', connection.id, undefined)).rejects.toMatchObject(missing);
    const repository = new ConnectionRepository(fixture.test.database.db);
    expect(await repository.findMany('org-1', [connection.id])).toEqual([]);
    expect(await repository.find('org-1', connection.id)).toBeUndefined();
    expect(await fixture.service.get('org-2', connection.id)).toMatchObject({
      connection: { name: 'Plant room', revision: 1 },
    });
  });

  it('does not delete a connection with bound devices and reports their number', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    fixture.devices.set(connection.id, 2);
    await expect(fixture.service.delete('org-1', connection.id, undefined)).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'connection_in_use',
      message: expect.stringContaining('2 devices'),
      metadata: { devices: '2' },
    });
  });

  it('does not delete a connection that a device was bound to after the count', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    const times = { created_at: 1, updated_at: 1 };
    const { knex } = fixture.test.database.db;
    await knex('digital_devices').insert({
      id: 'd',
      organization_id: 'org-1',
      name: 'd',
      name_folded: 'd',
      revision: 1,
      ...times,
    });
    await knex('physical_devices').insert({
      id: 'p',
      organization_id: 'org-1',
      device_id: 'd',
      connection_id: connection.id,
      client_device_id: 'c',
      configuration: '{}',
      ...times,
    });
    await expect(fixture.service.delete('org-1', connection.id, undefined)).rejects.toMatchObject({
      reason: 'connection_in_use',
    });
    await knex('physical_devices').delete();
    await fixture.service.delete('org-1', connection.id, undefined);
    await expect(fixture.service.get('org-1', connection.id)).rejects.toMatchObject({ reason: 'connection_not_found' });
  });

  it('reports which ids are not gateways of the organization', async () => {
    const ownGateway = (await fixture.service.create('org-1', input())).connection;
    const foreign = (await fixture.service.create('org-2', input())).connection;
    await new ConnectionRepository(fixture.test.database.db).create('org-1', {
      ...ownGateway,
      id: 'other-kind',
      name: 'other',
      connectorId: 'mqtt',
    });
    expect(
      await createMissingGatewaysQuery(fixture.test.database)('org-1', [
        ownGateway.id,
        foreign.id,
        'other-kind',
        'none',
      ]),
    ).toEqual([foreign.id, 'other-kind', 'none']);
  });
});

const nothing = {
  name: undefined,
  description: undefined,
  enabled: undefined,
  configuration: undefined,
  policy: undefined,
};
