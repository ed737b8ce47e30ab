import { ACCESS, COMMANDS, CONNECTIONS, DASHBOARDS, DEVICES, TEMPLATES } from './creatingRequests';
import { sqliteOnly } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import { answerJson, buildRequest, httpWays, requestJson } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';

const COUNT = 201;

/** The records that requests refer to. */
interface Records {
  readonly deviceId: string;
  readonly connectionId: string;
}

/** A list: the field of its items, the fields that its request needs, and how its page sizes are chosen. */
interface List {
  readonly items: string;
  readonly fields?: (records: Records) => Fields;
  /** `all`: without a page size it returns everything; `few`: so few items that a page has them all. */
  readonly size?: 'all' | 'few';
}

const LISTS: Readonly<Record<string, List>> = {
  [`${ACCESS}/ListApiKeys`]: { items: 'apiKeys' },
  [`${ACCESS}/ListMembers`]: { items: 'members' },
  [`${ACCESS}/ListRoles`]: { items: 'roles', size: 'all' },
  [`${ACCESS}/ListAuditEvents`]: { items: 'events' },
  [`${COMMANDS}/ListCommands`]: { items: 'commands', fields: ({ deviceId: id }) => ({ id }) },
  [`${COMMANDS}/ListExecutions`]: { items: 'items', fields: ({ deviceId: id }) => ({ id }) },
  [`${CONNECTIONS}/ListConnections`]: { items: 'connections' },
  [`${CONNECTIONS}/ListDiscoveredDevices`]: {
    items: 'discoveredDevices',
    fields: ({ connectionId: id }) => ({ id }),
  },
  '/connector.ConnectorService/ListConnectors': { items: 'connectors', size: 'few' },
  [`${DASHBOARDS}/ListDashboards`]: { items: 'dashboards' },
  [`${DEVICES}/ListDeviceProfiles`]: { items: 'models' },
  [`${DEVICES}/ListDigitalDevices`]: { items: 'devices' },
  '/OrganizationsService/ListOrganizations': { items: 'organizations' },
  [`${TEMPLATES}/ListNormalizedKeys`]: { items: 'normalizedKeys', size: 'all' },
  [`${TEMPLATES}/ListSensorTemplates`]: { items: 'sensorTemplates', size: 'all' },
  [`${TEMPLATES}/ListUnitMeasurements`]: { items: 'unitMeasurements', size: 'few' },
};

const findSizeField = ({ request }: MethodDescriptor): string | undefined =>
  request.fields.find(({ name }) => name === 'page_size' || name === 'limit')?.localName;

it('are all lists with a page size, except for readings, whose pages are larger', () => {
  const methods = [...descriptors.methods.values()].filter((method) => findSizeField(method) !== undefined);
  const paths = methods.map(({ path }) => path).filter((path) => !path.endsWith('/QueryRange'));
  expect(paths.toSorted()).toEqual(Object.keys(LISTS).toSorted());
});

