import { status, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { NewConnection } from '../../src/connections/connectionService';
import {
  ConnectionServiceClient,
  ConnectionState,
  type WatchConnectionStatusRequest,
  type WatchConnectionStatusResponse,
} from '../../src/gen/connection/connection_service';
import { headers, parseError, type GrpcErrorInfo, type TestEdge } from '../support/edge';
import { engines } from '../support/engines';
import { openFixture, serveFixture, type ConnectionFixture } from './connectionFixture';
import { registerFake } from './fakeConnector';

const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({
  connectorId: 'fake',
  name: 'Broker',
  description: '',
  enabled: true,
  configuration: { url: 'mqtt://b' },
  policy: {},
  ...overrides,
});
const nothing = {
  name: undefined,
  description: undefined,
  enabled: undefined,
  configuration: undefined,
  policy: undefined,
};
const {
  CONNECTION_STATE_DISABLED: DISABLED,
  CONNECTION_STATE_CONNECTING: CONNECTING,
  CONNECTION_STATE_CONNECTED: CONNECTED,
  CONNECTION_STATE_DEGRADED: DEGRADED,
  CONNECTION_STATE_DISCONNECTED: DISCONNECTED,
} = ConnectionState;

/** Reads a stream message by message. */
class Reader {
  readonly failed: Promise<GrpcErrorInfo>;
  private readonly messages: AsyncIterator<WatchConnectionStatusResponse>;

  constructor(private readonly stream: ClientReadableStream<WatchConnectionStatusResponse>) {
    this.failed = new Promise((resolve) => stream.on('error', (error) => resolve(parseError(error as ServiceError))));
    this.messages = stream[Symbol.asyncIterator]() as AsyncIterator<WatchConnectionStatusResponse>;
  }

  async next(): Promise<WatchConnectionStatusResponse> {
    return (await this.messages.next()).value as WatchConnectionStatusResponse;
  }

  /** Reads until a message has this state. */
  async until(state: ConnectionState): Promise<WatchConnectionStatusResponse> {
    const message = await this.next();
    return message.status?.state === state ? message : await this.until(state);
  }

  stop(): void {
    this.stream.on('error', () => {});
    this.stream.cancel();
  }
}

/** Intervals fire only when a test advances them. Other timers are real. */
const holdIntervals = (): void => {
  const others = [
    'Date',
    'hrtime',
    'nextTick',
    'performance',
    'queueMicrotask',
    'setImmediate',
    'clearImmediate',
    'setTimeout',
    'clearTimeout',
  ] as const;
  jest.useFakeTimers({ doNotFake: [...others] });
};
const LOOK_EVERY_MS = 2000;

beforeAll(registerFake);

describe.each(engines())('watching connection statuses on $name', (engine) => {
  let fixture: ConnectionFixture;
  let edge: TestEdge;
  let readers: Reader[];
  beforeEach(async () => {
    fixture = await openFixture(engine);
    edge = await serveFixture(fixture);
    edge.keys.add('key');
    readers = [];
  });
  afterEach(async () => {
    jest.useRealTimers();
    for (const reader of readers) reader.stop();
    await edge.stop();
    await fixture.test.drop();
  });

  const watch = (ids: string[] = []): Reader => {
    const client = edge.client(ConnectionServiceClient);
    const request: WatchConnectionStatusRequest = { organizationId: '', ids };
    const reader = new Reader(
      client.watchConnectionStatus(request, headers({ 'x-api-key': 'key', 'x-organization-id': 'org-1' })),
    );
    readers.push(reader);
    return reader;
  };

  it('starts with each connection, then reports each change', async () => {
    const first = (await fixture.service.create('org-1', input({ name: 'a' }))).connection.id;
    const second = (await fixture.service.create('org-1', input({ name: 'b', enabled: false }))).connection.id;
    await fixture.service.create('org-2', input());
    const reader = watch();
    expect([await reader.next(), await reader.next(), await reader.next()]).toMatchObject([
      { connectionId: first, status: { state: DISCONNECTED }, deleted: false, complete: false },
      { connectionId: second, status: { state: DISABLED }, deleted: false, complete: false },
      { connectionId: '', status: undefined, deleted: false, complete: true },
    ]);
    fixture.statuses.markConnecting(first);
    expect(await reader.next()).toMatchObject({ connectionId: first, status: { state: CONNECTING } });
    fixture.statuses.markDetached(first, 'nobody listens there');
    expect(await reader.next()).toMatchObject({
      connectionId: first,
      status: { state: DISCONNECTED, lastError: 'nobody listens there' },
    });
    fixture.statuses.markAttached(first);
    expect(await reader.next()).toMatchObject({ connectionId: first, status: { state: CONNECTED, lastError: '' } });
    fixture.statuses.setWarnings(first, ['no_message_expiry']);
    expect(await reader.next()).toMatchObject({
      connectionId: first,
      status: { state: DEGRADED, warnings: ['no_message_expiry'] },
    });
  });

  it('reports connections that are created, switched and deleted in the meantime, and no others', async () => {
    const reader = watch();
    expect(await reader.next()).toMatchObject({ complete: true });
    const old = (await fixture.service.create('org-1', input({ name: 'a' }))).connection.id;
    expect(await reader.next()).toMatchObject({ connectionId: old, status: { state: DISCONNECTED } });
    const foreign = (await fixture.service.create('org-2', input())).connection.id;
    fixture.statuses.markConnecting(foreign);
    await fixture.service.delete('org-2', foreign, undefined);
    await fixture.service.update('org-1', old, { ...nothing, enabled: false }, undefined);
    expect(await reader.next()).toMatchObject({ connectionId: old, status: { state: DISABLED } });
    await fixture.service.delete('org-1', old, undefined);
    expect(await reader.next()).toEqual({ connectionId: old, status: undefined, deleted: true, complete: false });
    const fresh = (await fixture.service.create('org-1', input({ name: 'b' }))).connection.id;
    expect(await reader.next()).toMatchObject({ connectionId: fresh });
  });

  it('reports only the selected connections and rejects unknown ones', async () => {
    const ids: string[] = [];
    for (const name of ['a', 'b']) ids.push((await fixture.service.create('org-1', input({ name }))).connection.id);
    const foreign = (await fixture.service.create('org-2', input())).connection.id;
    const [chosen = '', other = ''] = ids;
    const reader = watch([chosen, chosen]);
    expect([await reader.next(), await reader.next()]).toMatchObject([{ connectionId: chosen }, { complete: true }]);
    fixture.statuses.markAttached(other);
    fixture.statuses.markAttached(chosen);
    expect(await reader.next()).toMatchObject({ connectionId: chosen, status: { state: CONNECTED } });
    expect(await watch([chosen, foreign]).failed).toMatchObject({
      code: status.NOT_FOUND,
      reason: 'connection_not_found',
      metadata: { connection_id: foreign },
    });
  });

  it('gives a slow reader the newest status, not a backlog', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    const stopping = new AbortController();
    const update = fixture.watch.watch('org-1', [], stopping.signal);
    await update.next();
    await update.next();
    for (let n = 0; n < 1000; n += 1) {
      fixture.statuses.markDetached(connection.id, '');
      fixture.statuses.markConnecting(connection.id);
      fixture.statuses.markDetached(connection.id, `attempt ${n}`);
    }
    expect(await update.next()).toMatchObject({ value: { status: { lastError: 'attempt 999' } } });
    fixture.statuses.markAttached(connection.id);
    expect(await update.next()).toMatchObject({ value: { status: { state: 'connected' } } });
    const end = update.next();
    await new Promise(setImmediate); // The stream waits for changes.
    stopping.abort();
    expect(await end).toEqual({ value: undefined, done: true });
  });

  it('reports changes that depend only on time', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    fixture.statuses.markAttached(connection.id);
    fixture.statuses.markConflict(connection.id);
    holdIntervals();
    const reader = watch();
    expect(await reader.next()).toMatchObject({ status: { state: DEGRADED, warnings: ['contested'] } });
    expect(await reader.next()).toMatchObject({ complete: true });
    fixture.clock.advance(300_000);
    jest.advanceTimersByTime(LOOK_EVERY_MS);
    expect(await reader.until(CONNECTED)).toMatchObject({ status: { warnings: [] } });
  });

  it('reports messages at most once a second per connection, including the last one', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 10; n += 1)
      ids.push((await fixture.service.create('org-1', input({ name: `b${n}` }))).connection.id);
    const stopping = new AbortController();
    const times = new Map<string, (number | undefined)[]>(ids.map((id) => [id, []]));
    const reading = (async () => {
      for await (const update of fixture.watch.watch('org-1', [], stopping.signal))
        if (update.kind === 'status') times.get(update.connectionId)?.push(update.status.lastMessageAt);
    })();
    const waitForTimes = async (isEnough: (at: readonly (number | undefined)[]) => boolean): Promise<void> => {
      while (![...times.values()].every(isEnough)) await new Promise(setImmediate);
    };
    await waitForTimes((at) => at.length === 1);
    for (const id of ids) fixture.statuses.markAttached(id);
    await waitForTimes((at) => at.length === 2);
    for (let step = 0; step < 40; step += 1) {
      fixture.clock.advance(100);
      for (const id of step % 2 === 0 ? ids : ids.toReversed()) fixture.statuses.markMessageReceived(id);
      await fixture.service.list('org-1', undefined, '');
    }
    const last = fixture.clock.now();
    expect(Math.max(...[...times.values()].map((at) => at.length))).toBeLessThanOrEqual(2 + 4);
    fixture.clock.advance(1000);
    await waitForTimes((at) => at.at(-1) === last);
    stopping.abort();
    await reading;
  });

  it('shows more connections than fit on a page', async () => {
    for (let n = 0; n < 203; n += 1) await fixture.service.create('org-1', input({ name: `b${n}` }));
    const reader = watch();
    const ids = new Set<string>();
    for (let n = 0; n < 203; n += 1) ids.add((await reader.next()).connectionId);
    expect(ids.size).toBe(203);
  });
});
