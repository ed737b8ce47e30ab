import { readFileSync } from 'node:fs';
import {
  createPlantroomClient,
  paginate,
  paginatePages,
  type PlantroomClient,
  type UnaryMethod,
} from '../../../src/client';
import { SERVICES } from '../../../src/client/createPlantroomClient';
import { AggregateFill, BucketUnit } from '../../../src/client/gen/sensorquery/v1/sensor_query_service';
import { systemClock } from '../../../src/kernel/clock';
import { importVendor } from '../../support/importedProfiles';
import { descriptors } from '../../support/testApp';
import { getModel, getProfile, getVendor } from '../../support/vendors';
import { startStreamSite, type StreamSite } from '../streams/streamSite';

type AnyPage = Readonly<Record<string, unknown>> & { nextPageToken: string };
type AnyMethod = UnaryMethod<{ pageToken: string }, AnyPage>;

/** The requests of a list method: for a small page, and for all items at once (as far as possible). */
interface ListRequests {
  readonly small: object;
  readonly whole: object;
}

const SIZES: ListRequests = { small: { pageSize: 2 }, whole: { pageSize: 200 } };
const LIMITS: ListRequests = { small: { limit: 2 }, whole: { limit: 200 } };
const NUMBERS = [0, 1, 2, 3, 4];
const isPermanent = (name: string): boolean => /^Connection [0134]$/.test(name);