describe.each(sqliteOnly())('the page size of every list, on $name', (engine) => {
  let app: TestApp;
  let http: HttpClient;
  let fields: Record<string, string>;
  let records: Records;

  beforeAll(async () => {
    app = await startTestApp(engine);
    const { key } = await app.newKey(app.organizationId, { isAdmin: true });
    fields = as(key, app.organizationId);
    http = new HttpClient(app.app.addresses.http as string, app.app.ca, fields);
    const deviceId = (await create(`${DEVICES}/CreateDigitalDevice`, { name: 'Valve' }))['id'] as string;
    const connection = { connectorId: 'gateway', name: 'Pump room' };
    const connectionId = (await create(`${CONNECTIONS}/CreateConnection`, connection))['id'] as string;
    records = { deviceId, connectionId };
    await Promise.all(Array.from({ length: COUNT }, async (_, n) => await createItems(n)));
    await insertRows();
  });
  afterAll(async () => {
    http.close();
    await app.stop();
  });

  async function create(path: string, body: JsonObject): Promise<JsonObject> {
    const { status, json } = await http.send('POST', path, { body });
    if (status > 201) throw new Error(`${path}: ${JSON.stringify(json)}`);
    return json;
  }

  /** Creates the n-th item of every list. A device has at most 200 commands. */
  async function createItems(n: number): Promise<void> {
    const scopes = ['devices:read'];
    await create(`${DEVICES}/CreateDigitalDevice`, { name: `Valve ${n}` });
    await create(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: `Room ${n}` });
    await create(`${DASHBOARDS}/CreateDashboard`, { name: `Boiler ${n}` });
    await create(`${ACCESS}/CreateApiKey`, { name: `Door ${n}`, scopes });
    await create(`${ACCESS}/CreateRole`, { name: `Shift ${n}`, scopes });
    await create(`${ACCESS}/AddMember`, { name: `Ada ${n}`, roleId: 'viewer' });
    await create('/OrganizationsService/CreateOrganization', { name: `North ${n}` });
    const { id: keyNameId } = await create(`${TEMPLATES}/CreateNormalizedKey`, { name: `torque_${n}` });
    await create(`${TEMPLATES}/CreateSensorTemplate`, { keyNameId, sensorType: `torque ${n}`, valueType: 'number' });
    const { deviceId: id } = records;
    const command = { name: `Open ${n}`, mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{}' };
    const commandId = n < COUNT - 1 ? (await create(`${COMMANDS}/CreateCommand`, { id, command }))['id'] : 'unknown';
    await http.send('POST', `${COMMANDS}/ExecuteCommand`, { body: { id, commandId } });
  }

  /** Inserts what only devices and imports create. */
  async function insertRows(): Promise<void> {
    const { knex } = app.database.database.db;
    const texts = ['source', 'brand_id', 'brand_name', 'brand_folded', 'model_id', 'model_name', 'model_folded'];
    const model = Object.fromEntries([...texts, 'search_folded', 'description', 'hash'].map((name) => [name, 'x']));
    for (let n = 0; n < COUNT; n += 1) {
      await knex('device_models').insert({ ...model, id: `x/x/${n}`, created_at: 0, updated_at: 0 });
      await knex('discovered_devices').insert({
        connection_id: records.connectionId,
        client_device_id: `d-${n}`,
        organization_id: app.organizationId,
        first_seen: n,
        last_seen: n,
        uplinks: 1,
        last_payload: '{}',
      });
    }
  }

  it.each(Object.entries(LISTS))('%s: 0 is the default, and 201 is 200', async (path, list) => {
    const descriptor = descriptors.methods.get(path) as MethodDescriptor;
    const countItems = ({ [list.items]: items }: JsonObject): number => (items as unknown[]).length;
    const ways = httpWays(descriptor).map((way) => async (request: Fields) => {
      const { url, body } = buildRequest(way, requestJson(descriptor, request));
      return (await http.send(way.verb, url, { body })).json;
    });
    const callGrpc = async (request: Fields): Promise<JsonObject> =>
      answerJson(
        descriptor,
        (await app.send(descriptor, encode(descriptor.request, request), fields)).answer as Buffer,
      );
    for (const send of [callGrpc, ...ways]) {
      const countPage = async (size: number | undefined): Promise<number> =>
        countItems(await send({ ...list.fields?.(records), [findSizeField(descriptor) as string]: size }));
      const counts = [await countPage(undefined), await countPage(0), await countPage(200), await countPage(201)];
      const [byDefault = 0, , most] = counts;
      expect(counts).toEqual([byDefault, byDefault, most, most]);
      if (list.size === 'few') expect(byDefault).toBe(most);
      else if (list.size === 'all') expect([byDefault > COUNT, most]).toEqual([true, 200]);
      else expect([byDefault, most]).toEqual([50, 200]);
    }
  });
});
