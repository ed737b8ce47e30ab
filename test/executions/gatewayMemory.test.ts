import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, GatewayStore, KnownStatus, ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionRoom, nameOf, prepare, startExecutionRoom, untilEvent } from './executionRoom';
import { TestGateway } from './testGateway';

const { GATEWAY_STORE_VOLATILE: VOLATILE } = GatewayStore;
const { KNOWN_STATUS_RECEIVED: RECEIVED, KNOWN_STATUS_ACCEPTED: DONE } = KnownStatus;
const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_FAILED: FAILED } = CommandResultCode;
const { RESULT_OUTCOME_APPLIED: APPLIED, RESULT_OUTCOME_LATE: LATE, RESULT_OUTCOME_UNKNOWN: UNKNOWN } = ResultOutcome;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe.each(engines())('what a gateway remembers, and when, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  let connectionId: string;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    room = await startExecutionRoom(db.database);
  });
  beforeEach(async () => {
    connectionId = await room.connection();
  });
  afterAll(async () => {
    await room.stop();
    await db.drop();
  });

  const stateOf = async (executionId: string): Promise<string> => nameOf((await room.get(executionId)).state);

  /** An execution whose command an attached gateway holds in its hands, and has said nothing of. */
  async function sent(gateway: TestGateway): Promise<string> {
    const { executionId } = await room.execute(await room.target({ connectionId }));
    await gateway.untilCommand(executionId);
    return executionId;
  }

  /** Both deadlines have passed. */
  async function untilEnd(): Promise<void> {
    for (let deadline = 0; deadline < 3; deadline++) {
      room.clock.advance(2 * MINUTE);
      await room.executions.sweep();
    }
  }

  describe('a sleepy connection', () => {
    it('waits for hours while nobody is attached, and is delivered when its gateway comes', async () => {
      connectionId = await room.connection({ policy: { sleepy: true } });
      const { executionId } = await room.execute(await room.target({ connectionId }));
      for (let hour = 0; hour < 23; hour++) {
        room.clock.advance(HOUR);
        await room.executions.sweep();
      }
      expect(await stateOf(executionId)).toBe('enqueued');
      const gateway = await TestGateway.attach(room, { connectionId });
      expect(await gateway.command(1)).toMatchObject({ executionId, attempt: 1, expiresIn: { seconds: 3600, nanos: 0 } });
      gateway.received(executionId);
      await room.until(executionId, 'delivered');
      expect(await gateway.result(executionId, ACCEPTED)).toBe(APPLIED);
      expect(await stateOf(executionId)).toBe('accepted_no_l4');
      await gateway.cut();
    });

    it('is given up after 24 hours, and one that is not sleepy after a minute', async () => {
      const [sleepy, awake] = await Promise.all([room.connection({ policy: { sleepy: true } }), room.connection()]);
      const [first, second] = [await room.execute(await room.target({ connectionId: sleepy })), await room.execute(await room.target({ connectionId: awake }))];
      room.clock.advance(MINUTE);
      await room.executions.sweep();
      expect([await stateOf(first.executionId), await stateOf(second.executionId)]).toEqual(['enqueued', 'transport_unreachable']);
      room.clock.advance(24 * HOUR - MINUTE);
      await room.executions.sweep();
      const gateway = await TestGateway.attach(room, { connectionId: sleepy });
      await gateway.cut();
      expect(await room.get(first.executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE, attempts: 0 });
      expect(gateway.commands).toEqual([]);
    });
  });

  describe('a gateway that lost its memory', () => {
    const LOST = [
      ['in a volatile store', { bootId: 'boot-2', store: VOLATILE }],
      ['in a durable store, against its word', { bootId: 'boot-2' }],
    ] as const;
    it.each(LOST)('%s, is not sent again what it had said to have received', async (_name, options) => {
      const first = await TestGateway.attach(room, { connectionId });
      const executionId = await sent(first);
      first.received(executionId);
      await room.until(executionId, 'delivered');
      await first.cut();
      const again = await TestGateway.attach(room, { connectionId, ...options });
      const next = await sent(again);
      await again.result(next, ACCEPTED);
      await untilEnd();
      expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_UNCONFIRMED, detail: 'ack_timeout', attempts: 1 });
      expect(again.commands.map((command) => command.executionId)).toEqual([next]);
      await again.cut();
    });

    it('can still be told by its own later word', async () => {
      const first = await TestGateway.attach(room, { connectionId });
      const executionId = await sent(first);
      await first.cut();
      const volatile = await TestGateway.attach(room, { connectionId, bootId: 'boot-2', store: VOLATILE });
      expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_IN_TRANSIT, detail: 'delivery_unknown' });
      expect(await volatile.result(executionId, ACCEPTED)).toBe(APPLIED); // the device answered it after all
      expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: '' });
      await volatile.cut();
    });
  });

  describe('another gateway', () => {
    it('that takes over is never sent what went to the first, which may still prove that it has not got it', async () => {
      const a = await TestGateway.attach(room, { connectionId, gatewayId: 'a' });
      const [missed, held] = [await sent(a), await sent(a)];
      const b = await TestGateway.attach(room, { connectionId, gatewayId: 'b' });
      for (const id of [missed, held]) expect(await room.get(id)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_IN_TRANSIT, detail: 'delivery_unknown' });
      const own = await sent(b);
      await b.result(own, ACCEPTED);
      expect(b.commands).toHaveLength(1);
      room.clock.advance(MINUTE / 2); // before that, whoever was replaced stays away
      const back = await TestGateway.attach(room, { connectionId, gatewayId: 'a', known: [{ executionId: held, status: RECEIVED }] });
      room.clock.advance(1000);
      expect(await back.command(1)).toMatchObject({ executionId: missed, attempt: 2 });
      expect([await stateOf(missed), await stateOf(held)]).toEqual(['in_transit', 'delivered']);
      await back.cut();
    });

    it('may bring the results of the first', async () => {
      const a = await TestGateway.attach(room, { connectionId, gatewayId: 'a' });
      const executionId = await sent(a);
      const b = await TestGateway.attach(room, { connectionId, gatewayId: 'b', known: [{ executionId, status: DONE }] });
      expect(await stateOf(executionId)).toBe('accepted_no_l4');
      await b.cut();
    });

    it('of another connection changes nothing', async () => {
      const a = await TestGateway.attach(room, { connectionId });
      const executionId = await sent(a);
      const elsewhere = await TestGateway.attach(room, { connectionId: await room.connection(), known: [{ executionId, status: DONE }] });
      expect(await elsewhere.result(executionId, FAILED)).toBe(UNKNOWN);
      expect(await stateOf(executionId)).toBe('in_transit');
      await Promise.all([a.cut(), elsewhere.cut()]);
    });
  });

  describe.each([
    ['an hour ahead', (now: number) => now + HOUR],
    ['an hour behind', (now: number) => now - HOUR],
    ['at its beginning', () => 0],
  ])('a gateway whose clock is %s', (_name, clockOf) => {
    it('is believed in what happened, not in when: no deadline moves', async () => {
      const gateway = await TestGateway.attach(room, { connectionId });
      const time = clockOf(room.clock.now());
      const reported = { reported_at: new Date(time).toISOString() };
      const executionId = await sent(gateway);
      const command = await gateway.command(1);
      expect(command.expiresIn).toEqual({ seconds: 60, nanos: 0 });
      gateway.received(executionId, time);
      const delivered = await room.until(executionId, 'delivered');
      expect(delivered.events.at(-1)).toMatchObject({ event: 'transport_ok', data: reported });
      expect(delivered.deadlineAt).toEqual(toTimestamp(room.clock.now() + 2 * MINUTE));
      await gateway.cut();
      const again = await TestGateway.attach(room, { connectionId, known: [{ executionId, status: DONE, time: toTimestamp(time) }] });
      const done = await room.get(executionId);
      expect(done).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4 });
      expect(done.events.at(-1)?.data).toMatchObject(reported);
      await again.cut();
    });
  });

  describe('results', () => {
    it('count before the receipt, which then says nothing new', async () => {
      const gateway = await TestGateway.attach(room, { connectionId });
      const executionId = await sent(gateway);
      expect(await gateway.result(executionId, ACCEPTED)).toBe(APPLIED);
      gateway.received(executionId);
      await untilEvent(room.executions, executionId, 'late_evidence');
      expect(await stateOf(executionId)).toBe('accepted_no_l4');
      await gateway.cut();
    });

    it('count once: the first stays, also against another one, on another stream and after the end', async () => {
      const gateway = await TestGateway.attach(room, { connectionId });
      const executionId = await sent(gateway);
      gateway.received(executionId);
      expect(await gateway.result(executionId, FAILED, 'E7', 'stuck')).toBe(APPLIED);
      expect(await gateway.result(executionId, FAILED, 'E7', 'stuck')).toBe(LATE);
      expect(await gateway.result(executionId, ACCEPTED)).toBe(LATE);
      await gateway.cut();
      const again = await TestGateway.attach(room, { connectionId, known: [{ executionId, status: DONE }, { executionId, status: RECEIVED }] });
      expect(await again.result(executionId, ACCEPTED)).toBe(LATE);
      const { state, detail, events } = await room.get(executionId);
      expect([nameOf(state), detail]).toEqual(['protocol_rejected', 'E7']);
      expect(events.map(({ event }) => event).filter((event) => event !== 'late_evidence')).toEqual(['submitted', 'dispatch', 'transport_ok', 'negative']);
      await again.cut();
    });

    it('that come after the deadline are kept beside the end, and the gateway may forget them', async () => {
      const gateway = await TestGateway.attach(room, { connectionId });
      const executionId = await sent(gateway);
      gateway.received(executionId);
      await room.until(executionId, 'delivered');
      await untilEnd();
      expect(await gateway.result(executionId, ACCEPTED)).toBe(LATE);
      const { state, events } = await room.get(executionId);
      expect([nameOf(state), events.at(-1)?.event]).toEqual(['unconfirmed', 'late_evidence']);
      await gateway.cut();
    });
  });

  it('takes a Hello with 10,000 commands, the server knowing few of them', async () => {
    connectionId = await room.connection({ policy: { maxInFlight: 1000 } });
    const first = await TestGateway.attach(room, { connectionId });
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) ids.push(await sent(first));
    const missed = await sent(first);
    await first.cut();
    const unknown = Array.from({ length: 10_000 - ids.length }, (_, count) => ({ executionId: `long-forgotten-execution-${count}`, status: RECEIVED }));
    const known = [...unknown.slice(0, 5000), ...ids.map((executionId) => ({ executionId, status: DONE })), ...unknown.slice(5000)];
    const warnings = room.log.of('executions.known_unknown').length;
    const again = await TestGateway.attach(room, { connectionId, known });
    for (const id of ids) expect(await stateOf(id)).toBe('accepted_no_l4');
    expect(await stateOf(missed)).toBe('enqueued');
    expect(room.log.of('executions.known_unknown').slice(warnings)).toEqual([expect.objectContaining({ connection_id: connectionId, count: unknown.length })]);
    await again.cut();
  });
});
