import { SCOPES } from '../../src/kernel/scopes';
import { engines } from '../support/engines';
import { seenHttp, type HttpAnswer, type JsonObject } from '../support/http';
import { misfits } from './shape';
import { callOf, SpecRoom, type Asked } from './specRoom';
import { OPERATIONS, type Row } from './specTable';

// Written from the specification of the interface alone, against a server as it is installed.

const rows = OPERATIONS.map((row) => [row.operation, row] as const);
const FOREIGN = '0190a0a0-0000-7000-8000-000000000001';

/** The request with the member of this path left out, in the query or in the body. */
function without(asked: Asked, path: string): Asked {
  if (asked.query && path in asked.query) return { ...asked, query: Object.fromEntries(Object.entries(asked.query).filter(([name]) => name !== path)) };
  const body = structuredClone(asked.body) as Record<string, unknown>;
  const steps = path.replaceAll(/\[(\d+)\]/g, '.$1').split('.');
  const holder = steps.slice(0, -1).reduce<Record<string, unknown>>((inside, step) => inside[step] as Record<string, unknown>, body);
  delete holder[steps.at(-1) as string];
  return { ...asked, body };
}

/** The organization where the specification has it. */
function named({ organization }: Row, id: string): { query?: string; body?: string } {
  return organization === 'none' ? {} : { [organization]: id };
}

