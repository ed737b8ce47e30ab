import { linkedMedia, MediaLinks } from '../../src/media';
import type { LinkedContent } from '../../src/rpc/handlers';
import { engines } from '../support/engines';
import { all, startMediaRoom, type MediaRoom } from './mediaRoom';
import { onePixel } from './pictures';

describe.each(engines().slice(0, 1))('links to pictures', (engine) => {
  let room: MediaRoom;
  let linked: LinkedContent;
  beforeAll(async () => {
    room = await startMediaRoom(engine);
    linked = linkedMedia(room.service, room.links);
  });
  afterAll(async () => await room.stop());

  const open = async (link: string) => {
    const { pathname, searchParams } = new URL(link);
    return await linked.open({ id: pathname.slice('/media/'.length) }, searchParams);
  };
  const refused = async (link: string) => await expect(open(link)).rejects.toMatchObject({ kind: 'not_found', reason: 'media_not_found' });

  it('open the picture and the small one, as content that a browser can keep', async () => {
    const bytes = onePixel(1);
    const { url, thumbnailUrl, sha256 } = await room.upload(bytes, { filename: 'hall.png' });
    expect(url).toMatch(/^https:\/\/plantroom\.test:8443\/media\/[0-9a-f-]+\?organization=org-1&variant=original&expires=\d+&signature=[\w-]{43}$/);
    const content = await open(url);
    expect(content).toMatchObject({ contentType: 'image/png', sizeBytes: bytes.length, etag: sha256, lastModified: room.clock.now(), filename: 'hall.png' });
    expect(Buffer.concat(await all(content.read(1, 9)))).toEqual(bytes.subarray(1, 9));
    expect(await open(thumbnailUrl)).toMatchObject({ contentType: 'image/webp', etag: `${sha256}-small`, filename: 'hall.png.webp' });
  });

  it('are none where no browser reaches the server', () => {
    expect(new MediaLinks(Buffer.from('secret'), () => '', room.clock).of('org-1', 'a')).toEqual({ url: '', thumbnailUrl: '' });
  });

  it('hold for an hour at least, and are the same for a while', async () => {
    const { id, url } = await room.upload(onePixel(2));
    const expires = Number(new URL(url).searchParams.get('expires')) * 1000;
    expect(expires - room.clock.now()).toBeGreaterThanOrEqual(3_600_000);
    expect(expires % 900_000).toBe(0);
    const untilNext = expires - 3_600_000 - room.clock.now();
    room.clock.advance(untilNext);
    expect((await room.get(id)).url).toBe(url);
    room.clock.advance(1);
    expect((await room.get(id)).url).not.toBe(url);
    room.clock.advance(3_600_000 - 2);
    await open(url);
    room.clock.advance(1);
    await refused(url);
  });

  it('open nothing when they are forged, changed or to a picture that is gone', async () => {
    const [one, two] = [await room.upload(onePixel(3)), await room.upload(onePixel(4))];
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
    await room.delete(one.id);
    await refused(one.url);
  });
});
