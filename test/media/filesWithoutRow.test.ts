import { cpSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { engines } from '../support/engines';
import { startMediaFixture, type MediaFixture } from './mediaFixture';
import { createOnePixelPng } from './sampleImages';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe.each(engines())('files without a row on $name', (engine) => {
  let fixture: MediaFixture;
  let number = 0;
  beforeEach(async () => {
    fixture = await startMediaFixture(engine);
  });
  afterEach(async () => await fixture.stop());

  const upload = async () => await fixture.upload(createOnePixelPng((number += 1)));

  /**
   * Deletes the row of an image, as if an older copy of the database was restored. Returns a function that restores the
   * row.
   */
  async function deleteRow(id: string): Promise<() => Promise<void>> {
    const { knex } = fixture.test.database.db;
    const row = await knex<Record<string, unknown>>('media').where({ id }).first();
    await knex('media').where({ id }).delete();
    return async () => void (await knex('media').insert(row));
  }

  it('are kept where the folder belongs to another installation, and the log asks for help', async () => {
    const { id } = await upload();
    const back = await deleteRow(id);
    const other = fixture.restart({ installationId: 'installation-2' });
    await other.start();
    await other.collectGarbage(Date.now() + 100 * DAY_MS);
    await other.stop();
    expect(fixture.files().length).toBe(2);
    expect(fixture.log.of('media.foreign_installation')).toEqual([
      { folder: join(fixture.test.dataDir, 'media'), message: expect.stringContaining('PLANTROOM_DATABASE_URL') },
    ]);
    await back();
    expect((await fixture.download(id)).length).toBe(1);
  });

  it('are kept when a copy of the database deletes its images', async () => {
    const [deleted, unused] = [await upload(), await upload()];
    const copy = fixture.restart({ installationId: 'installation-2' });
    await copy.start();
    await copy.delete('org-1', deleted.id);
    await copy.collectGarbage(Date.now() + 2 * DAY_MS);
    await copy.stop();
    await expect(fixture.get(unused.id)).rejects.toThrow(`"${unused.id}" does not exist in this organization`);
    expect(fixture.files().length).toBe(4);
  });

  it('are moved to the trash when another installation takes over the folder, or when none of its images exist', async () => {
    const { id } = await upload();
    await deleteRow(id);
    const owner = join(fixture.test.dataDir, 'media', 'installation');
    rmSync(owner);
    const other = fixture.restart({ installationId: 'installation-2' });
    await other.start();
    await other.collectGarbage(Date.now() + DAY_MS + HOUR_MS);
    expect([fixture.files(), fixture.files('trash').length]).toEqual([[], 2]);
    await other.collectGarbage(Date.now() + 10 * DAY_MS);
    expect(fixture.files('trash')).toEqual([]);
    await other.stop();
    const first = fixture.restart();
    await first.start();
    await first.stop();
    expect(readFileSync(owner, 'utf8')).toBe('installation-1\n');
  });

  it('stay in the trash for a week before they are deleted, and the log counts them', async () => {
    const [one, two, kept] = [await upload(), await upload(), await upload()];
    for (const { id } of [one, two]) await deleteRow(id);
    await fixture.assignImages(await fixture.createDevice(), [kept.id]);
    await fixture.service.collectGarbage(Date.now() + DAY_MS - HOUR_MS);
    expect(fixture.files().length).toBe(6);
    const trashedAt = Date.now() + DAY_MS + HOUR_MS;
    await fixture.service.collectGarbage(trashedAt);
    expect([fixture.files().length, fixture.files('trash').length]).toEqual([2, 4]);
    const trash = join(fixture.test.dataDir, 'media', 'trash');
    expect(fixture.log.of('media.moved_to_trash')).toEqual([{ count: 2, folder: trash, kept_days: 7 }]);
    expect(readdirSync(trash)).toEqual([new Date(trashedAt).toISOString().slice(0, 10)]);
    await fixture.service.collectGarbage(trashedAt + 7 * DAY_MS);
    expect(fixture.files('trash').length).toBe(4);
    await fixture.service.collectGarbage(trashedAt + 8 * DAY_MS);
    expect([fixture.files().length, fixture.files('trash').length]).toEqual([2, 0]);
  });

  it('are restored at the next start or sweep when a row names them again, even after the week', async () => {
    const [one, two] = [await upload(), await upload()];
    const device = await fixture.createDevice();
    const back = [await deleteRow(one.id), await deleteRow(two.id)];
    await fixture.service.collectGarbage(Date.now() + 2 * DAY_MS);
    expect([fixture.files().length, fixture.files('trash').length]).toEqual([0, 4]);

    await back[0]!();
    await fixture.assignImages(device, [one.id]);
    const again = fixture.restart();
    await again.start();
    await again.stop(); // waits for the running sweep
    await fixture.service.collectGarbage(Date.now());
    expect((await fixture.download(one.id)).length).toBe(1);

    await back[1]!();
    await fixture.assignImages(device, [one.id, two.id]);
    await fixture.service.collectGarbage(Date.now() + 100 * DAY_MS);
    expect((await fixture.download(two.id)).length).toBe(1);
    expect([fixture.files().length, fixture.files('trash').length]).toEqual([4, 0]);
  });

  it('are not swept by a start', async () => {
    const { id, sha256 } = await upload();
    await deleteRow(id);
    const folder = join(fixture.test.dataDir, 'media', 'org-1', sha256.slice(0, 2));
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), 0, 0);
    const again = fixture.restart();
    await again.start();
    await again.stop();
    expect(fixture.files().length).toBe(2);
  });

  it('are copied back by hand in one command', async () => {
    const { id } = await upload();
    const back = await deleteRow(id);
    await fixture.service.collectGarbage(Date.now() + 2 * DAY_MS);
    const media = join(fixture.test.dataDir, 'media');
    const [day] = readdirSync(join(media, 'trash'));
    cpSync(join(media, 'trash', String(day)), media, { recursive: true });
    await back();
    expect((await fixture.download(id)).length).toBe(1);
  });
});
