import { CONNECTOR_KINDS } from '../../src/connections';
import { expireRestoredExecutions, type ExecutionState, isFinal } from '../../src/executions';
import { CommandResultCode, CommandSnapshotStatus, ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { LEVEL, startQueryScenario } from './queryScenario';
import { type ExecutionFixture, getName, startExecutionFixture, type Target } from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED } = CommandResultCode;
const { RESULT_OUTCOME_LATE: LATE, RESULT_OUTCOME_UNKNOWN: UNKNOWN } = ResultOutcome;
const CREATED_AT = '2026-03-01T02:30:00.000Z';
const OPEN: readonly ExecutionState[] = ['enqueued', 'in_transit', 'delivered', 'accepted'];
const EVERY = OPEN.flatMap((state) => CONNECTOR_KINDS.map((kind) => ({ state, kind, id: `${state}-${kind}` })));

describe.each(engines())('executions of a backup on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
  );

  /** Ends the executions of the backup, as a restore does, and starts a server on it. */
  async function restore(): Promise<Record<string, number>> {
    const { clock } = fixture;
    await fixture.stop();
    const ended = await expireRestoredExecutions({ database: db.database, clock, backupCreatedAt: CREATED_AT });
    fixture = await startExecutionFixture(db.database, clock);
    return Object.fromEntries(ended);
  }

  async function getOutcome(executionId: string): Promise<string[]> {
    const { state, detail } = await fixture.get(executionId);
    return [getName(state), detail];
  }

  /**
   * Creates copies of one execution: in each state that is not final, for each kind of connection, and one that has
   * ended.
   */
  async function createCopies({ deviceId }: Target, executionId: string): Promise<void> {
    const { knex } = db.database.db;
    const [row] = await knex('executions').where('id', executionId).select<Record<string, unknown>[]>('*');
    const open = EVERY.map(({ id, state, kind }, at) => ({
      ...row,
      id,
      connector_kind: kind,
      state,
      device_id: `${deviceId}-${at}`,
      physical_device_id: `p-${at}`,
      holds_slot: Number(state === 'in_transit'),
      dedupe_key: id,
      t_conv: 9e12,
      next_deadline: 9e12,
      organization_id: at % 2 === 0 ? 'org-1' : 'org-2',
    }));
    await knex('executions').insert([
      ...open,
      { ...row, id: 'ended', state: 'converged', final: 1, dedupe_key: null, next_deadline: null, finished_at: 5 },
    ]);
  }

  it('end as unconfirmed, or as accepted_no_l4 where the device had acknowledged, for every kind of connection; ended ones do not change', async () => {
    const target = await fixture.target();
    const { executionId } = await fixture.execute(target);
    await createCopies(target, executionId);
    expect(await restore()).toEqual({
      enqueued: CONNECTOR_KINDS.length + 1,
      in_transit: CONNECTOR_KINDS.length,
      delivered: CONNECTOR_KINDS.length,
      accepted: CONNECTOR_KINDS.length,
    });
    const rows = await db.database.db.knex('executions').whereIn(
      'id',
      EVERY.map(({ id }) => id),
    );
    for (const { id, state } of EVERY) {
      const row = rows.find((one: { id: string }) => one.id === id) as Record<string, unknown>;
      expect(row).toMatchObject({
        state: state === 'accepted' ? 'accepted_no_l4' : 'unconfirmed',
        detail: 'restored',
        final: 1,
        holds_slot: 0,
        dedupe_key: null,
        t_delivery: null,
        t_conv: null,
        next_deadline: null,
        finished_at: fixture.clock.now(),
      });
    }
    const events = await db.database.db.knex('execution_events').where('event', 'restored').orderBy('position');
    expect(events.find(({ execution_id }: { execution_id: string }) => execution_id === 'accepted-mqtt')).toMatchObject(
      {
        layer: 1,
        source: 'restore',
        from_state: 'accepted',
        to_state: 'accepted_no_l4',
        data: JSON.stringify({ backup_created_at: CREATED_AT }),
      },
    );
    expect(await db.database.db.knex('executions').where('id', 'ended').first()).toMatchObject({
      state: 'converged',
      version: 1,
      finished_at: 5,
    });
    expect(
      await expireRestoredExecutions({ database: db.database, clock: fixture.clock, backupCreatedAt: CREATED_AT }),
    ).toEqual(new Map()); // There is nothing left to do the second time.
    await db.database.db
      .knex('executions')
      .whereIn('id', ['ended', ...EVERY.map(({ id }) => id)])
      .delete();
  });

  it('are not resent, later reports of a gateway are late evidence, and the device accepts the next command', async () => {
    const connectionId = await fixture.connection();
    const [waiting, held, reported] = [
      await fixture.target({ connectionId }),
      await fixture.target({ connectionId }),
      await fixture.target({ connectionId }),
    ];
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const [inTransit, delivered] = [await fixture.execute(held), await fixture.execute(reported)];
    await gateway.command(2);
    gateway.received(delivered.executionId);
    await fixture.until(delivered.executionId, 'delivered');
    await gateway.cut();
    const enqueued = await fixture.execute(waiting);
    await restore();
    for (const { executionId } of [enqueued, inTransit, delivered])
      expect(await getOutcome(executionId)).toEqual(['unconfirmed', 'restored']);
    const known = [
      { executionId: inTransit.executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED },
      { executionId: delivered.executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED },
    ];
    const back = await TestGateway.attach(fixture, { connectionId, known });
    await back.untilCancelled(inTransit.executionId); // The gateway still holds a command that may no longer be needed.
    expect(await back.result(inTransit.executionId, ACCEPTED)).toBe(LATE);
    expect(await back.result('made-after-the-backup', ACCEPTED)).toBe(UNKNOWN);
    fixture.clock.advance(120_000);
    await fixture.executions.deadlines.sweep();
    const again = await fixture.execute(waiting);
    expect(again).toMatchObject({ duplicate: false });
    await back.untilCommand(again.executionId);
    expect(back.commands.map(({ executionId }) => executionId)).toEqual([again.executionId]);
    for (const { executionId } of [inTransit, delivered])
      expect(await getOutcome(executionId)).toEqual(['unconfirmed', 'restored']);
    await back.cut();
  });

  it('end with their queries, without a claim that these were not sent', async () => {
    const { executionId, gateway, tries } = await startQueryScenario(fixture, db.database, {
      expects: true,
      policy: { sleepy: true },
    });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    fixture.clock.advance(150_000);
    await fixture.executions.deadlines.sweep();
    await gateway.cut();
    expect([(await getOutcome(tries[0]))[0], (await getOutcome(tries[1]))[0]]).toEqual(['in_transit', 'enqueued']);
    await restore();
    expect(await getOutcome(executionId)).toEqual(['accepted_no_l4', 'restored']);
    for (const query of tries) expect(await getOutcome(query)).toEqual(['unconfirmed', 'restored']);
    expect(
      (await db.database.db.knex('executions').select('state')).every(({ state }: { state: ExecutionState }) =>
        isFinal(state),
      ),
    ).toBe(true);
  });

  it('are not published again to a broker, whether they were acknowledged or not', async () => {
    const broker = await new Mqtt5Broker().start();
    broker.onPublish = () => undefined;
    const configuration = {
      url: broker.url,
      uplinkTopic: 'plant/{clientDeviceId}/up',
      downlinkTopic: 'plant/{clientDeviceId}/command',
    };
    const connectionId = await fixture.connection({ connectorId: 'mqtt', configuration });
    await fixture.untilConnected(connectionId);
    const valve = await fixture.target({
      connectionId,
      command: { directPayload: '{"id": "{{execution.id}}", "n": "{{params.n}}"}', ...LEVEL },
    });
    const sent = await fixture.execute(valve);
    await broker.until(() => broker.published.length === 1);
    const queued = await fixture.execute(valve, { params: { n: 1 } });
    broker.onPublish = () => 0;
    await restore();
    await fixture.reopen(connectionId);
    await fixture.untilConnected(connectionId);
    const next = await fixture.execute(valve);
    await fixture.until(next.executionId, 'unconfirmed'); // It was published and executed, and verifies nothing.
    expect(broker.published.map(({ payload }) => (JSON.parse(payload.toString()) as { id: string }).id)).toEqual([
      sent.executionId,
      next.executionId,
    ]);
    for (const { executionId } of [sent, queued])
      expect(await getOutcome(executionId)).toEqual(['unconfirmed', 'restored']);
    await fixture.stop();
    await broker.stop();
    fixture = await startExecutionFixture(db.database, fixture.clock);
  });

  it('are not visible to a watcher that resumes beyond the backup: its position is reported as lost, also when as many events were stored again', async () => {
    const target = await fixture.target();
    await fixture.execute(target);
    const watch = async (resumeToken: string): Promise<string | undefined> =>
      (
        await fixture.executions.watch
          .watch('org-1', { deviceId: undefined, executionId: undefined, resumeToken }, new AbortController().signal)
          .next()
      ).value?.resumeToken;
    const behind = await watch('');
    const lost = await db.database.db
      .knex('execution_events')
      .where('organization_id', 'org-1')
      .max<{ last: number }[]>('position as last');
    await db.database.transaction(async ({ knex }) => {
      // The backup was created one event earlier.
      await knex('execution_events').where({ position: lost[0]?.last }).delete();
      await knex('organization_counters')
        .where({ organization_id: 'org-1', name: 'execution_events' })
        .decrement('value', 1);
    });
    await restore();
    await expect(watch(behind ?? '')).rejects.toMatchObject({ reason: 'resume_token_expired' });
    expect(await watch((await watch('')) ?? '')).toBeDefined();
  });
});
