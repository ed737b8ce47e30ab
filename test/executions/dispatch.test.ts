import type { Downlink, Peer, SendResult } from '../../src/connections';
import { Executions, ExecutionService, type ShownExecution } from '../../src/executions';
import { Ledger } from '../../src/executions/ledger/ledger';
import { Cursors } from '../../src/kernel/pages';
import { MemoryLog } from '../support/edge';
import { noEncoder } from '../support/encoders';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionRoom, prepare, startExecutionRoom, type Target, untilState } from './executionRoom';

/** A transport that does what a test says; where the process ends. */
class FakeHub {
  readonly sent: Downlink[] = [];
  readonly withdrawn: string[] = [];
  attached: Peer | undefined = { peerId: 'gw-1', bootId: 'b1', session: 1, capacity: 100 };
  onSend: (downlink: Downlink) => Promise<SendResult> = async () => 'sent';
  private readonly waiting: { count: number; resolve: () => void }[] = [];

  peer(): Peer | undefined {
    return this.attached;
  }

  async send(downlink: Downlink, session: number): Promise<SendResult> {
    expect(session).toBe(this.attached?.session);
    const result = await this.onSend(downlink);
    this.sent.push(downlink);
    for (const one of this.waiting) if (this.sent.length >= one.count) one.resolve();
    return result;
  }

  takeBack(): boolean {
    return false;
  }

  withdraw(_connectionId: string, executionId: string): void {
    this.withdrawn.push(executionId);
  }

  /** Waits until so many were given to it. */
  async until(count: number): Promise<void> {
    if (this.sent.length < count) await new Promise<void>((resolve) => this.waiting.push({ count, resolve }));
  }
}

