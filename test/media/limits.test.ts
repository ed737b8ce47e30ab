import { status, type ServiceError } from '@grpc/grpc-js';
import { UploadMediaRequest, type Media } from '../../src/gen/media/v1/media_service';
import { MediaRepository } from '../../src/media/mediaRepository';
import { reserveOf } from '../../src/media/incoming';
import { headers, seen, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { planOf } from '../support/planOf';
import { fullAt, watchedFileSystem } from './brokenFileSystem';
import { keyOf, partsOf, startMediaRoom, type MediaRoom } from './mediaRoom';
import { onePixel } from './pictures';

const MIB = 1024 * 1024;

describe.each(engines())('what uploads may take, on $name', (engine) => {
  let room: MediaRoom;
  beforeAll(async () => {
    room = await startMediaRoom(engine, { limits: { uploadMs: 300, atOnce: 2 } });
  });
  afterAll(async () => await room.stop());

  /** An upload that begins and goes no further; resolves when the server has its first bytes. */
  async function begin(organizationId: string): Promise<{ readonly outcome: Promise<Media | SeenError> }> {
    const before = incoming().length;
    const { promise, resolve } = Promise.withResolvers<Media | SeenError>();
    const stream = room.client.uploadMedia(headers(keyOf(organizationId)), (error: ServiceError | null, answer: Media) => resolve(error ? seen(error) : answer));
    stream.on('error', () => {}); // the callback is told
    stream.write(UploadMediaRequest.fromPartial({ chunk: Buffer.alloc(100) }));
    while (incoming().length === before) await new Promise((again) => setImmediate(again));
    return { outcome: promise };
  }

  const incoming = (): string[] => room.names('incoming');

  it('ends an upload that takes too long, and lets only some arrive at once', async () => {
    const [one, two] = [await begin('org-1'), await begin('org-1')];
    expect(await room.uploadFails(onePixel(1))).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: 'media_busy' });
    expect((await room.upload(onePixel(1), { as: 'org-2' })).id).toBeDefined();
    for (const { outcome } of [one, two]) expect(await outcome).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: 'deadline_exceeded' });
    expect(incoming()).toEqual([]);
    expect((await room.upload(onePixel(1))).id).toBeDefined();
  });

  it.each(['open', 'append', 'sync', 'rename', 'mkdir'])('says that the disk is full where it fails at %s, and leaves nothing behind', async (operation) => {
    const before = room.files();
    const service = room.restarted({ fileSystem: fullAt(operation) });
    await expect(service.upload('org-1', partsOf(onePixel(2)))).rejects.toMatchObject({ kind: 'unavailable', reason: 'storage_full' });
    await service.stop();
    expect(incoming()).toEqual([]);
    expect(room.files()).toEqual(before);
  });

  it('leaves a part of the disk to the others', async () => {
    expect([reserveOf(40 * MIB), reserveOf(20_000 * MIB), reserveOf(1_000_000 * MIB)]).toEqual([256 * MIB, 1000 * MIB, 2048 * MIB]);
    const withFree = (free: number) => room.restarted({ fileSystem: { ...watchedFileSystem(() => {}), statfs: (async () => await Promise.resolve({ bavail: free, blocks: 20_000, bsize: MIB })) as never } });
    await expect(withFree(1009).upload('org-1', partsOf(onePixel(3)))).rejects.toMatchObject({ reason: 'storage_full' });
    expect((await withFree(1010).upload('org-1', partsOf(onePixel(3)))).id).toBeDefined();
    const untold = room.restarted({ fileSystem: { ...watchedFileSystem(() => {}), statfs: (async () => await Promise.resolve({ bavail: 0, blocks: 0, bsize: MIB })) as never } });
    expect((await untold.upload('org-1', partsOf(onePixel(3)))).id).toBeDefined();
  });

  it('finds the unused by their index', async () => {
    const plan = await planOf(room.test.database, async (db) => await new MediaRepository(db).unusedSince(1000, { id: 'a', organizationId: 'org-1', unusedSince: 1 }, 100));
    expect(plan).toContain('media_unused');
    expect(plan).not.toContain('TEMP B-TREE'); // PostgreSQL sorts what is so little
  });
});
