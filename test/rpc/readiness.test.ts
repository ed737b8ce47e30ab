import { HealthClient, HealthCheckResponse_ServingStatus as Serving, type HealthCheckResponse } from '../../src/gen/grpc/health/v1/health';
import { Readiness } from '../../src/rpc/status/readiness';
import { readyPage } from '../../src/rpc/status/statusPages';
import { call, startEdge, type TestEdge } from '../support/edge';

describe('whether the server serves', () => {
  let database: 'here' | 'gone' | 'silent' = 'here';
  let asked = 0;
  let degraded: string[] = [];
  const ask = async (): Promise<void> => {
    asked += 1;
    if (database === 'gone') throw new Error('gone');
    if (database === 'silent') await new Promise(() => {});
  };
  const started = (keepMs = 0): Readiness => new Readiness({ ask, degraded: () => degraded, limitMs: 20, keepMs });
  let edge: TestEdge | undefined;
  afterEach(async () => {
    database = 'here';
    asked = 0;
    degraded = [];
    await edge?.stop();
    edge = undefined;
  });

  it('does not before the start is over, nor once it stops', async () => {
    const readiness = started();
    expect(await readyPage(readiness)).toEqual({ http: 503, json: { status: 'starting' } });
    readiness.serve();
    expect(await readyPage(readiness)).toEqual({ http: 200, json: { status: 'ready' } });
    readiness.stop();
    expect(await readyPage(readiness)).toEqual({ http: 503, json: { status: 'stopping' } });
  });

  it.each(['gone', 'silent'] as const)('does not while the database is %s', async (state) => {
    const readiness = started();
    readiness.serve();
    database = state;
    expect(await readyPage(readiness)).toEqual({ http: 503, json: { status: 'database_unavailable' } });
  });

  it('goes on when the database is back', async () => {
    const readiness = started();
    readiness.serve();
    database = 'gone';
    await readiness.state();
    database = 'here';
    expect(await readiness.state()).toBe('ready');
  });

  it('serves all the same, and says what does not work, while the disk is full', async () => {
    const readiness = started();
    readiness.serve();
    degraded = ['storage_full'];
    expect(await readyPage(readiness)).toEqual({ http: 200, json: { status: 'ready', degraded: ['storage_full'] } });
  });

  it('asks the database once, however many ask it', async () => {
    const readiness = started(60_000);
    readiness.serve();
    await Promise.all(Array.from({ length: 20 }, async () => await readiness.state()));
    await readiness.state();
    expect(asked).toBe(1);
  });

  it('is what grpc.health.v1 says, and tells whoever watches', async () => {
    const readiness = started(5);
    readiness.serve();
    edge = await startEdge(() => {}, { readiness });
    const client = edge.client(HealthClient);
    const seen: Serving[] = [];
    const watched = client.watch({ service: '' });
    watched.on('error', () => {});
    for await (const { status } of watched as AsyncIterable<HealthCheckResponse>) {
      seen.push(status);
      database = seen.length === 2 ? 'here' : 'gone';
      if (seen.length === 4) break;
    }
    expect(seen).toEqual([Serving.SERVING, Serving.NOT_SERVING, Serving.SERVING, Serving.NOT_SERVING]);
    expect(await call(client.check.bind(client), { service: 'grpc.health.v1.Health' }, {})).toEqual({ status: Serving.NOT_SERVING });
    watched.cancel();
  });
});
