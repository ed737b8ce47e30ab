import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { PORTION } from '../../src/executions/store/openStatements';
import { engines, type TestDatabase } from '../support/engines';
import type { ExecutionRoom, Target } from './executionRoom';
import { roomForEach } from './executionSuite';

const { EXECUTION_STATE_ENQUEUED: ENQUEUED, EXECUTION_STATE_TRANSPORT_UNREACHABLE: UNREACHABLE } = ExecutionState;
const MANY = 6 * PORTION;

/** Asks `read` in every turn of the event loop until the work is done; how many turns there were, and by how much it grew in one at most. */
async function turnsOf(work: Promise<unknown>, read: () => number): Promise<{ turns: number; mostInOne: number }> {
  let [turns, mostInOne, before, done] = [0, 0, read(), false];
  const look = (): void => {
    turns += 1;
    mostInOne = Math.max(mostInOne, read() - before);
    before = read();
    if (!done) setImmediate(look);
  };
  setImmediate(look);
  await work;
  done = true;
  return { turns, mostInOne };
}

describe.each(engines())('much at once on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  /** A device with so many enqueued. */
  async function queued(count: number): Promise<Target & { executionIds: string[] }> {
    const connectionId = await room.connection({ policy: { queueLimit: 1000 } });
    const target = await room.target({ connectionId, command: { paramsSchema: { n: { type: 2, enum: [] } } } as never });
    const answers = await Promise.all(Array.from({ length: count }, async (_, n) => await room.execute(target, { params: { n } })));
    return { ...target, executionIds: answers.map(({ executionId }) => executionId) };
  }
  const ended = (): number => room.log.of('executions.ended').length;
  const stateOf = async (executionId: string): Promise<ExecutionState> => (await room.get(executionId)).state;
  const damage = async (ids: readonly string[]): Promise<void> => void (await db.database.db.knex('executions').whereIn('id', ids).update({ expected: '{' }));

  it('lets others have their turn while many deadlines come at once', async () => {
    await queued(MANY);
    room.clock.advance(60_000);
    const { mostInOne } = await turnsOf(room.executions.sweep(), ended);
    expect(ended()).toBe(MANY);
    expect(mostInOne).toBeLessThanOrEqual(2 * PORTION); // two, because the server sweeps by itself too
  });

  it('lets others have their turn while a device with a long queue is deleted', async () => {
    const { deviceId, executionIds } = await queued(MANY);
    const { turns } = await turnsOf(room.devices.delete('org-1', deviceId, undefined), ended);
    expect(turns).toBeGreaterThanOrEqual(MANY / PORTION);
    expect(ended()).toBe(MANY);
    expect(await room.get(executionIds.at(-1) ?? '')).toMatchObject({ state: UNREACHABLE, detail: 'target_removed' });
  });

  it('lets others have their turn while an uplink is held against many executions, and while it ends them', async () => {
    const { deviceId, clientDeviceId, executionIds } = await queued(MANY);
    const { knex } = db.database.db;
    await knex('executions').whereIn('id', executionIds).update({ state: 'delivered', connector_kind: 'mqtt', strategy: 'wait_next_uplink', delivered_at: 1, delivered_arrival: 1, holds_slot: 0, next_deadline: null });
    const [physicalDeviceId = ''] = await knex('physical_devices').where('client_device_id', clientDeviceId).pluck<string[]>('id');
    const uplink = { organizationId: 'org-1', deviceId, physicalDeviceId, ownTime: undefined, clock: undefined, receivedAt: room.clock.now(), readings: [], latestOf: async () => new Map() };
    const between = MANY / PORTION - 1;
    await db.database.transaction(async (tx) => {
      expect((await turnsOf(new ExecutionRepository(tx).toSettle('org-1', executionIds), ended)).turns).toBeGreaterThanOrEqual(between);
      expect((await turnsOf(room.executions.judge(tx, uplink), ended)).turns).toBeGreaterThanOrEqual(2 * between);
    });
    expect(await stateOf(executionIds.at(-1) ?? '')).toBe(ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4);
  });

  it('judges the others when one execution cannot be read, and names it', async () => {
    const { executionIds } = await queued(5);
    const [first = '', ...others] = executionIds;
    await damage([first]);
    room.clock.advance(60_000);
    await room.executions.sweep();
    for (const id of others) expect(await stateOf(id)).toBe(UNREACHABLE);
    expect(room.log.of('executions.deadline_failed')[0]).toMatchObject({ organization_id: 'org-1', execution_ids: [first], error: expect.any(SyntaxError) as unknown });
    await db.database.db.knex('executions').where('id', first).update({ expected: '[]' });
    await room.executions.sweep();
    expect(await stateOf(first)).toBe(UNREACHABLE);
  });

  it('judges the other organizations when one fails altogether, however much of it is due first', async () => {
    const { executionIds } = await queued(2 * PORTION);
    await damage(executionIds);
    room.clock.advance(1);
    const { executionIds: theirs } = await queued(3);
    await db.database.db.knex('executions').whereIn('id', theirs).update({ organization_id: 'org-2' });
    room.clock.advance(60_000);
    await room.executions.sweep();
    const rows = await db.database.db.knex('executions').whereIn('id', theirs).pluck<string[]>('state');
    expect(new Set(rows)).toEqual(new Set(['transport_unreachable']));
    await db.database.db.knex('executions').whereIn('id', executionIds).update({ expected: '[]' });
    expect(await stateOf(executionIds[0] ?? '')).toBe(ENQUEUED);
  });
});
