import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { type QueryScenario, startQueryScenario } from './queryScenario';
import { type ExecutionFixture, getName } from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const BACKOFF_MS = 2000;

describe.each(engines())('a query that is no longer needed, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
  );

  const getOutcome = async (executionId: string): Promise<string[]> => {
    const { state, detail } = await fixture.get(executionId);
    return [getName(state), detail];
  };

  /**
   * Reattaches a gateway without its last command. Returns what it receives until all backoffs are over, in addition to
   * the command of another device. Waits for the `expected` commands: those of different devices come in any order.
   */
  async function reattachWithoutLastCommand(
    { connectionId, gateway }: QueryScenario,
    expected: readonly string[] = [],
  ): Promise<string[]> {
    await gateway.cut();
    const again = await TestGateway.attach(fixture, { connectionId });
    fixture.clock.advance(BACKOFF_MS);
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    for (const id of [executionId, ...expected]) await again.untilCommand(id);
    await again.cut();
    return again.commands.map((command) => command.executionId).filter((id) => id !== executionId);
  }

  async function advanceAndSweep(milliseconds: number): Promise<void> {
    fixture.clock.advance(milliseconds);
    await fixture.executions.deadlines.sweep();
  }

  it('is not resent after the end of its parent', async () => {
    const scenario = await startQueryScenario(fixture, db.database, { expects: true });
    const { executionId, gateway, target, tries } = scenario;
    gateway.received(executionId);
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    fixture.clock.advance(10);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await getOutcome(executionId)).toEqual(['converged', '']);
    expect(await reattachWithoutLastCommand(scenario)).toEqual([]);
    expect(await getOutcome(tries[0])).toEqual(['transport_unreachable', 'parent_ended']);
  });

  it('makes way for the second try when it returns to the queue', async () => {
    const scenario = await startQueryScenario(fixture, db.database, { policy: { sleepy: true } });
    await scenario.gateway.result(scenario.executionId, ACCEPTED);
    await scenario.gateway.command(2);
    await advanceAndSweep(150_000);
    expect(await getOutcome(scenario.tries[1])).toEqual(['enqueued', '']);
    expect(await reattachWithoutLastCommand(scenario, [scenario.tries[1]])).toEqual([scenario.tries[1]]);
    expect(await getOutcome(scenario.tries[0])).toEqual(['transport_unreachable', 'asked_again']);
    expect(await getOutcome(scenario.executionId)).toEqual(['accepted', '']);
    expect((await fixture.get(scenario.executionId)).events.map(({ event }) => event)).not.toContain('query_failed');
  });

  it('is cancelled when the first try is answered after all', async () => {
    const { executionId, gateway, tries } = await startQueryScenario(fixture, db.database, {
      expects: true,
      policy: { sleepy: true },
    });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await advanceAndSweep(150_000);
    expect(await getOutcome(tries[1])).toEqual(['enqueued', '']);
    await gateway.result(tries[0], ACCEPTED);
    expect(await getOutcome(tries[1])).toEqual(['transport_unreachable', 'already_answered']);
    expect(await getOutcome(executionId)).toEqual(['accepted', '']);
    expect((await fixture.get(executionId)).events.map(({ event }) => event)).not.toContain('query_failed');
    await gateway.cut();
  });

  it('is not resent once the first try was answered', async () => {
    const scenario = await startQueryScenario(fixture, db.database, { expects: true, policy: { sleepy: true } });
    const { executionId, gateway, target, tries } = scenario;
    const { knex } = db.database.db;
    const [row] = await knex('executions').where('id', executionId).select<{ query: string }[]>('query');
    await knex('executions')
      .where('id', executionId)
      .update({ query: row?.query.replace('"kind":"gateway"', '"kind":"mqtt"') ?? null });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    gateway.received(tries[0]);
    await fixture.until(tries[0], 'delivered');
    await advanceAndSweep(150_000);
    expect((await gateway.command(3)).executionId).toBe(tries[1]);
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    expect(await getOutcome(tries[0])).toEqual(['accepted_no_l4', '']);
    expect(await getOutcome(executionId)).toEqual(['accepted', '']);
    await fixture.executions.evidenceService.applyEvidence('org-1', scenario.connectionId, tries[1], 'mqtt', {
      kind: 'known_undelivered',
      code: 'no_subscribers',
      message: '',
    });
    expect(await getOutcome(tries[1])).toEqual(['transport_unreachable', 'already_answered']);
    expect(await reattachWithoutLastCommand(scenario)).toEqual([]);
  });
});
