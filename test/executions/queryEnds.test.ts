import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { type Asked, startAsking } from './asking';
import { type ExecutionRoom, nameOf } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const BACKOFF_MS = 2000;

describe.each(engines())('a query that nobody waits for any more, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  const shown = async (executionId: string): Promise<string[]> => {
    const { state, detail } = await room.get(executionId);
    return [nameOf(state), detail];
  };

  /** A gateway comes back without what it was sent last; what it is sent until all backoffs are over, before the command of another device. */
  async function sentAfterLoss({ connectionId, gateway }: Asked): Promise<string[]> {
    await gateway.cut();
    const again = await TestGateway.attach(room, { connectionId });
    room.clock.advance(BACKOFF_MS);
    const { executionId } = await room.execute(await room.target({ connectionId }));
    await again.untilCommand(executionId);
    await again.cut();
    return again.commands.map((command) => command.executionId).filter((id) => id !== executionId);
  }

  async function pass(milliseconds: number): Promise<void> {
    room.clock.advance(milliseconds);
    await room.executions.sweep();
  }

  it('is not sent again after the end of its parent', async () => {
    const asked = await startAsking(room, db.database, { expects: true });
    const { executionId, gateway, target, tries } = asked;
    gateway.received(executionId);
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    room.clock.advance(10);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await shown(executionId)).toEqual(['converged', '']);
    expect(await sentAfterLoss(asked)).toEqual([]);
    expect(await shown(tries[0])).toEqual(['transport_unreachable', 'parent_ended']);
  });

  it('makes way for the second try when it comes back into the queue', async () => {
    const asked = await startAsking(room, db.database, { policy: { sleepy: true } });
    await asked.gateway.result(asked.executionId, ACCEPTED);
    await asked.gateway.command(2);
    await pass(150_000);
    expect(await shown(asked.tries[1])).toEqual(['enqueued', '']);
    expect(await sentAfterLoss(asked)).toEqual([asked.tries[1]]);
    expect(await shown(asked.tries[0])).toEqual(['transport_unreachable', 'asked_again']);
    expect(await shown(asked.executionId)).toEqual(['accepted', '']);
    expect((await room.get(asked.executionId)).events.map(({ event }) => event)).not.toContain('query_failed');
  });

  it('is taken back when the first try is answered after all', async () => {
    const { executionId, gateway, tries } = await startAsking(room, db.database, { expects: true, policy: { sleepy: true } });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    await pass(150_000);
    expect(await shown(tries[1])).toEqual(['enqueued', '']);
    await gateway.result(tries[0], ACCEPTED);
    expect(await shown(tries[1])).toEqual(['transport_unreachable', 'already_answered']);
    expect(await shown(executionId)).toEqual(['accepted', '']);
    expect((await room.get(executionId)).events.map(({ event }) => event)).not.toContain('query_failed');
    await gateway.cut();
  });

  it('is not sent again once the first try was answered', async () => {
    const asked = await startAsking(room, db.database, { expects: true, policy: { sleepy: true } });
    const { executionId, gateway, target, tries } = asked;
    const { knex } = db.database.db;
    const [row] = await knex('executions').where('id', executionId).select<{ query: string }[]>('query');
    await knex('executions').where('id', executionId).update({ query: row?.query.replace('"kind":"gateway"', '"kind":"mqtt"') ?? null });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    gateway.received(tries[0]);
    await room.until(tries[0], 'delivered');
    await pass(150_000);
    expect((await gateway.command(3)).executionId).toBe(tries[1]);
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    expect(await shown(tries[0])).toEqual(['accepted_no_l4', '']);
    expect(await shown(executionId)).toEqual(['accepted', '']);
    await room.executions.evidence('org-1', asked.connectionId, tries[1], 'mqtt', { kind: 'known_undelivered', code: 'no_subscribers', message: '' });
    expect(await shown(tries[1])).toEqual(['transport_unreachable', 'already_answered']);
    expect(await sentAfterLoss(asked)).toEqual([]);
  });
});
