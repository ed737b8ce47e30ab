import { Metadata, status, type ServerWritableStream } from '@grpc/grpc-js';
import {
  createPlantroomClient,
  waitForExecution,
  streamReadings,
  watchExecutions,
  type LinkOptions,
  type PlantroomClient,
  type PlantroomError,
} from '../../../src/client';
import {
  Execution as ClientExecution,
  ExecutionState,
} from '../../../src/client/gen/actuator_command/v2/actuator_command_service';
import {
  WatchExecutionsRequest,
  WatchExecutionsResponse,
} from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { ErrorInfo, RetryInfo } from '../../../src/gen/google/rpc/error_details';
import { Status } from '../../../src/gen/google/rpc/status';
import {
  Reading,
  StreamReadingsRequest,
  StreamReadingsResponse,
} from '../../../src/gen/sensorquery/v1/sensor_query_service';
import { FakeServices } from '../fakeServices';

type Call = ServerWritableStream<Buffer, Buffer>;

const FAST = { firstPauseMs: 1, longestPauseMs: 4 };

/** Returns a generator of numbers from 0 (inclusive) to 1 (exclusive), the same for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Creates an error as Plantroom sends it. */
function createError(
  code: status,
  reason: string,
  retryAfterMs?: number,
): { code: status; details: string; metadata: Metadata } {
  const details = [
    {
      typeUrl: 'type.googleapis.com/google.rpc.ErrorInfo',
      value: Buffer.from(ErrorInfo.encode({ reason, domain: 'plantroom', metadata: {} }).finish()),
    },
  ];
  if (retryAfterMs)
    details.push({
      typeUrl: 'type.googleapis.com/google.rpc.RetryInfo',
      value: Buffer.from(
        RetryInfo.encode({
          retryDelay: { seconds: Math.floor(retryAfterMs / 1000), nanos: (retryAfterMs % 1000) * 1e6 },
        }).finish(),
      ),
    });
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', Buffer.from(Status.encode({ code, message: reason, details }).finish()));
  return { code, details: reason, metadata };
}

const sendToken = (call: Call, resumeToken: string): unknown =>
  call.write(
    Buffer.from(WatchExecutionsResponse.encode({ execution: undefined, event: undefined, resumeToken }).finish()),
  );
const sendError = (call: Call, error: { code: status }): unknown => call.emit('error', error);
const sendReading = (call: Call, readings: Reading[], resumeToken: string): unknown =>
  call.write(Buffer.from(StreamReadingsResponse.encode({ readings, resumeToken }).finish()));
const listNames = (readings: readonly Reading[], sensor: string): number[] =>
  readings.filter(({ sensorId }) => sensorId === sensor).map(({ sequence }) => sequence);

