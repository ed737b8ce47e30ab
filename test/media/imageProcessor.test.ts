import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../src/kernel/errors';
import { ImageProcessor } from '../../src/media/imageProcessor';
import { resize, applyOrientation, type Orientation } from '../../src/media/worker/pixels';
import { MemoryLog, temporaryFolder } from '../support/edge';
import { AVIF, gif, JPEG, png, WEBP } from './sampleImages';

const PNG = png(24, 16, (x, y) => [x * 10, y * 10, 0, 255]);
const GIF = gif(24, 16, [{ x: 0, y: 0, width: 24, height: 16, colour: 3 }]);

describe('the image processor', () => {
  const log = new MemoryLog();
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let reader: ImageProcessor;
  beforeAll(async () => {
    folder = await temporaryFolder();
    reader = new ImageProcessor({ log, decodeTimeoutMs: 150_000 });
  });
  afterAll(async () => {
    await reader.stop();
    await folder.remove();
  });

  const getFile = async (bytes: Buffer): Promise<string> => {
    const file = join(folder.path, 'picture');
    await writeFile(file, bytes);
    return file;
  };

  it.each([
    ['JPEG', JPEG],
    ['PNG', PNG],
    ['WebP', WEBP],
    ['GIF', GIF],
    ['AVIF', AVIF],
  ])('survives corrupt %s', async (_name, bytes) => {
    const random = randomNumbers(2026);
    for (let round = 0; round < 8; round += 1) {
      const damaged = Buffer.from(bytes);
      for (let changes = 1 + random(8); changes > 0; changes -= 1)
        damaged[12 + random(damaged.length - 12)] = random(256);
      const outcome = await reader.process(await getFile(damaged), 'org-1').catch((error: unknown) => error);
      if (outcome instanceof Error)
        expect(outcome).toMatchObject({ reason: 'validation_failed', violations: [{ field: '' }] });
      else expect(outcome).toMatchObject({ contentType: expect.stringMatching(/^image\//) as string });
    }
    expect((await reader.process(await getFile(bytes), 'org-1')).width).toBe(24);
  });

  it('queues eight images of one organization, and rejects more until they are processed', async () => {
    const file = await getFile(PNG);
    const leaving = new AbortController();
    const fresh = new ImageProcessor({ log });
    const outcomes = Array.from(
      { length: 11 },
      async (_, index) =>
        await fresh.process(file, 'org-1', index === 8 ? leaving.signal : undefined).catch((error: unknown) => error),
    );
    leaving.abort(new Error('gone'));
    const settled = await Promise.all(outcomes);
    expect(settled.filter((outcome) => outcome instanceof DomainError)).toMatchObject([
      { reason: 'media_queue_full', retryAfterMs: 2000 },
      { reason: 'media_queue_full' },
    ]);
    expect(settled[8]).toEqual(new Error('gone'));
    expect(settled.filter((outcome) => !(outcome instanceof Error)).length).toBe(8);
  });

  it('processes images of the organizations in turn, and queues 32 in total', async () => {
    const file = await getFile(PNG);
    const fresh = new ImageProcessor({ log });
    const ends: string[] = [];
    const owners = ['a', 'a', 'a', 'a', 'b', 'c', 'b'];
    await Promise.all(owners.map(async (owner) => await fresh.process(file, owner).then(() => ends.push(owner))));
    expect(ends.join('')).toBe('aabcaba'); // the first one starts before the others arrive
    await fresh.stop();
    const full = new ImageProcessor({ log });
    const many = Array.from(
      { length: 35 },
      async (_, index) => await full.process(file, `org-${index}`).catch((error: unknown) => error),
    );
    await full.stop();
    expect((await Promise.all(many)).map((outcome) => (outcome as DomainError).reason)).toEqual([
      ...Array.from({ length: 33 }, () => 'shutting_down'),
      'media_queue_full',
      'media_queue_full',
    ]);
  });

  it('rejects an image that waits too long', async () => {
    const file = await getFile(PNG);
    const processor = new ImageProcessor({ log, queueTimeoutMs: 1 });
    const [first, second] = await Promise.allSettled([
      processor.process(file, 'org-1'),
      processor.process(file, 'org-2'),
    ]);
    expect(first).toMatchObject({ status: 'fulfilled' });
    expect(second).toMatchObject({ status: 'rejected', reason: { reason: 'media_queue_full', retryAfterMs: 2000 } });
  });

  it('rejects an image before decoding it if it needs more memory than available', async () => {
    const small = new ImageProcessor({ log, maxMemory: 384 * 12 });
    const { width } = await small.process(await getFile(PNG), 'org-1'); // exactly the limit
    expect(width).toBe(24);
    const imageCases: readonly (readonly [Buffer, number, string])[] = [
      [AVIF, 48, 'AVIF'],
      [JPEG, 16, 'JPEG'],
      [WEBP, 20, 'WebP'],
    ];
    for (const [bytes, perPixel, name] of imageCases) {
      const words = `the image has 24 x 16 pixels, which need too much memory on this machine: the maximum is ${Math.floor((384 * 12) / perPixel)} in total (${name})`;
      await expect(small.process(await getFile(bytes), 'org-1')).rejects.toMatchObject({
        violations: [{ description: words }],
      });
    }
  });

  it('cancels an image that takes too long, and continues', async () => {
    const processor = new ImageProcessor({ log, decodeTimeoutMs: 1 });
    const file = await getFile(PNG);
    for (let round = 0; round < 2; round += 1)
      await expect(processor.process(file, 'org-1')).rejects.toMatchObject({
        violations: [{ description: expect.stringContaining('takes too long') as string }],
      });
    await processor.stop();
  });

  it('does not reject an image for an error of the server, and continues', async () => {
    await expect(reader.process(join(folder.path, 'nothing'), 'org-1')).rejects.toMatchObject({
      kind: 'unavailable',
      reason: 'media_unavailable',
      retryAfterMs: 2000,
    });
    expect(log.of('media.worker_crashed')).toMatchObject([{ err: { code: 'ENOENT' } }]);
    expect((await reader.process(await getFile(PNG), 'org-1')).width).toBe(24);
  });

  it('rejects running and waiting images when it is stopped', async () => {
    const stopped = new ImageProcessor({ log });
    const file = await getFile(PNG);
    const outcomes = [stopped.process(file, 'org-1'), stopped.process(file, 'org-2')].map(
      async (outcome) => await expect(outcome).rejects.toMatchObject({ reason: 'shutting_down' }),
    );
    await stopped.stop();
    await Promise.all(outcomes);
    await expect(stopped.process(file, 'org-1')).rejects.toMatchObject({ reason: 'shutting_down' });
  });
});

const grey = (...shades: number[]): Uint8Array => new Uint8Array(shades.flatMap((shade) => [shade, shade, shade, 255]));
const listShades = (data: Uint8Array | Uint8ClampedArray): number[] => [...data].filter((_, index) => index % 4 === 0);

describe('the thumbnail', () => {
  it.each<[Orientation, number[]]>([
    [1, [1, 2, 3, 4, 5, 6]],
    [2, [3, 2, 1, 6, 5, 4]],
    [3, [6, 5, 4, 3, 2, 1]],
    [4, [4, 5, 6, 1, 2, 3]],
    [5, [1, 4, 2, 5, 3, 6]],
    [6, [4, 1, 5, 2, 6, 3]],
    [7, [6, 3, 5, 2, 4, 1]],
    [8, [3, 6, 2, 5, 1, 4]],
  ])('is rotated back from orientation %s', (orientation, expected) => {
    const { width, height, data } = applyOrientation(
      { width: 3, height: 2, data: grey(1, 2, 3, 4, 5, 6) },
      orientation,
    );
    expect([width, height]).toEqual(orientation >= 5 ? [2, 3] : [3, 2]);
    expect(listShades(data)).toEqual(expected);
  });

  it('contains the mean of the pixels that each of its pixels covers', () => {
    expect(resize({ width: 3, height: 1, data: grey(0, 60, 90) }, 2)).toEqual({
      width: 2,
      height: 1,
      data: grey(20, 80),
    });
    expect(
      resize({ width: 4, height: 4, data: grey(...Array.from({ length: 16 }, (_, index) => index * 10)) }, 2).data,
    ).toEqual(grey(25, 45, 105, 125));
  });

  it('weights transparent pixels by their opacity', () => {
    const data = new Uint8Array([200, 0, 0, 255, 0, 0, 0, 0]);
    expect(resize({ width: 2, height: 1, data }, 1).data).toEqual(new Uint8Array([200, 0, 0, 128]));
  });
});

/** Creates a generator of integers below a bound. It returns the same numbers each time. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
