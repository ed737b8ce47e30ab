import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../src/kernel/errors';
import { PictureReader } from '../../src/media/pictureReader';
import { shrunk, turned, type Orientation } from '../../src/media/worker/pixels';
import { MemoryLog, temporaryFolder } from '../support/edge';
import { AVIF, gif, JPEG, png, WEBP } from './pictures';

const PNG = png(24, 16, (x, y) => [x * 10, y * 10, 0, 255]);
const GIF = gif(24, 16, [{ x: 0, y: 0, width: 24, height: 16, colour: 3 }]);

describe('looking at pictures', () => {
  const log = new MemoryLog();
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let reader: PictureReader;
  beforeAll(async () => {
    folder = await temporaryFolder();
    reader = new PictureReader({ log, timeMs: 5000 });
  });
  afterAll(async () => {
    await reader.stop();
    await folder.remove();
  });

  const fileOf = async (bytes: Buffer): Promise<string> => {
    const file = join(folder.path, 'picture');
    await writeFile(file, bytes);
    return file;
  };

  it.each([['JPEG', JPEG], ['PNG', PNG], ['WebP', WEBP], ['GIF', GIF], ['AVIF', AVIF]])('survives damaged %s', async (_name, bytes) => {
    const random = randomNumbers(2026);
    for (let round = 0; round < 8; round += 1) {
      const damaged = Buffer.from(bytes);
      for (let changes = 1 + random(8); changes > 0; changes -= 1) damaged[12 + random(damaged.length - 12)] = random(256);
      const outcome = await reader.read(await fileOf(damaged), 'org-1').catch((error: unknown) => error);
      if (outcome instanceof Error) expect(outcome).toMatchObject({ reason: 'validation_failed', violations: [{ field: '' }] });
      else expect(outcome).toMatchObject({ contentType: expect.stringMatching(/^image\//) as string });
    }
    expect((await reader.read(await fileOf(bytes), 'org-1')).width).toBe(24);
  });

  it('lets eight of an organization wait, and refuses more until they were looked at', async () => {
    const file = await fileOf(PNG);
    const leaving = new AbortController();
    const fresh = new PictureReader({ log });
    const outcomes = Array.from({ length: 11 }, async (_, index) => await fresh.read(file, 'org-1', index === 8 ? leaving.signal : undefined).catch((error: unknown) => error));
    leaving.abort(new Error('gone'));
    const settled = await Promise.all(outcomes);
    expect(settled.filter((outcome) => outcome instanceof DomainError)).toMatchObject([{ reason: 'media_busy', retryAfterMs: 2000 }, { reason: 'media_busy' }]);
    expect(settled[8]).toEqual(new Error('gone'));
    expect(settled.filter((outcome) => !(outcome instanceof Error)).length).toBe(8);
  });

  it('looks at one of each organization in turn, and lets 32 wait in all', async () => {
    const file = await fileOf(PNG);
    const fresh = new PictureReader({ log });
    const ends: string[] = [];
    const owners = ['a', 'a', 'a', 'a', 'b', 'c', 'b'];
    await Promise.all(owners.map(async (owner) => await fresh.read(file, owner).then(() => ends.push(owner))));
    expect(ends.join('')).toBe('aabcaba'); // the first begins before the others come
    await fresh.stop();
    const full = new PictureReader({ log });
    const many = Array.from({ length: 35 }, async (_, index) => await full.read(file, `org-${index}`).catch((error: unknown) => error));
    await full.stop();
    expect((await Promise.all(many)).map((outcome) => (outcome as DomainError).reason)).toEqual([...Array.from({ length: 33 }, () => 'shutting_down'), 'media_busy', 'media_busy']);
  });

  it('refuses what waits for too long', async () => {
    const file = await fileOf(PNG);
    const hasty = new PictureReader({ log, waitMs: 1 });
    const [first, second] = await Promise.allSettled([hasty.read(file, 'org-1'), hasty.read(file, 'org-2')]);
    expect(first).toMatchObject({ status: 'fulfilled' });
    expect(second).toMatchObject({ status: 'rejected', reason: { reason: 'media_busy', retryAfterMs: 2000 } });
  });

  it('refuses before it decodes what takes more memory than there is', async () => {
    const small = new PictureReader({ log, mostMemory: 384 * 12 });
    const { width } = await small.read(await fileOf(PNG), 'org-1'); // just so many
    expect(width).toBe(24);
    const pictures: readonly (readonly [Buffer, number, string])[] = [[AVIF, 48, 'AVIF'], [JPEG, 16, 'JPEG'], [WEBP, 20, 'WebP']];
    for (const [bytes, perPixel, name] of pictures) {
      const words = `the picture has 24 x 16 pixels, which take too much memory on this machine; give at most ${Math.floor((384 * 12) / perPixel)} in all (${name})`;
      await expect(small.read(await fileOf(bytes), 'org-1')).rejects.toMatchObject({ violations: [{ description: words }] });
    }
  });

  it('gives up what takes too long, and goes on', async () => {
    const hasty = new PictureReader({ log, timeMs: 1 });
    const file = await fileOf(PNG);
    for (let round = 0; round < 2; round += 1) await expect(hasty.read(file, 'org-1')).rejects.toMatchObject({ violations: [{ description: expect.stringContaining('takes too long') as string }] });
    await hasty.stop();
  });

  it('blames no picture for what is amiss with the server, and goes on', async () => {
    await expect(reader.read(join(folder.path, 'nothing'), 'org-1')).rejects.toMatchObject({ kind: 'unavailable', reason: 'media_unavailable', retryAfterMs: 2000 });
    expect(log.of('media.thread_broke')).toMatchObject([{ err: { code: 'ENOENT' } }]);
    expect((await reader.read(await fileOf(PNG), 'org-1')).width).toBe(24);
  });

  it('refuses what runs and waits when it is stopped', async () => {
    const stopped = new PictureReader({ log });
    const file = await fileOf(PNG);
    const outcomes = [stopped.read(file, 'org-1'), stopped.read(file, 'org-2')].map(async (outcome) => await expect(outcome).rejects.toMatchObject({ reason: 'shutting_down' }));
    await stopped.stop();
    await Promise.all(outcomes);
    await expect(stopped.read(file, 'org-1')).rejects.toMatchObject({ reason: 'shutting_down' });
  });
});

const grey = (...shades: number[]): Uint8Array => new Uint8Array(shades.flatMap((shade) => [shade, shade, shade, 255]));
const shadesOf = (data: Uint8Array | Uint8ClampedArray): number[] => [...data].filter((_, index) => index % 4 === 0);

describe('the small picture', () => {
  it.each<[Orientation, number[]]>([
    [1, [1, 2, 3, 4, 5, 6]],
    [2, [3, 2, 1, 6, 5, 4]],
    [3, [6, 5, 4, 3, 2, 1]],
    [4, [4, 5, 6, 1, 2, 3]],
    [5, [1, 4, 2, 5, 3, 6]],
    [6, [4, 1, 5, 2, 6, 3]],
    [7, [6, 3, 5, 2, 4, 1]],
    [8, [3, 6, 2, 5, 1, 4]],
  ])('is turned back from orientation %s', (orientation, expected) => {
    const { width, height, data } = turned({ width: 3, height: 2, data: grey(1, 2, 3, 4, 5, 6) }, orientation);
    expect([width, height]).toEqual(orientation >= 5 ? [2, 3] : [3, 2]);
    expect(shadesOf(data)).toEqual(expected);
  });

  it('holds the mean of what each pixel covers', () => {
    expect(shrunk({ width: 3, height: 1, data: grey(0, 60, 90) }, 2)).toEqual({ width: 2, height: 1, data: grey(20, 80) });
    expect(shrunk({ width: 4, height: 4, data: grey(...Array.from({ length: 16 }, (_, index) => index * 10)) }, 2).data).toEqual(grey(25, 45, 105, 125));
  });

  it('counts what is transparent as little as it is seen', () => {
    const data = new Uint8Array([200, 0, 0, 255, 0, 0, 0, 0]);
    expect(shrunk({ width: 2, height: 1, data }, 1).data).toEqual(new Uint8Array([200, 0, 0, 128]));
  });
});

/** A generator of whole numbers below a bound, the same each time. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
