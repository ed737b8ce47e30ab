import { Metadata, type ServiceError } from '@grpc/grpc-js';
import { IdempotencyKeys } from '../../src/access';
import { IdempotencyRepository } from '../../src/access/idempotency/idempotencyRepository';
import { countRows } from '../../src/database';
import { DigitalDeviceServiceClient } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { systemClock } from '../../src/kernel/clock';
import {
  ACCESS,
  COMMANDS,
  CONNECTIONS,
  DASHBOARDS,
  DEVICES,
  type Records,
  REQUESTS,
  TEMPLATES,
} from './creatingRequests';
import { engines } from '../support/engines';
import { HttpClient, type HttpAnswer, type JsonObject } from '../support/http';
import { getPlan } from '../support/queryPlan';
import { answerJson } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type TestApp } from '../support/testApp';

const NAME_TAKEN = 'Taken once';

const code = ({ json }: HttpAnswer): unknown => (json['error'] as JsonObject)['code'];

describe('methods that accept an idempotency key', () => {
  it('are all methods that create, except for uploads', () => {
    const creating = [...descriptors.methods.values()].filter(
      ({ changes, path }) => changes && /\/(Create|Add|Rotate|Execute|Upload|Import)\w+$/.test(path),
    );
    const taking = [...descriptors.methods.values()].filter(({ idempotencyKey }) => idempotencyKey);
    expect(taking.map(({ path }) => path).toSorted()).toEqual(
      creating
        .map(({ path }) => path)
        .filter((path) => !path.endsWith('/UploadMedia'))
        .toSorted(),
    );
    const stored = taking.filter(({ idempotencyKey }) => idempotencyKey?.field === '');
    expect(stored.map(({ path }) => path).toSorted()).toEqual(Object.keys(REQUESTS).toSorted());
  });
});

