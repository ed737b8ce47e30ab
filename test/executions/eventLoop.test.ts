import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { EXECUTION_BATCH_SIZE } from '../../src/executions/store/openStatements';
import { engines, type TestDatabase } from '../support/engines';
import type { ExecutionFixture, Target } from './executionFixture';
import { fixtureForEach } from './executionSuite';

const { EXECUTION_STATE_ENQUEUED: ENQUEUED, EXECUTION_STATE_TRANSPORT_UNREACHABLE: UNREACHABLE } = ExecutionState;
const MANY = 6 * EXECUTION_BATCH_SIZE;

/**
 * Calls `read` in every turn of the event loop until the work is done. Returns the number of turns and the largest
 * growth in one turn.
 */
async function measureTurns(
  work: Promise<unknown>,
  read: () => number,
): Promise<{ turns: number; maxBatchSize: number }> {
  let [turns, maxBatchSize, before, done] = [0, 0, read(), false];
  const countTurn = (): void => {
    turns += 1;
    maxBatchSize = Math.max(maxBatchSize, read() - before);
    before = read();
    if (!done) setImmediate(countTurn);
  };
  setImmediate(countTurn);
  await work;
  done = true;
  maxBatchSize = Math.max(maxBatchSize, read() - before); // This is the turn that ended the work.
  return { turns, maxBatchSize };
}

describe.each(engines())('a large amount of work on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
  );

  /** Creates a device with this number of enqueued executions. */
  async function enqueueExecutions(count: number): Promise<Target & { executionIds: string[] }> {
    const connectionId = await fixture.connection({ policy: { queueLimit: 1000 } });
    const target = await fixture.target({
      connectionId,
      command: { paramsSchema: { n: { type: 2, enum: [] } } } as never,
    });
    const answers = await Promise.all(
      Array.from({ length: count }, async (_, n) => await fixture.execute(target, { params: { n } })),
    );
    return { ...target, executionIds: answers.map(({ executionId }) => executionId) };
  }
  const countEnded = (): number => fixture.log.of('executions.completed').length;
  const getState = async (executionId: string): Promise<ExecutionState> => (await fixture.get(executionId)).state;
  const corruptExecutions = async (ids: readonly string[]): Promise<void> =>
    void (await db.database.db.knex('executions').whereIn('id', ids).update({ expected: '{' }));

  it('leaves the event loop free while many deadlines expire at once', async () => {
    await enqueueExecutions(MANY);
    fixture.clock.advance(60_000);
    const { maxBatchSize } = await measureTurns(fixture.executions.deadlines.sweep(), countEnded);
    expect(countEnded()).toBe(MANY);
    // There are two, because the server also sweeps automatically.
    expect(maxBatchSize).toBeLessThanOrEqual(2 * EXECUTION_BATCH_SIZE);
  });

  it('leaves the event loop free while a device with a long queue is deleted', async () => {
    const { deviceId, executionIds } = await enqueueExecutions(MANY);
    const { turns } = await measureTurns(fixture.devices.delete('org-1', deviceId, undefined), countEnded);
    expect(turns).toBeGreaterThanOrEqual(MANY / EXECUTION_BATCH_SIZE);
    expect(countEnded()).toBe(MANY);
    expect(await fixture.get(executionIds.at(-1) ?? '')).toMatchObject({
      state: UNREACHABLE,
      detail: 'device_removed',
    });
  });

  it('leaves the event loop free while an uplink is checked against many executions, and while it ends them', async () => {
    const { deviceId, clientDeviceId, executionIds } = await enqueueExecutions(MANY);
    const { knex } = db.database.db;
    await knex('executions').whereIn('id', executionIds).update({
      state: 'delivered',
      connector_kind: 'mqtt',
      strategy: 'wait_next_uplink',
      delivered_at: 1,
      delivered_arrival: 1,
      holds_slot: 0,
      next_deadline: null,
    });
    const [physicalDeviceId = ''] = await knex('physical_devices')
      .where('client_device_id', clientDeviceId)
      .pluck<string[]>('id');
    const uplink = {
      organizationId: 'org-1',
      deviceId,
      physicalDeviceId,
      deviceTime: undefined,
      clock: undefined,
      receivedAt: fixture.clock.now(),
      readings: [],
      isReadable: true,
      findLatest: async () => new Map(),
    };
    const between = MANY / EXECUTION_BATCH_SIZE - 1;
    await db.database.transaction(async (tx) => {
      expect(
        (await measureTurns(new ExecutionRepository(tx).listWithoutPayload('org-1', executionIds), countEnded)).turns,
      ).toBeGreaterThanOrEqual(between);
      expect(
        (await measureTurns(fixture.executions.sensorEvidence.evaluateUplink(tx, uplink), countEnded)).turns,
      ).toBeGreaterThanOrEqual(2 * between);
    });
    expect(await getState(executionIds.at(-1) ?? '')).toBe(ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4);
  });

  it('leaves the event loop free between the watchers that one event wakes', async () => {
    const target = await fixture.target();
    const watchController = new AbortController();
    let delivered = 0;
    const watchers = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const filter = { deviceId: undefined, executionId: undefined, resumeToken: '' };
        const items = fixture.executions.watch.watch('org-1', filter, watchController.signal);
        await items.next(); // The position to resume at.
        return items;
      }),
    );
    const deliveries = Promise.all(
      watchers.map(async (items) => {
        await items.next();
        delivered += 1;
        fixture.clock.advance(5); // Sending it takes a while.
      }),
    );
    const measurement = measureTurns(deliveries, () => delivered);
    await fixture.execute(target);
    const { maxBatchSize } = await measurement;
    expect(delivered).toBe(40);
    expect(maxBatchSize).toBeLessThanOrEqual(10); // PostgreSQL answers this number at once.
    watchController.abort();
  });

  it('continues with the others when one execution cannot be read, and reports it', async () => {
    const { executionIds } = await enqueueExecutions(5);
    const [first = '', ...others] = executionIds;
    await corruptExecutions([first]);
    fixture.clock.advance(60_000);
    await fixture.executions.deadlines.sweep();
    for (const id of others) expect(await getState(id)).toBe(UNREACHABLE);
    expect(fixture.log.of('executions.deadline_failed')[0]).toMatchObject({
      organization_id: 'org-1',
      execution_ids: [first],
      error: expect.any(SyntaxError) as unknown,
    });
    await db.database.db.knex('executions').where('id', first).update({ expected: '[]' });
    await fixture.executions.deadlines.sweep();
    expect(await getState(first)).toBe(UNREACHABLE);
  });

  it('continues with the other organizations when one fails completely, however much of it is due first', async () => {
    const { executionIds } = await enqueueExecutions(2 * EXECUTION_BATCH_SIZE);
    await corruptExecutions(executionIds);
    fixture.clock.advance(1);
    const { executionIds: otherIds } = await enqueueExecutions(3);
    await db.database.db.knex('executions').whereIn('id', otherIds).update({ organization_id: 'org-2' });
    fixture.clock.advance(60_000);
    await fixture.executions.deadlines.sweep();
    const rows = await db.database.db.knex('executions').whereIn('id', otherIds).pluck<string[]>('state');
    expect(new Set(rows)).toEqual(new Set(['transport_unreachable']));
    await db.database.db.knex('executions').whereIn('id', executionIds).update({ expected: '[]' });
    expect(await getState(executionIds[0] ?? '')).toBe(ENQUEUED);
  });
});
