import { status, type ServiceError } from '@grpc/grpc-js';
import { UploadMediaRequest, type Media } from '../../src/gen/media/v1/media_service';
import { MediaRepository } from '../../src/media/mediaRepository';
import { getReserveBytes } from '../../src/media/uploadReceiver';
import { headers, parseError, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { createFullFileSystem, watchFileSystem } from './brokenFileSystem';
import { getKey, listParts, startMediaFixture, type MediaFixture } from './mediaFixture';
import { createOnePixelPng } from './sampleImages';

const MIB = 1024 * 1024;

describe.each(engines())('the limits of uploads on $name', (engine) => {
  let fixture: MediaFixture;
  beforeAll(async () => {
    fixture = await startMediaFixture(engine, { limits: { uploadTimeoutMs: 300, maxConcurrentUploads: 2 } });
  });
  afterAll(async () => await fixture.stop());

  /** Starts an upload that does not continue. Resolves when the server has its first bytes. */
  async function begin(organizationId: string): Promise<{ readonly outcome: Promise<Media | GrpcErrorInfo> }> {
    const before = incoming().length;
    const { promise, resolve } = Promise.withResolvers<Media | GrpcErrorInfo>();
    const stream = fixture.client.uploadMedia(
      headers(getKey(organizationId)),
      (error: ServiceError | null, answer: Media) => resolve(error ? parseError(error) : answer),
    );
    stream.on('error', () => {}); // the callback gets the outcome
    stream.write(UploadMediaRequest.fromPartial({ chunk: Buffer.alloc(100) }));
    while (incoming().length === before) await new Promise((again) => setImmediate(again));
    return { outcome: promise };
  }

  const incoming = (): string[] => fixture.names('incoming');

  it('end an upload that takes too long, and allow only a few concurrent uploads', async () => {
    const [one, two] = [await begin('org-1'), await begin('org-1')];
    expect(await fixture.uploadFails(createOnePixelPng(1))).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      reason: 'media_queue_full',
    });
    expect((await fixture.upload(createOnePixelPng(1), { as: 'org-2' })).id).toBeDefined();
    for (const { outcome } of [one, two])
      expect(await outcome).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: 'deadline_exceeded' });
    expect(incoming()).toEqual([]);
    expect((await fixture.upload(createOnePixelPng(1))).id).toBeDefined();
  });

  it.each(['open', 'append', 'sync', 'rename', 'mkdir'])(
    'report a full disk when it fails at %s, and leave nothing behind',
    async (operation) => {
      const before = fixture.files();
      const service = fixture.restart({ fileSystem: createFullFileSystem(operation) });
      await expect(service.upload('org-1', listParts(createOnePixelPng(2)))).rejects.toMatchObject({
        kind: 'unavailable',
        reason: 'storage_full',
      });
      await service.stop();
      expect(incoming()).toEqual([]);
      expect(fixture.files()).toEqual(before);
    },
  );

  it('leave a part of the disk to other data', async () => {
    expect([getReserveBytes(40 * MIB), getReserveBytes(20_000 * MIB), getReserveBytes(1_000_000 * MIB)]).toEqual([
      256 * MIB,
      1000 * MIB,
      2048 * MIB,
    ]);
    const withFree = (free: number) =>
      fixture.restart({
        fileSystem: {
          ...watchFileSystem(() => {}),
          statfs: (async () => await Promise.resolve({ bavail: free, blocks: 20_000, bsize: MIB })) as never,
        },
      });
    await expect(withFree(1009).upload('org-1', listParts(createOnePixelPng(3)))).rejects.toMatchObject({
      reason: 'storage_full',
    });
    expect((await withFree(1010).upload('org-1', listParts(createOnePixelPng(3)))).id).toBeDefined();
    const unknownSpace = fixture.restart({
      fileSystem: {
        ...watchFileSystem(() => {}),
        statfs: (async () => await Promise.resolve({ bavail: 0, blocks: 0, bsize: MIB })) as never,
      },
    });
    expect((await unknownSpace.upload('org-1', listParts(createOnePixelPng(3)))).id).toBeDefined();
  });

  it('find the unused images by their index', async () => {
    const plan = await getPlan(
      fixture.test.database,
      async (db) =>
        await new MediaRepository(db).listUnused(1000, { id: 'a', organizationId: 'org-1', unusedSince: 1 }, 100),
    );
    expect(plan).toContain('media_unused');
    expect(plan).not.toContain('TEMP B-TREE'); // PostgreSQL sorts so few rows
  });
});
