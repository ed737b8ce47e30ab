import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { createOnePixelPng } from '../../media/sampleImages';
import { engines, type TestEngine } from '../../support/engines';
import { HttpClient, parseHttpError } from '../../support/http';
import { as, startTestApp, type TestApp } from '../../support/testApp';

// Tests the streams and images of the complete server as an HTTP client sees them.

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

/** Returns the first record of a stream. */
async function getFirst(path: string, accept: string): Promise<string> {
  const clientRequest = request(`https://${server.app.addresses.http}${path}`, {
    ca: readFileSync(server.app.ca as string),
    headers: { ...as(server.key, server.organizationId), accept },
    agent: false,
  });
  opened.push(() => clientRequest.destroy());
  const answer = await new Promise<IncomingMessage>((resolve, reject) =>
    clientRequest.on('response', resolve).on('error', reject).end(),
  );
  expect(answer.statusCode).toBe(200);
  answer.on('error', () => {});
  let received = '';
  return await new Promise((resolve) => {
    answer.on('data', (piece: Buffer) => {
      received += piece.toString();
      if (received.includes('}\n')) resolve(received);
    });
  });
}

it.each(['/api/v2/actuator-executions:watch', '/api/v2/connections:watchStatus', '/api/v2/readings:stream'])(
  '%s opens at once, in both formats',
  async (path) => {
    expect(JSON.parse((await getFirst(path, '*/*')).split('\n')[0] as string)).toBeInstanceOf(Object);
    expect(await getFirst(path, 'text/event-stream')).toMatch(
      /^retry: \d+\n\nevent: message\n(id: [\w-]+\n)?data: \{.*\}\n/,
    );
  },
);

it('rejects a stream of an unknown resource with a status, and resumes by Last-Event-ID', async () => {
  expect(parseHttpError(await http.get('/api/v2/actuator-executions:watch?id=none'))).toMatchObject({
    status: 404,
    code: 'device_not_found',
  });
  expect(
    parseHttpError(
      await http.get('/api/v2/actuator-executions:watch', { accept: 'text/event-stream', 'last-event-id': 'forged' }),
    ),
  ).toMatchObject({ status: 400, fields: ['resumeToken'] });
});

it('accepts an image in a form, returns its bytes, and serves it by a link', async () => {
  const image = createOnePixelPng(7);
  const form = new FormData();
  form.append('file', new Blob([image]), 'hall.png');
  const sent = new Response(form);
  const uploaded = await http.send('POST', '/api/v2/media', {
    body: Buffer.from(await sent.arrayBuffer()),
    headers: { 'content-type': sent.headers.get('content-type') as string },
  });
  expect([uploaded.status, uploaded.json]).toMatchObject([
    201,
    { filename: 'hall.png', contentType: 'image/png', sizeBytes: image.length },
  ]);
  const again = await http.send('POST', '/api/v2/media', {
    body: image,
    headers: { 'content-type': 'image/png', 'content-disposition': 'attachment; filename="raw.png"' },
  });
  expect([again.status, again.json]).toMatchObject([201, { filename: 'raw.png', sha256: uploaded.json['sha256'] }]);
  const content = await http.get(`/api/v2/media/${String(uploaded.json['id'])}/content`);
  expect([content.status, content.headers['content-type'], content.body.equals(image)]).toEqual([
    200,
    'image/png',
    true,
  ]);
  const small = await http.get(`/api/v2/media/${String(uploaded.json['id'])}/content?variant=thumbnail`);
  expect([small.status, small.headers['content-type'], small.headers['content-disposition']]).toEqual([
    200,
    'image/webp',
    `inline; filename="hall.png.webp"; filename*=UTF-8''hall.png.webp`,
  ]);
  const stranger = new HttpClient(server.app.addresses.http as string, server.app.ca);
  const { pathname, search } = new URL(String(uploaded.json['url']));
  expect((await stranger.get(pathname + search)).body.equals(image)).toBe(true);
  expect((await stranger.get(`${pathname}${search}x`)).status).toBe(404);
  stranger.close();
  const script = Buffer.from('<svg onload="x()"></svg>');
  expect(
    parseHttpError(
      await http.send('POST', '/api/v2/media', { body: script, headers: { 'content-type': 'image/png' } }),
    ),
  ).toMatchObject({ status: 400, code: 'validation_failed' });
});
