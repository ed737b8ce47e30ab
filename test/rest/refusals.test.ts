import { HttpClient } from '../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

// What is refused before there is a call.

let edge: RestEdge;
let client: HttpClient;

beforeAll(async () => {
  edge = await startRestEdge(() => {});
  client = new HttpClient(edge.address, edge.ca, FIELDS);
});
afterAll(async () => {
  client.close();
  await edge.stop();
});

it.each([
  ['as it is', 'plr_', 49],
  ['with an encoded underscore', 'plr%5F', 49],
  ['with every letter of its beginning encoded', '%70%6c%72%5f', 49],
  ['with an underscore that was encoded twice', 'plr%255f', 49],
  ['without its beginning', '', 49],
  ['in part', 'plr_', 12],
  ['far behind', `${'x/'.repeat(94)}plr_`, 49],
])('tells nobody of a key that stands in a path %s', async (_, before, length) => {
  const secret = 'Zq7'.repeat(20).slice(0, length);
  const answer = await client.get(`/${before}${secret}`);
  const [line] = edge.log.of('http.refused').slice(-1);
  expect(answer.status).toBe(404);
  expect(line).toMatchObject({ http: 404, reason: 'route_unknown', path: expect.any(String) });
  for (const told of [answer.body.toString(), JSON.stringify(line)]) expect(told).not.toContain('Zq7');
});

it('names the path that is none', async () => {
  await client.get('/organization_access_control.AccessControlService/CreateActuatorCommandTemplate?a=b');
  expect(edge.log.of('http.refused').at(-1)).toMatchObject({ path: '/organization_access_control.AccessControlService/CreateActuatorCommandTemplate' });
});
