import { status } from '@grpc/grpc-js';
import { ConnectionRepository, type UplinkMessage } from '../../src/connections';
import {
  ConnectionServiceClient,
  type ListDiscoveredDevicesRequest,
  type ListDiscoveredDevicesResponse,
} from '../../src/gen/connection/connection_service';
import { newId } from '../../src/kernel/ids';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { ReadingSequence, SeriesIdCache, UplinkPipeline } from '../../src/telemetry';
import { DiscoveredDeviceRepository } from '../../src/telemetry/uplinks/discoveredDeviceRepository';
import { openFixture, serveFixture, type ConnectionFixture } from '../connections/connectionFixture';
import { call, callFails, type TestEdge } from '../support/edge';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';

const OWN = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const FOREIGN = { 'x-api-key': 'foreign', 'x-organization-id': 'org-2' };
const DAY = 24 * 3600 * 1000;

describe.each(engines())('discovered devices on $name', (engine) => {
  let fixture: ConnectionFixture;
  let edge: TestEdge;
  let client: ConnectionServiceClient;
  let pipeline: UplinkPipeline;

  beforeAll(async () => {
    fixture = await openFixture(engine);
    edge = await serveFixture(fixture);
    edge.keys.add('key');
    edge.keys.add('foreign', { organizationId: 'org-2' });
    client = edge.client(ConnectionServiceClient);
    pipeline = pipelineWith({ keys: 1000, listed: 10_000 });
  });
  beforeEach(() => fixture.clock.advance(1000));
  afterAll(async () => {
    await edge.stop();
    await fixture.test.drop();
  });

  function pipelineWith(unboundLimits: { keys: number; listed: number }): UplinkPipeline {
    return new UplinkPipeline({
      database: fixture.test.database,
      log: fixture.log,
      positions: new ReadingSequence(fixture.clock),
      series: new SeriesIdCache(),
      evaluateExecutions: async () => {},
      unboundLimits,
    });
  }
  async function addConnection(): Promise<string> {
    const id = newId();
    await new ConnectionRepository(fixture.test.database.db).create('org-1', {
      id,
      organizationId: 'org-1',
      connectorId: 'gateway',
      name: id,
      description: '',
      enabled: true,
      configuration: {},
      encryptedSecrets: {},
      policy: {},
      createdAt: 0,
      updatedAt: 0,
      revision: 1,
    });
    return id;
  }
  function uplink(
    connectionId: string,
    clientDeviceId: string,
    value: Record<string, unknown> = { v: 1 },
  ): UplinkMessage {
    return {
      organizationId: 'org-1',
      connectionId,
      identity: { kind: 'none' },
      clientDeviceId,
      receivedAt: fixture.clock.now(),
      time: undefined,
      clock: undefined,
      payload: { kind: 'json', value },
      fPort: undefined,
    };
  }
  async function list(
    id: string,
    overrides: Partial<ListDiscoveredDevicesRequest> = {},
  ): Promise<ListDiscoveredDevicesResponse> {
    return await call<ListDiscoveredDevicesRequest, ListDiscoveredDevicesResponse>(
      client.listDiscoveredDevices.bind(client),
      { id, organizationId: '', pageToken: '', ...overrides },
      OWN,
    );
  }
  async function bind(connectionId: string, clientDeviceId: string): Promise<void> {
    const { knex } = fixture.test.database.db;
    const id = newId();
    await knex('digital_devices').insert({
      id,
      organization_id: 'org-1',
      name: id,
      name_folded: id,
      revision: 1,
      created_at: 0,
      updated_at: 0,
    });
    await knex('physical_devices').insert({
      id: newId(),
      organization_id: 'org-1',
      device_id: id,
      connection_id: connectionId,
      client_device_id: clientDeviceId,
      configuration: '{}',
      created_at: 0,
      updated_at: 0,
    });
  }

  it('are listed with their latest uplink, newest discovery first', async () => {
    const connection = await addConnection();
    const first = fixture.clock.now();
    for (const value of [{ v: 1 }, { v: 2 }]) await pipeline.handle(uplink(connection, 'one', value));
    fixture.clock.advance(5000);
    await pipeline.handle(uplink(connection, 'two'));
    fixture.clock.advance(5000);
    await pipeline.handle({
      ...uplink(connection, 'one'),
      payload: { kind: 'bytes', bytes: Uint8Array.from([1, 255]) },
      fPort: 3,
    });
    const { discoveredDevices } = await list(connection);
    expect(
      discoveredDevices.map((device) => ({
        ...device,
        firstSeen: fromTimestamp(device.firstSeen!),
        lastSeen: fromTimestamp(device.lastSeen!),
      })),
    ).toEqual([
      {
        clientDeviceId: 'two',
        firstSeen: first + 5000,
        lastSeen: first + 5000,
        uplinks: 1,
        lastPayload: '{"v":1}',
        truncated: false,
        lastFailure: '',
      },
      {
        clientDeviceId: 'one',
        firstSeen: first,
        lastSeen: first + 10_000,
        uplinks: 3,
        lastPayload: '{"bytes":"01ff","fPort":3}',
        truncated: false,
        lastFailure: '',
      },
    ]);
  });

  it('are paged without gaps even when they send in the meantime', async () => {
    const connection = await addConnection();
    for (let at = 0; at < 7; at++) {
      fixture.clock.advance(at % 3); // Some devices are discovered in the same millisecond.
      await pipeline.handle(uplink(connection, `device-${at}`));
    }
    const whole = listIds(await list(connection));
    const paged: string[] = [];
    for (let pageToken = '', more = true; more; more = pageToken !== '') {
      const page = await list(connection, { pageSize: 2, pageToken });
      paged.push(...listIds(page));
      pageToken = page.nextPageToken;
      fixture.clock.advance(10);
      for (const id of whole.toReversed()) await pipeline.handle(uplink(connection, id));
    }
    expect(paged).toEqual(whole);
    expect(paged.toSorted()).toEqual(Array.from({ length: 7 }, (_, at) => `device-${at}`));
    const { nextPageToken } = await list(connection, { pageSize: 2 });
    const other = { id: await addConnection(), organizationId: '', pageToken: nextPageToken };
    expect(await callFails(client.listDiscoveredDevices.bind(client), other, OWN)).toMatchObject({
      reason: 'validation_failed',
      fields: ['pageToken'],
    });
  });

  it('leave the list when they are bound, and the table with the next sweep', async () => {
    const connection = await addConnection();
    for (const id of ['stays', 'adopted']) await pipeline.handle(uplink(connection, id));
    await bind(connection, 'adopted');
    expect(listIds(await list(connection))).toEqual(['stays']);
    await pipeline.handle(uplink(connection, 'adopted'));
    await pipeline.sweep(fixture.clock.now());
    const rows = await fixture.test.database.db
      .knex('discovered_devices')
      .where('connection_id', connection)
      .select('client_device_id', 'uplinks');
    expect(rows).toEqual([{ client_device_id: 'stays', uplinks: 1 }]);
  });

  it('keep the beginning of a long payload and mark it as truncated', async () => {
    const connection = await addConnection();
    await pipeline.handle(uplink(connection, 'long', { text: '\u{1F6B0}'.repeat(5000) }));
    await pipeline.handle(uplink(connection, 'fits', { text: 'x'.repeat(2048 - '{"text":""}'.length) }));
    await pipeline.handle(uplink(connection, 'hostile', { '…': 'half \uD800 NUL \0', list: [['x']] }));
    const shown = new Map((await list(connection)).discoveredDevices.map((device) => [device.clientDeviceId, device]));
    const [long, fits, hostile] = ['long', 'fits', 'hostile'].map((id) => shown.get(id));
    expect(long).toMatchObject({ truncated: true });
    expect(long?.lastPayload).toMatch(/^\{"text":"(?:\u{1F6B0})+…$/u);
    expect(long?.lastPayload.length).toBeLessThanOrEqual(2048);
    expect([fits?.truncated, hostile?.truncated]).toEqual([false, false]);
    expect(JSON.parse(hostile?.lastPayload ?? '')).toEqual({ '…': 'half \uD800 NUL \0', list: [['x']] });
  });

  it('are limited per connection to the most recently seen ones, by any pipeline', async () => {
    const connection = await addConnection();
    const few = pipelineWith({ keys: 2, listed: 3 });
    for (const id of ['a', 'b', 'c', 'a', 'd', 'd', 'e']) {
      fixture.clock.advance(1);
      await few.handle(uplink(connection, id));
    }
    expect(listIds(await list(connection)).toSorted()).toEqual(['a', 'd', 'e']);
    await pipelineWith({ keys: 2, listed: 2 }).handle({
      ...uplink(connection, 'f'),
      receivedAt: fixture.clock.now() + 1,
    });
    expect(listIds(await list(connection))).toEqual(['f', 'e']);
    expect(
      fixture.log
        .of('telemetry.unassigned_dropped')
        .filter(({ connection_id: id, what, kept }) => id === connection && what === 'listed' && kept === 3),
    ).toHaveLength(1);
  });

  it('keep connector keys of a limited number of devices, even across restarts', async () => {
    const connection = await addConnection();
    const { knex } = fixture.test.database.db;
    const withKeys = async () =>
      (
        await knex('connector_keys')
          .where('connection_id', connection)
          .distinct<{ client_device_id: string }[]>('client_device_id')
      )
        .map((row) => row.client_device_id)
        .toSorted();
    for (let start = 0; start < 4; start++) {
      const few = pipelineWith({ keys: 3, listed: 9 });
      for (const id of start === 0 ? ['adopted', 'a', 'b', 'c'] : ['a', 'b', 'c']) {
        fixture.clock.advance(1);
        await few.handle(uplink(connection, id === 'adopted' ? id : `${id}${start}`));
        if (id === 'adopted') await bind(connection, id);
      }
      expect((await withKeys()).length).toBeLessThanOrEqual(9 + 1);
    }
    expect(await withKeys()).toContain('a1'); // The pipeline does not know about these keys after a restart.
    await pipelineWith({ keys: 3, listed: 9 }).sweep(fixture.clock.now());
    expect(await withKeys()).toEqual(['a3', 'adopted', 'b3', 'c3']);
  });

  it('are deleted with their connection', async () => {
    const [gone, stays] = [await addConnection(), await addConnection()];
    for (const connection of [gone, stays]) await pipeline.handle(uplink(connection, 'one'));
    await new ConnectionRepository(fixture.test.database.db).delete('org-1', gone);
    await pipeline.sweep(fixture.clock.now() + 8 * DAY);
    expect(await fixture.test.database.db.knex('discovered_devices').where('connection_id', gone)).toEqual([]);
    expect(listIds(await list(stays))).toEqual(['one']);
  });

  it('are limited to those of the organization', async () => {
    const connection = await addConnection();
    expect(
      await callFails(
        client.listDiscoveredDevices.bind(client),
        { id: connection, organizationId: '', pageToken: '' },
        FOREIGN,
      ),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    expect(await list(connection)).toEqual({ discoveredDevices: [], nextPageToken: '' });
  });

  it('are read through an index at any table size', async () => {
    const { database } = fixture.test;
    const rows = Array.from({ length: 3000 }, (_, at) => ({
      connection_id: `plan-${at % 3}`,
      client_device_id: `d-${at}`,
      organization_id: 'org-1',
      first_seen: at,
      last_seen: at,
      uplinks: 1,
      last_payload: '{}',
    }));
    for (let at = 0; at < rows.length; at += 500)
      await database.db.knex('discovered_devices').insert(rows.slice(at, at + 500));
    if (database.dialect.name === 'postgres') await database.db.knex.raw('vacuum analyze discovered_devices');
    const page = await getPlan(
      database,
      async (db) =>
        await new DiscoveredDeviceRepository(db).list('org-1', 'plan-1', { firstSeen: 2000, clientDeviceId: 'x' }, 51),
    );
    expect(page).toMatch(/discovered_devices_page/);
    const drop = await getPlan(
      database,
      async (db) => await new DiscoveredDeviceRepository(db).deleteOldest('org-1', 'plan-1', 3),
    );
    const seenPlan = await getPlan(
      database,
      async (db) => await new DiscoveredDeviceRepository(db).listByLastSeen('org-1', 'plan-1', 100, 500),
    );
    for (const plan of [drop, seenPlan]) expect(plan).toMatch(/discovered_devices_seen/);
    for (const plan of [page, drop, seenPlan])
      expect(plan).not.toMatch(/SCAN (discovered_devices|d|p)\b|Seq Scan|TEMP B-TREE FOR ORDER/);
    await database.db.knex('discovered_devices').whereLike('connection_id', 'plan-%').delete();
  });
});

function listIds({ discoveredDevices }: ListDiscoveredDevicesResponse): string[] {
  return discoveredDevices.map(({ clientDeviceId }) => clientDeviceId);
}
