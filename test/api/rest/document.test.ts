import { Ajv2020 } from 'ajv/dist/2020';
import { readAsset } from '../../../src/kernel/assets';
import { engines, type TestEngine } from '../../support/engines';
import type { JsonObject } from '../../support/http';
import { findCall, SpecFixture } from './specFixture';
import { OPERATIONS } from './specTable';

// Compares what the OpenAPI document promises about responses with the responses of a server.

const document = JSON.parse(readAsset('openapi.json').toString('utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
};
const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema({ $id: 'document', ...document });

/** Returns how a response violates the document; undefined when it conforms. */
function findViolations(path: string, verb: string, status: number, answer: JsonObject): unknown {
  const place = [path, verb.toLowerCase(), 'responses', String(status), 'content', 'application/json', 'schema']
    .map((name) => encodeURIComponent(name.replaceAll('/', '~1')))
    .join('/');
  const check = ajv.compile({ $ref: `document#/paths/${place}` });
  return check(answer) ? undefined : check.errors;
}

const filled = (text: string): string => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? '');

let fixture: SpecFixture;
let ids: Readonly<Record<string, string>>;

beforeAll(async () => {
  fixture = await SpecFixture.open(engines()[0] as TestEngine);
  const { id: device, commandId: command } = await fixture.command();
  const { executionId } = await fixture.sendJson('POST', `/api/v2/devices/${device}/actuator-executions`, {
    commandId: command,
  });
  const { sensorId: sensor } = await fixture.createFullDevice();
  ids = {
    device,
    command,
    sensor,
    execution: executionId as string,
    connection: fixture.connection,
    gateway: 'gateway',
    organization: fixture.organizationId,
    image: fixture.mediaId,
    template: await fixture.template(),
  };
});
afterAll(() => fixture.stop());

describe('the OpenAPI document matches the response of', () => {
  it.each(OPERATIONS.filter(({ status }) => status !== 204).map((row) => [row.operation, row] as const))(
    '%s',
    async (_, row) => {
      const { url, parts } = findCall(row.path, await row.prepare(fixture), {});
      const answer = await fixture.send(row.verb, url, parts.body);
      const path = row.path in document.paths ? row.path : `${row.path}/{id}`;
      expect([answer.status, findViolations(path, row.verb, row.status, answer.json)]).toEqual([row.status, undefined]);
    },
  );

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
    ['/api/v2/media/{image}', ''],
    ['/api/v2/devices/sensor-templates/{template}', ''],
    ['/api/v2/devices/sensor-templates/unit-measurements', ''],
    ['/api/v2/readings:latest', 'sensorIds={sensor}'],
    ['/api/v2/readings', 'sensorIds={sensor}&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z'],
    [
      '/api/v2/readings:aggregate',
      'sensorIds={sensor}&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&bucket.count=1&bucket.unit=hour&functions=avg&fill=null',
    ],
  ])('GET %s', async (shown, query) => {
    const shape = new RegExp(`^${shown.replaceAll(/\{\w+\}/g, String.raw`\{\w+\}`)}$`);
    const path = Object.keys(document.paths).find((one) => shape.test(one));
    expect([shown, path]).toEqual([shown, expect.any(String)]);
    expect(
      findViolations(path as string, 'GET', 200, await fixture.sendJson('GET', `${filled(shown)}?${filled(query)}`)),
    ).toBeUndefined();
  });
});