describe.each(engines())('the operations of the specification over HTTP, on $name', (engine) => {
  let room: SpecRoom;
  const withScope: Record<string, string> = {};
  const withoutScope: Record<string, string> = {};

  beforeAll(async () => {
    room = await SpecRoom.open(engine);
    const key = async (scopes: readonly string[]): Promise<string> => (await room.server.newKey(room.organizationId, { scopes })).key;
    for (const { scope } of OPERATIONS) {
      withScope[scope] ??= await key([scope]);
      withoutScope[scope] ??= await key(SCOPES.filter((one) => one !== scope));
    }
  });
  afterAll(() => room.stop());

  const send = async ({ verb, path }: Row, asked: Asked, organization: { header?: string; query?: string; body?: string }, key = room.server.key): Promise<HttpAnswer> => {
    const { url, parts } = callOf(path, asked, organization);
    return await room.http.send(verb, url, { ...parts, headers: { 'x-api-key': key, ...(organization.header !== undefined && { 'x-organization-id': organization.header }) } });
  };
  const execute = async (id: string, body: JsonObject): Promise<HttpAnswer> => await room.ask('POST', `/api/v2/devices/${id}/actuator-executions`, body);
  const search = async (name: string, query = ''): Promise<JsonObject> => await room.made('GET', `/api/v2/devices?search=${encodeURIComponent(name)}${query}`);

  describe.each(rows)('%s', (_operation, row) => {
    it('answers with the status and the fields of the specification, by its scope alone', async () => {
      const answer = await send(row, await row.ask(room), { ...named(row, room.organizationId), header: room.organizationId }, withScope[row.scope]);
      expect([answer.status, misfits(answer.json, row.answer)]).toEqual([row.status, []]);
      if (row.status === 204) expect(answer.body).toHaveLength(0);
      else expect(answer.headers['content-type']).toMatch(/^application\/json(; charset=utf-8)?$/);
    });

    it('takes the organization from the header, from where the specification has it, and from nowhere else', async () => {
      const inHeader = await send(row, await row.ask(room), { header: room.organizationId });
      expect(inHeader.status).toBe(row.status);
      const asked = await row.ask(room);
      const refusals = [await send(row, asked, {}), await send(row, asked, { header: FOREIGN })];
      if (row.organization !== 'none') {
        refusals.push(await send(row, asked, named(row, FOREIGN)), await send(row, asked, { ...named(row, FOREIGN), header: room.organizationId }), await send(row, asked, { ...named(row, room.organizationId), header: FOREIGN }));
        expect((await send(row, asked, named(row, room.organizationId))).status).toBe(row.status);
      }
      const [missing, ...others] = refusals.map(seenHttp);
      expect(missing).toMatchObject({ status: 401, code: 'organization_missing' });
      for (const other of others) expect(other).toMatchObject({ status: 401, code: 'organization_mismatch' });
    });

    it('refuses calls without a key (401), with another key (401), and without the scope (403)', async () => {
      const asked = await row.ask(room);
      const place = { ...named(row, room.organizationId), header: room.organizationId };
      const { url, parts } = callOf(row.path, asked, place);
      const keyless = await room.http.send(row.verb, url, { ...parts, headers: { 'x-organization-id': room.organizationId } });
      expect(seenHttp(keyless)).toMatchObject({ status: 401, code: 'api_key_missing' });
      expect(seenHttp(await send(row, asked, place, 'plr_nonsense'))).toMatchObject({ status: 401, code: 'api_key_invalid' });
      expect(seenHttp(await send(row, asked, place, withoutScope[row.scope]))).toMatchObject({ status: 403, code: 'scope_missing', metadata: { required_scope: row.scope } });
      expect((await send(row, asked, place)).status).toBe(row.status); // nothing was done before
    });

    it('names what is required and missing', async () => {
      const asked = await row.ask(room);
      for (const field of row.required) {
        const answer = await send(row, without(asked, field), { header: room.organizationId });
        expect(seenHttp(answer)).toMatchObject({ status: 400, code: 'validation_failed', fields: expect.arrayContaining([field]) as unknown });
      }
    });
  });

  describe('what the tables say in words', () => {
    it('answers 202 to a new execution and 200 with duplicate to an identical one in flight', async () => {
      const { id, commandId } = await room.command();
      expect(await execute(id, { commandId, params: { on: true } })).toMatchObject({ status: 202, json: { accepted: true, duplicate: false } });
      expect(await execute(id, { commandId, params: { on: true } })).toMatchObject({ status: 200, json: { accepted: true, duplicate: true } });
      expect((await execute(id, { commandId, params: { on: false } })).status).toBe(202);
    });

    it('answers 422 to parameters that do not fit, 429 to a full queue, and lists both as request_rejected', async () => {
      const { id, commandId } = await room.command({ directPayload: '{"n": {{params.n}}}', paramsSchema: { n: { type: 'integer' } } });
      expect(await execute(id, { commandId, params: { n: 'much' } })).toMatchObject({ status: 422, json: { accepted: false, rejectionReason: 'validation_failed', violations: [{ field: 'params.n' }] } });
      for (const n of [1, 2]) expect((await execute(id, { commandId, params: { n } })).status).toBe(202);
      expect(await execute(id, { commandId, params: { n: 3 } })).toMatchObject({ status: 429, json: { accepted: false, rejectionReason: 'device_queue_full' } });
      const { items } = await room.made('GET', `/api/v2/devices/${id}/actuator-executions`);
      expect((items as JsonObject[]).map(({ state, rejectionReason }) => [state, rejectionReason])).toEqual([['request_rejected', 'device_queue_full'], ['enqueued', null], ['enqueued', null], ['request_rejected', 'validation_failed']]);
    });

    it('pages executions by their cursor, the most recently updated first', async () => {
      const { id, commandId } = await room.command();
      for (const on of [true, false]) await execute(id, { commandId, params: { on } });
      const first = await room.made('GET', `/api/v2/devices/${id}/actuator-executions?limit=1`);
      const second = await room.made('GET', `/api/v2/devices/${id}/actuator-executions?limit=1&before=${encodeURIComponent(first['nextCursor'] as string)}`);
      expect(second['nextCursor']).toBeNull();
      const times = [first, second].map(({ items }) => (items as JsonObject[])[0]?.['updatedAt'] as string);
      expect(times).toEqual(times.toSorted().toReversed());
    });

    it('writes commandId as null once the command is gone', async () => {
      const { id, commandId } = await room.command();
      await execute(id, { commandId });
      expect(await room.ask('DELETE', `/api/v2/devices/${id}/commands/${commandId}`)).toMatchObject({ status: 204 });
      expect((await room.made('GET', `/api/v2/devices/${id}/actuator-executions`))['items']).toMatchObject([{ commandId: null }]);
    });

    it('answers 409 query_command_in_use while another command queries with it', async () => {
      const { id, commandId } = await room.command();
      await room.made('POST', `/api/v2/devices/${id}/commands`, { command: room.definition({ verificationStrategy: 'query_after_ack', queryCommandId: commandId }) });
      expect(seenHttp(await room.ask('DELETE', `/api/v2/devices/${id}/commands/${commandId}`))).toMatchObject({ status: 409, code: 'query_command_in_use', grpc: 'FAILED_PRECONDITION' });
    });

    it.each([
      ['runtime_error', 'function encodeDownlink() { throw new Error("no"); }'],
      ['syntax_error', 'function encodeDownlink( {'],
      ['timeout', 'function encodeDownlink() { for (;;) {} }'],
      ['no_encoder', 'var nothing = 1;'],
    ])('answers 200 to an encoder that fails with %s', async (code, customEncoder) => {
      const answer = await room.ask('POST', `/api/v2/devices/${await room.device()}/commands/preview-encoder`, { customEncoder });
      expect(answer).toMatchObject({ status: 200, json: { output: null, error: { code } } });
      expect(misfits(answer.json['error'], { atLeast: { code: 'string', message: 'string', 'lineNumber?': 'integer' } })).toEqual([]);
    });

    it('names a profile that was not imported, in a preview and in a command', async () => {
      const encoderProfileId = 'halmwind/sluice/1.0/EU868';
      const commands = `/api/v2/devices/${await room.device()}/commands`;
      const definition = { name: 'Sluice', mode: 'encoded', verificationStrategy: 'no_verification', encoderProfileId };
      expect(seenHttp(await room.ask('POST', `${commands}/preview-encoder`, { encoderProfileId }))).toMatchObject({ status: 400, fields: ['encoderProfileId'] });
      expect(seenHttp(await room.ask('POST', commands, { command: definition }))).toMatchObject({ status: 400, fields: ['command.encoderProfileId'] });
    });

    it('shows what an encoder makes in three forms, and null where there is no error', async () => {
      const answer = await room.made('POST', `/api/v2/devices/${await room.device()}/commands/preview-encoder`, { customEncoder: 'function encodeDownlink(input) { return { bytes: [1, 255], fPort: 9 }; }', params: {} });
      expect(answer).toMatchObject({ output: { bytes: [1, 255], bytesHex: '01ff', bytesBase64: 'Af8=' }, error: null, logs: [] });
    });

    it('pages and searches devices', async () => {
      const name = 'Ångström tank';
      const ids = [];
      for (const one of ['a', 'b', 'c']) ids.push((await room.made('POST', '/api/v2/devices', { name: `${name} ${one}` }))['id']);
      const pages = [await search('ÅNGSTRÖM', '&limit=2'), await search('ÅNGSTRÖM', '&limit=2&offset=2')];
      expect(pages).toMatchObject([{ total: 3 }, { total: 3 }]);
      expect(pages.flatMap(({ devices }) => devices as JsonObject[]).map(({ id }) => id)).toEqual(ids.toReversed());
    });

    it('knows the devices that it is asked for, and 404 for others', async () => {
      expect(seenHttp(await room.ask('GET', `/api/v2/devices/${FOREIGN}`))).toMatchObject({ status: 404, code: 'device_not_found', grpc: 'NOT_FOUND' });
      const id = await room.device();
      await room.made('DELETE', `/api/v2/devices/${id}`);
      expect((await room.ask('GET', `/api/v2/devices/${id}`)).status).toBe(404);
    });

    it('leaves out physicalDevice of a device without one, and takes it away by null', async () => {
      const { id } = await room.wholeDevice();
      expect(await room.made('GET', `/api/v2/devices/${id}`)).toHaveProperty('physicalDevice.sensorMappings');
      expect(await room.made('PATCH', `/api/v2/devices/${id}`, { physicalDevice: null })).not.toHaveProperty('physicalDevice');
    });

    it('shows the pictures of a device with all that the specification has of them', async () => {
      const { id } = await room.wholeDevice();
      const { images } = await room.made('GET', `/api/v2/devices/${id}`);
      expect(images).toEqual([expect.objectContaining({ id: room.picture, filename: 'dot.png', contentType: 'image/png', isCover: true, position: 1, sizeBytes: 70 })]);
      expect((images as JsonObject[])[0]?.['url']).toMatch(/^https:\/\//);
    });

    it.each<[string, JsonObject | Buffer | undefined]>([
      ['is left out', {}],
      ['is null', { mappings: null }],
      ['got lost with its body', undefined],
      ['got lost with its body behind a Content-Type', Buffer.alloc(0)],
    ])('keeps the mappings of a device where the list of new ones %s', async (_, body) => {
      const { id } = await room.wholeDevice();
      const address = `/api/v2/devices/${id}/sensor-mappings`;
      const answer = await room.ask('PUT', address, body);
      expect(seenHttp(answer)).toMatchObject({ status: 400, code: 'validation_failed' });
      const mappings = async (): Promise<unknown> => ((await room.made('GET', `/api/v2/devices/${id}`))['physicalDevice'] as JsonObject)['sensorMappings'];
      expect(await mappings()).toHaveLength(1);
      await room.made('PUT', address, { mappings: [] });
      expect(await mappings()).toEqual([]);
    });

    it('refuses a change without a body, and changes nothing for an empty one', async () => {
      const id = await room.device();
      const before = await room.made('GET', `/api/v2/devices/${id}`);
      for (const body of [undefined, Buffer.alloc(0)]) expect(seenHttp(await room.ask('PATCH', `/api/v2/devices/${id}`, body))).toMatchObject({ status: 400, code: 'validation_failed', fields: [''] });
      expect(await room.made('PATCH', `/api/v2/devices/${id}`, {})).toEqual(before);
    });

    it.each(['minute', 'hour', 'day', 'week', 'month'])('takes the interval unit %s', async (unit) => {
      const id = await room.device();
      expect(await room.made('PATCH', `/api/v2/devices/${id}`, { dataSendingInterval: { unit, value: 2 } })).toMatchObject({ dataSendingInterval: { unit, value: 2 } });
    });

    it('takes the organization of getPersonalUser from the query too', async () => {
      const key = { 'x-api-key': room.server.key };
      expect((await room.http.get(`/api/users/personal?organizationId=${room.organizationId}`, key)).status).toBe(200);
      expect(seenHttp(await room.http.get(`/api/users/personal?organizationId=${FOREIGN}`, key))).toMatchObject({ status: 401, code: 'organization_mismatch' });
    });

    it('makes nothing of what stands in the query and belongs into the body', async () => {
      expect(seenHttp(await room.ask('POST', '/api/v2/devices?name=fromquery'))).toMatchObject({ status: 400, code: 'validation_failed', fields: ['name'] });
    });

    it('takes a header of any case and the key with blanks around it', async () => {
      const answer = await room.http.get('/api/v2/devices', { 'X-API-Key': room.server.key, 'X-ORGANIZATION-ID': room.organizationId });
      expect(answer.status).toBe(200);
    });
  });
});
