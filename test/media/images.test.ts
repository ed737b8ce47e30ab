import { status } from '@grpc/grpc-js';
import { createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { MediaVariant } from '../../src/gen/media/v1/media_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { engines } from '../support/engines';
import { startMediaFixture, type MediaFixture } from './mediaFixture';
import {
  AVIF,
  createPaddedJpeg,
  gif,
  JPEG,
  createMultiPassJpeg,
  createAnimatedWebp,
  createBrandedAvif,
  png,
  getPng,
  createTransformedAvif,
  createRotatedJpeg,
  WEBP,
} from './sampleImages';

const HALF = gif(8, 8, [{ x: 0, y: 0, width: 8, height: 8, colour: 3 }]);
const PNG = png(40, 20, (x) => [x, 0, 0, 128]);

// The properties of an image do not depend on the engine.
describe.each(engines().slice(0, 1))('images on $name', (engine) => {
  let fixture: MediaFixture;
  beforeAll(async () => {
    fixture = await startMediaFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  const thumbnail = async (id: string): Promise<Buffer> =>
    Buffer.concat(
      (await fixture.download(id, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL })).map(({ chunk }) => chunk),
    );

  it.each([
    ['JPEG', JPEG, 'image/jpeg', 24, 16],
    ['PNG', PNG, 'image/png', 40, 20],
    ['WebP', WEBP, 'image/webp', 24, 16],
    ['animated WebP', createAnimatedWebp(60, 40, 10, 20), 'image/webp', 60, 40],
    ['GIF', HALF, 'image/gif', 8, 8],
    [
      'animated GIF',
      gif(30, 10, [
        { x: 2, y: 1, width: 5, height: 5, colour: 3 },
        { x: 0, y: 0, width: 9, height: 9, colour: 4 },
      ]),
      'image/gif',
      30,
      10,
    ],
    ['AVIF', AVIF, 'image/avif', 24, 16],
    ['AVIF with the name of its container first', createBrandedAvif('mif1'), 'image/avif', 24, 16],
    ['animated AVIF with a still image', createBrandedAvif('avis'), 'image/avif', 24, 16],
    ['JPEG with filling bytes between its segments', createPaddedJpeg(), 'image/jpeg', 24, 16],
  ])(
    'of the type %s are detected by their bytes, kept unchanged, and have a thumbnail',
    async (_name, bytes, contentType, width, height) => {
      const media = await fixture.upload(bytes, { filename: 'C:\\plant\\../hall\u0007.exe', chunkBytes: 7 });
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      expect(media).toMatchObject({
        organizationId: 'org-1',
        filename: 'hall.exe',
        contentType,
        width,
        height,
        sizeBytes: bytes.length,
        sha256,
        deviceCount: 0,
      });
      expect(fromTimestamp(media.expiresAt!) - fromTimestamp(media.createdAt!)).toBe(24 * 3_600_000);
      expect(await fixture.get(media.id)).toEqual(media);
      const answers = await fixture.download(media.id);
      expect(answers[0]?.media).toEqual(media);
      expect(Buffer.concat(answers.map(({ chunk }) => chunk))).toEqual(bytes);
      // never enlarged
      expect(await fixture.upload(await thumbnail(media.id))).toMatchObject({
        contentType: 'image/webp',
        width,
        height,
      });
    },
  );

  it('have a thumbnail of at most 320 pixels per side, in the same proportions', async () => {
    const media = await fixture.upload(png(1000, 10, () => [9, 9, 9, 255]));
    expect(await fixture.upload(await thumbnail(media.id))).toMatchObject({ width: 320, height: 3 });
  });

  it.each([3, 6])('show a photo of orientation %s upright, and contain none of its metadata', async (orientation) => {
    const swaps = orientation >= 5;
    const media = await fixture.upload(createRotatedJpeg(orientation));
    expect(media).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
    const small = await thumbnail(media.id);
    expect(await fixture.upload(small)).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
    expect(small.includes('Exif')).toBe(false);
  });

  it.each([
    ['rotated by 90 degrees', createTransformedAvif(['irot', 1]), true],
    ['rotated by 180 degrees', createTransformedAvif(['irot', 2]), false],
    ['rotated and mirrored', createTransformedAvif(['irot', 3], ['imir', 1]), true],
  ])('of the type AVIF are shown %s as their properties require', async (_name, bytes, swaps) => {
    const media = await fixture.upload(bytes);
    expect(media).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
    expect(await fixture.upload(await thumbnail(media.id))).toMatchObject(
      swaps ? { width: 16, height: 24 } : { width: 24, height: 16 },
    );
  });

  it.each([
    ['nothing', Buffer.alloc(0), /empty: upload a JPEG, PNG, WebP, GIF or AVIF/],
    ['a script', Buffer.from('<script>alert(1)</script>'), /not a supported image/],
    ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'), /not a supported image/],
    ['PDF', Buffer.from('%PDF-1.7\n'), /not a supported image/],
    [
      'BMP',
      Buffer.from(
        `424d460000000000000036000000280000000200000002000000010018000000000010000000${'00'.repeat(40)}`,
        'hex',
      ),
      /not a supported image/,
    ],
    ['TIFF', Buffer.from(`49492a0008000000${'00'.repeat(64)}`, 'hex'), /not a supported image/],
    [
      'HEIC',
      Buffer.concat([Buffer.from('000000206674797068656963', 'hex'), AVIF.subarray(12)]),
      /not a supported image/,
    ],
    [
      'the beginning of a PNG and a script',
      Buffer.concat([PNG.subarray(0, 33), Buffer.from('<script>alert(1)</script>')]),
      /starts like PNG, but cannot be decoded/,
    ],
    ['a truncated PNG', PNG.subarray(0, PNG.length / 2), /starts like PNG/],
    ['a truncated JPEG', JPEG.subarray(0, JPEG.length - 30), /its end is missing/],
    ['a JPEG without its end marker', JPEG.subarray(0, -2), /its end is missing/],
    ['a truncated WebP', WEBP.subarray(0, WEBP.length - 30), /starts like WebP/],
    ['a truncated GIF', HALF.subarray(0, HALF.length - 4), /starts like GIF/],
    ['a truncated AVIF', AVIF.subarray(0, AVIF.length - 30), /starts like AVIF/],
    [
      'a PNG of ten thousand million pixels',
      getPng(100_000, 100_000, deflateSync(Buffer.alloc(1000))),
      /100000 x 100000 pixels: the maximum is 16384/,
    ],
    ['a PNG with too many pixels in total', getPng(8000, 8000, deflateSync(Buffer.alloc(1000))), /8000 x 8000 pixels/],
    ['a PNG without a size', getPng(0, 1, deflateSync(Buffer.alloc(1))), /0 x 1 pixels/],
    ['a PNG with less data than it declares', getPng(5000, 5000, deflateSync(Buffer.alloc(1000))), /starts like PNG/],
    [
      'a GIF with a frame larger than itself',
      gif(10, 10, [{ x: 0, y: 0, width: 20, height: 20, colour: 1 }]),
      /starts like GIF/,
    ],
    [
      'a WebP with a canvas of 16 million on a side',
      createAnimatedWebp(16_777_216, 16_777_216, 0, 0),
      /16777216 x 16777216/,
    ],
    ['an AVIF that declares a large size', large(AVIF, 65_535, 65_535), /65535 x 65535/],
    [
      'an AVIF that is larger than its decoder accepts',
      large(AVIF, 4001, 4000),
      /4001 x 4000 pixels: the maximum is 16384 on each side, and 16000000 in total \(AVIF\)/,
    ],
    [
      'an AVIF without a still image',
      createBrandedAvif('avis', 'free'),
      /starts like AVIF, but does not declare its size/,
    ],
    ['a JPEG with very many passes', createMultiPassJpeg(201), /is a JPEG with 201 scans/],
  ])('reject %s', async (_name, bytes, words) => {
    const before = fixture.files();
    const { code, reason, violations } = await fixture.uploadFails(bytes, { filename: 'picture.png' });
    expect({ code, reason }).toEqual({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(violations['']).toMatch(words);
    expect(fixture.files()).toEqual(before);
  });
});

/** Changes the size in the header. */
function large(avif: Buffer, width: number, height: number): Buffer {
  const copy = Buffer.from(avif);
  const at = copy.indexOf('ispe') + 8;
  copy.writeUInt32BE(width, at);
  copy.writeUInt32BE(height, at + 4);
  return copy;
}
