import {
  HealthClient,
  HealthCheckResponse_ServingStatus as Serving,
  type HealthCheckResponse,
} from '../../src/gen/grpc/health/v1/health';
import { Readiness } from '../../src/api/health/readiness';
import { createReadyPage } from '../../src/api/health/statusPages';
import { call, startEdge, type TestEdge } from '../support/edge';

describe('readiness', () => {
  let database: 'here' | 'gone' | 'silent' = 'here';
  let queryCount = 0;
  let degraded: string[] = [];
  const pingDatabase = async (): Promise<void> => {
    queryCount += 1;
    if (database === 'gone') throw new Error('gone');
    if (database === 'silent') await new Promise(() => {});
  };
  const started = (maxAgeMs = 0): Readiness =>
    new Readiness({ pingDatabase, degraded: () => degraded, pingTimeoutMs: 20, maxAgeMs });
  let edge: TestEdge | undefined;
  afterEach(async () => {
    database = 'here';
    queryCount = 0;
    degraded = [];
    await edge?.stop();
    edge = undefined;
  });

  it('is false before the start is complete and once the server stops', async () => {
    const readiness = started();
    expect(await createReadyPage(readiness)).toEqual({ http: 503, json: { status: 'starting' } });
    readiness.markStarted();
    expect(await createReadyPage(readiness)).toEqual({ http: 200, json: { status: 'ready' } });
    readiness.markStopping();
    expect(await createReadyPage(readiness)).toEqual({ http: 503, json: { status: 'stopping' } });
  });

  it.each(['gone', 'silent'] as const)('is false while the database is %s', async (state) => {
    const readiness = started();
    readiness.markStarted();
    database = state;
    expect(await createReadyPage(readiness)).toEqual({ http: 503, json: { status: 'database_unavailable' } });
  });

  it('is true again when the database recovers', async () => {
    const readiness = started();
    readiness.markStarted();
    database = 'gone';
    await readiness.getState();
    database = 'here';
    expect(await readiness.getState()).toBe('ready');
  });

  it('stays true while the disk is full and reports what does not work', async () => {
    const readiness = started();
    readiness.markStarted();
    degraded = ['storage_full'];
    expect(await createReadyPage(readiness)).toEqual({
      http: 200,
      json: { status: 'ready', degraded: ['storage_full'] },
    });
  });

  it('queries the database once for many concurrent checks', async () => {
    const readiness = started(60_000);
    readiness.markStarted();
    await Promise.all(Array.from({ length: 20 }, async () => await readiness.getState()));
    await readiness.getState();
    expect(queryCount).toBe(1);
  });

  it('is reported by grpc.health.v1, also to watchers', async () => {
    const readiness = started(5);
    readiness.markStarted();
    edge = await startEdge(() => {}, { readiness });
    const client = edge.client(HealthClient);
    const statuses: Serving[] = [];
    const watched = client.watch({ service: '' });
    watched.on('error', () => {});
    for await (const { status } of watched as AsyncIterable<HealthCheckResponse>) {
      statuses.push(status);
      database = statuses.length === 2 ? 'here' : 'gone';
      if (statuses.length === 4) break;
    }
    expect(statuses).toEqual([Serving.SERVING, Serving.NOT_SERVING, Serving.SERVING, Serving.NOT_SERVING]);
    expect(await call(client.check.bind(client), { service: 'grpc.health.v1.Health' }, {})).toEqual({
      status: Serving.NOT_SERVING,
    });
    watched.cancel();
  });
});
