import { createLinkedMedia, MediaLinks } from '../../src/media';
import type { LinkedContent } from '../../src/api/pipeline/handlers';
import { engines } from '../support/engines';
import { all, startMediaFixture, type MediaFixture } from './mediaFixture';
import { createOnePixelPng } from './sampleImages';

describe.each(engines().slice(0, 1))('links to images', (engine) => {
  let fixture: MediaFixture;
  let linked: LinkedContent;
  beforeAll(async () => {
    fixture = await startMediaFixture(engine);
    linked = createLinkedMedia(fixture.service, fixture.links);
  });
  afterAll(async () => await fixture.stop());

  const open = async (link: string) => {
    const { pathname, searchParams } = new URL(link);
    return await linked.open({ id: pathname.slice('/media/'.length) }, searchParams);
  };
  const refused = async (link: string) =>
    await expect(open(link)).rejects.toMatchObject({ kind: 'not_found', reason: 'media_not_found' });

  it('open the image and its thumbnail as content that a browser can cache', async () => {
    const bytes = createOnePixelPng(1);
    const { url, thumbnailUrl, sha256 } = await fixture.upload(bytes, { filename: 'hall.png' });
    expect(url).toMatch(
      /^https:\/\/plantroom\.test:8443\/media\/[0-9a-f-]+\?organization=org-1&variant=original&expires=\d+&signature=[\w-]{43}$/,
    );
    const content = await open(url);
    expect(content).toMatchObject({
      contentType: 'image/png',
      sizeBytes: bytes.length,
      etag: sha256,
      lastModified: fixture.clock.now(),
      filename: 'hall.png',
    });
    expect(Buffer.concat(await all(content.read(1, 9)))).toEqual(bytes.subarray(1, 9));
    expect(await open(thumbnailUrl)).toMatchObject({
      contentType: 'image/webp',
      etag: `${sha256}-small`,
      filename: 'hall.png.webp',
    });
  });

  it('are empty where no browser can reach the server', () => {
    expect(new MediaLinks(Buffer.from('secret'), () => '', fixture.clock).createLinks('org-1', 'a')).toEqual({
      url: '',
      thumbnailUrl: '',
    });
  });

  it('are valid for at least an hour, and stay the same for a while', async () => {
    const { id, url } = await fixture.upload(createOnePixelPng(2));
    const expires = Number(new URL(url).searchParams.get('expires')) * 1000;
    expect(expires - fixture.clock.now()).toBeGreaterThanOrEqual(3_600_000);
    expect(expires % 900_000).toBe(0);
    const untilNext = expires - 3_600_000 - fixture.clock.now();
    fixture.clock.advance(untilNext);
    expect((await fixture.get(id)).url).toBe(url);
    fixture.clock.advance(1);
    expect((await fixture.get(id)).url).not.toBe(url);
    fixture.clock.advance(3_600_000 - 2);
    await open(url);
    fixture.clock.advance(1);
    await refused(url);
  });

  it('open nothing when they are forged, changed or lead to a deleted image', async () => {
    const [one, two] = [await fixture.upload(createOnePixelPng(3)), await fixture.upload(createOnePixelPng(4))];
    const changed = (change: (link: URL) => void): string => {
      const link = new URL(one.url);
      change(link);
      return link.href;
    };
    for (const name of ['organization', 'variant', 'expires', 'signature']) {
      await refused(changed(({ searchParams }) => searchParams.delete(name)));
      await refused(changed(({ searchParams }) => searchParams.set(name, `${searchParams.get(name)}1`)));
      await refused(changed(({ searchParams }) => searchParams.set(name, '')));
    }
    await refused(changed(({ searchParams }) => searchParams.set('variant', 'thumbnail')));
    await refused(changed(({ searchParams }) => searchParams.set('organization', 'org-2')));
    await refused(changed(({ searchParams }) => searchParams.set('signature', 'ä'.repeat(43))));
    await refused(changed((link) => (link.pathname = `/media/${two.id}`)));
    await refused(changed((link) => (link.pathname = '/media/%00')));
    await open(one.url);
    await fixture.delete(one.id);
    await refused(one.url);
  });
});