describe('plantroom-client pages', () => {
  let site: StreamSite;
  let admin: PlantroomClient;
  let listRequests: Readonly<Record<string, ListRequests>>;
  beforeAll(async () => {
    site = await startStreamSite();
    const { server } = site;
    const { key } = await server.newKey(server.organizationId, { isAdmin: true });
    admin = createPlantroomClient({
      address: server.app.addresses.grpc.replace('127.0.0.1', 'localhost'),
      apiKey: key,
      organizationId: server.organizationId,
      ca: readFileSync(server.app.ca ?? ''),
    });
    await createItems();
    listRequests = await requests();
  });
  afterAll(async () => {
    admin.close();
    await site.stop();
  });

  /** Creates at least five of each listable resource that the first start does not create. */
  const createItems = async (): Promise<void> => {
    const { client, server, deviceId: id, commandId } = site;
    // There is no second user yet who could own them.
    for (const n of NUMBERS)
      await Promise.all([server.newKey(server.organizationId), server.organization(`Organization ${n}`)]);
    // There are no executions yet, which would be sent to the gateway.
    const gateway = await site.attach();
    for (const n of NUMBERS) {
      gateway.uplink(`found-${n}`, { clientDeviceId: `found-${n}` });
      gateway.uplink(`read-${n}`, { payload: { $case: 'json', value: { position: n } } });
    }
    for (let left = 2 * NUMBERS.length; left > 0; left -= 1) await gateway.next('uplinkAck');
    gateway.end();
    await gateway.ended;
    const [role] = (await client.access.listRoles({})).roles;
    for (const n of NUMBERS) {
      await client.devices.createDigitalDevice({ name: `Device ${n}` });
      await client.connections.createConnection({ connectorId: 'gateway', name: `Connection ${n}`, enabled: false });
      await admin.dashboards.createDashboard({ name: `Dashboard ${n}` });
      await client.access.createRole({ name: `Role ${n}`, scopes: ['devices:read'] });
      await client.access.addMember({ name: `Member ${n}`, email: `member-${n}@example.com`, roleId: role?.id ?? '' });
      await client.commands.createCommand({
        id,
        command: { name: `Command ${n}`, mode: 1, verificationStrategy: 1, directPayload: '{}' },
      });
      await client.commands.executeCommand({ id, commandId, params: { n } });
    }
    const models = NUMBERS.map((n) => getModel({ id: `meter-${n}`, name: `Meter ${n}`, profiles: [getProfile({})] }));
    await importVendor(server.database.database, systemClock, getVendor({ models }));
  };

  /** Returns the requests of each list, by method. */
  const requests = async (): Promise<Readonly<Record<string, ListRequests>>> => {
    const { client, deviceId: id, connectionId, sensorId } = site;
    const { sensorTemplates } = await client.sensorTemplates.listSensorTemplates({});
    const others = sensorTemplates.filter(({ keyName }) => keyName !== 'valve_position').slice(0, 2);
    const { sensors } = await client.devices.addSensorsToDevice({
      id,
      sensorTemplateIds: others.map((template) => template.id),
    });
    const [from, to] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 3_600_000)];
    const range = { sensorIds: [sensorId], from, to };
    const buckets = {
      sensorIds: sensors.map((sensor) => sensor.id),
      from: new Date('2026-01-01T00:00:00Z'),
      fill: AggregateFill.AGGREGATE_FILL_NULL,
    };
    const days = (to2: string): object => ({
      ...buckets,
      to: new Date(to2),
      bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_MINUTE },
    });
    return {
      ListApiKeys: SIZES,
      ListMembers: SIZES,
      ListRoles: SIZES,
      ListAuditEvents: SIZES,
      ListSensorTemplates: { small: { pageSize: 7 }, whole: {} },
      ListNormalizedKeys: { small: { pageSize: 7 }, whole: {} },
      ListUnitMeasurements: { small: { pageSize: 7 }, whole: {} },
      ListConnectors: SIZES,
      ListOrganizations: SIZES,
      ListConnections: SIZES,
      ListDashboards: SIZES,
      ListDiscoveredDevices: { small: { id: connectionId, pageSize: 2 }, whole: { id: connectionId, pageSize: 200 } },
      ListCommands: { small: { id, pageSize: 2 }, whole: { id, pageSize: 200 } },
      ListExecutions: { small: { id, limit: 2 }, whole: { id, limit: 200 } },
      ListDeviceProfiles: SIZES,
      ListDigitalDevices: LIMITS,
      QueryRange: { small: { ...range, pageSize: 2 }, whole: range },
      // A page holds 10,500 buckets, which is about four days of one sensor in minutes.
      QueryAggregate: { small: days('2026-01-05T00:00:00Z'), whole: days('2026-01-05T00:00:00Z') },
    };
  };

  const paged = [...descriptors.methods.values()].filter(({ response }) =>
    response.fields.some(({ name }) => /^next_(page_token|cursor)$/.test(name)),
  );

  it.each(paged.map((descriptor) => [descriptor.path.split('/').at(-1) as string, descriptor] as const))(
    '%s: every item once, in the order of the list',
    async (name, { service, response }) => {
      const request = listRequests[name];
      if (!request) throw new Error(`${name} is a new list: write into this test how it is filled and asked`);
      expect(response.fields.filter(({ fieldKind }) => fieldKind === 'list')).toHaveLength(1);
      const fixture = Object.entries(SERVICES).find(([, { fullName }]) => fullName === service)?.[0] as 'devices';
      const method = (admin[fixture] as unknown as Readonly<Record<string, AnyMethod>>)[
        name[0]?.toLowerCase() + name.slice(1)
      ] as AnyMethod;
      // Each call adds an event to the audit trail, so only events up to now are listed.
      const until: object = name === 'ListAuditEvents' ? { to: new Date() } : {};
      const pages: number[] = [];
      const small: unknown[] = [];
      for await (const page of paginatePages(method, { ...request.small, ...until })) {
        const [list] = Object.values(page).filter((value) => Array.isArray(value)) as unknown[][];
        pages.push(list?.length ?? 0);
        small.push(...(list ?? []));
      }
      const whole: unknown[] = [];
      for await (const item of paginate(method, { ...request.whole, ...until })) whole.push(item);
      expect(small).toEqual(whole);
      expect(small.length).toBeGreaterThanOrEqual(3);
      expect(pages.length).toBeGreaterThan(1);
      expect(pages.slice(0, -1).every((length) => length > 0)).toBe(true);
    },
  );

  it('begin after the skipped items, which are skipped once', async () => {
    const names: string[] = [];
    for await (const { name } of paginate(site.client.devices.listDigitalDevices, { limit: 2, offset: 1 }))
      names.push(name);
    expect(names).toEqual(['Device 3', 'Device 2', 'Device 1', 'Device 0', 'Valve']);
  });

  it('of a changing list contain each permanent item once', async () => {
    const { client } = site;
    const listed: string[] = [];
    for await (const { connections } of paginatePages(client.connections.listConnections, { pageSize: 1 })) {
      listed.push(...connections.map(({ name }) => name).filter(isPermanent));
      const deleted =
        listed.length === 1
          ? (await client.connections.listConnections({})).connections.find(({ name }) => name === 'Connection 2')
          : undefined;
      if (deleted) await client.connections.deleteConnection({ id: deleted.id });
      if (listed.length === 1)
        await client.connections.createConnection({
          connectorId: 'gateway',
          name: `Late ${Math.random()}`,
          enabled: false,
        });
    }
    expect(listed).toEqual(['Connection 4', 'Connection 3', 'Connection 1', 'Connection 0']);
  });

  it('reject with the error of the method', async () => {
    const error = await paginatePages(site.client.devices.listDigitalDevices, { pageToken: 'of nobody' })
      .next()
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      name: 'PlantroomError',
      reason: 'validation_failed',
      violations: [{ field: 'pageToken' }],
    });
  });
});
