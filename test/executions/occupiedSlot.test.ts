import { CommandSnapshotStatus, CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { startQueryScenario } from './queryScenario';
import { type ExecutionFixture, getName } from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER } = CommandResultCode;

describe.each(engines())(
  'evidence for a requeued execution, while another execution holds the slot, on $name',
  ({ createDatabase }) => {
    let db: TestDatabase;
    let fixture: ExecutionFixture;
    fixtureForEach(
      createDatabase,
      (made) => ({ db, fixture } = made),
      () => fixture,
    );

    const getState = async (executionId: string): Promise<string> => getName((await fixture.get(executionId)).state);

    /** Creates an execution that its gateway denied, and a query that was sent before it meanwhile. */
    async function createOvertakenExecution(): Promise<{
      connectionId: string;
      executionId: string;
      query: string;
      gateway: TestGateway;
    }> {
      const scenario = await startQueryScenario(fixture, db.database, { policy: { sleepy: true } });
      await scenario.gateway.result(scenario.executionId, ACCEPTED);
      await scenario.gateway.command(2);
      await scenario.gateway.result(scenario.tries[0], NO_ANSWER);
      const { executionId } = await fixture.execute(scenario.target, { params: { n: 5 } });
      await scenario.gateway.command(3);
      fixture.clock.advance(149_900);
      await scenario.gateway.cut();
      const gateway = await TestGateway.attach(fixture, { connectionId: scenario.connectionId });
      fixture.clock.advance(100); // The time of the second query, which is less than the backoff.
      await fixture.executions.deadlines.sweep();
      expect((await gateway.command(1)).executionId).toBe(scenario.tries[1]);
      expect(await getState(executionId)).toBe('enqueued');
      return { connectionId: scenario.connectionId, executionId, query: scenario.tries[1], gateway };
    }

    it('applies a receipt, and both executions end', async () => {
      const { executionId, query, gateway } = await createOvertakenExecution();
      gateway.received(executionId);
      await fixture.until(executionId, 'delivered');
      await gateway.result(query, ACCEPTED);
      await gateway.result(executionId, ACCEPTED);
      expect([await getState(query), (await fixture.get(executionId)).attempts]).toEqual(['accepted_no_l4', 1]);
      await gateway.cut();
    });

    it('lets a gateway attach that lists it', async () => {
      const { connectionId, executionId, query, gateway } = await createOvertakenExecution();
      await gateway.cut();
      const known = [executionId, query].map((id) => ({
        executionId: id,
        status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED,
      }));
      const again = await TestGateway.attach(fixture, { connectionId, known });
      expect([await getState(executionId), await getState(query)]).toEqual(['delivered', 'delivered']);
      expect(again.commands).toEqual([]);
      await again.cut();
    });

    it('lets a gateway attach for what can be stored, although one execution cannot', async () => {
      const connectionId = await fixture.connection();
      const first = await TestGateway.attach(fixture, { connectionId });
      const ids: string[] = [];
      for (let count = 0; count < 4; count++)
        ids.push((await fixture.execute(await fixture.target({ connectionId }))).executionId);
      await first.command(4);
      await first.cut();
      await fixture.executions.detached('org-1', connectionId);
      const [badKnown = '', good = '', badMissing = '', missing = ''] = ids;
      const { knex } = db.database.db;
      for (const id of [badKnown, badMissing]) {
        // Its log already has an entry at the position of the next one.
        const [last] = await knex('execution_events').where('execution_id', id).orderBy('sequence', 'desc').limit(1);
        await knex('execution_events').insert({
          ...last,
          position: -ids.indexOf(id) - 1,
          sequence: Number(last.sequence) + 1,
        });
      }
      const known = [badKnown, good].map((executionId) => ({
        executionId,
        status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED,
      }));
      const again = await TestGateway.attach(fixture, { connectionId, known });
      expect([
        await getState(badKnown),
        await getState(good),
        await getState(badMissing),
        await getState(missing),
      ]).toEqual(['in_transit', 'delivered', 'in_transit', 'enqueued']);
      expect(fixture.log.of('executions.reconcile_failed').map((line) => line.execution_id)).toEqual([
        badKnown,
        badMissing,
      ]);
      await again.cut();
    });
  },
);
