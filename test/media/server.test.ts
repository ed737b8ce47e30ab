import { engines } from '../support/engines';
import { HttpClient, parseHttpError } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { JPEG, createOnePixelPng } from './sampleImages';

describe.each(engines())('images over HTTP on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let browser: HttpClient;
  beforeAll(async () => {
    server = await startTestApp(engine);
    const [address, { ca }] = [server.app.addresses.http as string, server.app];
    http = new HttpClient(address, ca, as(server.key, server.organizationId));
    browser = new HttpClient(address, ca); // without a key
  });
  afterAll(async () => {
    http.close();
    browser.close();
    await server.stop();
  });

  const upload = async (body: Buffer) =>
    await http.send('POST', '/api/v2/media?filename=hall.jpg', { body, headers: { 'content-type': 'image/jpeg' } });

  it('are uploaded, shown on a device, opened by a link without a key, and deleted', async () => {
    const { status, json: media } = await upload(JPEG);
    expect({ status, media }).toMatchObject({
      status: 201,
      media: {
        filename: 'hall.jpg',
        contentType: 'image/jpeg',
        sizeBytes: JPEG.length,
        width: 24,
        height: 16,
        deviceCount: 0,
      },
    });
    const id = String(media['id']);
    const { json: device } = await http.send('POST', '/api/v2/devices', {
      body: { name: 'Hall', images: [{ mediaId: id, isCover: true }] },
    });
    const [image] = device['images'] as { id: string; url: string; thumbnailUrl: string }[];
    expect(image).toMatchObject({ id, contentType: 'image/jpeg', isCover: true, url: media['url'] });

    const shown = await browser.get(getPath(image!.url));
    expect([shown.status, shown.headers['content-type'], shown.body.equals(JPEG)]).toEqual([200, 'image/jpeg', true]);
    expect((await browser.get(getPath(image!.thumbnailUrl))).headers['content-type']).toBe('image/webp');
    expect((await browser.get(getPath(image!.url), { 'if-none-match': String(shown.headers.etag) })).status).toBe(304);
    const part = await browser.get(getPath(image!.url), { range: 'bytes=2-5' });
    expect([part.status, part.body]).toEqual([206, JPEG.subarray(2, 6)]);
    expect(parseHttpError(await http.get(`/api/v2/media/${id}/content?offset=2`))).toMatchObject({
      status: 400,
      code: 'validation_failed',
      fields: ['offset'],
    });
    expect((await http.get(`/api/v2/media/${id}/content?offset=0`)).status).toBe(200);
    expect(parseHttpError(await browser.get(getPath(image!.url).replace('original', 'thumbnail')))).toMatchObject({
      status: 404,
      code: 'media_not_found',
    });

    expect(parseHttpError(await http.send('DELETE', `/api/v2/media/${id}`))).toMatchObject({
      status: 409,
      code: 'media_in_use',
    });
    await http.send('DELETE', `/api/v2/devices/${String(device['id'])}`);
    expect((await http.get(`/api/v2/media/${id}`)).json['expiresAt']).toEqual(expect.any(String));
    expect((await http.send('DELETE', `/api/v2/media/${id}`)).status).toBe(200);
    expect(parseHttpError(await browser.get(getPath(image!.url)))).toMatchObject({
      status: 404,
      code: 'media_not_found',
    });
  });

  it('are rejected when they are invalid, and when a device would show one of another organization', async () => {
    expect(parseHttpError(await upload(Buffer.from('<script>alert(1)</script>')))).toMatchObject({
      status: 400,
      code: 'validation_failed',
      fields: [''],
    });
    const other = await server.organization('Other');
    const { key } = await server.newKey(other);
    const { json } = await http.send('POST', '/api/v2/media', {
      body: createOnePixelPng(1),
      headers: { 'content-type': 'application/octet-stream', ...as(key, other) },
    });
    const refused = await http.send('POST', '/api/v2/devices', {
      body: { name: 'Hall', images: [{ mediaId: json['id'] }] },
    });
    expect(parseHttpError(refused)).toMatchObject({
      status: 400,
      code: 'validation_failed',
      fields: ['images[0].mediaId'],
    });
  });
});

function getPath(url: string): string {
  const { pathname, search } = new URL(url);
  return `${pathname}${search}`;
}
