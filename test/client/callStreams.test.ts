import { status } from '@grpc/grpc-js';
import { createPlantroomClient, type PlantroomClient } from '../../src/client';
import { DownloadMediaResponse } from '../../src/client/gen/media/v1/media_service';
import { FakeServices } from './fakeServices';

const waitOneTurn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

describe('plantroom-client streams', () => {
  const fake = new FakeServices();
  let client: PlantroomClient;
  beforeAll(async () => {
    await fake.start();
    client = createPlantroomClient({
      address: fake.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
    });
  });
  afterAll(() => {
    client.close();
    fake.stop();
  });
  const MANY = 400;
  const chunk = Buffer.alloc(60_000, 7);

  test('slow the server down for a slow reader, and cancel the call when the reader stops', async () => {
    let sent = 0;
    let cancelled: (() => void) | undefined;
    const readerLeft = new Promise<void>((resolve) => (cancelled = resolve));
    const bytes = Buffer.from(DownloadMediaResponse.encode(DownloadMediaResponse.fromPartial({ chunk })).finish());
    fake.stream = (call) => {
      call.on('cancelled', () => cancelled?.());
      const fill = (): void => {
        while (sent < MANY && !call.destroyed) {
          sent += 1;
          if (!call.write(bytes)) return void call.once('drain', fill);
        }
      };
      fill();
    };
    let read = 0;
    for await (const response of client.media.downloadMedia({ id: 'm' })) {
      expect(response.chunk).toHaveLength(chunk.length);
      read += 1;
      for (let turn = 0; turn < 20; turn += 1) await waitOneTurn();
      if (read === 10) break;
    }
    await readerLeft;
    expect(sent).toBeLessThan(MANY / 2);
  });

  test('read the source of an upload only as fast as the server, and stop after its response', async () => {
    let chunksRead = 0;
    let resolveReturned: (() => void) | undefined;
    const returned = new Promise<void>((resolve) => (resolveReturned = resolve));
    async function* source(): AsyncGenerator<{ chunk: Uint8Array }> {
      try {
        for (; chunksRead < MANY; chunksRead += 1) yield await Promise.resolve({ chunk });
      } finally {
        resolveReturned?.();
      }
    }
    let atFirst = 0;
    fake.reader = (call, done) => {
      call.once('data', () => {
        call.pause();
        setTimeout(() => {
          atFirst = chunksRead;
          done({ code: status.INVALID_ARGUMENT, details: 'no more' });
        }, 100);
      });
    };
    await expect(client.media.uploadMedia(source())).rejects.toMatchObject({
      status: 'INVALID_ARGUMENT',
      message: 'no more',
    });
    expect(atFirst).toBeLessThan(MANY / 2);
    await returned;
    expect(chunksRead).toBeLessThan(MANY);
  });

  test('close an idle source when the upload ends, and set no time limit for it', async () => {
    let closedSources = 0;
    const silent = {
      [Symbol.asyncIterator]: () => ({
        next: async () => await new Promise<never>(() => {}),
        return: async () => await Promise.resolve({ done: true as const, value: (closedSources += 1) }),
      }),
    };
    fake.reader = (_, done) => done({ code: status.INVALID_ARGUMENT, details: 'no more' });
    await expect(client.media.uploadMedia(silent)).rejects.toMatchObject({ message: 'no more' });
    fake.reader = () => {};
    await expect(client.media.uploadMedia(silent, { signal: AbortSignal.timeout(20) })).rejects.toMatchObject({
      status: 'CANCELLED',
    });
    await waitOneTurn();
    expect(closedSources).toBe(2);
    fake.reader = (_, done) => void setTimeout(() => done(null, Buffer.alloc(0)), 60);
    const impatientClient = createPlantroomClient({
      address: fake.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
      deadlineMs: 20,
    });
    await expect(impatientClient.media.uploadMedia([])).resolves.toBeDefined();
    await expect(impatientClient.media.uploadMedia([], { deadlineMs: 20 })).rejects.toMatchObject({
      status: 'DEADLINE_EXCEEDED',
    });
    impatientClient.close();
  });

  test('deliver all messages that arrived before the error', async () => {
    fake.stream = (call) => {
      for (let n = 0; n < 3; n += 1) call.write(Buffer.alloc(0));
      call.emit('error', { code: status.UNAVAILABLE, details: 'gone' });
    };
    const stream = client.media.downloadMedia({ id: 'm' });
    for (let n = 0; n < 3; n += 1) expect(await stream.next()).toMatchObject({ done: false });
    await expect(stream.next()).rejects.toMatchObject({ status: 'UNAVAILABLE', message: 'gone' });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });
});
