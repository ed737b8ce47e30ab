import { join } from 'node:path';
import { CommitOutcomeUnknownError } from '../../src/database';
import type { Media as MediaMessage } from '../../src/gen/media/v1/media_service';
import type { MediaService } from '../../src/media';
import { engines, sqliteOnly } from '../support/engines';
import { throughProxy, type PostgresProxy } from '../support/postgresProxy';
import { createEndingFileSystem, watchFileSystem } from './brokenFileSystem';
import { all, listParts, startMediaFixture, type MediaFixture } from './mediaFixture';
import { createOnePixelPng } from './sampleImages';

const DAY_MS = 24 * 3_600_000;

describe.each(sqliteOnly())('a process that ends during work on files, on $name', (engine) => {
  let fixture: MediaFixture;
  let number = 0;
  beforeAll(async () => {
    fixture = await startMediaFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  const another = (): Buffer => createOnePixelPng((number += 1));

  /**
   * Repeats the work in processes that end one step later each time, until one finishes. `check` runs after each
   * process.
   */
  async function endAtEachStep(
    prepare: () => Promise<MediaMessage | undefined>,
    work: (service: MediaService, media: MediaMessage | undefined) => Promise<unknown>,
    check: (service: MediaService, media: MediaMessage | undefined) => Promise<void>,
  ): Promise<number> {
    for (let steps = 0; ; steps += 1) {
      const fileSystem = createEndingFileSystem(steps);
      const media = await prepare();
      const service = fixture.restart({ fileSystem });
      await work(service, media).catch(() => undefined);
      await service.stop();
      const next = fixture.restart();
      await next.start();
      await next.collectGarbage(Date.now());
      await check(next, media);
      await next.stop();
      if (!fileSystem.ended()) return steps;
    }
  }

  /** Reads every image that has a row. */
  async function readAll(service: MediaService): Promise<number> {
    const rows = await fixture.test.database.db.knex<{ id: string; organization_id: string; size_bytes: number }>(
      'media',
    );
    for (const row of rows) {
      for (const variant of ['original', 'thumbnail'] as const) {
        const content = await service.getContent(row.organization_id, row.id, variant);
        expect(Buffer.concat(await all(content.read(0, content.sizeBytes))).length).toBe(content.sizeBytes);
      }
    }
    return rows.length;
  }

  it('leaves no row without its files during an upload', async () => {
    let stored = 0;
    const steps = await endAtEachStep(
      async () => await Promise.resolve(undefined),
      async (service) => await service.upload('org-1', listParts(another())),
      async (service) => void (stored = await readAll(service)),
    );
    expect(steps).toBeGreaterThan(10);
    expect(stored).toBeGreaterThan(0);
  });

  it('syncs every folder above a file to disk, also those that a concurrent upload may have created', async () => {
    await fixture.upload(another());
    const opened: string[] = [];
    const service = fixture.restart({
      fileSystem: watchFileSystem((operation, path) => void (operation === 'open' && opened.push(path))),
    });
    const { sha256 } = await service.upload('org-1', listParts(another()));
    const media = join(fixture.test.dataDir, 'media');
    const folders = [join(media, 'org-1', sha256.slice(0, 2)), join(media, 'org-1'), media, fixture.test.dataDir];
    expect(opened.slice(-folders.length)).toEqual(process.platform === 'win32' ? expect.anything() : folders);
    await service.stop();
  });

  it('leaves no row without its files during a deletion', async () => {
    const steps = await endAtEachStep(
      async () => await fixture.upload(another()),
      async (service, media) => {
        await service.start(); // only the owner of the files removes them
        await service.delete('org-1', String(media?.id));
      },
      async (service) => void (await readAll(service)),
    );
    expect(steps).toBeGreaterThan(1);
  });

  it('loses no file when it is moved into the trash and out of it again', async () => {
    const { knex } = fixture.test.database.db;
    await knex('media').delete();
    const media = await fixture.upload(another());
    const row = await knex<Record<string, unknown>>('media').where({ id: media.id }).first();
    const deleteRows = async (): Promise<undefined> => void (await knex('media').delete());
    const later = Date.now() + 2 * DAY_MS;
    const isBack = async (service: MediaService): Promise<void> => {
      if ((await knex('media')).length === 0) await knex('media').insert(row);
      await service.collectGarbage(Date.now());
      expect(await readAll(service)).toBe(1);
    };
    const moveToTrash = await endAtEachStep(
      deleteRows,
      async (service) => {
        await service.start();
        await service.collectGarbage(later);
      },
      isBack,
    );
    const moveAllToTrash = async (): Promise<undefined> => {
      await deleteRows();
      await fixture.service.collectGarbage(later);
      expect(fixture.files()).toEqual([]);
      await knex('media').insert(row);
    };
    const restoreFromTrash = await endAtEachStep(
      moveAllToTrash,
      async (service) => await service.collectGarbage(Date.now()),
      isBack,
    );
    expect(Math.min(moveToTrash, restoreFromTrash)).toBeGreaterThan(5);
  });
});

// SQLite runs in the same process, so its commit is always answered.
describe.each(engines().filter(({ name }) => name === 'postgres'))(
  'a commit whose answer is lost on $name',
  (engine) => {
    let proxy: PostgresProxy;
    let fixture: MediaFixture;
    beforeAll(async () => {
      fixture = await startMediaFixture(throughProxy(engine, (started) => (proxy = started)));
    });
    afterAll(async () => await fixture.stop());

    const ids = async (): Promise<string[]> =>
      (await fixture.test.database.db.knex<{ id: string }>('media').orderBy('id')).map(({ id }) => id);

    it('keeps the files of an image whose row exists', async () => {
      proxy.breakCommit('answer_lost');
      expect(await fixture.uploadFails(createOnePixelPng(1))).toMatchObject({ reason: 'database_unavailable' });
      const [id = ''] = await ids();
      await fixture.service.collectGarbage(fixture.clock.now());
      expect((await fixture.download(id)).length).toBe(1);
      await fixture.delete(id);
    });

    it('blocks all other work on the content until its outcome is known', async () => {
      proxy.breakCommit('late');
      const failure: unknown = await fixture.service
        .upload('org-1', listParts(createOnePixelPng(2)))
        .catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(CommitOutcomeUnknownError);
      // gets the lock on the content only when the row exists
      const sweep = fixture.service.collectGarbage(Date.now() + 23 * 3_600_000);
      const again = fixture.upload(createOnePixelPng(2));
      proxy.deliverLate();
      await sweep;
      const { id } = await again;
      expect((await ids()).length).toBe(2);
      for (const one of await ids()) expect((await fixture.download(one)).length).toBe(1);
      expect(await ids()).toContain(id);
    });
  },
);
