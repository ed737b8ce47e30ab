import { status } from '@grpc/grpc-js';
import { mkdir, readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MediaVariant } from '../../src/gen/media/v1/media_service';
import { engines } from '../support/engines';
import { partsOf, startMediaRoom, type MediaRoom } from './mediaRoom';
import { onePixel } from './pictures';

const HOUR_MS = 3_600_000;

describe.each(engines())('the lifetime of pictures on $name', (engine) => {
  let room: MediaRoom;
  let number = 0;
  beforeAll(async () => {
    room = await startMediaRoom(engine);
  });
  afterAll(async () => await room.stop());

  /** A content of its own. */
  const another = (): Buffer => onePixel((number += 1));

  const bytesOf = async (id: string): Promise<Buffer> => Buffer.concat((await room.download(id)).map(({ chunk }) => chunk));

  it('is deleted with its files, but not those of the same content', async () => {
    const bytes = another();
    const [one, two] = [await room.upload(bytes), await room.upload(bytes)];
    expect(one.id).not.toBe(two.id);
    await room.delete(one.id);
    expect(await room.deleteFails(one.id)).toMatchObject({ code: status.NOT_FOUND, reason: 'media_not_found' });
    expect(await bytesOf(two.id)).toEqual(bytes);
    await room.delete(two.id);
    expect(room.files().filter((name) => name.startsWith(two.sha256))).toEqual([]);
  });

  it('is not deleted while devices show it', async () => {
    const { id } = await room.upload(another());
    const [device, other] = [await room.device(), await room.device()];
    await room.show(device, [id]);
    await room.show(other, [id]);
    expect(await room.get(id)).toMatchObject({ deviceCount: 2, expiresAt: undefined });
    expect(await room.deleteFails(id)).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'media_in_use', metadata: { media_id: id, uses: '2' } });
    await room.show(device, []);
    expect(await room.get(id)).toMatchObject({ deviceCount: 1, expiresAt: undefined });
    await room.show(other, []);
    expect((await room.get(id)).expiresAt).toBeDefined();
    await room.delete(id);
  });

  it('ends 24 hours after no device shows it any more', async () => {
    const [shown, unshown, late] = [await room.upload(another()), await room.upload(another()), await room.upload(another())];
    const device = await room.device();
    await room.show(device, [shown.id, late.id]);
    room.clock.advance(24 * HOUR_MS - 1);
    await room.service.sweep(room.clock.now());
    expect((await room.get(unshown.id)).id).toBe(unshown.id);
    await room.show(device, [shown.id]);
    room.clock.advance(1);
    await room.service.sweep(room.clock.now());
    expect(await room.getFails(unshown.id)).toMatchObject({ reason: 'media_not_found' });
    room.clock.advance(24 * HOUR_MS - 2);
    await room.service.sweep(room.clock.now());
    expect((await room.get(late.id)).id).toBe(late.id);
    room.clock.advance(1);
    await room.service.sweep(room.clock.now());
    expect(await room.getFails(late.id)).toMatchObject({ reason: 'media_not_found' });
    const left = room.files();
    expect(left.some((name) => name.startsWith(unshown.sha256) || name.startsWith(late.sha256))).toBe(false);
    expect(left.filter((name) => name.startsWith(shown.sha256)).length).toBe(2);
    await room.show(device, []);
  });

  it('sweeps more than it looks at in one go', async () => {
    const { db } = room.test.database;
    const now = room.clock.now();
    const row = { organization_id: 'org-2', sha256: 'f'.repeat(64), filename: '', content_type: 'image/png', size_bytes: 1, thumbnail_bytes: 1, width: 1, height: 1, created_at: now, unused_since: now };
    await db.knex('media').insert(Array.from({ length: 101 }, (_, index) => ({ ...row, id: `many-${index}` })));
    await room.service.sweep(now + 24 * HOUR_MS);
    expect(await db.knex('media').where('organization_id', 'org-2')).toEqual([]);
  });

  it('leaves no row without its file when the same content comes and goes at once', async () => {
    const bytes = another();
    const uploads = await Promise.all(Array.from({ length: 4 }, async () => await room.upload(bytes)));
    const work = [...uploads.slice(1).map(async ({ id }) => void (await room.delete(id))), ...Array.from({ length: 4 }, async () => void uploads.push(await room.upload(bytes)))];
    await Promise.all(work);
    const kept = [...uploads.slice(0, 1), ...uploads.slice(4)];
    for (const { id } of kept) expect(await bytesOf(id)).toEqual(bytes);
    for (const { id } of kept) await room.delete(id);
    expect(room.files().filter((name) => name.startsWith(kept[0]!.sha256))).toEqual([]);
  });

  it('is there when it was uploaded while the sweep removed an older one of the same content', async () => {
    const bytes = another();
    const old = await room.upload(bytes);
    room.clock.advance(25 * HOUR_MS);
    const [again] = await Promise.all([room.upload(bytes), room.service.sweep(room.clock.now())]);
    await room.service.sweep(room.clock.now());
    expect(await room.getFails(old.id)).toMatchObject({ reason: 'media_not_found' });
    expect(await bytesOf(again.id)).toEqual(bytes);
  });

  it('is either deleted or given to a device, never both', async () => {
    const outcomes = await Promise.all(Array.from({ length: 6 }, async () => {
      const { id } = await room.upload(another());
      const device = await room.device();
      const [shown, deleted] = await Promise.allSettled([room.show(device, [id]), room.delete(id)]);
      const there = await room.test.database.db.knex('device_images').where('media_id', id);
      return [shown.status, deleted.status, there.length === 1];
    }));
    for (const outcome of outcomes) expect([['fulfilled', 'rejected', true], ['rejected', 'fulfilled', false]]).toContainEqual(outcome);
  });

  it('leaves at most files that the sweep removes, wherever an upload is cut short', async () => {
    const bytes = another();
    const { knex } = room.test.database.db;
    await knex('organizations').insert({ id: 'org-3', name: 'org-3', name_folded: 'org-3', created_at: 0, updated_at: 0 });
    const kept = await room.service.upload('org-3', partsOf(bytes));
    await room.show(await room.device(), []);
    await knex('organizations').where({ id: 'org-3' }).delete();
    await expect(room.service.upload('org-3', partsOf(another()))).rejects.toMatchObject({ reason: 'organization_not_found' }); // after the files are in place: they are removed at once
    const folder = join(room.test.dataDir, 'media');
    await mkdir(join(folder, 'incoming'), { recursive: true });
    await writeFile(join(folder, 'incoming', 'half'), 'half');
    await writeFile(join(folder, 'org-1', 'notes.txt'), 'not ours');
    expect(await readdir(join(folder, 'org-3'))).toContain(kept.sha256.slice(0, 2));

    const again = room.restarted();
    await again.start();
    await again.sweep(Date.now());
    expect((await readdir(join(folder, 'org-3'), { recursive: true })).filter((name) => name.length > 60).length).toBe(2); // not a day old
    await again.sweep(Date.now() + 24 * HOUR_MS + 1000);
    expect(await readdir(folder)).not.toContain('org-3');
    expect(room.files()).not.toContain('half');
    expect(room.files()).toContain('notes.txt');
    await again.stop();
  });

  it('is not found when its file was lost, and says so in the log', async () => {
    const { id } = await room.upload(another());
    await room.test.database.db.knex('media').where({ id }).update({ sha256: 'e'.repeat(64) });
    await expect(room.download(id)).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect(room.log.of('media.file_missing')).toEqual([{ media_id: id, sha256: 'e'.repeat(64), variant: 'original', size_bytes: expect.any(Number) }]);
  });

  it('is not found when its file was damaged, and is healed by uploading it again', async () => {
    const bytes = another();
    const { id, sha256, sizeBytes } = await room.upload(bytes);
    const file = join(room.test.dataDir, 'media', 'org-1', sha256.slice(0, 2), sha256);
    const small = await room.download(id, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL });
    for (const [name, variant, whole] of [[file, 'original', sizeBytes], [`${file}.small`, 'thumbnail', small[0]!.chunk.length]] as const) {
      await truncate(name, 20);
      const wanted = variant === 'original' ? MediaVariant.MEDIA_VARIANT_ORIGINAL : MediaVariant.MEDIA_VARIANT_THUMBNAIL;
      await expect(room.download(id, { variant: wanted })).rejects.toMatchObject({ code: status.NOT_FOUND });
      expect(room.log.of('media.file_damaged').at(-1)).toEqual({ media_id: id, sha256, variant, size_bytes: whole, found_bytes: 20 });
      await room.upload(bytes);
      expect(await bytesOf(id)).toEqual(bytes);
      expect((await room.download(id, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL }))[0]!.chunk).toEqual(small[0]!.chunk);
    }
  });

  it('keeps its small picture where the same content is uploaded again, and another one was made of it', async () => {
    const bytes = another();
    const { id, sha256 } = await room.upload(bytes);
    const small = join(room.test.dataDir, 'media', 'org-1', sha256.slice(0, 2), `${sha256}.small`);
    await writeFile(small, 'of an older encoder'); // as if another version had stored it
    await room.test.database.db.knex('media').where({ id }).update({ thumbnail_bytes: 19 });
    const again = await room.upload(bytes);
    for (const one of [id, again.id]) expect(String((await room.download(one, { variant: MediaVariant.MEDIA_VARIANT_THUMBNAIL }))[0]!.chunk)).toBe('of an older encoder');
  });

  it('takes its folders along', async () => {
    const { id, sha256 } = await room.upload(another(), { as: 'org-2' });
    const folder = join(room.test.dataDir, 'media', 'org-2');
    expect(await readdir(folder)).toContain(sha256.slice(0, 2));
    await room.delete(id, 'org-2');
    expect(await readdir(join(room.test.dataDir, 'media'))).not.toContain('org-2');
    await Promise.all(Array.from({ length: 8 }, async () => await room.delete((await room.upload(another(), { as: 'org-2' })).id, 'org-2'))); // folders come and go
    expect(await readdir(join(room.test.dataDir, 'media'))).not.toContain('org-2');
  });

  it('goes with its organization, devices that show it too', async () => {
    const { id } = await room.upload(another());
    await room.show(await room.device(), [id]);
    await room.test.database.db.knex('organizations').where({ id: 'org-1' }).delete();
    expect(await room.test.database.db.knex('media').where({ id })).toEqual([]);
    await room.service.sweep(Date.now() + 25 * HOUR_MS);
    expect(room.files()).toEqual(['notes.txt']);
  });
});
