import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import {
  ActuatorCommandServiceClient,
  type Command,
  CommandMode,
  CreateCommandRequest,
  ExecuteCommandRequest,
  type ExecuteCommandResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  type Connection,
  ConnectionServiceClient,
  CreateConnectionRequest,
} from '../../src/gen/connection/connection_service';
import {
  CreateDigitalDeviceRequest,
  type DigitalDevice,
  DigitalDeviceServiceClient,
  ListDigitalDevicesRequest,
  UpdateDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import {
  AccessControlServiceClient,
  AuditActor,
  AuditOutcome,
  ListAuditEventsRequest,
  type ListAuditEventsResponse,
  RevokeApiKeyRequest,
  RotateApiKeyRequest,
  type RotateApiKeyResponse,
  type AuditEvent,
} from '../../src/gen/organization_access_control/access_control_service';
import { AuditArchive } from '../../src/access';
import { newId } from '../../src/kernel/ids';
import { call, callFails, headers } from '../support/edge';
import { engines } from '../support/engines';
import { startTestApp, type Fields, type TestApp } from '../support/testApp';
import { callJson } from './foreignRequests';

const at = ({ time }: AuditEvent): number => (time?.seconds ?? 0) * 1000 + (time?.nanos ?? 0) / 1e6;
const UNKNOWN_KEY = 'plr_00000000000000000000000000000000000000000000000000';
const DEVICES = '/digitaldevice.v2.DigitalDeviceService';

describe.each(engines())('the audit trail of a server on $name', (engine) => {
  let app: TestApp;
  let access: AccessControlServiceClient;
  let devices: DigitalDeviceServiceClient;
  let gateway: GatewayServiceClient;
  let connections: ConnectionServiceClient;
  let commands: ActuatorCommandServiceClient;
  beforeAll(async () => {
    app = await startTestApp(engine);
    access = app.client(AccessControlServiceClient);
    devices = app.client(DigitalDeviceServiceClient);
    gateway = app.client(GatewayServiceClient);
    connections = app.client(ConnectionServiceClient);
    commands = app.client(ActuatorCommandServiceClient);
  });
  afterAll(async () => {
    await app.stop();
  });

  const as = (key = app.key, requestId = '') => ({
    'x-api-key': key,
    'x-organization-id': app.organizationId,
    ...(requestId && { 'x-request-id': requestId }),
  });
  const list = async (filter: Partial<ListAuditEventsRequest> = {}) =>
    await call<ListAuditEventsRequest, ListAuditEventsResponse>(
      access.listAuditEvents.bind(access),
      ListAuditEventsRequest.fromPartial(filter),
      as(),
    );
  const events = async (filter: Partial<ListAuditEventsRequest> = {}): Promise<AuditEvent[]> =>
    (await list({ pageSize: 200, ...filter })).events;
  const one = async (requestId: string): Promise<AuditEvent | undefined> => {
    const found = await events({ requestId });
    expect(found.length).toBeLessThan(2);
    return found[0];
  };
  const getChain = async (chain: string): Promise<readonly Record<string, unknown>[]> => {
    await list(); // seals
    return await app.database.database.db
      .knex('audit_events')
      .where({ chain })
      .orderBy('seq')
      .select<Record<string, unknown>[]>('*');
  };
  const http = async (method: string, path: string, body: string, fields: Record<string, string>): Promise<number> =>
    await new Promise((resolve, reject) => {
      const { port } = new URL(`https://${app.app.addresses.http ?? ''}`);
      const sent = request(
        {
          host: 'localhost',
          port,
          method,
          path,
          ca: readFileSync(app.app.ca ?? ''),
          headers: { 'content-type': 'application/json', ...fields },
          agent: false,
        },
        (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
        },
      );
      sent.on('error', reject).end(body);
    });

  it('records changes over both protocols with their resources and outcomes, and records no reads', async () => {
    const created = await call<CreateDigitalDeviceRequest, DigitalDevice>(
      devices.createDigitalDevice.bind(devices),
      CreateDigitalDeviceRequest.fromPartial({ name: 'secret name' }),
      as(app.key, 'create'),
    );
    expect(await one('create')).toMatchObject({
      actor: AuditActor.AUDIT_ACTOR_API_KEY,
      organizationId: app.organizationId,
      method: `${DEVICES}/CreateDigitalDevice`,
      resource: `devices/${created.id}`,
      fields: ['name'],
      outcome: AuditOutcome.AUDIT_OUTCOME_SUCCEEDED,
      reason: '',
      count: 1,
      peer: '127.0.0.1',
    });
    await callFails(
      devices.updateDigitalDevice.bind(devices),
      UpdateDigitalDeviceRequest.fromPartial({ id: created.id, name: 'x', etag: '"99"' }),
      as(app.key, 'stale'),
    );
    expect(await one('stale')).toMatchObject({
      resource: `devices/${created.id}`,
      outcome: AuditOutcome.AUDIT_OUTCOME_REFUSED,
      reason: 'version_conflict',
    });
    await callFails(
      devices.createDigitalDevice.bind(devices),
      CreateDigitalDeviceRequest.fromPartial({ name: '' }),
      as(app.key, 'invalid'),
    );
    expect(await one('invalid')).toMatchObject({
      resource: 'devices',
      outcome: AuditOutcome.AUDIT_OUTCOME_REFUSED,
      reason: 'validation_failed',
    });
    expect(await http('DELETE', `/api/v2/devices/${created.id}`, '', as(app.key, 'delete'))).toBe(200);
    expect(await one('delete')).toMatchObject({
      method: `${DEVICES}/DeleteDigitalDevice`,
      resource: `devices/${created.id}`,
      outcome: AuditOutcome.AUDIT_OUTCOME_SUCCEEDED,
    });
    expect(await http('POST', '/api/v2/nowhere', '{}', as(app.key, 'nowhere'))).toBe(404);
    await call(
      devices.listDigitalDevices.bind(devices),
      ListDigitalDevicesRequest.fromPartial({}),
      as(app.key, 'read'),
    );
    expect([await one('nowhere'), await one('read')]).toEqual([undefined, undefined]);
    for (const id of [created.id, created.id.toUpperCase()])
      expect((await events({ resource: `devices/${id}/` })).map(({ requestId }) => requestId)).toEqual([
        'delete',
        'stale',
        'create',
      ]);
    expect(JSON.stringify(await events())).not.toContain('secret name');
    expect((await events()).at(-1)).toMatchObject({
      sequence: 1,
      actor: AuditActor.AUDIT_ACTOR_SERVER,
      method: 'bootstrap',
    });
  });

  it('records rejected attempts with their key, and attempts without a known key in a separate chain', async () => {
    const reader = await app.newKey(app.organizationId, { scopes: ['users:read'] });
    await callFails(
      devices.listDigitalDevices.bind(devices),
      ListDigitalDevicesRequest.fromPartial({}),
      as(reader.key, 'no-scope'),
    );
    expect(await one('no-scope')).toMatchObject({
      keyId: reader.id,
      keyPrefix: reader.key.slice(0, 10),
      outcome: AuditOutcome.AUDIT_OUTCOME_REFUSED,
      reason: 'insufficient_scope',
    });
    const rotated = await call<RotateApiKeyRequest, RotateApiKeyResponse>(
      access.rotateApiKey.bind(access),
      RotateApiKeyRequest.fromPartial({ id: reader.id }),
      as(app.key, 'rotate'),
    );
    expect(await one('rotate')).toMatchObject({ resource: `api-keys/${reader.id}/${rotated.apiKey?.id}` });
    await call(
      access.revokeApiKey.bind(access),
      RevokeApiKeyRequest.fromPartial({ id: reader.id }),
      as(app.key, 'revoke'),
    );
    expect(await one('revoke')).toMatchObject({ resource: `api-keys/${reader.id}` });
    for (let i = 0; i < 5; i++)
      await callFails(
        devices.createDigitalDevice.bind(devices),
        CreateDigitalDeviceRequest.fromPartial({ name: 'x' }),
        as(reader.key, `revoked-${i}`),
      );
    expect((await events({ keyId: reader.id })).map(({ requestId, reason }) => [requestId, reason])).toEqual([
      ['revoked-0', 'api_key_revoked'],
      ['no-scope', 'insufficient_scope'],
    ]);
    await callFails(
      devices.createDigitalDevice.bind(devices),
      CreateDigitalDeviceRequest.fromPartial({ name: 'x' }),
      as(UNKNOWN_KEY, UNKNOWN_KEY),
    );
    await callFails(devices.createDigitalDevice.bind(devices), CreateDigitalDeviceRequest.fromPartial({ name: 'x' }), {
      'x-organization-id': app.organizationId,
    });
    const unknown = await getChain('');
    expect(unknown.map((row) => row['reason'])).toEqual(['api_key_invalid', 'api_key_missing']);
    expect(JSON.stringify(unknown)).not.toContain(UNKNOWN_KEY.slice(4, 30));
    const all = JSON.stringify(await app.database.database.db.knex('audit_events').select('*'));
    for (const secret of [app.key, reader.key]) expect(all).not.toContain(secret.slice(10));
  });

  it('records each kind of rejected change once and counts repetitions', async () => {
    const missing = Array.from({ length: 5 }, () => newId());
    for (const id of missing)
      expect(await http('DELETE', `/api/v2/devices/${id}`, '', as(app.key, 'missing'))).toBe(404);
    for (let i = 0; i < 30; i++)
      expect(await http('DELETE', `/api/v2/devices/${missing[0] ?? ''}`, '', as(app.key, 'missing'))).toBe(404);
    expect((await events({ requestId: 'missing' })).map(({ resource, count }) => [resource, count])).toEqual(
      missing.map((id) => [`devices/${id}`, 1]).toReversed(),
    );
  });

  it('names fields that were set to nothing, and the resources in the path of a call that its key may not make', async () => {
    const connection = await call<CreateConnectionRequest, Connection>(
      connections.createConnection.bind(connections),
      CreateConnectionRequest.fromPartial({ name: 'gateway', connectorId: 'gateway', enabled: true }),
      as(),
    );
    expect(
      await http('PATCH', `/api/v2/connections/${connection.id}`, '{"enabled":false}', as(app.key, 'disable')),
    ).toBe(200);
    expect((await one('disable'))?.fields).toEqual(['id', 'enabled']);
    const reader = await app.newKey(app.organizationId, { scopes: ['devices:read'] });
    expect(
      await http('PATCH', `/api/v2/connections/${connection.id}`, '{"enabled":true}', as(reader.key, 'may-not')),
    ).toBe(403);
    expect(await one('may-not')).toMatchObject({
      keyId: reader.id,
      resource: `connections/${connection.id}`,
      fields: [],
      outcome: AuditOutcome.AUDIT_OUTCOME_REFUSED,
      reason: 'insufficient_scope',
    });
  });

  it('records an upload whose caller disconnected as failed, not as rejected', async () => {
    const { port } = new URL(`https://${app.app.addresses.http ?? ''}`);
    const abortedRequest = request({
      host: 'localhost',
      port,
      method: 'POST',
      path: '/api/v2/media',
      ca: readFileSync(app.app.ca ?? ''),
      headers: { 'content-type': 'image/png', 'content-length': 5000, expect: '100-continue', ...as(app.key, 'gone') },
      agent: false,
    });
    abortedRequest.on('error', () => {});
    await new Promise<void>((resolve) => {
      abortedRequest.on('continue', resolve);
      abortedRequest.flushHeaders();
    });
    abortedRequest.write(Buffer.from([0x89, 0x50, 0x4e, 0x47]), () => abortedRequest.destroy());
    let event: AuditEvent | undefined;
    while (!event) event = await one('gone'); // its handler learns of the disconnect a little later
    expect(event).toMatchObject({ resource: 'media', outcome: AuditOutcome.AUDIT_OUTCOME_FAILED, reason: 'cancelled' });
  });

  it('records uploads, and executions that are rejected by a successful response', async () => {
    expect(
      await http('POST', '/api/v2/media', 'no picture', {
        ...as(app.key, 'upload'),
        'content-type': 'application/octet-stream',
      }),
    ).toBeGreaterThanOrEqual(400);
    expect(await one('upload')).toMatchObject({
      method: '/media.v1.MediaService/UploadMedia',
      resource: 'media',
      outcome: AuditOutcome.AUDIT_OUTCOME_REFUSED,
    });
    const device = await call<CreateDigitalDeviceRequest, DigitalDevice>(
      devices.createDigitalDevice.bind(devices),
      CreateDigitalDeviceRequest.fromPartial({ name: 'bare' }),
      as(),
    );
    const command = await call<CreateCommandRequest, Command>(
      commands.createCommand.bind(commands),
      CreateCommandRequest.fromPartial({
        id: device.id,
        command: {
          name: 'On',
          mode: CommandMode.COMMAND_MODE_DIRECT,
          verificationStrategy: 1,
          convergenceTimeout: 60,
          directPayload: '{"on": true}',
        },
      }),
      as(app.key, 'command'),
    );
    expect(await one('command')).toMatchObject({
      resource: `devices/${device.id}/commands/${command.id}`,
      outcome: AuditOutcome.AUDIT_OUTCOME_SUCCEEDED,
    });
    const answer = await call<ExecuteCommandRequest, ExecuteCommandResponse>(
      commands.executeCommand.bind(commands),
      ExecuteCommandRequest.fromPartial({
        id: device.id,
        commandId: command.id,
        triggerId: 'trigger',
        params: { secret: 'value' },
      }),
      as(app.key, 'execute'),
    );
    expect(answer.accepted).toBe(false);
    expect(await one('execute')).toMatchObject({
      resource: `devices/${device.id}/actuator-executions/${answer.executionId}`,
      outcome: AuditOutcome.AUDIT_OUTCOME_REFUSED,
      reason: 'validation_failed',
    });
    expect((await one('execute'))?.fields).toEqual(expect.arrayContaining(['command_id', 'params']));
  });

  it('records in the installation and in the organization who created and deleted it, and that the first step deleted nothing', async () => {
    const { key, id: keyId } = await app.newKey(app.organizationId, { isAdmin: true });
    const callMethod = async (method: string, fields: Fields) =>
      await callJson(app, `/OrganizationsService/${method}`, fields, as(key, method));
    const before = await getChain('');
    const { id } = await callMethod('CreateOrganization', { name: 'Site' });
    const { confirmation } = await callMethod('DeleteOrganization', { id });
    await expect(callMethod('DeleteOrganization', { id, confirmation, name: 'other' })).rejects.toThrow(/exact name/);
    await callMethod('DeleteOrganization', { id, confirmation, name: 'Site' });
    const creation = {
      actor: 'key',
      key_prefix: key.slice(0, 10),
      user_id: app.app.bootstrapped?.user.id,
      method: '/OrganizationsService/CreateOrganization',
      resource: `organizations/${String(id)}`,
      fields: '["name"]',
      outcome: 'succeeded',
      reason: '',
      request_id: 'CreateOrganization',
    };
    const deleted = {
      ...creation,
      method: '/OrganizationsService/DeleteOrganization',
      fields: '["id","confirmation","name"]',
      request_id: 'DeleteOrganization',
    };
    expect((await getChain('')).slice(before.length)).toMatchObject([
      { ...creation, key_id: keyId },
      { ...deleted, key_id: keyId, fields: '["id"]', outcome: 'refused', reason: 'confirmation_required' },
      { ...deleted, key_id: keyId, outcome: 'refused', reason: 'validation_failed' },
      { ...deleted, key_id: keyId },
    ]);
    expect(await getChain(String(id))).toMatchObject([
      { ...creation, seq: 1, key_id: null },
      { ...deleted, seq: 2, key_id: null },
    ]);
    for (const chain of ['', String(id)])
      expect((await new AuditArchive(app.database.database).verify(chain, undefined, () => {})).errors).toEqual([]);
  });

  it('records streams when they are opened', async () => {
    const stream = gateway.attach(headers(as(app.key, 'attach')));
    stream.on('error', () => {});
    const ended = new Promise((resolve) => stream.on('close', resolve));
    stream.on('data', () => {});
    stream.end();
    await ended;
    expect((await events({ method: 'Attach' })).at(-1)).toMatchObject({
      requestId: 'attach',
      outcome: AuditOutcome.AUDIT_OUTCOME_SUCCEEDED,
      method: '/gateway.v1.GatewayService/Attach',
    });
  });

  it('lists matching events page by page, newest first, without gaps in the sequence numbers of the chain', async () => {
    for (let i = 0; i < 7; i++)
      await call(
        devices.createDigitalDevice.bind(devices),
        CreateDigitalDeviceRequest.fromPartial({ name: `d${i}` }),
        as(),
      );
    const all = await events();
    expect(all.map(({ sequence }) => sequence).toSorted((a, b) => b - a)).toEqual(
      Array.from({ length: all.length }, (_, i) => all.length - i),
    );
    const paged: AuditEvent[] = [];
    for (let token = ''; ;) {
      const page = await list({
        pageSize: 3,
        pageToken: token,
        method: 'CreateDigitalDevice',
        outcome: AuditOutcome.AUDIT_OUTCOME_SUCCEEDED,
      });
      paged.push(...page.events);
      token = page.nextPageToken;
      if (token === '') break;
      expect(page.events).toHaveLength(3);
    }
    expect(paged).toEqual(
      all.filter(
        ({ method, outcome }) =>
          method.endsWith('/CreateDigitalDevice') && outcome === AuditOutcome.AUDIT_OUTCOME_SUCCEEDED,
      ),
    );
    const [newest, , third] = all as [AuditEvent, AuditEvent, AuditEvent];
    expect(
      (await events({ from: third.time, to: newest.time })).every(
        (event) => at(event) >= at(third) && at(event) < at(newest),
      ),
    ).toBe(true);
    expect(
      (await events({ resource: 'devices' })).every(
        ({ resource }) => resource === 'devices' || resource.startsWith('devices/'),
      ),
    ).toBe(true);
    expect(await events({ resource: 'dev' })).toEqual([]);
    expect(await events({ method: 'Nothing' })).toEqual([]);
    const foreign = (await list({ pageSize: 1 })).nextPageToken;
    expect(
      (
        await callFails(
          access.listAuditEvents.bind(access),
          ListAuditEventsRequest.fromPartial({ pageToken: foreign, keyId: 'x' }),
          as(),
        )
      ).fields,
    ).toEqual(['pageToken']);
    const before = (await events()).length;
    expect((await events()).length).toBe(before); // listing is not a change
  });
});
