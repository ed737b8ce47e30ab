import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { onePixel } from '../media/pictures';
import { engines, type TestEngine } from '../support/engines';
import { HttpClient, seenHttp } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';

// The streams and the pictures of the whole server, as a client of HTTP alone sees them.

let server: TestApp;
let http: HttpClient;
const opened: (() => void)[] = [];

beforeAll(async () => {
  server = await startTestApp(engines()[0] as TestEngine);
  http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId));
});
afterAll(async () => {
  for (const close of opened) close();
  http.close();
  await server.stop();
});

/** The first record of a stream. */
async function firstOf(path: string, accept: string): Promise<string> {
  const asked = request(`https://${server.app.addresses.http}${path}`, { ca: readFileSync(server.app.ca as string), headers: { ...as(server.key, server.organizationId), accept }, agent: false });
  opened.push(() => asked.destroy());
  const answer = await new Promise<IncomingMessage>((resolve, reject) => asked.on('response', resolve).on('error', reject).end());
  expect(answer.statusCode).toBe(200);
  answer.on('error', () => {});
  let said = '';
  return await new Promise((resolve) => {
    answer.on('data', (piece: Buffer) => {
      said += piece.toString();
      if (said.includes('}\n')) resolve(said);
    });
  });
}

it.each(['/api/v2/actuator-executions:watch', '/api/v2/connections:watchStatus', '/api/v2/readings:stream'])('%s opens at once, in both forms', async (path) => {
  expect(JSON.parse((await firstOf(path, '*/*')).split('\n')[0] as string)).toBeInstanceOf(Object);
  expect(await firstOf(path, 'text/event-stream')).toMatch(/^retry: \d+\n\nevent: message\n(id: [\w-]+\n)?data: \{.*\}\n/);
});

it('refuses a stream of what is not there with a status, and resumes by Last-Event-ID', async () => {
  expect(seenHttp(await http.get('/api/v2/actuator-executions:watch?id=none'))).toMatchObject({ status: 404, code: 'device_not_found' });
  expect(seenHttp(await http.get('/api/v2/actuator-executions:watch', { accept: 'text/event-stream', 'last-event-id': 'forged' }))).toMatchObject({ status: 400, fields: ['resumeToken'] });
});

it('takes a picture in a form, answers its bytes, and a link opens it', async () => {
  const picture = onePixel(7);
  const form = new FormData();
  form.append('file', new Blob([picture]), 'hall.png');
  const sent = new Response(form);
  const made = await http.send('POST', '/api/v2/media', { body: Buffer.from(await sent.arrayBuffer()), headers: { 'content-type': sent.headers.get('content-type') as string } });
  expect([made.status, made.json]).toMatchObject([201, { filename: 'hall.png', contentType: 'image/png', sizeBytes: picture.length }]);
  const again = await http.send('POST', '/api/v2/media', { body: picture, headers: { 'content-type': 'image/png', 'content-disposition': 'attachment; filename="raw.png"' } });
  expect([again.status, again.json]).toMatchObject([201, { filename: 'raw.png', sha256: made.json['sha256'] }]);
  const content = await http.get(`/api/v2/media/${String(made.json['id'])}/content`);
  expect([content.status, content.headers['content-type'], content.body.equals(picture)]).toEqual([200, 'image/png', true]);
  const small = await http.get(`/api/v2/media/${String(made.json['id'])}/content?variant=thumbnail`);
  expect([small.status, small.headers['content-type'], small.headers['content-disposition']]).toEqual([200, 'image/webp', `inline; filename="hall.png.webp"; filename*=UTF-8''hall.png.webp`]);
  const stranger = new HttpClient(server.app.addresses.http as string, server.app.ca);
  const { pathname, search } = new URL(String(made.json['url']));
  expect((await stranger.get(pathname + search)).body.equals(picture)).toBe(true);
  expect((await stranger.get(`${pathname}${search}x`)).status).toBe(404);
  stranger.close();
  const script = Buffer.from('<svg onload="x()"></svg>');
  expect(seenHttp(await http.send('POST', '/api/v2/media', { body: script, headers: { 'content-type': 'image/png' } }))).toMatchObject({ status: 400, code: 'validation_failed' });
});
