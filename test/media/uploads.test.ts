import { status } from '@grpc/grpc-js';
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { engines } from '../support/engines';
import { startMediaFixture, type MediaFixture } from './mediaFixture';
import { createOnePixelPng, png } from './sampleImages';

const PNG = png(40, 20, (x) => [x, 0, 0, 128]);

describe.each(engines())('the upload of an image on $name', (engine) => {
  let fixture: MediaFixture;
  beforeAll(async () => {
    fixture = await startMediaFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  it('rejects more than 10 MiB at the first excess byte, and accepts exactly that size', async () => {
    const { reason, violations } = await fixture.uploadFails(fill(10_485_761), { chunkBytes: 1_000_000 });
    expect({ reason, violations }).toEqual({
      reason: 'validation_failed',
      violations: { '': 'the image has more than 10485760 bytes: upload a smaller image' },
    });
    expect(await fixture.upload(fill(10_485_760))).toMatchObject({ sizeBytes: 10_485_760 });
  });

  it('keeps files private, under no name that a caller chose', async () => {
    await fixture.upload(createOnePixelPng(1), { filename: '../../../escaped.png' });
    const sha256 = createHash('sha256').update(createOnePixelPng(1)).digest('hex');
    const folder = join(fixture.test.dataDir, 'media', 'org-1', sha256.slice(0, 2));
    if (process.platform === 'win32') return;
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const file of [sha256, `${sha256}.small`]) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
  });

  it('truncates long names, and keeps letters of any script', async () => {
    expect((await fixture.upload(createOnePixelPng(2), { filename: 'ü'.repeat(300) })).filename).toBe('ü'.repeat(255));
    expect((await fixture.upload(createOnePixelPng(2), { filename: 'evil\u202Egnp.exe' })).filename).toBe(
      'evilgnp.exe',
    );
    expect((await fixture.upload(createOnePixelPng(2), { filename: 'folder/' })).filename).toBe('');
  });

  it('belongs to its organization', async () => {
    const { id } = await fixture.upload(createOnePixelPng(3), { as: 'org-2' });
    expect(await fixture.getFails(id)).toMatchObject({
      code: status.NOT_FOUND,
      reason: 'media_not_found',
      metadata: { media_id: id },
    });
    expect(await fixture.deleteFails(id)).toMatchObject({ reason: 'media_not_found' });
    await expect(fixture.download(id)).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect((await fixture.get(id, 'org-2')).organizationId).toBe('org-2');
  });

  it('is downloaded from an offset, in chunks', async () => {
    const bytes = Buffer.concat([PNG, Buffer.alloc(200_000, 1)]);
    const { id } = await fixture.upload(bytes);
    const answers = await fixture.download(id, { offset: 1000 });
    expect(answers.length).toBe(4);
    // jest compares byte by byte, slowly
    expect(Buffer.concat(answers.map(({ chunk }) => chunk)).equals(bytes.subarray(1000))).toBe(true);
    expect(await fixture.download(id, { offset: bytes.length })).toMatchObject([
      { media: { id }, chunk: Buffer.alloc(0) },
    ]);
    await expect(fixture.download(id, { offset: bytes.length + 1 })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });
});

/** Creates an image with bytes after its end that fill it up to this size. */
function fill(size: number): Buffer {
  return Buffer.concat([PNG, Buffer.alloc(size - PNG.length)]);
}
