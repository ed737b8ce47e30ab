import { Metadata, status, type ServerWritableStream } from '@grpc/grpc-js';
import { createPlantroomClient, settled, streamReadings, watchExecutions, type LinkOptions, type PlantroomClient, type PlantroomError } from '../../../src/client';
import { Execution as ClientExecution, ExecutionState } from '../../../src/client/gen/actuator_command/v2/actuator_command_service';
import { WatchExecutionsRequest, WatchExecutionsResponse } from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { ErrorInfo, RetryInfo } from '../../../src/gen/google/rpc/error_details';
import { Status } from '../../../src/gen/google/rpc/status';
import { Reading, StreamReadingsRequest, StreamReadingsResponse } from '../../../src/gen/sensorquery/v1/sensor_query_service';
import { FakeServices } from '../fakeServices';

type Call = ServerWritableStream<Buffer, Buffer>;

const FAST = { firstPauseMs: 1, longestPauseMs: 4 };

/** A random number from 0 to below 1, the same row for the same seed. */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** An error as a Plantroom tells it. */
function told(code: status, reason: string, retryAfterMs?: number): { code: status; details: string; metadata: Metadata } {
  const details = [{ typeUrl: 'type.googleapis.com/google.rpc.ErrorInfo', value: Buffer.from(ErrorInfo.encode({ reason, domain: 'plantroom', metadata: {} }).finish()) }];
  if (retryAfterMs) details.push({ typeUrl: 'type.googleapis.com/google.rpc.RetryInfo', value: Buffer.from(RetryInfo.encode({ retryDelay: { seconds: Math.floor(retryAfterMs / 1000), nanos: (retryAfterMs % 1000) * 1e6 } }).finish()) });
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', Buffer.from(Status.encode({ code, message: reason, details }).finish()));
  return { code, details: reason, metadata };
}

const token = (call: Call, resumeToken: string): unknown => call.write(Buffer.from(WatchExecutionsResponse.encode({ execution: undefined, event: undefined, resumeToken }).finish()));
const fail = (call: Call, error: { code: status }): unknown => call.emit('error', error);
const write = (call: Call, readings: Reading[], resumeToken: string): unknown => call.write(Buffer.from(StreamReadingsResponse.encode({ readings, resumeToken }).finish()));
const namesOf = (readings: readonly Reading[], sensor: string): number[] => readings.filter(({ sensorId }) => sensorId === sensor).map(({ sequence }) => sequence);

