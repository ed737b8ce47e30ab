import { status } from '@grpc/grpc-js';
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { engines } from '../support/engines';
import { startMediaRoom, type MediaRoom } from './mediaRoom';
import { onePixel, png } from './pictures';

const PNG = png(40, 20, (x) => [x, 0, 0, 128]);

describe.each(engines())('uploads on $name', (engine) => {
  let room: MediaRoom;
  beforeAll(async () => {
    room = await startMediaRoom(engine);
  });
  afterAll(async () => await room.stop());

  it('refuses more than 10 MiB at the first byte too many, and takes just as much', async () => {
    const { reason, violations } = await room.uploadFails(fill(10_485_761), { chunkBytes: 1_000_000 });
    expect({ reason, violations }).toEqual({ reason: 'validation_failed', violations: { '': 'the picture has more than 10485760 bytes; give a smaller one' } });
    expect(await room.upload(fill(10_485_760))).toMatchObject({ sizeBytes: 10_485_760 });
  });

  it('keeps files to itself, under no name that a caller gave', async () => {
    await room.upload(onePixel(1), { filename: '../../../escaped.png' });
    const sha256 = createHash('sha256').update(onePixel(1)).digest('hex');
    const folder = join(room.test.dataDir, 'media', 'org-1', sha256.slice(0, 2));
    if (process.platform === 'win32') return;
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const file of [sha256, `${sha256}.small`]) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
  });

  it('cuts long names, and keeps what belongs to a script of the world', async () => {
    expect((await room.upload(onePixel(2), { filename: 'ü'.repeat(300) })).filename).toBe('ü'.repeat(255));
    expect((await room.upload(onePixel(2), { filename: 'evil\u202Egnp.exe' })).filename).toBe('evilgnp.exe');
    expect((await room.upload(onePixel(2), { filename: 'folder/' })).filename).toBe('');
  });

  it('belongs to its organization', async () => {
    const { id } = await room.upload(onePixel(3), { as: 'org-2' });
    expect(await room.getFails(id)).toMatchObject({ code: status.NOT_FOUND, reason: 'media_not_found', metadata: { media_id: id } });
    expect(await room.deleteFails(id)).toMatchObject({ reason: 'media_not_found' });
    await expect(room.download(id)).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect((await room.get(id, 'org-2')).organizationId).toBe('org-2');
  });

  it('is downloaded from an offset on, in pieces', async () => {
    const bytes = Buffer.concat([PNG, Buffer.alloc(200_000, 1)]);
    const { id } = await room.upload(bytes);
    const answers = await room.download(id, { offset: 1000 });
    expect(answers.length).toBe(4);
    expect(Buffer.concat(answers.map(({ chunk }) => chunk)).equals(bytes.subarray(1000))).toBe(true); // jest compares byte by byte, slowly
    expect(await room.download(id, { offset: bytes.length })).toMatchObject([{ media: { id }, chunk: Buffer.alloc(0) }]);
    await expect(room.download(id, { offset: bytes.length + 1 })).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });
});

/** A picture with so many bytes behind its end that it has this size. */
function fill(size: number): Buffer {
  return Buffer.concat([PNG, Buffer.alloc(size - PNG.length)]);
}
