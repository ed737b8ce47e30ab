import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandSnapshotStatus } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionFixture, startExecutionFixture, type Target } from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const {
  EXECUTION_STATE_DELIVERED: DELIVERED,
  EXECUTION_STATE_IN_TRANSIT: IN_TRANSIT,
  EXECUTION_STATE_UNCONFIRMED: UNCONFIRMED,
  EXECUTION_STATE_TRANSPORT_UNREACHABLE: UNREACHABLE,
} = ExecutionState;

describe.each(engines())('after a restart on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
  );

  /** Stops the server and starts one on the same database after this time. */
  async function restart(later = 0): Promise<void> {
    const { clock } = fixture;
    await fixture.stop();
    clock.advance(later);
    fixture = await startExecutionFixture(db.database, clock);
  }

  async function sent(): Promise<{ connectionId: string; target: Target; executionId: string; gateway: TestGateway }> {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    return { connectionId, target, executionId, gateway };
  }

  it('enqueued commands are sent', async () => {
    const connectionId = await fixture.connection();
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    await restart();
    const gateway = await TestGateway.attach(fixture, { connectionId });
    expect(await gateway.command(1)).toMatchObject({ executionId, attempt: 1 });
    await gateway.cut();
  });

  it('commands that were enqueued too long ago are not sent, without a grace period', async () => {
    const connectionId = await fixture.connection();
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    await restart(60_000);
    await fixture.executions.deadlines.sweep();
    expect(await fixture.get(executionId)).toMatchObject({ state: UNREACHABLE, attempts: 0 });
  });

  it('commands in transit are ambiguous, and are settled by the snapshot of the gateway', async () => {
    const { connectionId, executionId, gateway } = await sent();
    await gateway.cut();
    await restart();
    expect(await fixture.get(executionId)).toMatchObject({ state: IN_TRANSIT, detail: 'delivery_unconfirmed' });
    const again = await TestGateway.attach(fixture, {
      connectionId,
      known: [{ executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED }],
    });
    expect(await fixture.get(executionId)).toMatchObject({ state: DELIVERED, detail: '' });
    await again.cut();
  });

  it('a crash between the intent and the sending costs at most this attempt: the gateway proves that it has nothing', async () => {
    const { connectionId, executionId, gateway } = await sent();
    await gateway.cut();
    await restart();
    const again = await TestGateway.attach(fixture, { connectionId });
    fixture.clock.advance(1000);
    expect(await again.command(1)).toMatchObject({ executionId, attempt: 2 });
    await again.cut();
  });

  it('deadlines that passed meanwhile wait 60 s for the gateways, to the millisecond', async () => {
    const inTransit = await sent();
    const delivered = await sent();
    delivered.gateway.received(delivered.executionId);
    await fixture.until(delivered.executionId, 'delivered');
    await restart(3_600_000);
    await fixture.executions.deadlines.sweep();
    fixture.clock.advance(59_999);
    await fixture.executions.deadlines.sweep();
    expect((await fixture.get(inTransit.executionId)).state).toBe(IN_TRANSIT);
    expect((await fixture.get(delivered.executionId)).state).toBe(DELIVERED);
    fixture.clock.advance(1);
    await fixture.executions.deadlines.sweep();
    expect(await fixture.get(inTransit.executionId)).toMatchObject({
      state: UNCONFIRMED,
      detail: 'delivery_unconfirmed',
    });
    expect(await fixture.get(delivered.executionId)).toMatchObject({ state: UNCONFIRMED, detail: 'ack_timeout' });
  });

  it('later deadlines are not extended', async () => {
    const { executionId } = await sent();
    await restart(59_000);
    fixture.clock.advance(1000);
    await fixture.executions.deadlines.sweep();
    expect((await fixture.get(executionId)).state).toBe(UNCONFIRMED);
  });

  it('deadlines expire without any request', async () => {
    const { executionId } = await fixture.execute(await fixture.target({ connectionId: await fixture.connection() }));
    fixture.clock.advance(60_000);
    await fixture.until(executionId, 'transport_unreachable');
  });
});
