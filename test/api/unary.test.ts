import { status, type Metadata } from '@grpc/grpc-js';
import { DomainError } from '../../src/kernel/errors';
import { withCheck, type HandlersOf } from '../../src/api/pipeline/handlers';
import {
  SensorTemplateServiceClient,
  SensorTemplateServiceService,
  type CreateSensorTemplateRequest,
  type NormalizedKey,
  type SensorTemplate,
  type SensorTemplateServiceServer,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import {
  UserProfileServiceClient,
  UserProfileServiceService,
  type UserProfileServiceServer,
} from '../../src/gen/userprofile/user_profile_service';
import { call, callFails, headers, type GrpcErrorInfo, startEdge, type TestEdge } from '../support/edge';

const TEMPLATE: SensorTemplate = {
  id: 't',
  organizationId: 'org-1',
  description: '',
  isSystem: false,
  keyNameId: 'k',
  keyName: 'k',
  sensorType: 's',
  unitMeasurementId: '',
  valueType: 'number',
  createdAt: undefined,
  updatedAt: undefined,
  etag: '',
};
const KEY: NormalizedKey = {
  id: 'k',
  organizationId: 'org-1',
  name: 'n',
  isSystem: false,
  createdAt: undefined,
  updatedAt: undefined,
  etag: '',
};

const pushback = ({ trailers }: GrpcErrorInfo): unknown => trailers.get('grpc-retry-pushback-ms')[0];

describe('a unary call', () => {
  let edge: TestEdge;
  let client: SensorTemplateServiceClient;
  let users: UserProfileServiceClient;
  let handler: (name: string) => Promise<void>;
  const checkedOrganizations: string[] = [];
  const seenLengths: number[] = [];

  beforeAll(async () => {
    const handlers: HandlersOf<SensorTemplateServiceServer> = {
      listSensorTemplates: async () => ({ sensorTemplates: [], nextPageToken: '' }),
      createSensorTemplate: withCheck(
        ({ description = '' }) => {
          seenLengths.push(description.length);
          return description === 'bad' ? [{ field: 'description', description: 'must not be bad' }] : [];
        },
        async ({ sensorType }, context) => ({ ...TEMPLATE, sensorType, organizationId: context.organizationId }),
        async ({ keyNameId }, context) => {
          checkedOrganizations.push(context.organizationId);
          if (keyNameId === 'gone') throw new DomainError('not_found', 'device_not_found', 'it is not there');
          if (keyNameId === 'broken') throw new Error('secret');
          return keyNameId === 'k'
            ? []
            : ['keyNameId', 'description'].map((field) => ({ field, description: 'is no reference' }));
        },
      ),
      getSensorTemplate: async () => TEMPLATE,
      updateSensorTemplate: async () => TEMPLATE,
      deleteSensorTemplate: async () => ({}),
      listNormalizedKeys: async () => ({ normalizedKeys: [], nextPageToken: '' }),
      createNormalizedKey: async ({ name }) => {
        await handler(name);
        return { ...KEY, name };
      },
      getNormalizedKey: async () => KEY,
      updateNormalizedKey: () => {
        throw new Error('secret');
      },
      listUnitMeasurements: async () => ({ unitMeasurements: [], nextPageToken: '' }),
    };
    const userHandlers: HandlersOf<UserProfileServiceServer> = {
      getPersonalUser: async () => ({
        id: 'u',
        name: 'n',
        email: '',
        createdAt: undefined,
        updatedAt: undefined,
        memberships: [],
      }),
    };
    edge = await startEdge(
      (server) => {
        server.addService(SensorTemplateServiceService, handlers);
        server.addService(UserProfileServiceService, userHandlers);
      },
      { idempotency: { runOnce: async (_, work) => ({ response: await work(), isReplay: false }) } },
    );
    edge.keys.add('key');
    edge.keys.add('slow-key');
    edge.keys.add('reader', { scopes: new Set(['sensors:read']) });
    client = edge.client(SensorTemplateServiceClient);
    users = edge.client(UserProfileServiceClient);
  });
  beforeEach(() => (handler = async () => {}));
  afterAll(() => edge.stop());

  const create = (fields: Record<string, string>, request: Partial<CreateSensorTemplateRequest> = {}) =>
    [
      client.createSensorTemplate.bind(client),
      {
        organizationId: '',
        keyNameId: 'k',
        sensorType: 's',
        valueType: 'number',
        description: undefined,
        unitMeasurementId: undefined,
        ...request,
      } as CreateSensorTemplateRequest,
      fields,
    ] as const;
  const rename = (
    name: string,
    fields: Record<string, string> = { 'x-api-key': 'key', 'x-organization-id': 'org-1' },
  ) => [client.createNormalizedKey.bind(client), { organizationId: '', name }, fields] as const;

  it('is answered for a key with the scope', async () => {
    await expect(call(...create({ 'x-api-key': 'key', 'x-organization-id': 'org-1' }))).resolves.toMatchObject({
      organizationId: 'org-1',
    });
    await expect(call(...create({ 'x-api-key': 'slow-key' }, { organizationId: 'org-1' }))).resolves.toMatchObject({
      organizationId: 'org-1',
    });
  });

  it.each([
    ['no key', {}, { code: status.UNAUTHENTICATED, reason: 'api_key_missing' }],
    ['an unknown key', { 'x-api-key': 'nope' }, { code: status.UNAUTHENTICATED, reason: 'api_key_invalid' }],
    [
      'an unknown key, looked up',
      { 'x-api-key': 'slow-nope' },
      { code: status.UNAUTHENTICATED, reason: 'api_key_invalid' },
    ],
    [
      'a key without the scope, before anything else',
      { 'x-api-key': 'reader', 'x-organization-id': 'other' },
      { code: status.PERMISSION_DENIED, reason: 'insufficient_scope', metadata: { required_scope: 'sensors:write' } },
    ],
    [
      'another organization',
      { 'x-api-key': 'key', 'x-organization-id': 'org-2' },
      { code: status.UNAUTHENTICATED, reason: 'organization_mismatch' },
    ],
    [
      'no organization, before the fields',
      { 'x-api-key': 'key' },
      { code: status.UNAUTHENTICATED, reason: 'organization_required' },
    ],
  ])('is rejected with %s', async (_, fields, expected) => {
    expect(await callFails(...create(fields as Record<string, string>, { keyNameId: '' }))).toMatchObject(expected);
  });

  it('can be retried with an idempotency key when the outcome of the commit is unknown', async () => {
    const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
    handler = () =>
      Promise.reject(
        new DomainError('unavailable', 'database_unavailable', 'look before it is tried again', {
          retryAfterMs: 1000,
          isInDoubt: true,
        }),
      );
    expect(pushback(await callFails(...rename('n', fields)))).toBe('-1');
    const error = await callFails(...rename('n', { ...fields, 'idempotency-key': 'k' }));
    expect([error.reason, error.message, pushback(error)]).toEqual([
      'database_unavailable',
      expect.stringContaining('same idempotency key'),
      '1000',
    ]);
  });

  it('is rejected when the organization in the message differs from that of the key, regardless of the header', async () => {
    const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
    expect(await callFails(...create(fields, { organizationId: 'org-2' }))).toMatchObject({
      reason: 'organization_mismatch',
    });
    expect(
      await callFails(users.getPersonalUser.bind(users), { organizationId: '' }, { 'x-api-key': 'key' }),
    ).toMatchObject({ reason: 'organization_required' });
  });

  it('reports all violations at once, including those of the handler, and trims names', async () => {
    const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
    const error = await callFails(
      ...create(fields, {
        keyNameId: 'a b',
        sensorType: '  ',
        valueType: 'text',
        description: 'bad',
        unitMeasurementId: 'x'.repeat(65),
      }),
    );
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual([
      'description',
      'keyNameId',
      'sensorType',
      'unitMeasurementId',
      'valueType',
    ]);
    expect(error.violations['valueType']).toContain('`boolean`');
    await expect(call(...create(fields, { sensorType: '  relay ' }))).resolves.toMatchObject({ sensorType: 'relay' });
  });

  it('reports references together with the violations of the message, and reads them only then', async () => {
    const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
    checkedOrganizations.length = 0;
    await call(...create(fields, { keyNameId: 'unknown' }));
    await callFails(...create({ 'x-api-key': 'key' }, { keyNameId: 'unknown', sensorType: '' }));
    expect(checkedOrganizations).toEqual([]);
    const both = await callFails(...create(fields, { keyNameId: 'unknown', sensorType: '', description: 'bad' }));
    expect(both).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      violations: { keyNameId: 'is no reference', description: 'must not be bad' },
    });
    expect(both.fields.toSorted()).toEqual(['description', 'keyNameId', 'sensorType']);
    expect(checkedOrganizations).toEqual(['org-1']);
    expect(
      (await callFails(...create(fields, { keyNameId: 'a b', description: 'bad' }))).violations['keyNameId'],
    ).toContain('white space');
    expect(await callFails(...create(fields, { keyNameId: 'gone', sensorType: '' }))).toMatchObject({
      reason: 'validation_failed',
      fields: ['sensorType'],
    });
    expect(await callFails(...create(fields, { keyNameId: 'broken', sensorType: '' }))).toMatchObject({
      code: status.INTERNAL,
    });
  });

  it('shows the handler only as much of a field as is allowed', async () => {
    seenLengths.length = 0;
    const error = await callFails(
      ...create({ 'x-api-key': 'key', 'x-organization-id': 'org-1' }, { description: 'x'.repeat(70_000) }),
    );
    expect(error).toMatchObject({ reason: 'validation_failed', fields: ['description'] });
    expect(seenLengths).toEqual([2000]);
  });

  it('returns the request id of the caller or a generated one with every response', async () => {
    const fields = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
    expect(await callFails(...create({ ...fields, 'x-request-id': 'abc' }, { keyNameId: '' }))).toMatchObject({
      requestId: 'abc',
    });
    const own = await callFails(...create({ ...fields, 'x-request-id': 'x'.repeat(129) }, { keyNameId: '' }));
    expect(own.requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect(own.trailers.get('x-request-id')).toEqual([own.requestId]);
    const answered = client.createNormalizedKey(
      { organizationId: 'org-1', name: 'n' },
      headers({ 'x-api-key': 'key', 'x-request-id': 'fine' }),
      () => {},
    );
    const initial = await new Promise<Metadata>((resolve) => answered.on('metadata', resolve));
    expect(initial.get('x-request-id')).toEqual(['fine']);
  });

  it('reveals only the request id of an unknown error', async () => {
    handler = () => Promise.reject(new Error('password 123'));
    const error = await callFails(...rename('n'));
    expect(error).toMatchObject({ code: status.INTERNAL, reason: 'internal' });
    expect(error.message).toContain(error.requestId);
    expect(JSON.stringify(error.trailers.toJSON()) + error.message).not.toContain('password');
    expect(edge.log.of('rpc.failed').at(-1)).toMatchObject({
      request_id: error.requestId,
      err: new Error('password 123'),
    });
    expect(
      await callFails(
        client.updateNormalizedKey.bind(client),
        { id: 'k', organizationId: 'org-1', name: 'n' },
        { 'x-api-key': 'key' },
      ),
    ).toMatchObject({ code: status.INTERNAL, reason: 'internal' });
  });

  it('truncates and encodes messages to what clients accept', async () => {
    handler = () =>
      Promise.reject(
        new DomainError('exhausted', 'rate_limited', `\ud800 € ${'ä'.repeat(100_000)}`, {
          retryAfterMs: 1500,
          metadata: { a: 'ö'.repeat(9000) },
        }),
      );
    const error = await callFails(...rename('n'));
    expect(error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: 'rate_limited', retryMs: 1500 });
    expect(error.trailers.get('grpc-retry-pushback-ms')).toEqual(['1500']);
    expect(encodeURI(error.message).length).toBeLessThan(1300);
  });

  it('logs one line per call', async () => {
    await call(...rename('n', { 'x-api-key': 'key', 'x-organization-id': 'org-1', 'x-request-id': 'line-1' }));
    const [line] = edge.log.of('rpc.request').filter((one) => one['request_id'] === 'line-1');
    expect(line).toMatchObject({
      method: '/sensor_template.v2.SensorTemplateService/CreateNormalizedKey',
      code: 'OK',
      key_prefix: 'plr_key',
      organization_id: 'org-1',
      peer: '127.0.0.1',
    });
  });
});