describe('a lost link of plantroom-client', () => {
  let fake: FakeServices;
  let client: PlantroomClient;
  let keys: string[];
  beforeEach(async () => {
    fake = new FakeServices();
    keys = ['plr_one'];
    await fake.start();
    client = createPlantroomClient({ address: fake.address, apiKey: () => keys[0] as string, organizationId: 'org-1', insecure: true, retry: { attempts: 1 } });
  });
  afterEach(() => {
    client.close();
    fake.stop();
  });

  /** Watches until the stream has begun so many times, then ends; the errors of the lost links, and how it ended. */
  const watch = async (begun: number, options: LinkOptions = {}): Promise<{ lost: PlantroomError[]; pauses: number[]; ended: unknown }> => {
    const [lost, pauses, stop] = [[] as PlantroomError[], [] as number[], new AbortController()];
    const script = fake.stream;
    let n = 0;
    fake.stream = (call) => {
      n += 1;
      if (n > begun) stop.abort();
      else script(call);
    };
    const onLost = (error: PlantroomError, pauseMs: number): void => void (lost.push(error), pauses.push(pauseMs));
    const ended = await watchExecutions(client, {}, { ...FAST, signal: stop.signal, onLost, ...options }).next().catch((error: unknown) => error);
    return { lost, pauses, ended };
  };

  it('is opened again after what may pass', async () => {
    const passing = [told(status.UNAVAILABLE, 'shutting_down'), { code: status.UNAVAILABLE }, told(status.RESOURCE_EXHAUSTED, 'rate_limited', 30), { code: status.INTERNAL, details: 'a broken frame' }, { code: status.UNKNOWN }, { code: status.DEADLINE_EXCEEDED }];
    let at = 0;
    fake.stream = (call) => {
      const next = passing[at];
      at += 1;
      if (next) fail(call, next);
      else call.end();
    };
    const { lost, pauses, ended } = await watch(7);
    expect(lost.map(({ status: name }) => name)).toEqual(['UNAVAILABLE', 'UNAVAILABLE', 'RESOURCE_EXHAUSTED', 'INTERNAL', 'UNKNOWN', 'DEADLINE_EXCEEDED', 'UNAVAILABLE']);
    expect(pauses[2]).toBe(30); // as the server said
    for (const [n, pause] of pauses.entries()) if (n !== 2) expect(pause).toBeLessThanOrEqual(Math.min(4, 2 ** n));
    expect(lost[6]?.message).toBe('the server ended the stream');
    expect(ended).toMatchObject({ status: 'CANCELLED' });
  });

  it.each([
    [status.OUT_OF_RANGE, 'resume_token_expired'],
    [status.INVALID_ARGUMENT, 'validation_failed'],
    [status.PERMISSION_DENIED, 'scope_missing'],
    [status.NOT_FOUND, 'device_not_found'],
    [status.UNAUTHENTICATED, 'api_key_revoked'],
    [status.INTERNAL, 'internal'],
    [status.UNIMPLEMENTED, ''],
  ])('is not opened again after %i %s', async (code, reason) => {
    fake.stream = (call) => fail(call, reason ? told(code, reason) : { code });
    const { lost, ended } = await watch(9);
    expect(ended).toMatchObject({ name: 'PlantroomError', reason });
    expect(lost).toEqual([]);
  });

  it('is opened with the new key where the old one ended while it worked', async () => {
    const seen: unknown[] = [];
    fake.stream = (call) => {
      seen.push(call.metadata.get('x-api-key')[0]);
      token(call, 'a');
      keys = ['plr_two'];
      setImmediate(() => fail(call, told(status.UNAUTHENTICATED, 'api_key_revoked')));
    };
    await watch(2);
    expect(seen).toEqual(['plr_one', 'plr_two']);
  });

  it('is given up after so long, with the error of the last attempt', async () => {
    fake.stream = (call) => fail(call, told(status.UNAVAILABLE, 'database_unavailable'));
    const { ended } = await watch(1000, { giveUpAfterMs: 40 });
    expect(ended).toMatchObject({ status: 'UNAVAILABLE', reason: 'database_unavailable' });
  });

  it('is given up where nobody is there at all, without attempts that nobody hears of', async () => {
    fake.stop();
    const losses: number[] = [];
    const began = performance.now();
    const patient = createPlantroomClient({ address: fake.address, apiKey: 'plr_key', organizationId: 'org-1', insecure: true });
    await expect(watchExecutions(patient, {}, { ...FAST, giveUpAfterMs: 100, onLost: (_, ms) => losses.push(ms) }).next()).rejects.toMatchObject({ status: 'UNAVAILABLE' });
    patient.close();
    expect(losses.length).toBeGreaterThan(2);
    expect(performance.now() - began).toBeLessThan(2000);
  });

  it('is not waited for when its client closes', async () => {
    fake.stream = (call) => fail(call, told(status.UNAVAILABLE, 'shutting_down'));
    const onLost = (): void => void setImmediate(() => client.close());
    const closed = { status: 'CANCELLED', reason: 'client_closed' };
    await expect(watchExecutions(client, {}, { firstPauseMs: 60_000, longestPauseMs: 60_000, onLost }).next()).rejects.toMatchObject(closed);
  });

  it.each<[LinkOptions, string]>([
    [{ firstPauseMs: 0 }, 'firstPauseMs'],
    [{ firstPauseMs: Number.NaN }, 'firstPauseMs'],
    [{ longestPauseMs: 2 ** 31 }, 'longestPauseMs'],
    [{ giveUpAfterMs: -1 }, 'giveUpAfterMs'],
    [{ giveUpAfterMs: Number.NaN }, 'giveUpAfterMs'],
    [{ signal: 'stop' as unknown as AbortSignal }, 'signal'],
  ])('is not waited for with %o', async (options, field) => {
    await expect(watchExecutions(client, {}, options).next()).rejects.toMatchObject({ status: 'INVALID_ARGUMENT', reason: 'options_invalid', violations: [{ field }] });
    expect(fake.calls).toEqual([]);
  });

  it('is waited for at most as long as a timer can', async () => {
    fake.stream = (call) => fail(call, told(status.RESOURCE_EXHAUSTED, 'rate_limited', 3_000_000_000));
    const stop = new AbortController();
    const pause = new Promise<number>((resolve) => {
      watchExecutions(client, {}, { ...FAST, signal: stop.signal, onLost: (_, ms) => resolve(ms) }).next().catch(() => {});
    });
    expect(await pause).toBe(2_147_483_647);
    stop.abort();
  });

  it('is counted from its loss, not from what came last: a quiet link that breaks is opened again', async () => {
    let n = 0;
    fake.stream = (call) => {
      n += 1;
      token(call, String(n));
      setTimeout(() => call.end(), 30);
    };
    const { lost, ended } = await watch(3, { giveUpAfterMs: 20 });
    expect(lost).toHaveLength(3);
    expect(ended).toMatchObject({ status: 'CANCELLED' });
  });

  it('goes on after the newest token, from the first on that the caller gave', async () => {
    const asked: string[] = [];
    fake.stream = (call) => {
      asked.push(WatchExecutionsRequest.decode(call.request).resumeToken);
      token(call, `after ${asked.length}`);
      call.end();
    };
    await watch(3);
    expect(asked).toEqual(['', 'after 1', 'after 2']);
  });

  it('the end of the loop ends the call, and a token that cannot be kept ends the watch', async () => {
    const cancelled = new Promise<void>((resolve) => {
      fake.stream = (call) => {
        call.on('cancelled', resolve);
        token(call, 'a');
      };
    });
    const full = new Error('the disk is full');
    const onResumeToken = async (): Promise<void> => await Promise.reject(full);
    await expect(watchExecutions(client, {}, { onResumeToken }).next()).rejects.toBe(full);
    await cancelled;
  });

  it('an execution: its stream is left to the server to end, and cut where an older one does not end it', async () => {
    const execution = { id: 'e', state: ExecutionState.EXECUTION_STATE_CONVERGED, finishedAt: new Date(0) };
    fake.answer = ({ path }) => Buffer.from(path.endsWith('/GetExecution') ? ClientExecution.encode(ClientExecution.fromPartial(execution)).finish() : []);
    const ends: string[] = [];
    let asked = 0;
    const bothEnded = new Promise<void>((resolve) => {
      fake.stream = (call) => {
        if (WatchExecutionsRequest.decode(call.request).endsWhenFinal) asked += 1;
        const isNew = asked === 1;
        let hasEnded = false;
        const end = (how: string): void => {
          if (hasEnded) return; // grpc-js tells of both
          hasEnded = true;
          if (ends.push(`${isNew ? 'new' : 'old'} ${how}`) === 2) resolve();
        };
        call.on('cancelled', () => end('cut'));
        token(call, 'a');
        if (isNew) setTimeout(() => (end('ended'), call.end()), 20);
      };
    });
    for (let n = 0; n < 2; n += 1) await expect(settled(client, 'e', { timeoutMs: 5000 })).resolves.toMatchObject({ id: 'e' });
    await bothEnded;
    expect([asked, ends]).toEqual([2, ['new ended', 'old cut']]);
  });

  const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
  it.each(SEEDS)('readings come once each, in the order of each sensor, however the links break: seed %i', async (seed) => {
    const random = randoms(seed);
    const pick = (below: number): number => Math.floor(random() * below);
    const all = Array.from({ length: 200 }, (_, n) => Reading.fromPartial({ sensorId: `sensor-${pick(3)}`, sequence: n + 1 }));
    // A token may lag behind what was told, by so many readings, and a stretch may have none until its end.
    fake.stream = (call) => {
      let at = Number(StreamReadingsRequest.decode(call.request).resumeToken || 0);
      write(call, [], String(at));
      for (let left = pick(12); left > 0 && at < all.length; left -= 1) {
        const next = Math.min(all.length, at + 1 + pick(9));
        write(call, all.slice(at, next), random() < 0.5 ? '' : String(Math.max(0, next - pick(4))));
        at = next;
      }
      if (at >= all.length) write(call, [], String(at));
      if (random() < 0.5) call.end();
      else setImmediate(() => call.emit('error', { code: status.UNAVAILABLE, details: 'cut' }));
    };
    const got: Reading[] = [];
    for await (const { readings } of streamReadings(client, {}, FAST)) {
      expect(readings.length).toBeGreaterThan(0);
      got.push(...(readings as unknown as Reading[]));
      if (got.length >= all.length) break;
    }
    for (const sensor of ['sensor-0', 'sensor-1', 'sensor-2']) expect(namesOf(got, sensor)).toEqual(namesOf(all, sensor));
  });
});