describe('a lost connection of plantroom-client', () => {
  let fake: FakeServices;
  let client: PlantroomClient;
  let keys: string[];
  beforeEach(async () => {
    fake = new FakeServices();
    keys = ['plr_one'];
    await fake.start();
    client = createPlantroomClient({
      address: fake.address,
      apiKey: () => keys[0] as string,
      organizationId: 'org-1',
      insecure: true,
      retry: { attempts: 1 },
    });
  });
  afterEach(() => {
    client.close();
    fake.stop();
  });

  /**
   * Watches until the stream has begun the given number of times, then stops. Returns the errors of the lost
   * connections, and how the watch ended.
   */
  const watch = async (
    beginCount: number,
    options: LinkOptions = {},
  ): Promise<{ errors: PlantroomError[]; pauses: number[]; outcome: unknown }> => {
    const [errors, pauses, stop] = [[] as PlantroomError[], [] as number[], new AbortController()];
    const script = fake.stream;
    let n = 0;
    fake.stream = (call) => {
      n += 1;
      if (n > beginCount) stop.abort();
      else script(call);
    };
    const onLost = (error: PlantroomError, pauseMs: number): void => void (errors.push(error), pauses.push(pauseMs));
    const outcome = await watchExecutions(client, {}, { ...FAST, signal: stop.signal, onLost, ...options })
      .next()
      .catch((error: unknown) => error);
    return { errors, pauses, outcome };
  };

  it('is reopened after temporary errors', async () => {
    const passing = [
      createError(status.UNAVAILABLE, 'shutting_down'),
      { code: status.UNAVAILABLE },
      createError(status.RESOURCE_EXHAUSTED, 'rate_limited', 30),
      { code: status.INTERNAL, details: 'a broken frame' },
      { code: status.UNKNOWN },
      { code: status.DEADLINE_EXCEEDED },
    ];
    let at = 0;
    fake.stream = (call) => {
      const next = passing[at];
      at += 1;
      if (next) sendError(call, next);
      else call.end();
    };
    const { errors, pauses, outcome } = await watch(7);
    expect(errors.map(({ status: name }) => name)).toEqual([
      'UNAVAILABLE',
      'UNAVAILABLE',
      'RESOURCE_EXHAUSTED',
      'INTERNAL',
      'UNKNOWN',
      'DEADLINE_EXCEEDED',
      'UNAVAILABLE',
    ]);
    expect(pauses[2]).toBe(30); // The server gave this delay.
    for (const [n, pause] of pauses.entries()) if (n !== 2) expect(pause).toBeLessThanOrEqual(Math.min(4, 2 ** n));
    expect(errors[6]?.message).toBe('the server ended the stream');
    expect(outcome).toMatchObject({ status: 'CANCELLED' });
  });

  it.each([
    [status.OUT_OF_RANGE, 'resume_token_expired'],
    [status.INVALID_ARGUMENT, 'validation_failed'],
    [status.PERMISSION_DENIED, 'insufficient_scope'],
    [status.NOT_FOUND, 'device_not_found'],
    [status.UNAUTHENTICATED, 'api_key_revoked'],
    [status.INTERNAL, 'internal'],
    [status.UNIMPLEMENTED, ''],
  ])('is not reopened after %i %s', async (code, reason) => {
    fake.stream = (call) => sendError(call, reason ? createError(code, reason) : { code });
    const { errors, outcome } = await watch(9);
    expect(outcome).toMatchObject({ name: 'PlantroomError', reason });
    expect(errors).toEqual([]);
  });

  it('is reopened with the new key if the old one expired meanwhile', async () => {
    const lostErrors: unknown[] = [];
    fake.stream = (call) => {
      lostErrors.push(call.metadata.get('x-api-key')[0]);
      sendToken(call, 'a');
      keys = ['plr_two'];
      setImmediate(() => sendError(call, createError(status.UNAUTHENTICATED, 'api_key_revoked')));
    };
    await watch(2);
    expect(lostErrors).toEqual(['plr_one', 'plr_two']);
  });

  it('is given up after the time limit, with the error of the last attempt', async () => {
    fake.stream = (call) => sendError(call, createError(status.UNAVAILABLE, 'database_unavailable'));
    const { outcome } = await watch(1000, { giveUpAfterMs: 40 });
    expect(outcome).toMatchObject({ status: 'UNAVAILABLE', reason: 'database_unavailable' });
  });

  it('is given up if the server is unreachable from the start', async () => {
    fake.stop();
    const { outcome } = await watch(1, { giveUpAfterMs: 40 });
    expect(outcome).toMatchObject({ status: 'UNAVAILABLE' });
  });

  it('is reported after every attempt, without hidden ones', async () => {
    const retryingClient = createPlantroomClient({
      address: fake.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
    });
    let attempts = 0;
    fake.stream = (call) => {
      attempts += 1;
      sendError(call, { code: status.UNAVAILABLE });
    };
    let losses = 0;
    const onLost = (): void => {
      losses += 1;
      if (losses === 3) retryingClient.close();
    };
    await expect(watchExecutions(retryingClient, {}, { ...FAST, onLost }).next()).rejects.toMatchObject({
      reason: 'client_closed',
    });
    expect([attempts, losses]).toEqual([3, 3]);
  });

  it('is not retried after its client closes', async () => {
    fake.stream = (call) => sendError(call, createError(status.UNAVAILABLE, 'shutting_down'));
    const onLost = (): void => void setImmediate(() => client.close());
    const closed = { status: 'CANCELLED', reason: 'client_closed' };
    await expect(
      watchExecutions(client, {}, { firstPauseMs: 60_000, longestPauseMs: 60_000, onLost }).next(),
    ).rejects.toMatchObject(closed);
  });

  it.each<[LinkOptions, string]>([
    [{ firstPauseMs: 0 }, 'firstPauseMs'],
    [{ firstPauseMs: Number.NaN }, 'firstPauseMs'],
    [{ longestPauseMs: 2 ** 31 }, 'longestPauseMs'],
    [{ giveUpAfterMs: -1 }, 'giveUpAfterMs'],
    [{ giveUpAfterMs: Number.NaN }, 'giveUpAfterMs'],
    [{ signal: 'stop' as unknown as AbortSignal }, 'signal'],
  ])('is not retried with %o', async (options, field) => {
    await expect(watchExecutions(client, {}, options).next()).rejects.toMatchObject({
      status: 'INVALID_ARGUMENT',
      reason: 'options_invalid',
      violations: [{ field }],
    });
    expect(fake.calls).toEqual([]);
  });

  it('is retried within the longest delay that a timer supports', async () => {
    fake.stream = (call) => sendError(call, createError(status.RESOURCE_EXHAUSTED, 'rate_limited', 3_000_000_000));
    const stop = new AbortController();
    const pause = new Promise<number>((resolve) => {
      watchExecutions(client, {}, { ...FAST, signal: stop.signal, onLost: (_, ms) => resolve(ms) })
        .next()
        .catch(() => {});
    });
    expect(await pause).toBe(2_147_483_647);
    stop.abort();
  });

  it('has a time limit from its loss, not from the last message: a quiet connection that breaks is reopened', async () => {
    let n = 0;
    fake.stream = (call) => {
      n += 1;
      sendToken(call, String(n));
      setTimeout(() => call.end(), 30);
    };
    const { errors, outcome } = await watch(3, { giveUpAfterMs: 20 });
    expect(errors).toHaveLength(3);
    expect(outcome).toMatchObject({ status: 'CANCELLED' });
  });

  it('continues after the newest token, beginning with the given one', async () => {
    const sentTokens: string[] = [];
    fake.stream = (call) => {
      sentTokens.push(WatchExecutionsRequest.decode(call.request).resumeToken);
      sendToken(call, `after ${sentTokens.length}`);
      call.end();
    };
    await watch(3);
    expect(sentTokens).toEqual(['', 'after 1', 'after 2']);
  });

  it('the end of the loop ends the call, and a token that cannot be stored ends the watch', async () => {
    const cancelled = new Promise<void>((resolve) => {
      fake.stream = (call) => {
        call.on('cancelled', resolve);
        sendToken(call, 'a');
      };
    });
    const full = new Error('the disk is full');
    const onResumeToken = async (): Promise<void> => await Promise.reject(full);
    await expect(watchExecutions(client, {}, { onResumeToken }).next()).rejects.toBe(full);
    await cancelled;
  });

  it('an execution stream is ended by the server, and is cancelled if an older server does not end it', async () => {
    const execution = { id: 'e', state: ExecutionState.EXECUTION_STATE_CONVERGED, finishedAt: new Date(0) };
    fake.answer = ({ path }) =>
      Buffer.from(
        path.endsWith('/GetExecution') ? ClientExecution.encode(ClientExecution.fromPartial(execution)).finish() : [],
      );
    const ends: string[] = [];
    let callCount = 0;
    const bothEnded = new Promise<void>((resolve) => {
      fake.stream = (call) => {
        if (WatchExecutionsRequest.decode(call.request).endsWhenFinal) callCount += 1;
        const isNew = callCount === 1;
        let hasEnded = false;
        const end = (ending: string): void => {
          if (hasEnded) return; // grpc-js reports both.
          hasEnded = true;
          if (ends.push(`${isNew ? 'new' : 'old'} ${ending}`) === 2) resolve();
        };
        call.on('cancelled', () => end('cut'));
        sendToken(call, 'a');
        if (isNew) setTimeout(() => (end('ended'), call.end()), 20);
      };
    });
    for (let n = 0; n < 2; n += 1)
      await expect(waitForExecution(client, 'e', { timeoutMs: 5000 })).resolves.toMatchObject({ id: 'e' });
    await bothEnded;
    expect([callCount, ends]).toEqual([2, ['new ended', 'old cut']]);
  });

  const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
  it.each(SEEDS)(
    'readings arrive once each, in the order of each sensor, regardless of interruptions: seed %i',
    async (seed) => {
      const random = createRandom(seed);
      const pick = (below: number): number => Math.floor(random() * below);
      const all = Array.from({ length: 200 }, (_, n) =>
        Reading.fromPartial({ sensorId: `sensor-${pick(3)}`, sequence: n + 1 }),
      );
      // A token may lag some readings behind, and a part of the stream may have no token until its end.
      fake.stream = (call) => {
        let at = Number(StreamReadingsRequest.decode(call.request).resumeToken || 0);
        sendReading(call, [], String(at));
        for (let left = pick(12); left > 0 && at < all.length; left -= 1) {
          const next = Math.min(all.length, at + 1 + pick(9));
          sendReading(call, all.slice(at, next), random() < 0.5 ? '' : String(Math.max(0, next - pick(4))));
          at = next;
        }
        if (at >= all.length) sendReading(call, [], String(at));
        if (random() < 0.5) call.end();
        else setImmediate(() => call.emit('error', { code: status.UNAVAILABLE, details: 'cut' }));
      };
      const got: Reading[] = [];
      for await (const { readings } of streamReadings(client, {}, FAST)) {
        expect(readings.length).toBeGreaterThan(0);
        got.push(...(readings as unknown as Reading[]));
        if (got.length >= all.length) break;
      }
      for (const sensor of ['sensor-0', 'sensor-1', 'sensor-2'])
        expect(listNames(got, sensor)).toEqual(listNames(all, sensor));
    },
  );
});
