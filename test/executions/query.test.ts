import { ExecutionEvidence, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import type { ConnectionPolicy } from '../../src/connections';
import { engines, type TestDatabase } from '../support/engines';
import { type Asked, startAsking } from './asking';
import { type ExecutionRoom, nameOf, startExecutionRoom, type TargetOptions } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER, COMMAND_RESULT_CODE_REJECTED: REJECTED } = CommandResultCode;

/** Of a gateway that takes one command at a time, and has a day for it. */
const BUSY: ConnectionPolicy = { sleepy: true, maxInFlight: 1 };

describe.each(engines())('query commands on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  async function asking(options: TargetOptions & { readonly policy?: ConnectionPolicy } = {}): Promise<Asked> {
    return await startAsking(room, db.database, options);
  }

  /** Acknowledges while the gateway takes nothing more, so that the query cannot leave; resolves to the execution that keeps it busy. */
  async function acknowledgedBusy({ gateway, connectionId, executionId }: Asked): Promise<string> {
    const busy = await room.execute(await room.target({ connectionId }));
    gateway.received(executionId);
    await gateway.command(2);
    await gateway.result(executionId, ACCEPTED);
    return busy.executionId;
  }

  async function pass(milliseconds: number): Promise<void> {
    room.clock.advance(milliseconds);
    await room.executions.sweep();
  }
  const stateOf = async (executionId: string): Promise<string> => nameOf((await room.get(executionId)).state);
  const eventsOf = async (executionId: string): Promise<string[]> => (await room.get(executionId)).events.map(({ event }) => event);

  it('are sent at the acknowledgement, and their answer settles the execution', async () => {
    const { executionId, target, gateway, tries } = await asking();
    await gateway.result(executionId, ACCEPTED);
    const accepted = await room.get(executionId);
    expect(accepted.events.at(-1)).toMatchObject({ event: 'ack', data: { query_execution_id: tries[0] } });
    expect(accepted.deadlineAt?.seconds).toBe(Math.floor((room.clock.now() + 300_000) / 1000));
    expect(await gateway.command(2)).toMatchObject({ executionId: tries[0], attempt: 1, clientDeviceId: target.clientDeviceId, payload: { value: { ask: tries[0] } } });
    const child = await room.get(tries[0]);
    expect(child).toMatchObject({ parentExecutionId: executionId, triggerId: accepted.triggerId });
    expect(child.events[0]).toMatchObject({ event: 'submitted', source: 'server', data: { parent_execution_id: executionId, trigger_id: accepted.triggerId } });
    await gateway.result(tries[0], ACCEPTED);
    const done = await room.get(executionId);
    expect(done).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, evidence: ExecutionEvidence.EXECUTION_EVIDENCE_QUERY, detail: '' });
    expect(done.events.at(-1)).toMatchObject({ event: 'query_answered', data: { query_execution_id: tries[0] } });
    await gateway.cut();
  });

  it('are sent a second time at half of the window, if the first had no answer, and never a third', async () => {
    const { executionId, gateway, tries } = await asking();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], NO_ANSWER, 'silent');
    const failed = await room.get(executionId);
    expect(nameOf(failed.state)).toBe('accepted');
    expect(failed.events.at(-1)).toMatchObject({ event: 'query_failed', data: { query_execution_id: tries[0], state: 'unconfirmed', detail: 'silent' } });
    await pass(149_999);
    expect(gateway.commands).toHaveLength(2);
    await pass(1);
    expect(await gateway.command(3)).toMatchObject({ executionId: tries[1], payload: { value: { ask: tries[1] } } });
    await pass(149_999);
    expect(await stateOf(executionId)).toBe('accepted');
    await pass(1);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: 'query_timeout' });
    expect(gateway.commands).toHaveLength(3);
    await gateway.cut();
  });

  it('settle it by the second answer too', async () => {
    const { executionId, gateway, tries } = await asking();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], NO_ANSWER);
    await pass(150_000);
    await gateway.command(3);
    await gateway.result(tries[1], ACCEPTED);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, evidence: ExecutionEvidence.EXECUTION_EVIDENCE_QUERY });
    await gateway.cut();
  });

  it('go before all that waits for the device', async () => {
    const { executionId, target, gateway, tries } = await asking();
    const { executionId: next } = await room.execute(target, { params: { n: 2 } });
    await gateway.result(executionId, ACCEPTED);
    expect((await gateway.command(2)).executionId).toBe(tries[0]);
    await gateway.result(tries[0], ACCEPTED);
    expect((await gateway.command(3)).executionId).toBe(next);
    await gateway.cut();
  });

  it('do not count against the limit of the queue, and are taken back with their parent', async () => {
    const asked = await asking({ policy: { ...BUSY, queueLimit: 1 } });
    const { executionId, target, gateway, tries } = asked;
    const busy = await acknowledgedBusy(asked);
    expect(await stateOf(tries[0])).toBe('enqueued');
    const { executionId: other, accepted } = await room.execute(target, { params: { n: 2 } });
    expect(accepted).toBe(true);
    await gateway.result(executionId, REJECTED, 'E7');
    expect(await room.get(tries[0])).toMatchObject({ state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE, detail: 'parent_ended', attempts: 0 });
    expect(await eventsOf(executionId)).not.toContain('query_failed');
    await gateway.result(busy, ACCEPTED);
    expect((await gateway.command(3)).executionId).toBe(other);
    await gateway.cut();
  });

  it('make room for the second try while they have not left, and never outlast the window', async () => {
    const asked = await asking({ policy: BUSY });
    const { executionId, tries } = asked;
    await acknowledgedBusy(asked);
    await pass(150_000);
    expect(await room.get(tries[0])).toMatchObject({ state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE, detail: 'asked_again' });
    expect(await stateOf(tries[1])).toBe('enqueued');
    expect(await stateOf(executionId)).toBe('accepted');
    await pass(150_000);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: 'query_timeout' });
    expect(await stateOf(tries[1])).toBe('transport_unreachable');
    expect((await eventsOf(executionId)).filter((event) => event === 'query_failed')).toEqual([]);
  });

  it('ask nothing when the window ended while the server was down', async () => {
    const asked = await asking({ policy: BUSY });
    await acknowledgedBusy(asked);
    const { clock } = room;
    await room.stop();
    clock.advance(3_600_000);
    room = await startExecutionRoom(db.database, clock);
    await pass(60_000);
    expect(await room.get(asked.executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: 'query_timeout' });
    expect(await stateOf(asked.tries[0])).toBe('transport_unreachable');
    await expect(room.get(asked.tries[1])).rejects.toThrow(/execution/);
  });

  it('leave an execution with expected states open: the sensors decide, and it is not asked again', async () => {
    const { executionId, gateway, tries } = await asking({ expects: true });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], ACCEPTED);
    expect(await stateOf(executionId)).toBe('accepted');
    expect((await eventsOf(executionId)).at(-1)).toBe('query_answered');
    await pass(299_999);
    expect(gateway.commands).toHaveLength(2);
    await pass(1);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: 'l4_timeout' });
    await gateway.cut();
  });

  it('bring the uplink that shows the effect', async () => {
    const { executionId, target, gateway, tries } = await asking({ expects: true });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    expect(await stateOf(executionId)).toBe('accepted');
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.result(tries[0], ACCEPTED);
    expect(await stateOf(tries[0])).toBe('accepted_no_l4');
    await gateway.cut();
  });

  it('are answered by the first uplink after their delivery where the device itself cannot answer', async () => {
    const { executionId, target, gateway, tries } = await asking({ expects: true });
    const { knex } = db.database.db;
    const [row] = await knex('executions').where('id', executionId).select<{ query: string }[]>('query');
    await knex('executions').where('id', executionId).update({ query: row?.query.replace('"kind":"gateway"', '"kind":"mqtt"') ?? null });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    gateway.received(tries[0]);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await room.get(tries[0])).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, evidence: ExecutionEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('end with their device', async () => {
    const { executionId, target, gateway, tries } = await asking();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await room.devices.delete('org-1', target.deviceId, undefined);
    expect([await stateOf(executionId), await stateOf(tries[0])]).toEqual(['accepted_no_l4', 'unconfirmed']);
    await gateway.cut();
  });

  it('survive a restart: the answer of the first and the time of the second', async () => {
    const { connectionId, executionId, gateway, tries } = await asking();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], NO_ANSWER);
    await gateway.cut();
    const { clock } = room;
    await room.stop();
    room = await startExecutionRoom(db.database, clock);
    const again = await TestGateway.attach(room, { connectionId });
    await pass(150_000);
    expect((await again.command(1)).executionId).toBe(tries[1]);
    await again.cut();
  });
});
