import { IMPLIED_SCOPES } from '../../../src/kernel/scopes';
import { sqliteOnly } from '../../support/engines';
import { parseHttpError, type HttpAnswer, type JsonObject } from '../../support/http';
import { scopesWithout } from '../../support/scopesWithout';
import { misfits } from './shape';
import { findCall, SpecFixture, type SpecRequest } from './specFixture';
import { OPERATIONS, type Row } from './specTable';

// These tests follow the interface specification alone and run against an installed server.

const rows = OPERATIONS.map((row) => [row.operation, row] as const);
const FOREIGN = '0190a0a0-0000-7000-8000-000000000001';

/** Returns the request without the field at this path, in the query or in the body. */
function without(request: SpecRequest, path: string): SpecRequest {
  if (request.query && path in request.query)
    return { ...request, query: Object.fromEntries(Object.entries(request.query).filter(([name]) => name !== path)) };
  const body = structuredClone(request.body) as Record<string, unknown>;
  const steps = path.replaceAll(/\[(\d+)\]/g, '.$1').split('.');
  const holder = steps
    .slice(0, -1)
    .reduce<Record<string, unknown>>((inside, step) => inside[step] as Record<string, unknown>, body);
  delete holder[steps.at(-1) as string];
  return { ...request, body };
}

/** Puts the organization where the specification expects it. */
function named({ organization }: Row, id: string): { query?: string; body?: string } {
  return organization === 'none' ? {} : { [organization]: id };
}

