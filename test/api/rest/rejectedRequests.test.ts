import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { ActuatorCommandServiceService } from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { DigitalDeviceServiceService } from '../../../src/gen/digitaldevice/v2/digital_device_service';
import { HttpClient } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

// Tests requests that are rejected before there is a call.

const unreachableHandler = async (): Promise<never> => await Promise.reject(new Error('the handler was called'));

let edge: RestEdge;
let client: HttpClient;

const send = async (request: string): Promise<string> => {
  const socket = connect(Number(edge.address.split(':').at(-1)), '127.0.0.1');
  socket.write(request);
  return await text(socket);
};
const allowed = async (path: string): Promise<unknown> => (await client.send('PROPFIND', path)).headers.allow;

beforeAll(async () => {
  edge = await startRestEdge((server) => {
    server.addService(
      { getDigitalDevice: DigitalDeviceServiceService.getDigitalDevice },
      { getDigitalDevice: unreachableHandler },
    );
    server.addService(
      { cancelExecution: ActuatorCommandServiceService.cancelExecution },
      { cancelExecution: unreachableHandler },
    );
  });
  client = new HttpClient(edge.address, edge.ca, FIELDS);
});
afterAll(async () => {
  client.close();
  await edge.stop();
});

it.each([
  ['unchanged', 'plr_', 49],
  ['with an encoded underscore', 'plr%5F', 49],
  ['with every letter of its prefix encoded', '%70%6c%72%5f', 49],
  ['with an underscore that was encoded twice', 'plr%255f', 49],
  ['without its prefix', '', 49],
  ['in part', 'plr_', 12],
  ['far behind', `${'x/'.repeat(94)}plr_`, 49],
])('does not reveal a key that appears in a path %s', async (_, before, length) => {
  const secret = 'Zq7'.repeat(20).slice(0, length);
  const answer = await client.get(`/${before}${secret}`);
  const [line] = edge.log.of('http.rejected').slice(-1);
  expect(answer.status).toBe(404);
  expect(line).toMatchObject({ http: 404, reason: 'route_not_found', path: expect.any(String) });
  for (const output of [answer.body.toString(), JSON.stringify(line)]) expect(output).not.toContain('Zq7');
});

it('names the path that does not exist', async () => {
  await client.get('/organization_access_control.AccessControlService/CreateActuatorCommandTemplate?a=b');
  expect(edge.log.of('http.rejected').at(-1)).toMatchObject({
    path: '/organization_access_control.AccessControlService/CreateActuatorCommandTemplate',
  });
});

describe('an unusable request', () => {
  it.each([
    ['has no Host', 'GET /healthz HTTP/1.1\r\n\r\n', 400, 'request_malformed'],
    ['has two Host headers', 'GET /healthz HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n', 400, 'request_malformed'],
    [
      'has an unsupported expectation',
      'GET /healthz HTTP/1.1\r\nhost: a\r\nexpect: wonders\r\nconnection: close\r\n\r\n',
      417,
      'expectation_failed',
    ],
    ['asks for a tunnel', 'CONNECT example.org:443 HTTP/1.1\r\nhost: a\r\n\r\n', 405, 'method_not_allowed'],
    [
      'has a verb that the path does not accept',
      'PURGE /healthz?a=b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
      405,
      'method_not_allowed',
    ],
    [
      'has an unknown verb and path',
      'PROPFIND /nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
      404,
      'route_not_found',
    ],
  ])('gets a standard error response and a log line when it %s', async (_, request, status, code) => {
    const before = edge.log.of('http.rejected').length;
    const [head = '', body = ''] = (await send(request)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*x-request-id: [^]`));
    expect(JSON.parse(body)).toMatchObject({
      error: { code, requestId: expect.any(String), details: [expect.objectContaining({ reason: code })] },
    });
    expect(edge.log.of('http.rejected').slice(before)).toEqual([
      expect.objectContaining({ http: status, reason: code, peer: '127.0.0.1' }),
    ]);
  });

  it('gets the list of verbs that the path accepts', async () => {
    expect(await allowed('/healthz')).toBe('GET, HEAD, OPTIONS');
    expect(await allowed('/api/v2/devices/some-id')).toBe('GET, HEAD, OPTIONS');
    expect(await allowed('/api/v2/actuator-executions/some-id:cancel')).toBe('POST, OPTIONS');
    expect(await allowed('/api/v2/actuator-executions/some-id:nothing')).toBeUndefined();
  });

  it('needs no Host with HTTP/1.0', async () => {
    expect(await send('GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /);
  });
});
