import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  CommandResultCode,
  GatewayStore,
  CommandSnapshotStatus,
  ResultOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { type ExecutionFixture, getName, prepare, startExecutionFixture, untilEvent } from './executionFixture';
import { TestGateway } from './testGateway';

const { GATEWAY_STORE_VOLATILE: VOLATILE } = GatewayStore;
const { COMMAND_SNAPSHOT_STATUS_RECEIVED: RECEIVED, COMMAND_SNAPSHOT_STATUS_ACCEPTED: DONE } = CommandSnapshotStatus;
const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_FAILED: FAILED } = CommandResultCode;
const { RESULT_OUTCOME_APPLIED: APPLIED, RESULT_OUTCOME_LATE: LATE, RESULT_OUTCOME_UNKNOWN: UNKNOWN } = ResultOutcome;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe.each(sqliteOnly())('the memory of a gateway, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let connectionId: string;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    fixture = await startExecutionFixture(db.database);
  });
  beforeEach(async () => {
    connectionId = await fixture.connection();
  });
  afterAll(async () => {
    await fixture.stop();
    await db.drop();
  });

  const getState = async (executionId: string): Promise<string> => getName((await fixture.get(executionId)).state);

  /** Creates an execution whose command an attached gateway holds without having reported anything. */
  async function sent(gateway: TestGateway): Promise<string> {
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    await gateway.untilCommand(executionId);
    return executionId;
  }

  /** Advances the clock beyond both deadlines. */
  async function advanceBeyondDeadlines(): Promise<void> {
    for (let deadline = 0; deadline < 3; deadline++) {
      fixture.clock.advance(2 * MINUTE);
      await fixture.executions.deadlines.sweep();
    }
  }

  describe('a sleepy connection', () => {
    it('waits for hours without a gateway, and delivers when its gateway attaches', async () => {
      connectionId = await fixture.connection({ policy: { sleepy: true } });
      const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
      for (let hour = 0; hour < 23; hour++) {
        fixture.clock.advance(HOUR);
        await fixture.executions.deadlines.sweep();
      }
      expect(await getState(executionId)).toBe('enqueued');
      const gateway = await TestGateway.attach(fixture, { connectionId });
      expect(await gateway.command(1)).toMatchObject({
        executionId,
        attempt: 1,
        expiresIn: { seconds: 3600, nanos: 0 },
      });
      gateway.received(executionId);
      await fixture.until(executionId, 'delivered');
      expect(await gateway.result(executionId, ACCEPTED)).toBe(APPLIED);
      expect(await getState(executionId)).toBe('accepted_no_l4');
      await gateway.cut();
    });

    it('gives up after 24 hours, and one that is not sleepy after a minute', async () => {
      const [sleepy, awake] = await Promise.all([
        fixture.connection({ policy: { sleepy: true } }),
        fixture.connection(),
      ]);
      const [first, second] = [
        await fixture.execute(await fixture.target({ connectionId: sleepy })),
        await fixture.execute(await fixture.target({ connectionId: awake })),
      ];
      fixture.clock.advance(MINUTE);
      await fixture.executions.deadlines.sweep();
      expect([await getState(first.executionId), await getState(second.executionId)]).toEqual([
        'enqueued',
        'transport_unreachable',
      ]);
      fixture.clock.advance(24 * HOUR - MINUTE);
      await fixture.executions.deadlines.sweep();
      const gateway = await TestGateway.attach(fixture, { connectionId: sleepy });
      await gateway.cut();
      expect(await fixture.get(first.executionId)).toMatchObject({
        state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
        attempts: 0,
      });
      expect(gateway.commands).toEqual([]);
    });
  });

  describe('a gateway that lost its memory', () => {
    const LOST = [
      ['in a volatile store', { bootId: 'boot-2', store: VOLATILE }],
      ['in a durable store, contrary to its report', { bootId: 'boot-2' }],
    ] as const;
    it.each(LOST)('%s, does not get a command again that it had reported as received', async (_name, options) => {
      const first = await TestGateway.attach(fixture, { connectionId });
      const executionId = await sent(first);
      first.received(executionId);
      await fixture.until(executionId, 'delivered');
      await first.cut();
      const again = await TestGateway.attach(fixture, { connectionId, ...options });
      const next = await sent(again);
      await again.result(next, ACCEPTED);
      await advanceBeyondDeadlines();
      expect(await fixture.get(executionId)).toMatchObject({
        state: ExecutionState.EXECUTION_STATE_UNCONFIRMED,
        detail: 'ack_timeout',
        attempts: 1,
      });
      expect(again.commands.map((command) => command.executionId)).toEqual([next]);
      await again.cut();
    });

    it('can still correct this with its own later report', async () => {
      const first = await TestGateway.attach(fixture, { connectionId });
      const executionId = await sent(first);
      await first.cut();
      const volatile = await TestGateway.attach(fixture, { connectionId, bootId: 'boot-2', store: VOLATILE });
      expect(await fixture.get(executionId)).toMatchObject({
        state: ExecutionState.EXECUTION_STATE_IN_TRANSIT,
        detail: 'delivery_unconfirmed',
      });
      expect(await volatile.result(executionId, ACCEPTED)).toBe(APPLIED); // The device has answered it after all.
      expect(await fixture.get(executionId)).toMatchObject({
        state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
        detail: '',
      });
      await volatile.cut();
    });
  });

  describe('another gateway', () => {
    it('never receives what was sent to the first one, which may still prove that it does not hold it', async () => {
      const a = await TestGateway.attach(fixture, { connectionId, gatewayId: 'a' });
      const [missed, held] = [await sent(a), await sent(a)];
      const b = await TestGateway.attach(fixture, { connectionId, gatewayId: 'b' });
      for (const id of [missed, held])
        expect(await fixture.get(id)).toMatchObject({
          state: ExecutionState.EXECUTION_STATE_IN_TRANSIT,
          detail: 'delivery_unconfirmed',
        });
      const own = await sent(b);
      await b.result(own, ACCEPTED);
      expect(b.commands).toHaveLength(1);
      fixture.clock.advance(MINUTE / 2); // A gateway that was replaced stays away before that.
      const back = await TestGateway.attach(fixture, {
        connectionId,
        gatewayId: 'a',
        known: [{ executionId: held, status: RECEIVED }],
      });
      fixture.clock.advance(1000);
      expect(await back.command(1)).toMatchObject({ executionId: missed, attempt: 2 });
      expect([await getState(missed), await getState(held)]).toEqual(['in_transit', 'delivered']);
      await back.cut();
    });

    it('may bring the results of the first one', async () => {
      const a = await TestGateway.attach(fixture, { connectionId, gatewayId: 'a' });
      const executionId = await sent(a);
      const b = await TestGateway.attach(fixture, {
        connectionId,
        gatewayId: 'b',
        known: [{ executionId, status: DONE }],
      });
      expect(await getState(executionId)).toBe('accepted_no_l4');
      await b.cut();
    });

    it('of another connection changes nothing', async () => {
      const a = await TestGateway.attach(fixture, { connectionId });
      const executionId = await sent(a);
      const otherGateway = await TestGateway.attach(fixture, {
        connectionId: await fixture.connection(),
        known: [{ executionId, status: DONE }],
      });
      expect(await otherGateway.result(executionId, FAILED)).toBe(UNKNOWN);
      expect(await getState(executionId)).toBe('in_transit');
      await Promise.all([a.cut(), otherGateway.cut()]);
    });
  });

  describe.each([
    ['an hour ahead', (now: number) => now + HOUR],
    ['an hour behind', (now: number) => now - HOUR],
    ['at the epoch', () => 0],
  ])('a gateway whose clock is %s', (_name, clockOf) => {
    it('is trusted for what happened but not for when: no deadline moves', async () => {
      const gateway = await TestGateway.attach(fixture, { connectionId });
      const time = clockOf(fixture.clock.now());
      const reported = { reported_at: new Date(time).toISOString() };
      const executionId = await sent(gateway);
      const command = await gateway.command(1);
      expect(command.expiresIn).toEqual({ seconds: 60, nanos: 0 });
      gateway.received(executionId, time);
      const delivered = await fixture.until(executionId, 'delivered');
      expect(delivered.events.at(-1)).toMatchObject({ event: 'transport_ok', data: reported });
      expect(delivered.deadlineAt).toEqual(toTimestamp(fixture.clock.now() + 2 * MINUTE));
      await gateway.cut();
      const again = await TestGateway.attach(fixture, {
        connectionId,
        known: [{ executionId, status: DONE, time: toTimestamp(time) }],
      });
      const done = await fixture.get(executionId);
      expect(done).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4 });
      expect(done.events.at(-1)?.data).toMatchObject(reported);
      await again.cut();
    });
  });

  describe('results', () => {
    it('count before the receipt, which then changes nothing', async () => {
      const gateway = await TestGateway.attach(fixture, { connectionId });
      const executionId = await sent(gateway);
      expect(await gateway.result(executionId, ACCEPTED)).toBe(APPLIED);
      gateway.received(executionId);
      await untilEvent(fixture.executions, executionId, 'late_evidence');
      expect(await getState(executionId)).toBe('accepted_no_l4');
      await gateway.cut();
    });

    it('count once: the first one stays, also against a different one, on another stream and after the end', async () => {
      const gateway = await TestGateway.attach(fixture, { connectionId });
      const executionId = await sent(gateway);
      gateway.received(executionId);
      expect(await gateway.result(executionId, FAILED, 'E7', 'stuck')).toBe(APPLIED);
      expect(await gateway.result(executionId, FAILED, 'E7', 'stuck')).toBe(LATE);
      expect(await gateway.result(executionId, ACCEPTED)).toBe(LATE);
      await gateway.cut();
      const again = await TestGateway.attach(fixture, {
        connectionId,
        known: [
          { executionId, status: DONE },
          { executionId, status: RECEIVED },
        ],
      });
      expect(await again.result(executionId, ACCEPTED)).toBe(LATE);
      const { state, detail, events } = await fixture.get(executionId);
      expect([getName(state), detail]).toEqual(['protocol_rejected', 'E7']);
      expect(events.map(({ event }) => event).filter((event) => event !== 'late_evidence')).toEqual([
        'submitted',
        'dispatch',
        'transport_ok',
        'negative',
      ]);
      await again.cut();
    });

    it('that arrive after the deadline are stored with the ended execution, and the gateway may delete them', async () => {
      const gateway = await TestGateway.attach(fixture, { connectionId });
      const executionId = await sent(gateway);
      gateway.received(executionId);
      await fixture.until(executionId, 'delivered');
      await advanceBeyondDeadlines();
      expect(await gateway.result(executionId, ACCEPTED)).toBe(LATE);
      const { state, events } = await fixture.get(executionId);
      expect([getName(state), events.at(-1)?.event]).toEqual(['unconfirmed', 'late_evidence']);
      await gateway.cut();
    });
  });

  it('are requested after a Hello with 10,000 commands of which the server knows few', async () => {
    connectionId = await fixture.connection({ policy: { maxInFlight: 1000 } });
    const first = await TestGateway.attach(fixture, { connectionId });
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) ids.push(await sent(first));
    const missed = await sent(first);
    await first.cut();
    const unknown = Array.from({ length: 10_000 - ids.length }, (_, count) => ({
      executionId: `long-forgotten-execution-${count}`,
      status: RECEIVED,
    }));
    const known = [
      ...unknown.slice(0, 5000),
      ...ids.map((executionId) => ({ executionId, status: DONE })),
      ...unknown.slice(5000),
    ];
    const warnings = fixture.log.of('executions.unknown_to_server').length;
    const again = await TestGateway.attach(fixture, { connectionId, known });
    for (const id of ids) expect(await getState(id)).toBe('accepted_no_l4');
    await again.untilAcks(ids.length);
    expect(again.acks.map(({ executionId }) => executionId)).toEqual(ids);
    expect(await getState(missed)).toBe('enqueued');
    expect(fixture.log.of('executions.unknown_to_server').slice(warnings)).toEqual([
      expect.objectContaining({ connection_id: connectionId, count: unknown.length }),
    ]);
    await again.cut();
  });
});