describe.each(engines())('the dispatcher on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  let hub: FakeHub;
  let log: MemoryLog;
  let executions: Executions;
  let target: Target;
  let connectionId: string;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    room = await startExecutionRoom(db.database);
    await room.executions.stop(); // what it admits and ends is done here
  });
  beforeEach(async () => {
    hub = new FakeHub();
    log = new MemoryLog();
    executions = new Executions({ database: db.database, hub, encoder: noEncoder, clock: room.clock, cursors: new Cursors(Buffer.alloc(32)), log });
    connectionId = await room.connection();
    target = await room.target({ connectionId, command: { paramsSchema: { n: { type: 2, enum: [], default: 0 } } } });
  });
  afterEach(async () => await executions.stop());
  afterAll(async () => {
    await room.stop();
    await db.drop();
  });

  async function submit(n = 0): Promise<string> {
    return (await executions.service.execute('org-1', { deviceId: target.deviceId, commandId: target.commandId, params: { n }, triggerId: undefined, requestId: 'r' })).execution.id;
  }
  const stored = async (id: string): Promise<ShownExecution> => (await executions.service.get('org-1', id)).execution;

  it('is judged outside of any transaction, and anew when the command was edited meanwhile', async () => {
    const asked = Promise.withResolvers<void>();
    const now = room.clock.now.bind(room.clock);
    const clock = { now: () => (asked.resolve(), now()), monotonic: now };
    const service = new ExecutionService({ database: db.database, encoder: noEncoder, clock, cursors: new Cursors(Buffer.alloc(32)), ledger: new Ledger({ clock: room.clock, onCommitted: () => {} }) });
    const given = await room.target();
    const editing = db.database.transaction(async ({ knex, dialect }) => {
      await dialect.lockForUpdate(knex('digital_devices').where('id', given.deviceId)).first('id'); // so that it surely waits
      await knex('commands').where('id', given.commandId).update({ revision: 7 });
      const outcome = service.execute('org-1', { ...given, params: {}, triggerId: undefined, requestId: 'r' });
      await asked.promise; // it was judged by what was there before, and waits for this transaction
      return { outcome };
    });
    const { outcome } = await editing;
    expect((await outcome).execution).toMatchObject({ state: 'enqueued', commandRevision: 7 });
  });

  it('has the intent on disk before a byte leaves', async () => {
    const seen: unknown[] = [];
    hub.onSend = async ({ executionId }) => {
      seen.push(await stored(executionId));
      return 'sent';
    };
    const id = await submit();
    await hub.until(1);
    expect(seen).toMatchObject([{ id, state: 'in_transit', attempts: 1, sentTo: 'gw-1', sentBoot: 'b1', holdsSlot: true, dispatchedAt: room.clock.now() }]);
  });

  it('sends again what provably did not leave, a little later each time, and before what came after it', async () => {
    hub.onSend = async () => (hub.sent.length < 2 ? 'not_sent' : 'sent');
    const first = await submit(1);
    await hub.until(1);
    const second = await submit(2);
    for (const [count, wait] of [[2, 1000], [3, 2000]] as const) {
      await untilState(executions, first, 'enqueued');
      room.clock.advance(wait - 1);
      executions.ready('org-1', connectionId);
      expect(hub.sent).toHaveLength(count - 1);
      room.clock.advance(1);
      await hub.until(count);
    }
    expect(hub.sent.map(({ executionId, attempt }) => [executionId, attempt])).toEqual([[first, 1], [first, 2], [first, 3]]);
    await executions.evidence('org-1', connectionId, first, 'test', { kind: 'ack' });
    await hub.until(4);
    expect(hub.sent[3]).toMatchObject({ executionId: second, attempt: 1 });
  });

  it('forgets no device that waits longer than another', async () => {
    const other = await room.target({ connectionId });
    const [slow, quick] = [target.clientDeviceId, other.clientDeviceId];
    hub.onSend = async ({ clientDeviceId, attempt }) => (attempt < (clientDeviceId === slow ? 3 : 2) ? 'not_sent' : 'sent');
    const first = await submit(1);
    await hub.until(1);
    await untilState(executions, first, 'enqueued');
    room.clock.advance(1000);
    await hub.until(2);
    await untilState(executions, first, 'enqueued'); // for 2 s now
    const { execution } = await executions.service.execute('org-1', { deviceId: other.deviceId, commandId: other.commandId, params: {}, triggerId: undefined, requestId: 'r' });
    await hub.until(3);
    await untilState(executions, execution.id, 'enqueued'); // for 1 s
    room.clock.advance(1000);
    await hub.until(4);
    room.clock.advance(1000);
    await hub.until(5);
    expect(hub.sent.map(({ clientDeviceId }) => clientDeviceId)).toEqual([slow, slow, quick, quick, slow]);
  });

  it('sends nothing for which the time has passed since the intent was committed', async () => {
    const isBack = new Promise<void>((resolve) => {
      log.debug = (fields: { state?: string; cause?: string }): void => {
        if (fields.state === 'in_transit') room.clock.advance(60_000);
        if (fields.cause === 'known_undelivered') resolve();
      };
    });
    const id = await submit();
    await isBack;
    await executions.sweep();
    expect(await stored(id)).toMatchObject({ state: 'transport_unreachable', attempts: 1 });
    expect(hub.sent).toEqual([]);
  });

  it('leaves open what nobody knows when sending fails', async () => {
    hub.onSend = async () => {
      throw new Error('broken pipe');
    };
    const id = await submit();
    await log.until('executions.send_failed');
    expect(await stored(id)).toMatchObject({ state: 'in_transit' });
  });

  it('knows that an attempt did not leave, also when it was thought lost meanwhile', async () => {
    hub.onSend = async () => {
      if (hub.sent.length > 0) return 'sent';
      await executions.attached({ organizationId: 'org-1', connectionId, peerId: 'gw-2', bootId: 'x', source: 'gateway:gw-2', durable: true, known: [] });
      return 'not_sent';
    };
    const id = await submit();
    await hub.until(1);
    await untilState(executions, id, 'enqueued');
    const { events } = await executions.service.get('org-1', id);
    expect(events.map((event) => event.event)).toEqual(['submitted', 'dispatch', 'link_lost', 'known_undelivered']);
    room.clock.advance(1000);
    await hub.until(2);
    expect(hub.sent[1]).toMatchObject({ executionId: id, attempt: 2 });
  });

  it('asks nothing of the database for a connection that nobody is attached to', async () => {
    hub.attached = undefined;
    const id = await submit();
    expect(await stored(id)).toMatchObject({ state: 'enqueued' });
    hub.attached = { peerId: 'gw-1', bootId: 'b1', session: 7, capacity: 1 };
    executions.ready('org-1', connectionId);
    await hub.until(1);
    expect(hub.sent[0]).toMatchObject({ executionId: id });
  });

  it('ends everything of a removed target once', async () => {
    const id = await submit();
    await hub.until(1);
    await db.database.transaction(async (tx) => await executions.targetRemoved(tx, 'org-1', target.deviceId, 'device_deleted'));
    await db.database.transaction(async (tx) => await executions.targetRemoved(tx, 'org-1', target.deviceId, 'device_deleted'));
    expect(await stored(id)).toMatchObject({ state: 'unconfirmed', detail: 'target_removed', eventCount: 3 });
    expect(hub.withdrawn).toEqual([id]);
  });
});