describe.each(engines())('a request with an idempotency key on $name', (engine) => {
  let app: TestApp;
  let http: HttpClient;
  let fields: Record<string, string>;
  let records: Records;
  let otherKey: string;

  const send = async (
    path: string,
    body: JsonObject,
    key: string,
    headers: Record<string, string> = {},
  ): Promise<HttpAnswer> => await http.send('POST', path, { body, headers: { 'idempotency-key': key, ...headers } });
  const createRecord = async (path: string, body: JsonObject): Promise<JsonObject> =>
    (await http.send('POST', path, { body })).json;
  const createdLate = async (): Promise<unknown> =>
    (await send('/api/v2/devices', { name: 'Late' }, 'late')).json['id'];
  /** Counts the stored rows outside of the audit trail. */
  const rows = async (): Promise<Record<string, number>> =>
    Object.fromEntries(
      [...(await countRows(app.database.database.db))].filter(([table]) => !table.startsWith('audit_')),
    );

  beforeAll(async () => {
    app = await startTestApp(engine);
    const owner = await app.newKey(app.organizationId, { isAdmin: true });
    fields = as(owner.key, app.organizationId);
    otherKey = (await app.newKey(app.organizationId)).key;
    http = new HttpClient(app.app.addresses.http ?? '', app.app.ca, fields);
    const keyNameId = String((await createRecord(`${TEMPLATES}/CreateNormalizedKey`, { name: NAME_TAKEN }))['id']);
    const template = await createRecord(`${TEMPLATES}/CreateSensorTemplate`, {
      keyNameId,
      sensorType: 'torque',
      valueType: 'number',
    });
    const device = await createRecord(`${DEVICES}/CreateDigitalDevice`, { name: 'Other' });
    const dashboard = await createRecord(`${DASHBOARDS}/CreateDashboard`, { name: 'Other' });
    records = {
      dashboardId: String(dashboard['id']),
      keyNameId,
      templateId: String(template['id']),
      deviceId: String(device['id']),
      apiKeyId: (await app.newKey(app.organizationId, { scopes: ['devices:read'] })).id,
    };
  });
  afterAll(async () => {
    http.close();
    await app.stop();
  });

  it.each(Object.keys(REQUESTS))('%s is carried out once and answered alike over HTTP and gRPC', async (path) => {
    const descriptor = descriptors.methods.get(path);
    const request = REQUESTS[path]?.(records);
    if (!descriptor || !request) throw new Error(`${path} is unknown`);
    const key = `first of ${path}`;
    const first = await send(path, request.json, key);
    expect([first.status, first.headers['idempotency-replayed']]).toEqual([descriptor.successStatus, undefined]);
    const before = await rows();

    const again = await send(path, request.json, key, { 'x-request-id': 'again' });
    expect([again.status, again.headers['idempotency-replayed'], again.json]).toEqual([
      first.status,
      'true',
      first.json,
    ]);
    expect(again.headers.etag).toEqual(first.headers.etag);
    const overGrpc = await app.send(descriptor, encode(descriptor.request, request.grpc ?? request.json), {
      ...fields,
      'idempotency-key': key,
    });
    expect(overGrpc.error).toBeUndefined();
    expect(answerJson(descriptor, overGrpc.answer ?? Buffer.alloc(0))).toEqual(first.json);

    const other = await send(path, request.other, key);
    expect([other.status, code(other), (other.json['error'] as JsonObject)['status']]).toEqual([
      409,
      'idempotency_key_reused',
      'ALREADY_EXISTS',
    ]);
    expect(await rows()).toEqual(before);
  });

  it('is carried out once when it is sent many times at once', async () => {
    const before = await rows();
    const answers = await Promise.all(
      Array.from(
        { length: 8 },
        async () => await send(`${ACCESS}/AddMember`, { name: 'Grace', roleId: 'viewer' }, 'at once'),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
    expect(new Set(answers.map(({ body }) => body.toString())).size).toBe(1);
    expect(answers.filter(({ headers }) => headers['idempotency-replayed'] !== 'true')).toHaveLength(1);
    expect(await rows()).toEqual({
      ...before,
      users: (before['users'] ?? 0) + 1,
      members: (before['members'] ?? 0) + 1,
      idempotency_keys: (before['idempotency_keys'] ?? 0) + 1,
    });
  });

  it('stores nothing when it fails, so that the key can be used again', async () => {
    const before = await rows();
    const path = '/api/v2/devices/sensor-templates/normalized-keys';
    for (const name of [NAME_TAKEN, ''])
      expect((await send(path, { name }, 'failing')).status).toBeGreaterThanOrEqual(400);
    expect(await rows()).toEqual(before);
    expect(await send(path, { name: 'free' }, 'failing')).toMatchObject({ status: 200, json: { name: 'free' } });
  });

  it('belongs to its API key and method, and ignores the order of JSON fields', async () => {
    const body = {
      name: 'Mine',
      connectorId: 'mqtt',
      configuration: {
        url: 'mqtt://127.0.0.1:1',
        uplinkTopic: '{clientDeviceId}/up',
        downlinkTopic: '{clientDeviceId}/down',
      },
    };
    const turned = {
      configuration: {
        downlinkTopic: '{clientDeviceId}/down',
        uplinkTopic: '{clientDeviceId}/up',
        url: 'mqtt://127.0.0.1:1',
      },
      connectorId: 'mqtt',
      name: 'Mine',
      organizationId: app.organizationId,
    };
    const one = await send(`${CONNECTIONS}/CreateConnection`, { ...body, enabled: false }, 'shared');
    expect(one.status).toBe(200);
    const same = await send('/api/v2/connections', { ...turned, enabled: false }, 'shared');
    expect([same.json['id'], same.headers['idempotency-replayed']]).toEqual([one.json['id'], 'true']);
    const fromOtherKey = await send('/api/v2/devices', { name: 'Mine' }, 'shared', { 'x-api-key': otherKey });
    const fromOwnKey = await send('/api/v2/devices', { name: 'Mine' }, 'shared');
    expect([
      fromOtherKey.status,
      fromOwnKey.status,
      fromOtherKey.headers['idempotency-replayed'],
      fromOwnKey.headers['idempotency-replayed'],
    ]).toEqual([200, 200, undefined, undefined]);
    expect(fromOwnKey.json['id']).not.toBe(fromOtherKey.json['id']);
  });

  it('is rejected with an invalid key, named by its header', async () => {
    for (const wrong of ['x'.repeat(256), '', 'caf\u00e9']) {
      const answer = await send('/api/v2/devices', { name: 'Valve' }, wrong);
      expect([wrong, answer.status, answer.json]).toMatchObject([
        wrong,
        400,
        {
          error: {
            code: 'validation_failed',
            details: expect.arrayContaining([
              expect.objectContaining({ fieldViolations: [expect.objectContaining({ field: 'Idempotency-Key' })] }),
            ]),
          },
        },
      ]);
    }
    expect((await send('/api/v2/devices', { name: 'Valve' }, 'x'.repeat(255))).status).toBe(200);
    // No method there accepts one.
    expect((await http.send('GET', '/api/v2/devices', { headers: { 'idempotency-key': '' } })).status).toBe(200);
  });

  it('reports over gRPC that the response is a stored one', async () => {
    const client = app.client(DigitalDeviceServiceClient);
    const create = async (): Promise<unknown[]> => {
      const metadata = new Metadata();
      for (const [name, value] of Object.entries({ ...fields, 'idempotency-key': 'over gRPC' }))
        metadata.set(name, value);
      return await new Promise((resolve, reject) => {
        client
          .createDigitalDevice(
            { organizationId: app.organizationId, name: 'Told', images: [], physicalDevice: undefined },
            metadata,
            (error: ServiceError | null) => error && reject(error),
          )
          .on('metadata', (given) => resolve(given.get('idempotency-replayed')));
      });
    };
    expect([await create(), await create()]).toEqual([[], ['true']]);
  });

  it('appears in the audit trail as succeeded once, and as rejected where the stored response was returned', async () => {
    const [one, other] = [
      await send('/api/v2/devices', { name: 'Audited' }, 'audited'),
      await send('/api/v2/devices', { name: 'Audited' }, 'audited'),
    ];
    expect(one.json).toEqual(other.json);
    const resource = `devices/${String(one.json['id'])}`;
    const listed = async (): Promise<unknown[]> =>
      (await http.get(`/api/v2/audit-events?resource=${resource}`)).json['events'] as unknown[];
    while ((await listed()).length < 2) await http.get('/readyz'); // events are written soon after their call
    expect(await listed()).toMatchObject([
      { outcome: 'refused', reason: 'idempotency_replayed', resource },
      { outcome: 'succeeded', reason: '', resource },
    ]);
  });

  it('becomes the trigger id of an execution', async () => {
    const { id: commandId } = await createRecord(`${COMMANDS}/CreateCommand`, {
      id: records.deviceId,
      command: { name: 'Set', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{}' },
    });
    const path = `/api/v2/devices/${records.deviceId}/actuator-executions`;
    expect(await send(path, { commandId, triggerId: 'own' }, 'other')).not.toMatchObject({ status: 409 });
    const { json } = await send(path, { commandId }, 'evening-41');
    const execution = await http.get(`/api/v2/actuator-executions/${String(json['executionId'])}`);
    expect(execution.json).toMatchObject({ triggerId: 'evening-41' });
    expect((await send(path, { commandId }, 'x'.repeat(200))).json).toMatchObject({
      error: { code: 'validation_failed' },
    });
  });

  it('is forgotten after 24 hours', async () => {
    const { db } = app.database.database;
    const first = await createdLate();
    await db.knex('idempotency_keys').update({ created_at: Date.now() - 24 * 3_600_000 + 60_000 });
    expect(await createdLate()).toBe(first);
    await db.knex('idempotency_keys').update({ created_at: Date.now() - 24 * 3_600_000 - 1 });
    expect(await createdLate()).not.toBe(first);
    await new IdempotencyKeys({
      database: app.database.database,
      clock: systemClock,
      expiryClock: systemClock,
    }).deleteExpired();
    expect((await rows())['idempotency_keys']).toBe(1);
    const plan = await getPlan(
      app.database.database,
      async (each) => await new IdempotencyRepository(each).deleteBefore(0, 10),
    );
    expect(plan).toContain('idempotency_keys_created');
    expect(plan).not.toMatch(/SCAN idempotency_keys(?! USING)|Seq Scan/);
  });
});
