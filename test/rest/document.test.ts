import { Ajv2020 } from 'ajv/dist/2020';
import { asset } from '../../src/kernel/assets';
import { engines, type TestEngine } from '../support/engines';
import type { JsonObject } from '../support/http';
import { callOf, SpecRoom } from './specRoom';
import { OPERATIONS } from './specTable';

// What the OpenAPI document promises of answers, against those of a server.

const document = JSON.parse(asset('openapi.json').toString('utf8')) as { readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>> };
const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema({ $id: 'document', ...document });

/** What the document says against an answer of an operation; undefined: nothing. */
function faults(path: string, verb: string, status: number, answer: JsonObject): unknown {
  const place = [path, verb.toLowerCase(), 'responses', String(status), 'content', 'application/json', 'schema'].map((name) => encodeURIComponent(name.replaceAll('/', '~1'))).join('/');
  const check = ajv.compile({ $ref: `document#/paths/${place}` });
  return check(answer) ? undefined : check.errors;
}

const filled = (text: string): string => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? '');

let room: SpecRoom;
let ids: Readonly<Record<string, string>>;

beforeAll(async () => {
  room = await SpecRoom.open(engines()[0] as TestEngine);
  const { id: device, commandId: command } = await room.command();
  const { executionId } = await room.made('POST', `/api/v2/devices/${device}/actuator-executions`, { commandId: command });
  const { sensorId: sensor } = await room.wholeDevice();
  ids = { device, command, sensor, execution: executionId as string, connection: room.connection, gateway: 'gateway', organization: room.organizationId, picture: room.picture, template: await room.template() };
});
afterAll(() => room.stop());

describe('the OpenAPI document fits to the answer of', () => {
  it.each(OPERATIONS.filter(({ status }) => status !== 204).map((row) => [row.operation, row] as const))('%s', async (_, row) => {
    const { url, parts } = callOf(row.path, await row.ask(room), {});
    const answer = await room.ask(row.verb, url, parts.body);
    const path = row.path in document.paths ? row.path : `${row.path}/{id}`;
    expect([answer.status, faults(path, row.verb, row.status, answer.json)]).toEqual([row.status, undefined]);
  });

  it.each([
    ['/api/v2/connections', ''],
    ['/api/v2/connections/{connection}', ''],
    ['/api/v2/connections/{connection}/discovered-devices', ''],
    ['/api/v2/connectors', ''],
    ['/api/v2/connectors/{gateway}', ''],
    ['/api/v2/api-keys', ''],
    ['/api/v2/who-am-i', ''],
    ['/api/v2/organizations/{organization}', ''],
    ['/api/v2/devices/{device}/commands', ''],
    ['/api/v2/devices/{device}/commands/{command}', ''],
    ['/api/v2/actuator-executions/{execution}', ''],
    ['/api/v2/media/{picture}', ''],
    ['/api/v2/devices/sensor-templates/{template}', ''],
    ['/api/v2/devices/sensor-templates/unit-measurements', ''],
    ['/api/v2/readings:latest', 'sensorIds={sensor}'],
    ['/api/v2/readings', 'sensorIds={sensor}&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z'],
    ['/api/v2/readings:aggregate', 'sensorIds={sensor}&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&bucket.count=1&bucket.unit=hour&functions=avg&fill=null'],
  ])('GET %s', async (shown, query) => {
    const shape = new RegExp(`^${shown.replaceAll(/\{\w+\}/g, String.raw`\{\w+\}`)}$`);
    const path = Object.keys(document.paths).find((one) => shape.test(one));
    expect([shown, path]).toEqual([shown, expect.any(String)]);
    expect(faults(path as string, 'GET', 200, await room.made('GET', `${filled(shown)}?${filled(query)}`))).toBeUndefined();
  });
});
