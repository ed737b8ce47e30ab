import { status, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { NewConnection } from '../../src/connections/connectionService';
import { ConnectionServiceClient, ConnectionState, type WatchConnectionStatusRequest, type WatchConnectionStatusResponse } from '../../src/gen/connection/connection_service';
import { headers, seen, type SeenError, type TestEdge } from '../support/edge';
import { engines } from '../support/engines';
import { openRoom, serveRoom, type ConnectionRoom } from './connectionRoom';
import { registerFake } from './fakeConnector';

const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({ connectorId: 'fake', name: 'Broker', description: '', enabled: true, configuration: { url: 'mqtt://b' }, policy: {}, ...overrides });
const nothing = { name: undefined, description: undefined, enabled: undefined, configuration: undefined, policy: undefined };
const { CONNECTION_STATE_DISABLED: DISABLED, CONNECTION_STATE_CONNECTING: CONNECTING, CONNECTION_STATE_CONNECTED: CONNECTED, CONNECTION_STATE_DEGRADED: DEGRADED, CONNECTION_STATE_DISCONNECTED: DISCONNECTED } = ConnectionState;

/** Reads a stream one message after the other. */
class Reader {
  readonly failed: Promise<SeenError>;
  private readonly messages: AsyncIterator<WatchConnectionStatusResponse>;

  constructor(private readonly stream: ClientReadableStream<WatchConnectionStatusResponse>) {
    this.failed = new Promise((resolve) => stream.on('error', (error) => resolve(seen(error as ServiceError))));
    this.messages = stream[Symbol.asyncIterator]() as AsyncIterator<WatchConnectionStatusResponse>;
  }

  async next(): Promise<WatchConnectionStatusResponse> {
    return (await this.messages.next()).value as WatchConnectionStatusResponse;
  }

  /** Reads on until a message is of this state. */
  async until(state: ConnectionState): Promise<WatchConnectionStatusResponse> {
    const message = await this.next();
    return message.status?.state === state ? message : await this.until(state);
  }

  stop(): void {
    this.stream.on('error', () => {});
    this.stream.cancel();
  }
}

/** Intervals pass when a test says so; all else takes the time that it takes. */
const holdIntervals = (): void => {
  const others = ['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'setTimeout', 'clearTimeout'] as const;
  jest.useFakeTimers({ doNotFake: [...others] });
};
const LOOK_EVERY_MS = 2000;

beforeAll(registerFake);

describe.each(engines())('watching how connections are doing on $name', (engine) => {
  let room: ConnectionRoom;
  let edge: TestEdge;
  let readers: Reader[];
  beforeEach(async () => {
    room = await openRoom(engine);
    edge = await serveRoom(room);
    edge.keys.add('key');
    readers = [];
  });
  afterEach(async () => {
    jest.useRealTimers();
    for (const reader of readers) reader.stop();
    await edge.stop();
    await room.test.drop();
  });

  const watch = (ids: string[] = []): Reader => {
    const client = edge.client(ConnectionServiceClient);
    const request: WatchConnectionStatusRequest = { organizationId: '', ids };
    const reader = new Reader(client.watchConnectionStatus(request, headers({ 'x-api-key': 'key', 'x-organization-id': 'org-1' })));
    readers.push(reader);
    return reader;
  };

  it('begins with each connection, then tells each change', async () => {
    const first = (await room.service.create('org-1', input({ name: 'a' }))).connection.id;
    const second = (await room.service.create('org-1', input({ name: 'b', enabled: false }))).connection.id;
    await room.service.create('org-2', input());
    const reader = watch();
    expect([await reader.next(), await reader.next(), await reader.next()]).toMatchObject([
      { connectionId: first, status: { state: DISCONNECTED }, deleted: false, complete: false },
      { connectionId: second, status: { state: DISABLED }, deleted: false, complete: false },
      { connectionId: '', status: undefined, deleted: false, complete: true },
    ]);
    room.statuses.connecting(first);
    expect(await reader.next()).toMatchObject({ connectionId: first, status: { state: CONNECTING } });
    room.statuses.detached(first, 'nobody listens there');
    expect(await reader.next()).toMatchObject({ connectionId: first, status: { state: DISCONNECTED, lastError: 'nobody listens there' } });
    room.statuses.attached(first);
    expect(await reader.next()).toMatchObject({ connectionId: first, status: { state: CONNECTED, lastError: '' } });
    room.statuses.warn(first, ['no_message_expiry']);
    expect(await reader.next()).toMatchObject({ connectionId: first, status: { state: DEGRADED, warnings: ['no_message_expiry'] } });
  });

  it('tells of those that are created, switched and deleted meanwhile, and of nobody else', async () => {
    const reader = watch();
    expect(await reader.next()).toMatchObject({ complete: true });
    const old = (await room.service.create('org-1', input({ name: 'a' }))).connection.id;
    expect(await reader.next()).toMatchObject({ connectionId: old, status: { state: DISCONNECTED } });
    const foreign = (await room.service.create('org-2', input())).connection.id;
    room.statuses.connecting(foreign);
    await room.service.delete('org-2', foreign, undefined);
    await room.service.update('org-1', old, { ...nothing, enabled: false }, undefined);
    expect(await reader.next()).toMatchObject({ connectionId: old, status: { state: DISABLED } });
    await room.service.delete('org-1', old, undefined);
    expect(await reader.next()).toEqual({ connectionId: old, status: undefined, deleted: true, complete: false });
    const fresh = (await room.service.create('org-1', input({ name: 'b' }))).connection.id;
    expect(await reader.next()).toMatchObject({ connectionId: fresh });
  });

  it('tells of chosen ones only, and refuses those that are not there', async () => {
    const ids: string[] = [];
    for (const name of ['a', 'b']) ids.push((await room.service.create('org-1', input({ name }))).connection.id);
    const foreign = (await room.service.create('org-2', input())).connection.id;
    const [chosen = '', other = ''] = ids;
    const reader = watch([chosen, chosen]);
    expect([await reader.next(), await reader.next()]).toMatchObject([{ connectionId: chosen }, { complete: true }]);
    room.statuses.attached(other);
    room.statuses.attached(chosen);
    expect(await reader.next()).toMatchObject({ connectionId: chosen, status: { state: CONNECTED } });
    expect(await watch([chosen, foreign]).failed).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found', metadata: { connection_id: foreign } });
  });

  it('gives a slow reader the newest status, not a backlog', async () => {
    const { connection } = await room.service.create('org-1', input());
    const stopping = new AbortController();
    const news = room.watch.watch('org-1', [], stopping.signal);
    await news.next();
    await news.next();
    for (let n = 0; n < 1000; n += 1) {
      room.statuses.detached(connection.id, '');
      room.statuses.connecting(connection.id);
      room.statuses.detached(connection.id, `attempt ${n}`);
    }
    expect(await news.next()).toMatchObject({ value: { status: { lastError: 'attempt 999' } } });
    room.statuses.attached(connection.id);
    expect(await news.next()).toMatchObject({ value: { status: { state: 'connected' } } });
    const end = news.next();
    await new Promise(setImmediate); // it waits for news
    stopping.abort();
    expect(await end).toEqual({ value: undefined, done: true });
  });

  it('tells what changes only by time', async () => {
    const { connection } = await room.service.create('org-1', input());
    room.statuses.attached(connection.id);
    room.statuses.contested(connection.id);
    holdIntervals();
    const reader = watch();
    expect(await reader.next()).toMatchObject({ status: { state: DEGRADED, warnings: ['contested'] } });
    expect(await reader.next()).toMatchObject({ complete: true });
    room.clock.advance(300_000);
    jest.advanceTimersByTime(LOOK_EVERY_MS);
    expect(await reader.until(CONNECTED)).toMatchObject({ status: { warnings: [] } });
  });

  it('tells of messages at most once a second for each connection, and of the last one too', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 10; n += 1) ids.push((await room.service.create('org-1', input({ name: `b${n}` }))).connection.id);
    const stopping = new AbortController();
    const times = new Map<string, (number | undefined)[]>(ids.map((id) => [id, []]));
    const reading = (async () => {
      for await (const news of room.watch.watch('org-1', [], stopping.signal)) if (news.kind === 'status') times.get(news.connectionId)?.push(news.status.lastMessageAt);
    })();
    const told = async (isEnough: (at: readonly (number | undefined)[]) => boolean): Promise<void> => {
      while (![...times.values()].every(isEnough)) await new Promise(setImmediate);
    };
    await told((at) => at.length === 1);
    for (const id of ids) room.statuses.attached(id);
    await told((at) => at.length === 2);
    for (let step = 0; step < 40; step += 1) {
      room.clock.advance(100);
      for (const id of step % 2 === 0 ? ids : ids.toReversed()) room.statuses.messageReceived(id);
      await room.service.list('org-1', undefined, '');
    }
    const last = room.clock.now();
    expect(Math.max(...[...times.values()].map((at) => at.length))).toBeLessThanOrEqual(2 + 4);
    room.clock.advance(1000);
    await told((at) => at.at(-1) === last);
    stopping.abort();
    await reading;
  });

  it('shows more connections than fit on a page', async () => {
    for (let n = 0; n < 203; n += 1) await room.service.create('org-1', input({ name: `b${n}` }));
    const reader = watch();
    const ids = new Set<string>();
    for (let n = 0; n < 203; n += 1) ids.add((await reader.next()).connectionId);
    expect(ids.size).toBe(203);
  });
});
