import type { Downlink, Peer, SendResult } from '../../src/connections';
import { Executions, ExecutionService, type ShownExecution } from '../../src/executions';
import { ExecutionStore } from '../../src/executions/changes/executionStore';
import { Cursors } from '../../src/kernel/pages';
import { MemoryLog } from '../support/edge';
import { noEncoder } from '../support/encoders';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionFixture, prepare, startExecutionFixture, type Target, untilState } from './executionFixture';

/** A transport that a test controls in place of a real connection. */
class FakeHub {
  readonly sent: Downlink[] = [];
  readonly cancelled: string[] = [];
  attached: Peer | undefined = { peerId: 'gw-1', bootId: 'b1', session: 1, capacity: 100 };
  /** The connections for which a command waits. */
  readonly soon: string[] = [];
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

  connectSoon(connectionId: string): void {
    this.soon.push(connectionId);
  }

  cancelUnsent(): boolean {
    return false;
  }

  cancelAtGateway(_connectionId: string, executionId: string): void {
    this.cancelled.push(executionId);
  }

  /** Waits until it has received this number of commands. */
  async until(count: number): Promise<void> {
    if (this.sent.length < count) await new Promise<void>((resolve) => this.waiting.push({ count, resolve }));
  }
}

describe.each(engines())('the dispatcher on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let hub: FakeHub;
  let log: MemoryLog;
  let executions: Executions;
  let target: Target;
  let connectionId: string;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    fixture = await startExecutionFixture(db.database);
    await fixture.executions.stop(); // The test uses its own instance.
  });
  beforeEach(async () => {
    hub = new FakeHub();
    log = new MemoryLog();
    executions = new Executions({
      database: db.database,
      hub,
      encoder: noEncoder,
      clock: fixture.clock,
      cursors: new Cursors(Buffer.alloc(32)),
      log,
    });
    connectionId = await fixture.connection();
    target = await fixture.target({
      connectionId,
      command: { paramsSchema: { n: { type: 2, enum: [], default: 0 } } },
    });
  });
  afterEach(async () => await executions.stop());
  afterAll(async () => {
    await fixture.stop();
    await db.drop();
  });

  async function submit(n = 0): Promise<string> {
    return (
      await executions.service.execute('org-1', {
        deviceId: target.deviceId,
        commandId: target.commandId,
        params: { n },
        triggerId: undefined,
        requestId: 'r',
      })
    ).execution.id;
  }
  const stored = async (id: string): Promise<ShownExecution> => (await executions.service.get('org-1', id)).execution;

  it('validates outside of any transaction, and again when the command was changed meanwhile', async () => {
    const encoderStarted = Promise.withResolvers<void>();
    const now = fixture.clock.now.bind(fixture.clock);
    const clock = { now: () => (encoderStarted.resolve(), now()), monotonic: now };
    const service = new ExecutionService({
      database: db.database,
      encoder: noEncoder,
      clock,
      cursors: new Cursors(Buffer.alloc(32)),
      executionStore: new ExecutionStore({ clock: fixture.clock, onCommitted: () => {} }),
    });
    const given = await fixture.target();
    const editing = db.database.transaction(async ({ knex, dialect }) => {
      // This makes sure that it waits.
      await dialect.lockForUpdate(knex('digital_devices').where('id', given.deviceId)).first('id');
      await knex('commands').where('id', given.commandId).update({ revision: 7 });
      const outcome = service.execute('org-1', { ...given, params: {}, triggerId: undefined, requestId: 'r' });
      await encoderStarted.promise; // It was validated with the previous command, and waits for this transaction.
      return { outcome };
    });
    const { outcome } = await editing;
    expect((await outcome).execution).toMatchObject({ state: 'enqueued', commandRevision: 7 });
  });

  it('asks the connector to connect soon when a command waits', async () => {
    hub.attached = undefined;
    await submit();
    expect(hub.soon).toEqual([connectionId]);
  });

  it('stores the intent before it sends a byte', async () => {
    const states: unknown[] = [];
    hub.onSend = async ({ executionId }) => {
      states.push(await stored(executionId));
      return 'sent';
    };
    const id = await submit();
    await hub.until(1);
    expect(states).toMatchObject([
      {
        id,
        state: 'in_transit',
        attempts: 1,
        sentTo: 'gw-1',
        sentBoot: 'b1',
        holdsSlot: true,
        dispatchedAt: fixture.clock.now(),
      },
    ]);
  });

  it('resends what certainly was not sent, with an increasing backoff and before later commands', async () => {
    hub.onSend = async () => (hub.sent.length < 2 ? 'not_sent' : 'sent');
    const first = await submit(1);
    await hub.until(1);
    const second = await submit(2);
    for (const [count, wait] of [
      [2, 1000],
      [3, 2000],
    ] as const) {
      await untilState(executions, first, 'enqueued');
      fixture.clock.advance(wait - 1);
      executions.ready('org-1', connectionId);
      expect(hub.sent).toHaveLength(count - 1);
      fixture.clock.advance(1);
      await hub.until(count);
    }
    expect(hub.sent.map(({ executionId, attempt }) => [executionId, attempt])).toEqual([
      [first, 1],
      [first, 2],
      [first, 3],
    ]);
    await executions.evidenceService.applyEvidence('org-1', connectionId, first, 'test', { kind: 'ack' });
    await hub.until(4);
    expect(hub.sent[3]).toMatchObject({ executionId: second, attempt: 1 });
  });

  it('does not starve a device that waits longer than another', async () => {
    const other = await fixture.target({ connectionId });
    const [slow, quick] = [target.clientDeviceId, other.clientDeviceId];
    hub.onSend = async ({ clientDeviceId, attempt }) =>
      attempt < (clientDeviceId === slow ? 3 : 2) ? 'not_sent' : 'sent';
    const first = await submit(1);
    await hub.until(1);
    await untilState(executions, first, 'enqueued');
    fixture.clock.advance(1000);
    await hub.until(2);
    await untilState(executions, first, 'enqueued'); // This device has waited for 2 s.
    const { execution } = await executions.service.execute('org-1', {
      deviceId: other.deviceId,
      commandId: other.commandId,
      params: {},
      triggerId: undefined,
      requestId: 'r',
    });
    await hub.until(3);
    await untilState(executions, execution.id, 'enqueued'); // This device has waited for 1 s.
    fixture.clock.advance(1000);
    await hub.until(4);
    fixture.clock.advance(1000);
    await hub.until(5);
    expect(hub.sent.map(({ clientDeviceId }) => clientDeviceId)).toEqual([slow, slow, quick, quick, slow]);
  });

  it('sends nothing whose deadline passed after the intent was committed', async () => {
    const isBack = new Promise<void>((resolve) => {
      log.debug = (fields: { state?: string; cause?: string }): void => {
        if (fields.state === 'in_transit') fixture.clock.advance(60_000);
        if (fields.cause === 'known_undelivered') resolve();
      };
    });
    const id = await submit();
    await isBack;
    await executions.deadlines.sweep();
    expect(await stored(id)).toMatchObject({ state: 'transport_unreachable', attempts: 1 });
    expect(hub.sent).toEqual([]);
  });

  it('leaves the outcome open when sending fails in an unknown way', async () => {
    hub.onSend = async () => {
      throw new Error('broken pipe');
    };
    const id = await submit();
    await log.until('executions.send_failed');
    expect(await stored(id)).toMatchObject({ state: 'in_transit' });
  });

  it('records that an attempt was not sent, even when it was considered lost meanwhile', async () => {
    hub.onSend = async () => {
      if (hub.sent.length > 0) return 'sent';
      await executions.evidenceService.attached({
        organizationId: 'org-1',
        connectionId,
        peerId: 'gw-2',
        bootId: 'x',
        source: 'gateway:gw-2',
        durable: true,
        known: [],
      });
      return 'not_sent';
    };
    const id = await submit();
    await hub.until(1);
    await untilState(executions, id, 'enqueued');
    const { events } = await executions.service.get('org-1', id);
    expect(events.map((event) => event.event)).toEqual(['submitted', 'dispatch', 'link_lost', 'known_undelivered']);
    fixture.clock.advance(1000);
    await hub.until(2);
    expect(hub.sent[1]).toMatchObject({ executionId: id, attempt: 2 });
  });

  it('does not query the database for a connection that has no gateway attached', async () => {
    hub.attached = undefined;
    const id = await submit();
    expect(await stored(id)).toMatchObject({ state: 'enqueued' });
    hub.attached = { peerId: 'gw-1', bootId: 'b1', session: 7, capacity: 1 };
    executions.ready('org-1', connectionId);
    await hub.until(1);
    expect(hub.sent[0]).toMatchObject({ executionId: id });
  });

  it('ends all executions of a removed target once', async () => {
    const id = await submit();
    await hub.until(1);
    await db.database.transaction(
      async (tx) => await executions.targetRemoval.targetRemoved(tx, 'org-1', target.deviceId, 'device_deleted'),
    );
    await db.database.transaction(
      async (tx) => await executions.targetRemoval.targetRemoved(tx, 'org-1', target.deviceId, 'device_deleted'),
    );
    expect(await stored(id)).toMatchObject({ state: 'unconfirmed', detail: 'device_removed', eventCount: 3 });
    expect(hub.cancelled).toEqual([id]);
  });
});
