import { status } from '@grpc/grpc-js';
import { createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { MediaVariant } from '../../src/gen/media/v1/media_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { engines } from '../support/engines';
import { startMediaRoom, type MediaRoom } from './mediaRoom';
import { AVIF, filledJpeg, gif, JPEG, manyPasses, movingWebp, namedAvif, png, pngOf, turnedAvif, turnedJpeg, WEBP } from './pictures';

const HALF = gif(8, 8, [{ x: 0, y: 0, width: 8, height: 8, colour: 3 }]);
const PNG = png(40, 20, (x) => [x, 0, 0, 128]);

// What a picture is does not depend on the engine.
describe.each(engines().slice(0, 1))('pictures on $name', (engine) => {
  let room: MediaRoom;
  beforeAll(async () => {
    room = await startMediaRoom(engine);
  });
  afterAll(async () => await room.stop());

  const thumbnail = async (id: string): Promise<Buffer> => Buffer.concat((await room.download(id, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL })).map(({ chunk }) => chunk));

  it.each([
    ['JPEG', JPEG, 'image/jpeg', 24, 16],
    ['PNG', PNG, 'image/png', 40, 20],
    ['WebP', WEBP, 'image/webp', 24, 16],
    ['WebP that moves', movingWebp(60, 40, 10, 20), 'image/webp', 60, 40],
    ['GIF', HALF, 'image/gif', 8, 8],
    ['GIF that moves', gif(30, 10, [{ x: 2, y: 1, width: 5, height: 5, colour: 3 }, { x: 0, y: 0, width: 9, height: 9, colour: 4 }]), 'image/gif', 30, 10],
    ['AVIF', AVIF, 'image/avif', 24, 16],
    ['AVIF with the name of its container first', namedAvif('mif1'), 'image/avif', 24, 16],
    ['AVIF that moves, beside its picture', namedAvif('avis'), 'image/avif', 24, 16],
    ['JPEG with more between its parts than need be', filledJpeg(), 'image/jpeg', 24, 16],
  ])('a %s is known by its bytes, kept as it is, and shown small', async (_name, bytes, contentType, width, height) => {
    const media = await room.upload(bytes, { filename: 'C:\\plant\\../hall\u0007.exe', chunkBytes: 7 });
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    expect(media).toMatchObject({ organizationId: 'org-1', filename: 'hall.exe', contentType, width, height, sizeBytes: bytes.length, sha256, deviceCount: 0 });
    expect(fromTimestamp(media.expiresAt!) - fromTimestamp(media.createdAt!)).toBe(24 * 3_600_000);
    expect(await room.get(media.id)).toEqual(media);
    const answers = await room.download(media.id);
    expect(answers[0]?.media).toEqual(media);
    expect(Buffer.concat(answers.map(({ chunk }) => chunk))).toEqual(bytes);
    expect(await room.upload(await thumbnail(media.id))).toMatchObject({ contentType: 'image/webp', width, height }); // never enlarged
  });

  it('makes the small picture at most 320 pixels long, in the same shape', async () => {
    const media = await room.upload(png(1000, 10, () => [9, 9, 9, 255]));
    expect(await room.upload(await thumbnail(media.id))).toMatchObject({ width: 320, height: 3 });
  });

  it.each([3, 6])('shows a photo of orientation %s as it was taken, and keeps none of its notes', async (orientation) => {
    const swaps = orientation >= 5;
    const media = await room.upload(turnedJpeg(orientation));
    expect(media).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
    const small = await thumbnail(media.id);
    expect(await room.upload(small)).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
    expect(small.includes('Exif')).toBe(false);
  });

  it.each([
    ['turned by a quarter', turnedAvif(['irot', 1]), true],
    ['turned by a half', turnedAvif(['irot', 2]), false],
    ['turned and mirrored', turnedAvif(['irot', 3], ['imir', 1]), true],
  ])('shows an AVIF that is %s as it asks to be shown', async (_name, bytes, swaps) => {
    const media = await room.upload(bytes);
    expect(media).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
    expect(await room.upload(await thumbnail(media.id))).toMatchObject(swaps ? { width: 16, height: 24 } : { width: 24, height: 16 });
  });

  it.each([
    ['nothing', Buffer.alloc(0), /empty; give a JPEG, PNG, WebP, GIF or AVIF/],
    ['a script', Buffer.from('<script>alert(1)</script>'), /none of the pictures that are taken/],
    ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'), /none of the pictures/],
    ['PDF', Buffer.from('%PDF-1.7\n'), /none of the pictures/],
    ['BMP', Buffer.from(`424d460000000000000036000000280000000200000002000000010018000000000010000000${'00'.repeat(40)}`, 'hex'), /none of the pictures/],
    ['TIFF', Buffer.from(`49492a0008000000${'00'.repeat(64)}`, 'hex'), /none of the pictures/],
    ['HEIC', Buffer.concat([Buffer.from('000000206674797068656963', 'hex'), AVIF.subarray(12)]), /none of the pictures/],
    ['the beginning of a PNG and a script', Buffer.concat([PNG.subarray(0, 33), Buffer.from('<script>alert(1)</script>')]), /begins as PNG, but cannot be decoded/],
    ['a PNG that is cut off', PNG.subarray(0, PNG.length / 2), /begins as PNG/],
    ['a JPEG that is cut off', JPEG.subarray(0, JPEG.length - 30), /its end is missing/],
    ['a JPEG without its end', JPEG.subarray(0, -2), /its end is missing/],
    ['a WebP that is cut off', WEBP.subarray(0, WEBP.length - 30), /begins as WebP/],
    ['a GIF that is cut off', HALF.subarray(0, HALF.length - 4), /begins as GIF/],
    ['an AVIF that is cut off', AVIF.subarray(0, AVIF.length - 30), /begins as AVIF/],
    ['a PNG of ten thousand million pixels', pngOf(100_000, 100_000, deflateSync(Buffer.alloc(1000))), /100000 x 100000 pixels; give 1 to 16384/],
    ['a PNG of too many in all', pngOf(8000, 8000, deflateSync(Buffer.alloc(1000))), /8000 x 8000 pixels/],
    ['a PNG of no size', pngOf(0, 1, deflateSync(Buffer.alloc(1))), /0 x 1 pixels/],
    ['a PNG with less in it than it says', pngOf(5000, 5000, deflateSync(Buffer.alloc(1000))), /begins as PNG/],
    ['a GIF with a frame larger than itself', gif(10, 10, [{ x: 0, y: 0, width: 20, height: 20, colour: 1 }]), /begins as GIF/],
    ['a WebP with a canvas of 16 million on a side', movingWebp(16_777_216, 16_777_216, 0, 0), /16777216 x 16777216/],
    ['an AVIF that says it is large', large(AVIF, 65_535, 65_535), /65535 x 65535/],
    ['an AVIF of more than its decoder takes', large(AVIF, 4001, 4000), /4001 x 4000 pixels; give 1 to 16384 on each side, and at most 16000000 in all \(AVIF\)/],
    ['an AVIF without a picture that stands still', namedAvif('avis', 'free'), /begins as AVIF, but does not say how large it is/],
    ['a JPEG in very many passes', manyPasses(201), /is a JPEG in 201 passes/],
  ])('refuses %s', async (_name, bytes, words) => {
    const before = room.files();
    const { code, reason, violations } = await room.uploadFails(bytes, { filename: 'picture.png' });
    expect({ code, reason }).toEqual({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(violations['']).toMatch(words);
    expect(room.files()).toEqual(before);
  });
});

/** Its header says another size. */
function large(avif: Buffer, width: number, height: number): Buffer {
  const copy = Buffer.from(avif);
  const at = copy.indexOf('ispe') + 8;
  copy.writeUInt32BE(width, at);
  copy.writeUInt32BE(height, at + 4);
  return copy;
}
