import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { KnownStatus } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionRoom, startExecutionRoom, type Target } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { EXECUTION_STATE_DELIVERED: DELIVERED, EXECUTION_STATE_IN_TRANSIT: IN_TRANSIT, EXECUTION_STATE_UNCONFIRMED: UNCONFIRMED, EXECUTION_STATE_TRANSPORT_UNREACHABLE: UNREACHABLE } = ExecutionState;

describe.each(engines())('after a restart on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  /** Stops the server and starts one on the same database, so much later. */
  async function restart(later = 0): Promise<void> {
    const { clock } = room;
    await room.stop();
    clock.advance(later);
    room = await startExecutionRoom(db.database, clock);
  }

  async function sent(): Promise<{ connectionId: string; target: Target; executionId: string; gateway: TestGateway }> {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId });
    const gateway = await TestGateway.attach(room, { connectionId });
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    return { connectionId, target, executionId, gateway };
  }

  it('what was enqueued is sent', async () => {
    const connectionId = await room.connection();
    const { executionId } = await room.execute(await room.target({ connectionId }));
    await restart();
    const gateway = await TestGateway.attach(room, { connectionId });
    expect(await gateway.command(1)).toMatchObject({ executionId, attempt: 1 });
    await gateway.cut();
  });

  it('what was enqueued too long ago is not, and has no grace', async () => {
    const connectionId = await room.connection();
    const { executionId } = await room.execute(await room.target({ connectionId }));
    await restart(60_000);
    await room.executions.sweep();
    expect(await room.get(executionId)).toMatchObject({ state: UNREACHABLE, attempts: 0 });
  });

  it('what was in transit is ambiguous, and is settled by what the gateway holds', async () => {
    const { connectionId, executionId, gateway } = await sent();
    await gateway.cut();
    await restart();
    expect(await room.get(executionId)).toMatchObject({ state: IN_TRANSIT, detail: 'delivery_unknown' });
    const again = await TestGateway.attach(room, { connectionId, known: [{ executionId, status: KnownStatus.KNOWN_STATUS_RECEIVED }] });
    expect(await room.get(executionId)).toMatchObject({ state: DELIVERED, detail: '' });
    await again.cut();
  });

  it('a crash between the intent and the sending costs at most this attempt: the gateway proves that it has nothing', async () => {
    const { connectionId, executionId, gateway } = await sent();
    await gateway.cut();
    await restart();
    const again = await TestGateway.attach(room, { connectionId });
    room.clock.advance(1000);
    expect(await again.command(1)).toMatchObject({ executionId, attempt: 2 });
    await again.cut();
  });

  it('deadlines that passed meanwhile wait 60 s for the gateways, to the millisecond', async () => {
    const inTransit = await sent();
    const delivered = await sent();
    delivered.gateway.received(delivered.executionId);
    await room.until(delivered.executionId, 'delivered');
    await restart(3_600_000);
    await room.executions.sweep();
    room.clock.advance(59_999);
    await room.executions.sweep();
    expect((await room.get(inTransit.executionId)).state).toBe(IN_TRANSIT);
    expect((await room.get(delivered.executionId)).state).toBe(DELIVERED);
    room.clock.advance(1);
    await room.executions.sweep();
    expect(await room.get(inTransit.executionId)).toMatchObject({ state: UNCONFIRMED, detail: 'delivery_unknown' });
    expect(await room.get(delivered.executionId)).toMatchObject({ state: UNCONFIRMED, detail: 'ack_timeout' });
  });

  it('deadlines that pass after it wait for nothing', async () => {
    const { executionId } = await sent();
    await restart(59_000);
    room.clock.advance(1000);
    await room.executions.sweep();
    expect((await room.get(executionId)).state).toBe(UNCONFIRMED);
  });

  it('deadlines end by themselves, without anybody asking', async () => {
    const { executionId } = await room.execute(await room.target({ connectionId: await room.connection() }));
    room.clock.advance(60_000);
    await room.until(executionId, 'transport_unreachable');
  });
});
