import { join } from 'node:path';
import { CommitUnknown } from '../../src/database';
import type { Media as MediaMessage } from '../../src/gen/media/v1/media_service';
import type { MediaService } from '../../src/media';
import { engines } from '../support/engines';
import { throughProxy, type PostgresProxy } from '../support/postgresProxy';
import { endingAfter, watchedFileSystem } from './brokenFileSystem';
import { all, partsOf, startMediaRoom, type MediaRoom } from './mediaRoom';
import { onePixel } from './pictures';

const DAY_MS = 24 * 3_600_000;

describe.each(engines())('a process that ends amid work on files, on $name', (engine) => {
  let room: MediaRoom;
  let number = 0;
  beforeAll(async () => {
    room = await startMediaRoom(engine);
  });
  afterAll(async () => await room.stop());

  const another = (): Buffer => onePixel((number += 1));

  /** Does the work again and again in processes that end one step later each time, until one does not; `check` is of the process after each. */
  async function endingEverywhere(prepare: () => Promise<MediaMessage | undefined>, work: (service: MediaService, media: MediaMessage | undefined) => Promise<unknown>, check: (service: MediaService, media: MediaMessage | undefined) => Promise<void>): Promise<number> {
    for (let steps = 0; ; steps += 1) {
      const fileSystem = endingAfter(steps);
      const media = await prepare();
      const service = room.restarted({ fileSystem });
      await work(service, media).catch(() => undefined);
      await service.stop();
      const next = room.restarted();
      await next.start();
      await next.sweep(Date.now());
      await check(next, media);
      await next.stop();
      if (!fileSystem.ended()) return steps;
    }
  }

  /** Reads every picture that there is a row of. */
  async function readAll(service: MediaService): Promise<number> {
    const rows = await room.test.database.db.knex<{ id: string; organization_id: string; size_bytes: number }>('media');
    for (const row of rows) {
      for (const variant of ['original', 'thumbnail'] as const) {
        const content = await service.content(row.organization_id, row.id, variant);
        expect(Buffer.concat(await all(content.read(0, content.sizeBytes))).length).toBe(content.sizeBytes);
      }
    }
    return rows.length;
  }

  it('leaves no row without its files in an upload', async () => {
    let stored = 0;
    const steps = await endingEverywhere(
      async () => await Promise.resolve(undefined),
      async (service) => await service.upload('org-1', partsOf(another())),
      async (service) => void (stored = await readAll(service)),
    );
    expect(steps).toBeGreaterThan(10);
    expect(stored).toBeGreaterThan(0);
  });

  it('puts every folder above a file on disk, also those that another upload may just have made', async () => {
    await room.upload(another());
    const opened: string[] = [];
    const service = room.restarted({ fileSystem: watchedFileSystem((operation, path) => void (operation === 'open' && opened.push(path))) });
    const { sha256 } = await service.upload('org-1', partsOf(another()));
    const media = join(room.test.dataDir, 'media');
    const folders = [join(media, 'org-1', sha256.slice(0, 2)), join(media, 'org-1'), media, room.test.dataDir];
    expect(opened.slice(-folders.length)).toEqual(process.platform === 'win32' ? expect.anything() : folders);
    await service.stop();
  });

  it('leaves no row without its files in a removal', async () => {
    const bytes = another();
    const steps = await endingEverywhere(
      async () => await room.upload(bytes),
      async (service, media) => await service.delete('org-1', String(media?.id)),
      async (service) => void (await readAll(service)),
    );
    expect(steps).toBeGreaterThan(1);
  });

  it('loses nothing on the way into the trash and out of it again', async () => {
    const { knex } = room.test.database.db;
    await knex('media').delete();
    const media = await room.upload(another());
    const row = await knex<Record<string, unknown>>('media').where({ id: media.id }).first();
    const forget = async (): Promise<undefined> => void (await knex('media').delete());
    const later = Date.now() + 2 * DAY_MS;
    const isBack = async (service: MediaService): Promise<void> => {
      if ((await knex('media')).length === 0) await knex('media').insert(row);
      await service.sweep(Date.now());
      expect(await readAll(service)).toBe(1);
    };
    const throwAway = await endingEverywhere(forget, async (service) => {
      await service.start();
      await service.sweep(later);
    }, isBack);
    const thrownAway = async (): Promise<undefined> => {
      await forget();
      await room.service.sweep(later);
      expect(room.files()).toEqual([]);
      await knex('media').insert(row);
    };
    const takeBack = await endingEverywhere(thrownAway, async (service) => await service.sweep(Date.now()), isBack);
    expect(Math.min(throwAway, takeBack)).toBeGreaterThan(5);
  });
});

// SQLite is in the same process: its commit is always answered.
describe.each(engines().filter(({ name }) => name === 'postgres'))('a commit whose answer is lost on $name', (engine) => {
  let proxy: PostgresProxy;
  let room: MediaRoom;
  beforeAll(async () => {
    room = await startMediaRoom(throughProxy(engine, (started) => (proxy = started)));
  });
  afterAll(async () => await room.stop());

  const ids = async (): Promise<string[]> => (await room.test.database.db.knex<{ id: string }>('media').orderBy('id')).map(({ id }) => id);

  it('keeps the files of a picture whose row is there', async () => {
    proxy.breakCommit('answer_lost');
    expect(await room.uploadFails(onePixel(1))).toMatchObject({ reason: 'database_unavailable' });
    const [id = ''] = await ids();
    await room.service.sweep(room.clock.now());
    expect((await room.download(id)).length).toBe(1);
    await room.delete(id);
  });

  it('keeps everybody else away from the content until it is known', async () => {
    proxy.breakCommit('late');
    const failure: unknown = await room.service.upload('org-1', partsOf(onePixel(2))).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CommitUnknown);
    const sweep = room.service.sweep(Date.now() + 23 * 3_600_000); // has its turn on the content only when the row is there
    const again = room.upload(onePixel(2));
    proxy.deliverLate();
    await sweep;
    const { id } = await again;
    expect((await ids()).length).toBe(2);
    for (const one of await ids()) expect((await room.download(one)).length).toBe(1);
    expect(await ids()).toContain(id);
  });
});
