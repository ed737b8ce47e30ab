import { ExecutionEvidence, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import type { ConnectionPolicy } from '../../src/connections';
import { engines, type TestDatabase } from '../support/engines';
import { type QueryScenario, startQueryScenario } from './queryScenario';
import { type ExecutionFixture, getName, startExecutionFixture, type TargetOptions } from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const {
  COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED,
  COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER,
  COMMAND_RESULT_CODE_REJECTED: REJECTED,
} = CommandResultCode;

/** The policy of a gateway that accepts one command at a time and has a day for it. */
const BUSY: ConnectionPolicy = { sleepy: true, maxInFlight: 1 };

describe.each(engines())('query commands on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
  );

  async function startScenario(
    options: TargetOptions & { readonly policy?: ConnectionPolicy } = {},
  ): Promise<QueryScenario> {
    return await startQueryScenario(fixture, db.database, options);
  }

  /**
   * Acknowledges while the gateway accepts no more commands, so that the query cannot be sent. Resolves to the
   * execution that occupies the gateway.
   */
  async function acknowledgeWhileBusy({ gateway, connectionId, executionId }: QueryScenario): Promise<string> {
    const busy = await fixture.execute(await fixture.target({ connectionId }));
    gateway.received(executionId);
    await gateway.command(2);
    await gateway.result(executionId, ACCEPTED);
    return busy.executionId;
  }

  async function advanceAndSweep(milliseconds: number): Promise<void> {
    fixture.clock.advance(milliseconds);
    await fixture.executions.deadlines.sweep();
  }
  const getState = async (executionId: string): Promise<string> => getName((await fixture.get(executionId)).state);
  const listEvents = async (executionId: string): Promise<string[]> =>
    (await fixture.get(executionId)).events.map(({ event }) => event);

  it('are sent after the acknowledgement, and their answer settles the execution', async () => {
    const { executionId, target, gateway, tries } = await startScenario();
    await gateway.result(executionId, ACCEPTED);
    const accepted = await fixture.get(executionId);
    expect(accepted.events.at(-1)).toMatchObject({ event: 'ack', data: { query_execution_id: tries[0] } });
    expect(accepted.deadlineAt?.seconds).toBe(Math.floor((fixture.clock.now() + 300_000) / 1000));
    expect(await gateway.command(2)).toMatchObject({
      executionId: tries[0],
      attempt: 1,
      clientDeviceId: target.clientDeviceId,
      payload: { value: { ask: tries[0] } },
    });
    const child = await fixture.get(tries[0]);
    expect(child).toMatchObject({ parentExecutionId: executionId, triggerId: accepted.triggerId });
    expect(child.events[0]).toMatchObject({
      event: 'submitted',
      source: 'server',
      data: { parent_execution_id: executionId, trigger_id: accepted.triggerId },
    });
    await gateway.result(tries[0], ACCEPTED);
    const done = await fixture.get(executionId);
    expect(done).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      evidence: ExecutionEvidence.EXECUTION_EVIDENCE_QUERY,
      detail: '',
    });
    expect(done.events.at(-1)).toMatchObject({ event: 'query_answered', data: { query_execution_id: tries[0] } });
    await gateway.cut();
  });

  it('are sent a second time at half of the window if the first was not answered, and never a third time', async () => {
    const { executionId, gateway, tries } = await startScenario();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], NO_ANSWER, 'silent');
    const failed = await fixture.get(executionId);
    expect(getName(failed.state)).toBe('accepted');
    expect(failed.events.at(-1)).toMatchObject({
      event: 'query_failed',
      data: { query_execution_id: tries[0], state: 'unconfirmed', detail: 'silent' },
    });
    await advanceAndSweep(149_999);
    expect(gateway.commands).toHaveLength(2);
    await advanceAndSweep(1);
    expect(await gateway.command(3)).toMatchObject({ executionId: tries[1], payload: { value: { ask: tries[1] } } });
    await advanceAndSweep(149_999);
    expect(await getState(executionId)).toBe('accepted');
    await advanceAndSweep(1);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      detail: 'query_timeout',
    });
    expect(gateway.commands).toHaveLength(3);
    await gateway.cut();
  });

  it('settle the execution by the second answer too', async () => {
    const { executionId, gateway, tries } = await startScenario();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], NO_ANSWER);
    await advanceAndSweep(150_000);
    await gateway.command(3);
    await gateway.result(tries[1], ACCEPTED);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      evidence: ExecutionEvidence.EXECUTION_EVIDENCE_QUERY,
    });
    await gateway.cut();
  });

  it('are sent before all other waiting commands of the device', async () => {
    const { executionId, target, gateway, tries } = await startScenario();
    const { executionId: next } = await fixture.execute(target, { params: { n: 2 } });
    await gateway.result(executionId, ACCEPTED);
    expect((await gateway.command(2)).executionId).toBe(tries[0]);
    await gateway.result(tries[0], ACCEPTED);
    expect((await gateway.command(3)).executionId).toBe(next);
    await gateway.cut();
  });

  it('do not count against the limit of the queue, and are cancelled with their parent', async () => {
    const scenario = await startScenario({ policy: { ...BUSY, queueLimit: 1 } });
    const { executionId, target, gateway, tries } = scenario;
    const busy = await acknowledgeWhileBusy(scenario);
    expect(await getState(tries[0])).toBe('enqueued');
    const { executionId: other, accepted } = await fixture.execute(target, { params: { n: 2 } });
    expect(accepted).toBe(true);
    await gateway.result(executionId, REJECTED, 'E7');
    expect(await fixture.get(tries[0])).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
      detail: 'parent_ended',
      attempts: 0,
    });
    expect(await listEvents(executionId)).not.toContain('query_failed');
    await gateway.result(busy, ACCEPTED);
    expect((await gateway.command(3)).executionId).toBe(other);
    await gateway.cut();
  });

  it('make way for the second try while they are unsent, and never outlast the window', async () => {
    const scenario = await startScenario({ policy: BUSY });
    const { executionId, tries } = scenario;
    await acknowledgeWhileBusy(scenario);
    await advanceAndSweep(150_000);
    expect(await fixture.get(tries[0])).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
      detail: 'asked_again',
    });
    expect(await getState(tries[1])).toBe('enqueued');
    expect(await getState(executionId)).toBe('accepted');
    await advanceAndSweep(150_000);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      detail: 'query_timeout',
    });
    expect(await getState(tries[1])).toBe('transport_unreachable');
    expect((await listEvents(executionId)).filter((event) => event === 'query_failed')).toEqual([]);
  });

  it('are not sent when the window ended while the server was down', async () => {
    const scenario = await startScenario({ policy: BUSY });
    await acknowledgeWhileBusy(scenario);
    const { clock } = fixture;
    await fixture.stop();
    clock.advance(3_600_000);
    fixture = await startExecutionFixture(db.database, clock);
    await advanceAndSweep(60_000);
    expect(await fixture.get(scenario.executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      detail: 'query_timeout',
    });
    expect(await getState(scenario.tries[0])).toBe('transport_unreachable');
    await expect(fixture.get(scenario.tries[1])).rejects.toThrow(/execution/);
  });

  it('leave an execution with expected states open: the sensors decide, and no second query is sent', async () => {
    const { executionId, gateway, tries } = await startScenario({ expects: true });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], ACCEPTED);
    expect(await getState(executionId)).toBe('accepted');
    expect((await listEvents(executionId)).at(-1)).toBe('query_answered');
    await advanceAndSweep(299_999);
    expect(gateway.commands).toHaveLength(2);
    await advanceAndSweep(1);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      detail: 'verification_timeout',
    });
    await gateway.cut();
  });

  it('cause the uplink that shows the effect', async () => {
    const { executionId, target, gateway, tries } = await startScenario({ expects: true });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    expect(await getState(executionId)).toBe('accepted');
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.result(tries[0], ACCEPTED);
    expect(await getState(tries[0])).toBe('accepted_no_l4');
    await gateway.cut();
  });

  it('are answered by the first uplink after their delivery when the device itself cannot answer', async () => {
    const { executionId, target, gateway, tries } = await startScenario({ expects: true });
    const { knex } = db.database.db;
    const [row] = await knex('executions').where('id', executionId).select<{ query: string }[]>('query');
    await knex('executions')
      .where('id', executionId)
      .update({ query: row?.query.replace('"kind":"gateway"', '"kind":"mqtt"') ?? null });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    gateway.received(tries[0]);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await fixture.get(tries[0])).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      evidence: ExecutionEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK,
    });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('end with their device', async () => {
    const { executionId, target, gateway, tries } = await startScenario();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await fixture.devices.delete('org-1', target.deviceId, undefined);
    expect([await getState(executionId), await getState(tries[0])]).toEqual(['accepted_no_l4', 'unconfirmed']);
    await gateway.cut();
  });

  it('survive a restart: the answer of the first and the time of the second', async () => {
    const { connectionId, executionId, gateway, tries } = await startScenario();
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await gateway.result(tries[0], NO_ANSWER);
    await gateway.cut();
    const { clock } = fixture;
    await fixture.stop();
    fixture = await startExecutionFixture(db.database, clock);
    const again = await TestGateway.attach(fixture, { connectionId });
    await advanceAndSweep(150_000);
    expect((await again.command(1)).executionId).toBe(tries[1]);
    await again.cut();
  });
});
