import { KnownStatus, CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { startAsking } from './asking';
import { type ExecutionRoom, nameOf } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER } = CommandResultCode;

describe.each(engines())('evidence for what went back into the queue, while another execution holds the slot, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  const stateOf = async (executionId: string): Promise<string> => nameOf((await room.get(executionId)).state);

  /** An execution that its gateway denied to have, and a query that went before it meanwhile. */
  async function overtaken(): Promise<{ connectionId: string; executionId: string; query: string; gateway: TestGateway }> {
    const asked = await startAsking(room, db.database, { policy: { sleepy: true } });
    await asked.gateway.result(asked.executionId, ACCEPTED);
    await asked.gateway.command(2);
    await asked.gateway.result(asked.tries[0], NO_ANSWER);
    const { executionId } = await room.execute(asked.target, { params: { n: 5 } });
    await asked.gateway.command(3);
    room.clock.advance(149_900);
    await asked.gateway.cut();
    const gateway = await TestGateway.attach(room, { connectionId: asked.connectionId });
    room.clock.advance(100); // the time of the second query, and less than the backoff
    await room.executions.sweep();
    expect((await gateway.command(1)).executionId).toBe(asked.tries[1]);
    expect(await stateOf(executionId)).toBe('enqueued');
    return { connectionId: asked.connectionId, executionId, query: asked.tries[1], gateway };
  }

  it('applies a receipt, and both end', async () => {
    const { executionId, query, gateway } = await overtaken();
    gateway.received(executionId);
    await room.until(executionId, 'delivered');
    await gateway.result(query, ACCEPTED);
    await gateway.result(executionId, ACCEPTED);
    expect([await stateOf(query), (await room.get(executionId)).attempts]).toEqual(['accepted_no_l4', 1]);
    await gateway.cut();
  });

  it('lets a gateway attach that lists it', async () => {
    const { connectionId, executionId, query, gateway } = await overtaken();
    await gateway.cut();
    const known = [executionId, query].map((id) => ({ executionId: id, status: KnownStatus.KNOWN_STATUS_RECEIVED }));
    const again = await TestGateway.attach(room, { connectionId, known });
    expect([await stateOf(executionId), await stateOf(query)]).toEqual(['delivered', 'delivered']);
    expect(again.commands).toEqual([]);
    await again.cut();
  });

  it('lets a gateway attach for what can be stored, though one execution cannot', async () => {
    const connectionId = await room.connection();
    const first = await TestGateway.attach(room, { connectionId });
    const ids: string[] = [];
    for (let count = 0; count < 4; count++) ids.push((await room.execute(await room.target({ connectionId }))).executionId);
    await first.command(4);
    await first.cut();
    await room.executions.detached('org-1', connectionId);
    const [badKnown = '', good = '', badMissing = '', missing = ''] = ids;
    const { knex } = db.database.db;
    for (const id of [badKnown, badMissing]) {
      // Its log has an entry already where the next one belongs.
      const [last] = await knex('execution_events').where('execution_id', id).orderBy('sequence', 'desc').limit(1);
      await knex('execution_events').insert({ ...last, position: -ids.indexOf(id) - 1, sequence: Number(last.sequence) + 1 });
    }
    const known = [badKnown, good].map((executionId) => ({ executionId, status: KnownStatus.KNOWN_STATUS_RECEIVED }));
    const again = await TestGateway.attach(room, { connectionId, known });
    expect([await stateOf(badKnown), await stateOf(good), await stateOf(badMissing), await stateOf(missing)]).toEqual(['in_transit', 'delivered', 'in_transit', 'enqueued']);
    expect(room.log.of('executions.reconcile_failed').map((line) => line.execution_id)).toEqual([badKnown, badMissing]);
    await again.cut();
  });
});