describe.each(sqliteOnly())('operations of the specification over HTTP, on $name', (engine) => {
  let fixture: SpecFixture;
  const withScope: Record<string, string> = {};
  const withoutScope: Record<string, string> = {};

  beforeAll(async () => {
    fixture = await SpecFixture.open(engine);
    const key = async (scopes: readonly string[]): Promise<string> =>
      (await fixture.server.newKey(fixture.organizationId, { scopes })).key;
    for (const { scope } of OPERATIONS) {
      withScope[scope] ??= await key([scope]);
      withoutScope[scope] ??= await key(scopesWithout(scope).filter((one) => !IMPLIED_SCOPES[scope]?.includes(one)));
    }
  });
  afterAll(() => fixture.stop());

  const send = async (
    { verb, path }: Row,
    request: SpecRequest,
    organization: { header?: string; query?: string; body?: string },
    key = fixture.server.key,
  ): Promise<HttpAnswer> => {
    const { url, parts } = findCall(path, request, organization);
    return await fixture.http.send(verb, url, {
      ...parts,
      headers: {
        'x-api-key': key,
        ...(organization.header !== undefined && { 'x-organization-id': organization.header }),
      },
    });
  };
  const execute = async (id: string, body: JsonObject): Promise<HttpAnswer> =>
    await fixture.send('POST', `/api/v2/devices/${id}/actuator-executions`, body);
  const search = async (name: string, query = ''): Promise<JsonObject> =>
    await fixture.sendJson('GET', `/api/v2/devices?search=${encodeURIComponent(name)}${query}`);

  describe.each(rows)('%s', (_operation, row) => {
    it('returns the status and fields of the specification when the key holds only the required scope', async () => {
      const answer = await send(
        row,
        await row.prepare(fixture),
        { ...named(row, fixture.organizationId), header: fixture.organizationId },
        withScope[row.scope],
      );
      expect([answer.status, misfits(answer.json, row.answer)]).toEqual([row.status, []]);
      if (row.status === 204) expect(answer.body).toHaveLength(0);
      else expect(answer.headers['content-type']).toMatch(/^application\/json(; charset=utf-8)?$/);
    });

    it('reads the organization from the header or from the place in the specification only', async () => {
      const inHeader = await send(row, await row.prepare(fixture), { header: fixture.organizationId });
      expect(inHeader.status).toBe(row.status);
      const request = await row.prepare(fixture);
      const refusals = [await send(row, request, {}), await send(row, request, { header: FOREIGN })];
      if (row.organization !== 'none') {
        refusals.push(
          await send(row, request, named(row, FOREIGN)),
          await send(row, request, { ...named(row, FOREIGN), header: fixture.organizationId }),
          await send(row, request, { ...named(row, fixture.organizationId), header: FOREIGN }),
        );
        expect((await send(row, request, named(row, fixture.organizationId))).status).toBe(row.status);
      }
      const [missing, ...others] = refusals.map(parseHttpError);
      expect(missing).toMatchObject({ status: 401, code: 'organization_required' });
      for (const other of others) expect(other).toMatchObject({ status: 401, code: 'organization_mismatch' });
    });

    it('rejects calls without a key (401), with an unknown key (401) and without the scope (403)', async () => {
      const request = await row.prepare(fixture);
      const place = { ...named(row, fixture.organizationId), header: fixture.organizationId };
      const { url, parts } = findCall(row.path, request, place);
      const keyless = await fixture.http.send(row.verb, url, {
        ...parts,
        headers: { 'x-organization-id': fixture.organizationId },
      });
      expect(parseHttpError(keyless)).toMatchObject({ status: 401, code: 'api_key_missing' });
      expect(parseHttpError(await send(row, request, place, 'plr_nonsense'))).toMatchObject({
        status: 401,
        code: 'api_key_invalid',
      });
      expect(parseHttpError(await send(row, request, place, withoutScope[row.scope]))).toMatchObject({
        status: 403,
        code: 'insufficient_scope',
        metadata: { required_scope: row.narrowerScope ?? row.scope },
      });
      expect((await send(row, request, place)).status).toBe(row.status); // none of the rejected calls had an effect
    });

    it('names missing required fields', async () => {
      const request = await row.prepare(fixture);
      for (const field of row.required) {
        const answer = await send(row, without(request, field), { header: fixture.organizationId });
        expect(parseHttpError(answer)).toMatchObject({
          status: 400,
          code: 'validation_failed',
          fields: expect.arrayContaining([field]) as unknown,
        });
      }
    });
  });

  describe('rules that the specification states in prose', () => {
    it('answers 202 to a new execution and 200 with duplicate to an identical one in flight', async () => {
      const { id, commandId } = await fixture.command();
      expect(await execute(id, { commandId, params: { on: true } })).toMatchObject({
        status: 202,
        json: { accepted: true, duplicate: false },
      });
      expect(await execute(id, { commandId, params: { on: true } })).toMatchObject({
        status: 200,
        json: { accepted: true, duplicate: true },
      });
      expect((await execute(id, { commandId, params: { on: false } })).status).toBe(202);
    });

    it('answers 422 to invalid parameters and 429 to a full queue, and lists both as request_rejected', async () => {
      const { id, commandId } = await fixture.command({
        directPayload: '{"n": {{params.n}}}',
        paramsSchema: { n: { type: 'integer' } },
      });
      expect(await execute(id, { commandId, params: { n: 'much' } })).toMatchObject({
        status: 422,
        json: { accepted: false, rejectionReason: 'validation_failed', violations: [{ field: 'params.n' }] },
      });
      for (const n of [1, 2]) expect((await execute(id, { commandId, params: { n } })).status).toBe(202);
      expect(await execute(id, { commandId, params: { n: 3 } })).toMatchObject({
        status: 429,
        json: { accepted: false, rejectionReason: 'device_queue_full' },
      });
      const { items } = await fixture.sendJson('GET', `/api/v2/devices/${id}/actuator-executions`);
      expect((items as JsonObject[]).map(({ state, rejectionReason }) => [state, rejectionReason])).toEqual([
        ['request_rejected', 'device_queue_full'],
        ['enqueued', null],
        ['enqueued', null],
        ['request_rejected', 'validation_failed'],
      ]);
    });

    it('pages executions by cursor, most recently updated first', async () => {
      const { id, commandId } = await fixture.command();
      for (const on of [true, false]) await execute(id, { commandId, params: { on } });
      const first = await fixture.sendJson('GET', `/api/v2/devices/${id}/actuator-executions?limit=1`);
      const second = await fixture.sendJson(
        'GET',
        `/api/v2/devices/${id}/actuator-executions?limit=1&before=${encodeURIComponent(first['nextCursor'] as string)}`,
      );
      expect(second['nextCursor']).toBeNull();
      const times = [first, second].map(({ items }) => (items as JsonObject[])[0]?.['updatedAt'] as string);
      expect(times).toEqual(times.toSorted().toReversed());
    });

    it('returns null for commandId after the command is deleted', async () => {
      const { id, commandId } = await fixture.command();
      await execute(id, { commandId });
      expect(await fixture.send('DELETE', `/api/v2/devices/${id}/commands/${commandId}`)).toMatchObject({
        status: 204,
      });
      expect((await fixture.sendJson('GET', `/api/v2/devices/${id}/actuator-executions`))['items']).toMatchObject([
        { commandId: null },
      ]);
    });

    it('answers 409 query_command_in_use while another command uses it as its query command', async () => {
      const { id, commandId } = await fixture.command();
      await fixture.sendJson('POST', `/api/v2/devices/${id}/commands`, {
        command: fixture.definition({ verificationStrategy: 'query_after_ack', queryCommandId: commandId }),
      });
      expect(parseHttpError(await fixture.send('DELETE', `/api/v2/devices/${id}/commands/${commandId}`))).toMatchObject(
        {
          status: 409,
          code: 'query_command_in_use',
          grpc: 'FAILED_PRECONDITION',
        },
      );
    });

    it.each([
      ['runtime_error', 'function encodeDownlink() { throw new Error("no"); }'],
      ['syntax_error', 'function encodeDownlink( {'],
      ['timeout', 'function encodeDownlink() { for (;;) {} }'],
      ['no_encoder', 'var nothing = 1;'],
    ])('answers 200 to an encoder that fails with %s', async (code, customEncoder) => {
      const answer = await fixture.send(
        'POST',
        `/api/v2/devices/${await fixture.createDevice()}/commands/preview-encoder`,
        {
          customEncoder,
        },
      );
      expect(answer).toMatchObject({ status: 200, json: { output: null, error: { code } } });
      expect(
        misfits(answer.json['error'], { atLeast: { code: 'string', message: 'string', 'lineNumber?': 'integer' } }),
      ).toEqual([]);
    });

    it('names a profile that was not imported, in a preview and in a command', async () => {
      const encoderProfileId = 'halmwind/sluice/1.0/EU868';
      const commands = `/api/v2/devices/${await fixture.createDevice()}/commands`;
      const definition = { name: 'Sluice', mode: 'encoded', verificationStrategy: 'no_verification', encoderProfileId };
      expect(
        parseHttpError(await fixture.send('POST', `${commands}/preview-encoder`, { encoderProfileId })),
      ).toMatchObject({
        status: 400,
        fields: ['encoderProfileId'],
      });
      expect(parseHttpError(await fixture.send('POST', commands, { command: definition }))).toMatchObject({
        status: 400,
        fields: ['command.encoderProfileId'],
      });
    });

    it('returns encoder output in three forms and null where there is no error', async () => {
      const answer = await fixture.sendJson(
        'POST',
        `/api/v2/devices/${await fixture.createDevice()}/commands/preview-encoder`,
        {
          customEncoder: 'function encodeDownlink(input) { return { bytes: [1, 255], fPort: 9 }; }',
          params: {},
        },
      );
      expect(answer).toMatchObject({
        output: { bytes: [1, 255], bytesHex: '01ff', bytesBase64: 'Af8=' },
        error: null,
        logs: [],
      });
    });

    it('pages and searches devices', async () => {
      const name = 'Ångström tank';
      const ids = [];
      for (const one of ['a', 'b', 'c'])
        ids.push((await fixture.sendJson('POST', '/api/v2/devices', { name: `${name} ${one}` }))['id']);
      const pages = [await search('ÅNGSTRÖM', '&limit=2'), await search('ÅNGSTRÖM', '&limit=2&offset=2')];
      expect(pages).toMatchObject([{ total: 3 }, { total: 3 }]);
      expect(pages.flatMap(({ devices }) => devices as JsonObject[]).map(({ id }) => id)).toEqual(ids.toReversed());
    });

    it('returns the requested devices and answers 404 for others', async () => {
      expect(parseHttpError(await fixture.send('GET', `/api/v2/devices/${FOREIGN}`))).toMatchObject({
        status: 404,
        code: 'device_not_found',
        grpc: 'NOT_FOUND',
      });
      const id = await fixture.createDevice();
      await fixture.sendJson('DELETE', `/api/v2/devices/${id}`);
      expect((await fixture.send('GET', `/api/v2/devices/${id}`)).status).toBe(404);
    });

    it('omits physicalDevice when a device has none and removes it for null', async () => {
      const { id } = await fixture.createFullDevice();
      expect(await fixture.sendJson('GET', `/api/v2/devices/${id}`)).toHaveProperty('physicalDevice.sensorMappings');
      expect(await fixture.sendJson('PATCH', `/api/v2/devices/${id}`, { physicalDevice: null })).not.toHaveProperty(
        'physicalDevice',
      );
    });

    it('returns all specified image fields of a device', async () => {
      const { id } = await fixture.createFullDevice();
      const { images } = await fixture.sendJson('GET', `/api/v2/devices/${id}`);
      expect(images).toEqual([
        expect.objectContaining({
          id: fixture.mediaId,
          filename: 'dot.png',
          contentType: 'image/png',
          isCover: true,
          position: 1,
          sizeBytes: 70,
        }),
      ]);
      expect((images as JsonObject[])[0]?.['url']).toMatch(/^https:\/\//);
    });

    it.each<[string, JsonObject | Buffer | undefined]>([
      ['is omitted', {}],
      ['is null', { mappings: null }],
      ['is missing together with the body', undefined],
      ['is missing together with the body behind a Content-Type', Buffer.alloc(0)],
    ])('keeps the mappings of a device when the list of new mappings %s', async (_, body) => {
      const { id } = await fixture.createFullDevice();
      const address = `/api/v2/devices/${id}/sensor-mappings`;
      const answer = await fixture.send('PUT', address, body);
      expect(parseHttpError(answer)).toMatchObject({ status: 400, code: 'validation_failed' });
      const mappings = async (): Promise<unknown> =>
        ((await fixture.sendJson('GET', `/api/v2/devices/${id}`))['physicalDevice'] as JsonObject)['sensorMappings'];
      expect(await mappings()).toHaveLength(1);
      await fixture.sendJson('PUT', address, { mappings: [] });
      expect(await mappings()).toEqual([]);
    });

    it('rejects a change without a body and changes nothing for an empty object', async () => {
      const id = await fixture.createDevice();
      const before = await fixture.sendJson('GET', `/api/v2/devices/${id}`);
      for (const body of [undefined, Buffer.alloc(0)])
        expect(parseHttpError(await fixture.send('PATCH', `/api/v2/devices/${id}`, body))).toMatchObject({
          status: 400,
          code: 'validation_failed',
          fields: [''],
        });
      expect(await fixture.sendJson('PATCH', `/api/v2/devices/${id}`, {})).toEqual(before);
    });

    it.each(['minute', 'hour', 'day', 'week', 'month'])('accepts the interval unit %s', async (unit) => {
      const id = await fixture.createDevice();
      expect(
        await fixture.sendJson('PATCH', `/api/v2/devices/${id}`, { dataSendingInterval: { unit, value: 2 } }),
      ).toMatchObject({ dataSendingInterval: { unit, value: 2 } });
    });

    it('accepts the organization of getPersonalUser in the query', async () => {
      const key = { 'x-api-key': fixture.server.key };
      expect((await fixture.http.get(`/api/users/personal?organizationId=${fixture.organizationId}`, key)).status).toBe(
        200,
      );
      expect(
        parseHttpError(await fixture.http.get(`/api/users/personal?organizationId=${FOREIGN}`, key)),
      ).toMatchObject({
        status: 401,
        code: 'organization_mismatch',
      });
    });

    it('ignores query parameters that belong in the body', async () => {
      expect(parseHttpError(await fixture.send('POST', '/api/v2/devices?name=fromquery'))).toMatchObject({
        status: 400,
        code: 'validation_failed',
        fields: ['name'],
      });
    });

    it('accepts header names in any case and a key with surrounding spaces', async () => {
      const answer = await fixture.http.get('/api/v2/devices', {
        'X-API-Key': fixture.server.key,
        'X-ORGANIZATION-ID': fixture.organizationId,
      });
      expect(answer.status).toBe(200);
    });
  });
});
