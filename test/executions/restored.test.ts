import { CONNECTOR_KINDS } from '../../src/connections';
import { endRestored, type ExecutionState, isFinal } from '../../src/executions';
import { CommandResultCode, KnownStatus, ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { LEVEL, startAsking } from './asking';
import { type ExecutionRoom, nameOf, startExecutionRoom, type Target } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED } = CommandResultCode;
const { RESULT_OUTCOME_LATE: LATE, RESULT_OUTCOME_UNKNOWN: UNKNOWN } = ResultOutcome;
const CREATED_AT = '2026-03-01T02:30:00.000Z';
const OPEN: readonly ExecutionState[] = ['enqueued', 'in_transit', 'delivered', 'accepted'];
const EVERY = OPEN.flatMap((state) => CONNECTOR_KINDS.map((kind) => ({ state, kind, id: `${state}-${kind}` })));

describe.each(engines())('executions of a backup on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  /** Ends what the backup holds, as a restore does, and starts a server on it. */
  async function restore(): Promise<Record<string, number>> {
    const { clock } = room;
    await room.stop();
    const ended = await endRestored({ database: db.database, clock, backupCreatedAt: CREATED_AT });
    room = await startExecutionRoom(db.database, clock);
    return Object.fromEntries(ended);
  }

  async function shown(executionId: string): Promise<string[]> {
    const { state, detail } = await room.get(executionId);
    return [nameOf(state), detail];
  }

  /** Copies of one execution: in each state that is not final, of each kind of connection, and one that has ended. */
  async function everyOne({ deviceId }: Target, executionId: string): Promise<void> {
    const { knex } = db.database.db;
    const [row] = await knex('executions').where('id', executionId).select<Record<string, unknown>[]>('*');
    const open = EVERY.map(({ id, state, kind }, at) => ({ ...row, id, connector_kind: kind, state, device_id: `${deviceId}-${at}`, physical_device_id: `p-${at}`, holds_slot: Number(state === 'in_transit'), dedupe_key: id, t_conv: 9e12, next_deadline: 9e12, organization_id: at % 2 === 0 ? 'org-1' : 'org-2' }));
    await knex('executions').insert([...open, { ...row, id: 'ended', state: 'converged', final: 1, dedupe_key: null, next_deadline: null, finished_at: 5 }]);
  }

  it('end as unconfirmed, or as accepted_no_l4 where the device had acknowledged, whatever their connection; what had ended stays', async () => {
    const target = await room.target();
    const { executionId } = await room.execute(target);
    await everyOne(target, executionId);
    expect(await restore()).toEqual({ enqueued: CONNECTOR_KINDS.length + 1, in_transit: CONNECTOR_KINDS.length, delivered: CONNECTOR_KINDS.length, accepted: CONNECTOR_KINDS.length });
    const rows = await db.database.db.knex('executions').whereIn('id', EVERY.map(({ id }) => id));
    for (const { id, state } of EVERY) {
      const row = rows.find((one: { id: string }) => one.id === id) as Record<string, unknown>;
      expect(row).toMatchObject({ state: state === 'accepted' ? 'accepted_no_l4' : 'unconfirmed', detail: 'restored', final: 1, holds_slot: 0, dedupe_key: null, t_delivery: null, t_conv: null, next_deadline: null, finished_at: room.clock.now() });
    }
    const events = await db.database.db.knex('execution_events').where('event', 'restored').orderBy('position');
    expect(events.find(({ execution_id }: { execution_id: string }) => execution_id === 'accepted-mqtt')).toMatchObject({ layer: 1, source: 'restore', from_state: 'accepted', to_state: 'accepted_no_l4', data: JSON.stringify({ backup_created_at: CREATED_AT }) });
    expect(await db.database.db.knex('executions').where('id', 'ended').first()).toMatchObject({ state: 'converged', version: 1, finished_at: 5 });
    expect(await endRestored({ database: db.database, clock: room.clock, backupCreatedAt: CREATED_AT })).toEqual(new Map()); // a second time there is nothing to do
    await db.database.db.knex('executions').whereIn('id', ['ended', ...EVERY.map(({ id }) => id)]).delete();
  });

  it('are not sent again, and what a gateway tells of them is late; the device takes the next command', async () => {
    const connectionId = await room.connection();
    const [waiting, held, told] = [await room.target({ connectionId }), await room.target({ connectionId }), await room.target({ connectionId })];
    const gateway = await TestGateway.attach(room, { connectionId });
    const [inTransit, delivered] = [await room.execute(held), await room.execute(told)];
    await gateway.command(2);
    gateway.received(delivered.executionId);
    await room.until(delivered.executionId, 'delivered');
    await gateway.cut();
    const enqueued = await room.execute(waiting);
    await restore();
    for (const { executionId } of [enqueued, inTransit, delivered]) expect(await shown(executionId)).toEqual(['unconfirmed', 'restored']);
    const known = [
      { executionId: inTransit.executionId, status: KnownStatus.KNOWN_STATUS_RECEIVED },
      { executionId: delivered.executionId, status: KnownStatus.KNOWN_STATUS_ACCEPTED },
    ];
    const back = await TestGateway.attach(room, { connectionId, known });
    await back.untilWithdrawn(inTransit.executionId); // it still holds what may be for nothing
    expect(await back.result(inTransit.executionId, ACCEPTED)).toBe(LATE);
    expect(await back.result('made-after-the-backup', ACCEPTED)).toBe(UNKNOWN);
    room.clock.advance(120_000);
    await room.executions.sweep();
    const again = await room.execute(waiting);
    expect(again).toMatchObject({ duplicate: false });
    await back.untilCommand(again.executionId);
    expect(back.commands.map(({ executionId }) => executionId)).toEqual([again.executionId]);
    for (const { executionId } of [inTransit, delivered]) expect(await shown(executionId)).toEqual(['unconfirmed', 'restored']);
    await back.cut();
  });

  it('end with their queries, of which nobody claims that they were not sent', async () => {
    const { executionId, gateway, tries } = await startAsking(room, db.database, { expects: true, policy: { sleepy: true } });
    await gateway.result(executionId, ACCEPTED);
    await gateway.command(2);
    room.clock.advance(150_000);
    await room.executions.sweep();
    await gateway.cut();
    expect([(await shown(tries[0]))[0], (await shown(tries[1]))[0]]).toEqual(['in_transit', 'enqueued']);
    await restore();
    expect(await shown(executionId)).toEqual(['accepted_no_l4', 'restored']);
    for (const query of tries) expect(await shown(query)).toEqual(['unconfirmed', 'restored']);
    expect((await db.database.db.knex('executions').select('state')).every(({ state }: { state: ExecutionState }) => isFinal(state))).toBe(true);
  });

  it('are not published again to a broker, whether it had acknowledged them or not', async () => {
    const broker = await new Mqtt5Broker().start();
    broker.onPublish = () => undefined;
    const configuration = { url: broker.url, uplinkTopic: 'plant/{clientDeviceId}/up', downlinkTopic: 'plant/{clientDeviceId}/command' };
    const connectionId = await room.connection({ connectorId: 'mqtt', configuration });
    await room.untilConnected(connectionId);
    const valve = await room.target({ connectionId, command: { directPayload: '{"id": "{{execution.id}}", "n": "{{params.n}}"}', ...LEVEL } });
    const sent = await room.execute(valve);
    await broker.until(() => broker.published.length === 1);
    const queued = await room.execute(valve, { params: { n: 1 } });
    broker.onPublish = () => 0;
    await restore();
    await room.reopen(connectionId);
    await room.untilConnected(connectionId);
    const next = await room.execute(valve);
    await room.until(next.executionId, 'unconfirmed'); // published and done: it verifies nothing
    expect(broker.published.map(({ payload }) => (JSON.parse(payload.toString()) as { id: string }).id)).toEqual([sent.executionId, next.executionId]);
    for (const { executionId } of [sent, queued]) expect(await shown(executionId)).toEqual(['unconfirmed', 'restored']);
    await room.stop();
    await broker.stop();
    room = await startExecutionRoom(db.database, room.clock);
  });

  it('are seen by nobody who resumes behind the backup: the place to resume at counts as gone, also when there are more events than that again', async () => {
    const target = await room.target();
    await room.execute(target);
    const watch = async (resumeToken: string): Promise<string | undefined> => (await room.executions.watch.watch('org-1', { deviceId: undefined, executionId: undefined, resumeToken }, new AbortController().signal).next()).value?.resumeToken;
    const behind = await watch('');
    const lost = await db.database.db.knex('execution_events').where('organization_id', 'org-1').max<{ last: number }[]>('position as last');
    await db.database.transaction(async ({ knex }) => {
      await knex('execution_events').where({ position: lost[0]?.last }).delete(); // the backup was made one event earlier
      await knex('organization_counters').where({ organization_id: 'org-1', name: 'execution_events' }).decrement('value', 1);
    });
    await restore();
    await expect(watch(behind ?? '')).rejects.toMatchObject({ reason: 'resume_token_expired' });
    expect(await watch(await watch('') ?? '')).toBeDefined();
  });
});
