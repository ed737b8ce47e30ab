import { status } from '@grpc/grpc-js';
import { createPlantroomClient, type PlantroomClient } from '../../src/client';
import { DownloadMediaResponse } from '../../src/client/gen/media/v1/media_service';
import { FakeServices } from './fakeServices';

const aTurn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

describe('streams of plantroom-client', () => {
  const fake = new FakeServices();
  let client: PlantroomClient;
  beforeAll(async () => {
    await fake.start();
    client = createPlantroomClient({ address: fake.address, apiKey: 'plr_key', organizationId: 'org-1', insecure: true });
  });
  afterAll(() => {
    client.close();
    fake.stop();
  });
  const MANY = 400;
  const chunk = Buffer.alloc(60_000, 7);

  test('make the server wait for a slow reader, and tell it when the reader leaves', async () => {
    let sent = 0;
    let cancelled: (() => void) | undefined;
    const left = new Promise<void>((resolve) => (cancelled = resolve));
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
      for (let turn = 0; turn < 20; turn += 1) await aTurn();
      if (read === 10) break;
    }
    await left;
    expect(sent).toBeLessThan(MANY / 2);
  });

  test('read a source of an upload only as fast as the server does, and no more once it has answered', async () => {
    let given = 0;
    let tellReturned: (() => void) | undefined;
    const returned = new Promise<void>((resolve) => (tellReturned = resolve));
    async function* source(): AsyncGenerator<{ chunk: Uint8Array }> {
      try {
        for (; given < MANY; given += 1) yield await Promise.resolve({ chunk });
      } finally {
        tellReturned?.();
      }
    }
    let atFirst = 0;
    fake.reader = (call, done) => {
      call.once('data', () => {
        call.pause();
        setTimeout(() => {
          atFirst = given;
          done({ code: status.INVALID_ARGUMENT, details: 'no more' });
        }, 100);
      });
    };
    await expect(client.media.uploadMedia(source())).rejects.toMatchObject({ status: 'INVALID_ARGUMENT', message: 'no more' });
    expect(atFirst).toBeLessThan(MANY / 2);
    await returned;
    expect(given).toBeLessThan(MANY);
  });

  test('leave a source that has nothing yet when the upload ends, and give it as much time as it takes', async () => {
    let left = 0;
    const silent = { [Symbol.asyncIterator]: () => ({ next: async () => await new Promise<never>(() => {}), return: async () => await Promise.resolve({ done: true as const, value: (left += 1) }) }) };
    fake.reader = (_, done) => done({ code: status.INVALID_ARGUMENT, details: 'no more' });
    await expect(client.media.uploadMedia(silent)).rejects.toMatchObject({ message: 'no more' });
    fake.reader = () => {};
    await expect(client.media.uploadMedia(silent, { signal: AbortSignal.timeout(20) })).rejects.toMatchObject({ status: 'CANCELLED' });
    await aTurn();
    expect(left).toBe(2);
    fake.reader = (_, done) => void setTimeout(() => done(null, Buffer.alloc(0)), 60);
    const hasty = createPlantroomClient({ address: fake.address, apiKey: 'plr_key', organizationId: 'org-1', insecure: true, deadlineMs: 20 });
    await expect(hasty.media.uploadMedia([])).resolves.toBeDefined();
    await expect(hasty.media.uploadMedia([], { deadlineMs: 20 })).rejects.toMatchObject({ status: 'DEADLINE_EXCEEDED' });
    hasty.close();
  });

  test('bring what came before the error', async () => {
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
