import { status } from '@grpc/grpc-js';
import { mkdir, readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MediaVariant } from '../../src/gen/media/v1/media_service';
import { engines } from '../support/engines';
import { listParts, startMediaFixture, type MediaFixture } from './mediaFixture';
import { createOnePixelPng } from './sampleImages';

const HOUR_MS = 3_600_000;

describe.each(engines())('the lifetime of images on $name', (engine) => {
  let fixture: MediaFixture;
  let number = 0;
  beforeAll(async () => {
    fixture = await startMediaFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  /** Creates unique content. */
  const another = (): Buffer => createOnePixelPng((number += 1));

  const getBytes = async (id: string): Promise<Buffer> =>
    Buffer.concat((await fixture.download(id)).map(({ chunk }) => chunk));

  it('ends with the files when one is deleted, but not with those of the same content', async () => {
    const bytes = another();
    const [one, two] = [await fixture.upload(bytes), await fixture.upload(bytes)];
    expect(one.id).not.toBe(two.id);
    await fixture.delete(one.id);
    expect(await fixture.deleteFails(one.id)).toMatchObject({ code: status.NOT_FOUND, reason: 'media_not_found' });
    expect(await getBytes(two.id)).toEqual(bytes);
    await fixture.delete(two.id);
    expect(fixture.files().filter((name) => name.startsWith(two.sha256))).toEqual([]);
  });

  it('does not end while devices show the image', async () => {
    const { id } = await fixture.upload(another());
    const [device, other] = [await fixture.createDevice(), await fixture.createDevice()];
    await fixture.assignImages(device, [id]);
    await fixture.assignImages(other, [id]);
    expect(await fixture.get(id)).toMatchObject({ deviceCount: 2, expiresAt: undefined });
    expect(await fixture.deleteFails(id)).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'media_in_use',
      metadata: { media_id: id, uses: '2' },
    });
    await fixture.assignImages(device, []);
    expect(await fixture.get(id)).toMatchObject({ deviceCount: 1, expiresAt: undefined });
    await fixture.assignImages(other, []);
    expect((await fixture.get(id)).expiresAt).toBeDefined();
    await fixture.delete(id);
  });

  it('ends 24 hours after the last device stops showing the image', async () => {
    const [shown, unshown, late] = [
      await fixture.upload(another()),
      await fixture.upload(another()),
      await fixture.upload(another()),
    ];
    const device = await fixture.createDevice();
    await fixture.assignImages(device, [shown.id, late.id]);
    fixture.clock.advance(24 * HOUR_MS - 1);
    await fixture.service.collectGarbage(fixture.clock.now());
    expect((await fixture.get(unshown.id)).id).toBe(unshown.id);
    await fixture.assignImages(device, [shown.id]);
    fixture.clock.advance(1);
    await fixture.service.collectGarbage(fixture.clock.now());
    expect(await fixture.getFails(unshown.id)).toMatchObject({ reason: 'media_not_found' });
    fixture.clock.advance(24 * HOUR_MS - 2);
    await fixture.service.collectGarbage(fixture.clock.now());
    expect((await fixture.get(late.id)).id).toBe(late.id);
    fixture.clock.advance(1);
    await fixture.service.collectGarbage(fixture.clock.now());
    expect(await fixture.getFails(late.id)).toMatchObject({ reason: 'media_not_found' });
    const left = fixture.files();
    expect(left.some((name) => name.startsWith(unshown.sha256) || name.startsWith(late.sha256))).toBe(false);
    expect(left.filter((name) => name.startsWith(shown.sha256)).length).toBe(2);
    await fixture.assignImages(device, []);
  });

  it('ends for more images than one batch of the sweep', async () => {
    const { db } = fixture.test.database;
    const now = fixture.clock.now();
    const row = {
      organization_id: 'org-2',
      sha256: 'f'.repeat(64),
      filename: '',
      content_type: 'image/png',
      size_bytes: 1,
      thumbnail_bytes: 1,
      width: 1,
      height: 1,
      created_at: now,
      unused_since: now,
    };
    await db.knex('media').insert(Array.from({ length: 101 }, (_, index) => ({ ...row, id: `many-${index}` })));
    await fixture.service.collectGarbage(now + 24 * HOUR_MS);
    expect(await db.knex('media').where('organization_id', 'org-2')).toEqual([]);
  });

  it('leaves no row without its file when the same content is uploaded and deleted at once', async () => {
    const bytes = another();
    const uploads = await Promise.all(Array.from({ length: 4 }, async () => await fixture.upload(bytes)));
    const work = [
      ...uploads.slice(1).map(async ({ id }) => void (await fixture.delete(id))),
      ...Array.from({ length: 4 }, async () => void uploads.push(await fixture.upload(bytes))),
    ];
    await Promise.all(work);
    const kept = [...uploads.slice(0, 1), ...uploads.slice(4)];
    for (const { id } of kept) expect(await getBytes(id)).toEqual(bytes);
    for (const { id } of kept) await fixture.delete(id);
    expect(fixture.files().filter((name) => name.startsWith(kept[0]!.sha256))).toEqual([]);
  });

  it('continues when an image was uploaded while the sweep removed an older one of the same content', async () => {
    const bytes = another();
    const old = await fixture.upload(bytes);
    fixture.clock.advance(25 * HOUR_MS);
    const [again] = await Promise.all([fixture.upload(bytes), fixture.service.collectGarbage(fixture.clock.now())]);
    await fixture.service.collectGarbage(fixture.clock.now());
    expect(await fixture.getFails(old.id)).toMatchObject({ reason: 'media_not_found' });
    expect(await getBytes(again.id)).toEqual(bytes);
  });

  it('either ends or an image is assigned to a device, never both', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const { id } = await fixture.upload(another());
        const device = await fixture.createDevice();
        const [shown, deleted] = await Promise.allSettled([fixture.assignImages(device, [id]), fixture.delete(id)]);
        const there = await fixture.test.database.db.knex('device_images').where('media_id', id);
        return [shown.status, deleted.status, there.length === 1];
      }),
    );
    for (const outcome of outcomes)
      expect([
        ['fulfilled', 'rejected', true],
        ['rejected', 'fulfilled', false],
      ]).toContainEqual(outcome);
  });

  it('leaves only files that the sweep removes, wherever an upload is interrupted', async () => {
    const bytes = another();
    const { knex } = fixture.test.database.db;
    await knex('organizations').insert({
      id: 'org-3',
      name: 'org-3',
      name_folded: 'org-3',
      created_at: 0,
      updated_at: 0,
    });
    const kept = await fixture.service.upload('org-3', listParts(bytes));
    await fixture.assignImages(await fixture.createDevice(), []);
    await knex('organizations').where({ id: 'org-3' }).delete();
    await expect(fixture.service.upload('org-3', listParts(another()))).rejects.toMatchObject({
      reason: 'organization_not_found',
    }); // after the files are in place: they are removed at once
    const folder = join(fixture.test.dataDir, 'media');
    await mkdir(join(folder, 'incoming'), { recursive: true });
    await writeFile(join(folder, 'incoming', 'half'), 'half');
    await writeFile(join(folder, 'org-1', 'notes.txt'), 'not ours');
    expect(await readdir(join(folder, 'org-3'))).toContain(kept.sha256.slice(0, 2));

    const again = fixture.restart();
    await again.start();
    await again.collectGarbage(Date.now());
    expect((await readdir(join(folder, 'org-3'), { recursive: true })).filter((name) => name.length > 60).length).toBe(
      2,
    ); // not a day old
    await again.collectGarbage(Date.now() + 24 * HOUR_MS + 1000);
    expect(await readdir(folder)).not.toContain('org-3');
    expect(fixture.files()).not.toContain('half');
    expect(fixture.files()).toContain('notes.txt');
    await again.stop();
  });

  it('ends when the file was lost, with a line in the log', async () => {
    const { id } = await fixture.upload(another());
    await fixture.test.database.db
      .knex('media')
      .where({ id })
      .update({ sha256: 'e'.repeat(64) });
    await expect(fixture.download(id)).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect(fixture.log.of('media.file_missing')).toEqual([
      { media_id: id, sha256: 'e'.repeat(64), variant: 'original', size_bytes: expect.any(Number) },
    ]);
  });

  it('ends when the file was corrupted, and a repeated upload repairs it', async () => {
    const bytes = another();
    const { id, sha256, sizeBytes } = await fixture.upload(bytes);
    const file = join(fixture.test.dataDir, 'media', 'org-1', sha256.slice(0, 2), sha256);
    const small = await fixture.download(id, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL });
    for (const [name, variant, fullSize] of [
      [file, 'original', sizeBytes],
      [`${file}.small`, 'thumbnail', small[0]!.chunk.length],
    ] as const) {
      await truncate(name, 20);
      const mediaVariant =
        variant === 'original' ? MediaVariant.MEDIA_VARIANT_ORIGINAL : MediaVariant.MEDIA_VARIANT_THUMBNAIL;
      await expect(fixture.download(id, { variant: mediaVariant })).rejects.toMatchObject({ code: status.NOT_FOUND });
      expect(fixture.log.of('media.file_corrupt').at(-1)).toEqual({
        media_id: id,
        sha256,
        variant,
        size_bytes: fullSize,
        found_bytes: 20,
      });
      await fixture.upload(bytes);
      expect(await getBytes(id)).toEqual(bytes);
      expect((await fixture.download(id, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL }))[0]!.chunk).toEqual(
        small[0]!.chunk,
      );
    }
  });

  it('keeps the thumbnail where the same content is uploaded again, even if another one was created from it', async () => {
    const bytes = another();
    const { id, sha256 } = await fixture.upload(bytes);
    const small = join(fixture.test.dataDir, 'media', 'org-1', sha256.slice(0, 2), `${sha256}.small`);
    await writeFile(small, 'of an older encoder'); // as if another version had stored it
    await fixture.test.database.db.knex('media').where({ id }).update({ thumbnail_bytes: 19 });
    const again = await fixture.upload(bytes);
    for (const one of [id, again.id])
      expect(String((await fixture.download(one, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL }))[0]!.chunk)).toBe(
        'of an older encoder',
      );
  });

  it('removes empty folders as well', async () => {
    const { id, sha256 } = await fixture.upload(another(), { as: 'org-2' });
    const folder = join(fixture.test.dataDir, 'media', 'org-2');
    expect(await readdir(folder)).toContain(sha256.slice(0, 2));
    await fixture.delete(id, 'org-2');
    expect(await readdir(join(fixture.test.dataDir, 'media'))).not.toContain('org-2');
    await Promise.all(
      Array.from(
        { length: 8 },
        async () => await fixture.delete((await fixture.upload(another(), { as: 'org-2' })).id, 'org-2'),
      ),
    ); // folders are created and removed
    expect(await readdir(join(fixture.test.dataDir, 'media'))).not.toContain('org-2');
  });

  it('ends with the organization, also for images that devices show', async () => {
    const { id } = await fixture.upload(another());
    await fixture.assignImages(await fixture.createDevice(), [id]);
    await fixture.test.database.db.knex('organizations').where({ id: 'org-1' }).delete();
    expect(await fixture.test.database.db.knex('media').where({ id })).toEqual([]);
    await fixture.service.collectGarbage(Date.now() + 25 * HOUR_MS);
    expect(fixture.files()).toEqual(['notes.txt']);
  });
});
