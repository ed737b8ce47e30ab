import { fromBinary, toJson } from '@bufbuild/protobuf';
import { Client, status } from '@grpc/grpc-js';
import { once } from 'node:events';
import { ConnectorKeyRepository } from '../../src/telemetry/keys/connectorKeyRepository';
import { newId } from '../../src/kernel/ids';
import { SCOPES } from '../../src/kernel/scopes';
import { MediaScopeRepository } from '../../src/media/mediaScopeRepository';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { headers as metadata } from '../support/edge';
import { engines } from '../support/engines';
import { createRestrictedKey, type Limits } from '../support/restrictedKeys';
import { getPlan } from '../support/queryPlan';
import { Statements } from '../support/statements';
import { as, descriptors, encode, startTestApp, type Fields, type Outcome, type TestApp } from '../support/testApp';

type Headers = Readonly<Record<string, string>>;
interface Page {
  readonly devices?: readonly { readonly id: string }[];
  readonly total?: number;
  readonly nextPageToken?: string;
}

const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const MEDIA = '/media.v1.MediaService';
const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
const CONNECTIONS = '/connection.ConnectionService';
const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);
const KEY_SCOPES = SCOPES.filter((scope) => scope !== 'gateways:write');
const NOBODY = '0190a0a0-0000-7000-8000-000000000001';
const definition = { mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' };

function getDetails(path: string): MethodDescriptor {
  const descriptor = descriptors.methods.get(path);
  if (!descriptor) throw new Error(`no ${path}`);
  return descriptor;
}

const nowhere = (text: string | undefined, id: string): string => (text ?? '').replaceAll(id, 'ID');

describe.each(engines())('what a restricted key sees and changes, on $name', (engine) => {
  let server: TestApp;
  let client: Client;
  let unlimited: Headers;
  let connections: Readonly<Record<'north' | 'south' | 'empty', string>>;
  let names = 0;

  const send = async (path: string, fields: Fields, headers: Headers): Promise<Outcome> =>
    await server.send(getDetails(path), encode(getDetails(path).request, fields), headers);
  const callMethod = async <Answer = Record<string, unknown>>(
    path: string,
    fields: Fields,
    headers: Headers = unlimited,
  ): Promise<Answer> => {
    const { response } = getDetails(path);
    const { answer, error } = await send(path, fields, headers);
    if (!answer) throw new Error(`${path}: ${error?.message}`);
    return toJson(response, fromBinary(response, answer)) as Answer;
  };
  const createRecord = async (path: string, fields: Fields): Promise<string> =>
    (await callMethod(path, fields))['id'] as string;
  const key = async (limits: Limits): Promise<Headers> =>
    as(await createRestrictedKey(server, server.organizationId, limits, KEY_SCOPES), server.organizationId);
  const device = async (name: string, connectionId?: string, images: readonly string[] = []): Promise<string> => {
    names += 1;
    return await createRecord(`${DEVICES}/CreateDigitalDevice`, {
      name,
      ...(connectionId && { physicalDevice: { clientDeviceId: `client-${names}`, connectionId } }),
      images: images.map((mediaId) => ({ mediaId })),
    });
  };
  const update = async (headers: Headers, id: string, fields: Fields): Promise<Outcome> =>
    await send(`${DEVICES}/UpdateDigitalDevice`, { id, ...fields }, headers);
  const uploadImage = async (): Promise<string> =>
    await createRecord(`${MEDIA}/UploadMedia`, { filename: 'pump.png', chunk: PNG });
  const list = async (headers: Headers, fields: Fields = {}): Promise<Page> =>
    await callMethod<Page>(`${DEVICES}/ListDigitalDevices`, fields, headers);
  const listed = async (headers: Headers, fields: Fields = {}): Promise<unknown> => {
    const { devices = [], total = 0 } = await list(headers, fields);
    return [devices.map(({ id }) => id), total];
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    client = server.client(Client);
    unlimited = as((await server.newKey(server.organizationId, { scopes: KEY_SCOPES })).key, server.organizationId);
    const ids: string[] = [];
    for (const name of ['North', 'South', 'Empty'])
      ids.push(await createRecord(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name }));
    const [north = '', south = '', empty = ''] = ids;
    connections = { north, south, empty };
  });
  afterAll(async () => {
    await server.stop();
  });

  it('lists the devices inside: items, totals, searches, offsets, tokens, the missing', async () => {
    const { north, south } = connections;
    const [n1, s1, loose, n2, s2] = [
      await device('pump north'),
      await device('pump south', south),
      await device('pump loose'),
      await device('fan north', north),
      await device('fan south', south),
    ];
    await update(unlimited, n1, { physicalDevice: { clientDeviceId: 'n1', connectionId: north } });
    const byIds = await key({ deviceIds: [s1, loose, NOBODY] });
    const byConnection = await key({ connectionIds: [north] });
    const both = await key({ deviceIds: [loose, n1], connectionIds: [north] });
    const commandsOnly = await key({ commandIds: [NOBODY] });
    const nothing = await key({ connectionIds: [connections.empty] });
    expect(await listed(byIds)).toEqual([[loose, s1], 2]);
    expect(await listed(byConnection)).toEqual([[n2, n1], 2]);
    expect(await listed(both)).toEqual([[n2, loose, n1], 3]);
    expect(await listed(nothing)).toEqual([[], 0]);
    expect(await listed(commandsOnly)).toEqual(await listed(unlimited));
    expect(await listed(both, { search: 'PUMP' })).toEqual([[loose, n1], 2]);
    expect(await listed(both, { search: 'so' })).toEqual([[], 0]);
    expect(await listed(both, { limit: 1, offset: 1 })).toEqual([[loose], 3]);
    expect(await listed(both, { limit: 1, offset: 3 })).toEqual([[], 3]);
    const later = { seconds: BigInt(Math.ceil(Date.now() / 1000) + 60), nanos: 0 };
    expect(await listed(both, { lastSeenBefore: later, search: 'loose' })).toEqual([[loose], 1]);
    expect(await listed(both, { lastSeenBefore: { seconds: 1n, nanos: 0 } })).toEqual([[], 0]);
    const { nextPageToken } = await list(both, { limit: 1 });
    expect(await listed(both, { pageToken: nextPageToken })).toEqual([[loose, n1], 3]);
    // A token of a key that sees more shows no more to this one.
    const [first] = (await list(unlimited, { limit: 1 })).devices ?? [];
    expect(first?.id).toBe(s2);
    expect(await listed(byIds, { pageToken: (await list(unlimited, { limit: 1 })).nextPageToken })).toEqual([
      [loose, s1],
      2,
    ]);
    expect(await listed(byConnection, { pageToken: nextPageToken })).toEqual([[n1], 2]);
    for (const id of [n1, s1, loose, n2, s2]) await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id });
  });

  it('drops a device at once that moves away and includes one that moves in', async () => {
    const { north, south } = connections;
    const moving = await device('moving', north);
    const staying = await device('staying', north);
    const headers = await key({ connectionIds: [north] });
    const { nextPageToken } = await list(headers, { limit: 1 });
    expect(await listed(headers, { pageToken: nextPageToken })).toEqual([[moving], 2]);
    await update(unlimited, moving, { physicalDevice: { connectionId: south } });
    expect(await listed(headers, { pageToken: nextPageToken })).toEqual([[], 1]);
    const unknown = await send(`${DEVICES}/GetDigitalDevice`, { id: NOBODY }, headers);
    const missing = await send(`${DEVICES}/GetDigitalDevice`, { id: moving }, headers);
    expect(nowhere(missing.error?.message, moving)).toBe(nowhere(unknown.error?.message, NOBODY));
    expect(missing.error?.reason).toBe('device_not_found');
    await update(unlimited, moving, { physicalDevice: { connectionId: north } });
    expect(await listed(headers)).toEqual([[staying, moving], 2]);
    for (const id of [moving, staying]) await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id }, headers);
    expect(await listed(headers)).toEqual([[], 0]);
  });

  it('rebinds only within the scope and unbinds only what the key names', async () => {
    const { north, south } = connections;
    const [bound, named, loose] = [await device('bound', north), await device('named', south), await device('loose')];
    const headers = await key({ deviceIds: [named, loose], connectionIds: [north] });
    const expectUnknown = async (id: string, connectionId: string, more: Fields = {}): Promise<void> => {
      const refused = await update(headers, id, {
        physicalDevice: { clientDeviceId: 'elsewhere', connectionId },
        ...more,
      });
      const unknown = await update(headers, id, {
        physicalDevice: { clientDeviceId: 'elsewhere', connectionId: NOBODY },
        ...more,
      });
      expect({ ...refused.error, message: nowhere(refused.error?.message, connectionId), metadata: {} }).toMatchObject({
        reason: 'connection_not_found',
      });
      expect(nowhere(refused.error?.message, connectionId)).toBe(nowhere(unknown.error?.message, NOBODY));
    };
    await expectUnknown(bound, south);
    await expectUnknown(loose, south);
    await expectUnknown(named, connections.empty, { name: 'renamed' });
    const another = await update(headers, named, { physicalDevice: { clientDeviceId: 'south-again' } });
    expect(another).toMatchObject({
      code: status.PERMISSION_DENIED,
      error: { reason: 'insufficient_scope', metadata: { required_scope: 'devices:write' } },
    });
    expect(another.error?.message).toContain('but not the connection');
    expect(
      await update(headers, named, { name: 'named again', physicalDevice: { connectionId: south } }),
    ).toMatchObject({ code: status.OK });
    expect(
      await update(headers, named, { physicalDevice: { clientDeviceId: 'to-north', connectionId: north } }),
    ).toMatchObject({ code: status.OK });
    await expectUnknown(named, south);
    expect(
      await update(headers, bound, { physicalDevice: { clientDeviceId: 'north-again', connectionId: north } }),
    ).toMatchObject({ code: status.OK });
    const rebound = await update(headers, bound, {
      physicalDevice: { clientDeviceId: 'to-north', connectionId: north },
    });
    expect(rebound.error?.reason).toBe('physical_device_already_bound');
    const leaving = await update(headers, bound, { unbindPhysicalDevice: true, name: 'unbound' });
    expect(leaving).toMatchObject({
      code: status.PERMISSION_DENIED,
      error: { reason: 'insufficient_scope', metadata: { required_scope: 'devices:write' } },
    });
    expect(leaving.error?.message).toContain('only through its current connection');
    expect(await callMethod(`${DEVICES}/GetDigitalDevice`, { id: bound }, headers)).toMatchObject({
      name: 'bound',
      physicalDevice: { clientDeviceId: 'north-again' },
    });
    expect(await update(headers, named, { unbindPhysicalDevice: true })).toMatchObject({ code: status.OK });
    expect(await update(headers, loose, { unbindPhysicalDevice: true })).toMatchObject({ code: status.OK });
    for (const id of [bound, named, loose]) await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id }, headers);
  });

  it('shows connector keys of physical devices inside', async () => {
    const { north, south } = connections;
    const [bound, named, other] = [await device('bound', north), await device('named'), await device('other')];
    await update(unlimited, named, { physicalDevice: { clientDeviceId: 'mine', connectionId: south } });
    await update(unlimited, other, { physicalDevice: { clientDeviceId: 'theirs', connectionId: south } });
    const sources = [
      [north, 'unbound'],
      [south, 'mine'],
      [south, 'theirs'],
      [south, 'unbound'],
    ] as const;
    const { database } = server.database;
    for (const [connectionId, clientDeviceId] of sources) {
      await database.transaction(
        async (db) =>
          await new ConnectorKeyRepository(db).store(
            server.organizationId,
            { connectionId, clientDeviceId },
            [['value', 1]],
            1,
            1,
          ),
      );
    }
    const headers = await key({ deviceIds: [named], connectionIds: [north] });
    const checkSeen = async (caller: Headers, connectionId: string, clientDeviceId: string): Promise<unknown> => {
      const { answer, error } = await send(
        `${DEVICES}/GetConnectorKeys`,
        { id: named, connectionId, clientDeviceId },
        caller,
      );
      return error
        ? nowhere(`${error.reason} ${error.message}`, connectionId)
        : answer?.length === 0
          ? 'never seen'
          : 'seen';
    };
    expect(
      await Promise.all(
        sources.map(async ([connectionId, clientId]) => await checkSeen(unlimited, connectionId, clientId)),
      ),
    ).toEqual(['seen', 'seen', 'seen', 'seen']);
    expect(
      await Promise.all(
        sources.map(async ([connectionId, clientId]) => await checkSeen(headers, connectionId, clientId)),
      ),
    ).toEqual(['seen', 'seen', 'never seen', 'never seen']);
    const unknown = await checkSeen(headers, NOBODY, 'unbound');
    expect(unknown).toContain('connection_not_found');
    expect(await checkSeen(headers, connections.empty, 'unbound')).toBe(unknown);
    expect(await checkSeen(await key({ deviceIds: [named] }), north, 'unbound')).toBe(unknown);
    await update(unlimited, named, { physicalDevice: { clientDeviceId: 'moved', connectionId: north } });
    expect(await checkSeen(headers, south, 'mine')).toBe(unknown);
    for (const id of [bound, named, other]) await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id });
  });

  it('shows the commands that the key names, with all their references', async () => {
    const target = await device('target', connections.north);
    const create = async (name: string, fields: Fields = {}): Promise<string> =>
      await createRecord(`${COMMANDS}/CreateCommand`, { id: target, command: { ...definition, name, ...fields } });
    const query = await create('Query');
    const [first, second] = [
      await create('First', { verificationStrategy: 3, queryCommandId: query }),
      await create('Second'),
    ];
    const listCommandIds = async (headers: Headers, fields: Fields = {}): Promise<unknown[]> => {
      const { commands = [], nextPageToken } = await callMethod<{
        commands?: { id: string }[];
        nextPageToken?: string;
      }>(`${COMMANDS}/ListCommands`, { id: target, ...fields }, headers);
      return [...commands.map(({ id }) => id), ...(nextPageToken ? ['more'] : [])];
    };
    const limited = await key({ commandIds: [first, NOBODY] });
    expect(await listCommandIds(unlimited)).toEqual([second, first, query]);
    expect(await listCommandIds(limited)).toEqual([first]);
    expect(await listCommandIds(limited, { pageSize: 1 })).toEqual([first]);
    const { nextPageToken } = await callMethod<{ nextPageToken?: string }>(`${COMMANDS}/ListCommands`, {
      id: target,
      pageSize: 1,
    });
    expect(await listCommandIds(limited, { pageToken: nextPageToken })).toEqual([first]);
    expect(await listCommandIds(await key({ connectionIds: [connections.north] }))).toEqual([second, first, query]);
    expect(await listCommandIds(await key({ connectionIds: [connections.north], commandIds: [NOBODY] }))).toEqual([]);
    expect(await callMethod(`${COMMANDS}/GetCommand`, { id: target, commandId: first }, limited)).toMatchObject({
      queryCommandId: query,
    });
    await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id: target });
  });

  it('shows the connections that the key names, in lists and to watchers', async () => {
    const { north, south, empty } = connections;
    const named = await device('named', south);
    const limited = await key({ deviceIds: [named], connectionIds: [north, NOBODY] });
    const ids = async (headers: Headers, fields: Fields = {}): Promise<unknown> =>
      (
        (await callMethod<{ connections?: { id: string }[] }>(`${CONNECTIONS}/ListConnections`, fields, headers))
          .connections ?? []
      ).map(({ id }) => id);
    expect(await ids(unlimited)).toEqual([empty, south, north]);
    expect(await ids(limited)).toEqual([north]);
    expect(await ids(await key({ deviceIds: [named] }))).toEqual([]);
    const { nextPageToken } = await callMethod<{ nextPageToken?: string }>(`${CONNECTIONS}/ListConnections`, {
      pageSize: 1,
    });
    expect(await ids(limited, { pageToken: nextPageToken })).toEqual([north]);

    // Changes all other connections first and then the one that the key names: it must be the first that arrives.
    const watched = async (headers: Headers): Promise<unknown[]> => {
      const { path, request, response } = getDetails(`${CONNECTIONS}/WatchConnectionStatus`);
      const stream = client.makeServerStreamRequest(
        path,
        (bytes: Buffer) => bytes,
        (bytes) => bytes,
        Buffer.from(encode(request, {})),
        metadata(headers),
      );
      const received: unknown[] = [];
      stream.on('error', () => {});
      stream.on('data', (bytes: Buffer) => {
        const news = toJson(response, fromBinary(response, bytes)) as { connectionId?: string; complete?: boolean };
        received.push(news.complete === true ? 'complete' : news.connectionId);
        if (news.complete) stream.emit('completed');
        else if (received.includes('complete')) stream.cancel();
      });
      await once(stream, 'completed');
      for (const id of [south, empty, north])
        for (const enabled of [false, true]) await callMethod(`${CONNECTIONS}/UpdateConnection`, { id, enabled });
      if (!stream.closed) await once(stream, 'close');
      return received.slice(0, received.indexOf('complete') + 2);
    };
    expect(await watched(limited)).toEqual([north, 'complete', north]);
    await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id: named });
  });

  it('counts only devices inside that show an image, and deletes images that no device shows', async () => {
    const [shared, otherImage, unused] = [await uploadImage(), await uploadImage(), await uploadImage()];
    const [mine, other] = [
      await device('mine', connections.north, [shared]),
      await device('other', connections.south, [shared, otherImage]),
    ];
    const headers = await key({ connectionIds: [connections.north] });
    expect(await callMethod(`${MEDIA}/GetMedia`, { id: shared })).toMatchObject({ deviceCount: 2 });
    expect(await callMethod(`${MEDIA}/GetMedia`, { id: shared }, headers)).toMatchObject({ deviceCount: 1 });
    expect(await send(`${MEDIA}/DeleteMedia`, { id: shared }, headers)).toMatchObject({
      error: { reason: 'media_in_use', metadata: { uses: '1' } },
    });
    expect(await update(headers, mine, { images: [{ mediaId: otherImage }] })).toMatchObject({
      error: {
        reason: 'validation_failed',
        violations: { 'images[0].mediaId': expect.stringContaining('does not exist') },
      },
    });
    expect(await update(headers, mine, { images: [{ mediaId: unused }, { mediaId: shared }] })).toMatchObject({
      code: status.OK,
    });
    expect(await update(headers, mine, { images: [{ mediaId: unused }] })).toMatchObject({ code: status.OK });
    expect(await send(`${MEDIA}/GetMedia`, { id: shared }, headers)).toMatchObject({
      error: { reason: 'media_not_found' },
    });
    expect(await update(headers, mine, { clearImages: true })).toMatchObject({ code: status.OK });
    expect(await send(`${MEDIA}/DeleteMedia`, { id: unused }, headers)).toMatchObject({ code: status.OK });
    for (const id of [mine, other]) await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id });
  });

  it('is read by statements that do not grow with the number of named resources', async () => {
    const { north } = connections;
    const shown = await uploadImage();
    const id = await device('named by a large key', north, [shown]);
    const commandId = await createRecord(`${COMMANDS}/CreateCommand`, {
      id,
      command: { ...definition, name: 'Start' },
    });
    const { normalizedKeys } = await callMethod<{ normalizedKeys: { id: string }[] }>(
      `${TEMPLATES}/ListNormalizedKeys`,
      {},
    );
    const template = await createRecord(`${TEMPLATES}/CreateSensorTemplate`, {
      keyNameId: normalizedKeys[0]?.id,
      sensorType: 'level',
      valueType: 'number',
    });
    const { sensors } = await callMethod<{ sensors: { id: string }[] }>(`${DEVICES}/AddSensorsToDevice`, {
      id,
      sensorTemplateIds: [template],
    });
    const { executionId } = await callMethod(`${COMMANDS}/ExecuteCommand`, { id, commandId });
    const many = Array.from({ length: 999 }, () => newId());
    const headers = await key({
      deviceIds: many,
      connectionIds: [...many.slice(0, 99), north],
      commandIds: [...many, commandId],
    });
    const byDevices = await key({ deviceIds: many, connectionIds: [...many.slice(0, 99), north] });
    const statements = new Statements();
    const ran = await statements.of(async () => {
      await callMethod(`${COMMANDS}/GetExecution`, { executionId }, headers);
      await callMethod(`${COMMANDS}/ListExecutions`, { id }, headers);
      expect(
        (await callMethod<{ commands: { id: string }[] }>(`${COMMANDS}/ListCommands`, { id }, headers)).commands.map(
          (command) => command.id,
        ),
      ).toEqual([commandId]);
      await callMethod('/sensorquery.v1.SensorQueryService/QueryLatest', { sensorIds: [sensors[0]?.id] }, headers);
      expect(await callMethod(`${MEDIA}/GetMedia`, { id: shown }, byDevices)).toMatchObject({ deviceCount: 1 });
      expect(await update(byDevices, id, { images: [{ mediaId: shown }] })).toMatchObject({ code: status.OK });
      await send(`${COMMANDS}/CancelExecution`, { executionId }, byDevices);
    });
    statements.stop();
    expect(ran.filter((sql) => sql.includes('physical_devices')).length).toBeGreaterThan(5);
    // The longest reads a page of executions.
    expect(Math.max(...ran.map((sql) => sql.match(/\?|\$\d+/g)?.length ?? 0))).toBeLessThan(250);
    await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id });
  });

  it('counts all devices that show an image by an index', async () => {
    const { north } = connections;
    const shown = await uploadImage();
    const inside = await device('one of many', north, [shown]);
    const { database } = server.database;
    const others = Array.from({ length: 2100 }, () => newId());
    await database.transaction(async ({ knex }) => {
      const { organizationId: organization_id } = server;
      await knex.batchInsert(
        'digital_devices',
        others.map((id) => ({
          id,
          organization_id,
          name: id,
          name_folded: id,
          revision: 1,
          seen_hour: 0,
          created_at: 1,
          updated_at: 1,
        })),
        100,
      );
      await knex.batchInsert(
        'device_images',
        others.map((id) => ({
          device_id: id,
          media_id: shown,
          organization_id,
          is_cover: 0,
          position: 0,
          list_order: 0,
        })),
        100,
      );
    });
    expect(await callMethod(`${MEDIA}/GetMedia`, { id: shown }, await key({ connectionIds: [north] }))).toMatchObject({
      deviceCount: 1,
    });
    expect(
      await callMethod(
        `${MEDIA}/GetMedia`,
        { id: shown },
        await key({ deviceIds: [...others.slice(0, 4), ...others.slice(-3)], connectionIds: [north] }),
      ),
    ).toMatchObject({ deviceCount: 8 });
    const plan = await getPlan(
      database,
      async (db) =>
        await new MediaScopeRepository(db).countDevicesInScope('org-1', { ids: new Set(), connectionIds: new Set() }, [
          'p',
          'q',
        ]),
    );
    expect(plan).toContain('device_images_media');
    expect(plan).not.toMatch(/SCAN (?:i|p)\b|Seq Scan/);
    await database.transaction(async ({ knex }) => {
      await knex('device_images').where({ media_id: shown }).whereNot({ device_id: inside }).delete();
      await knex('digital_devices').where({ organization_id: server.organizationId, created_at: 1 }).delete();
    });
    await callMethod(`${DEVICES}/DeleteDigitalDevice`, { id: inside });
  });
});
