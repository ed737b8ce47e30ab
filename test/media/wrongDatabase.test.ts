import { cpSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { engines } from '../support/engines';
import { startMediaRoom, type MediaRoom } from './mediaRoom';
import { onePixel } from './pictures';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe.each(engines())('files without a row on $name', (engine) => {
  let room: MediaRoom;
  let number = 0;
  beforeEach(async () => {
    room = await startMediaRoom(engine);
  });
  afterEach(async () => await room.stop());

  const upload = async () => await room.upload(onePixel((number += 1)));

  /** As where an older copy of the database is restored: nothing knows the picture. Gives how to bring the row back. */
  async function forget(id: string): Promise<() => Promise<void>> {
    const { knex } = room.test.database.db;
    const row = await knex<Record<string, unknown>>('media').where({ id }).first();
    await knex('media').where({ id }).delete();
    return async () => void (await knex('media').insert(row));
  }

  it('are left alone where the folder belongs to another installation, and a person is told', async () => {
    const { id } = await upload();
    const back = await forget(id);
    const other = room.restarted({ installationId: 'installation-2' });
    await other.start();
    await other.sweep(Date.now() + 100 * DAY_MS);
    await other.stop();
    expect(room.files().length).toBe(2);
    expect(room.log.of('media.of_another_database')).toEqual([{ folder: join(room.test.dataDir, 'media'), message: expect.stringContaining('PLANTROOM_DATABASE_URL') }]);
    await back();
    expect((await room.download(id)).length).toBe(1);
  });

  it('go to the trash when another installation takes the folder over, or there is none of its pictures', async () => {
    const { id } = await upload();
    await forget(id);
    const owner = join(room.test.dataDir, 'media', 'installation');
    rmSync(owner);
    const other = room.restarted({ installationId: 'installation-2' });
    await other.start();
    await other.sweep(Date.now() + DAY_MS + HOUR_MS);
    expect([room.files(), room.files('trash').length]).toEqual([[], 2]);
    await other.sweep(Date.now() + 10 * DAY_MS);
    expect(room.files('trash')).toEqual([]);
    await other.stop();
    const first = room.restarted();
    await first.start();
    await first.stop();
    expect(readFileSync(owner, 'utf8')).toBe('installation-1\n');
  });

  it('lie in the trash for a week before they are removed, and the log counts them', async () => {
    const [one, two, kept] = [await upload(), await upload(), await upload()];
    for (const { id } of [one, two]) await forget(id);
    await room.show(await room.device(), [kept.id]);
    await room.service.sweep(Date.now() + DAY_MS - HOUR_MS);
    expect(room.files().length).toBe(6);
    const thrownAway = Date.now() + DAY_MS + HOUR_MS;
    await room.service.sweep(thrownAway);
    expect([room.files().length, room.files('trash').length]).toEqual([2, 4]);
    const trash = join(room.test.dataDir, 'media', 'trash');
    expect(room.log.of('media.thrown_away')).toEqual([{ pictures: 2, folder: trash, kept_days: 7 }]);
    expect(readdirSync(trash)).toEqual([new Date(thrownAway).toISOString().slice(0, 10)]);
    await room.service.sweep(thrownAway + 7 * DAY_MS);
    expect(room.files('trash').length).toBe(4);
    await room.service.sweep(thrownAway + 8 * DAY_MS);
    expect([room.files().length, room.files('trash').length]).toEqual([2, 0]);
  });

  it('come back when a row names them again, at the next start or sweep, even after the week', async () => {
    const [one, two] = [await upload(), await upload()];
    const device = await room.device();
    const back = [await forget(one.id), await forget(two.id)];
    await room.service.sweep(Date.now() + 2 * DAY_MS);
    expect([room.files().length, room.files('trash').length]).toEqual([0, 4]);

    await back[0]!();
    await room.show(device, [one.id]);
    const again = room.restarted();
    await again.start();
    await again.stop(); // waits for what runs
    await room.service.sweep(Date.now());
    expect((await room.download(one.id)).length).toBe(1);

    await back[1]!();
    await room.show(device, [one.id, two.id]);
    await room.service.sweep(Date.now() + 100 * DAY_MS);
    expect((await room.download(two.id)).length).toBe(1);
    expect([room.files().length, room.files('trash').length]).toEqual([4, 0]);
  });

  it('are not swept by a start', async () => {
    const { id, sha256 } = await upload();
    await forget(id);
    const folder = join(room.test.dataDir, 'media', 'org-1', sha256.slice(0, 2));
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), 0, 0);
    const again = room.restarted();
    await again.start();
    await again.stop();
    expect(room.files().length).toBe(2);
  });

  it('are copied back by hand in one go', async () => {
    const { id } = await upload();
    const back = await forget(id);
    await room.service.sweep(Date.now() + 2 * DAY_MS);
    const media = join(room.test.dataDir, 'media');
    const [day] = readdirSync(join(media, 'trash'));
    cpSync(join(media, 'trash', String(day)), media, { recursive: true });
    await back();
    expect((await room.download(id)).length).toBe(1);
  });
});
