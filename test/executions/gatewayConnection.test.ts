import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, CommandSnapshotStatus } from '../../src/gen/gateway/v1/gateway_service';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { startQueryScenario } from './queryScenario';
import { type ExecutionFixture, getName, type Target, untilEvent } from './executionFixture';
import { fixtureForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const MANY = { maxInFlight: 1000 };
const MINUTE = 60_000;

/** Resolves when a command was waiting to be sent while a hundred calls were answered. */
async function untilLineBlocked(fixture: ExecutionFixture, ids: readonly string[]): Promise<void> {
  for (let waited = 0; waited < 100;) {
    const states = await Promise.all(ids.map(async (id) => (await fixture.get(id)).state));
    const sent = new Set(fixture.log.of('executions.sent').map((line) => line['execution_id']));
    const waits = ids.some((id, at) => states[at] === ExecutionState.EXECUTION_STATE_IN_TRANSIT && !sent.has(id));
    waited = waits ? waited + ids.length : 0;
  }
}

/**
 * Returns the ids of the commands that reach the gateway once it reads again, in the order of sending. The last one
 * shows that all have arrived.
 */
async function arrived(fixture: ExecutionFixture, gateway: TestGateway, connectionId: string): Promise<string[]> {
  gateway.resume();
  const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
  await gateway.untilCommand(executionId);
  return gateway.commands.map((command) => command.executionId).filter((id) => id !== executionId);
}

describe.each(sqliteOnly())('the connection to a gateway on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ db, fixture } = made));

  const targets = async (connectionId: string, count: number, command = {}): Promise<Target[]> =>
    await Promise.all(Array.from({ length: count }, async () => await fixture.target({ connectionId, command })));
  const executeAll = async (all: readonly Target[], params?: Record<string, unknown>): Promise<string[]> =>
    await Promise.all(all.map(async (target) => (await fixture.execute(target, { params })).executionId));
  const listEvents = async (executionId: string): Promise<string[]> =>
    (await fixture.get(executionId)).events.map(({ event }) => event);

  describe('that accepts no more data', () => {
    const LONG = { paramsSchema: { text: { type: 1, enum: [] } }, directPayload: '{"text": "{{params.text}}"}' };

    /** Sends commands to a gateway that does not read: more than the network buffers. */
    async function blockConnection(): Promise<{
      connectionId: string;
      gateway: TestGateway;
      all: Target[];
      ids: string[];
    }> {
      const connectionId = await fixture.connection({ policy: MANY });
      const gateway = await TestGateway.attach(fixture, { connectionId });
      gateway.pause();
      const all = await targets(connectionId, 24, LONG);
      const ids = await executeAll(all, { text: 'x'.repeat(60_000) });
      await untilLineBlocked(fixture, ids);
      return { connectionId, gateway, all, ids };
    }

    it('ends only what was never sent as transport_unreachable', async () => {
      const { connectionId, gateway, ids } = await blockConnection();
      fixture.clock.advance(MINUTE);
      await fixture.executions.deadlines.sweep();
      const ended = await Promise.all(ids.map(async (id) => await fixture.get(id)));
      const unsent = ended.filter(({ state }) => getName(state) === 'transport_unreachable');
      const tried = unsent.filter(({ attempts }) => attempts === 1);
      expect(tried.length).toBeGreaterThan(0);
      expect(await listEvents(tried[0]?.id ?? '')).toEqual(['submitted', 'dispatch', 'known_undelivered', 'timer']);
      const left = ended.filter(({ state }) => getName(state) === 'unconfirmed').map(({ id }) => id);
      expect(left.length + unsent.length).toBe(ids.length);
      expect((await arrived(fixture, gateway, connectionId)).toSorted()).toEqual(left.toSorted());
      await gateway.cut();
    });

    it('ends what was never sent as transport_unreachable also when its device is deleted', async () => {
      const { connectionId, gateway, all, ids } = await blockConnection();
      for (const { deviceId } of all) await fixture.devices.delete('org-1', deviceId, undefined);
      const ended = await Promise.all(ids.map(async (id) => await fixture.get(id)));
      expect(new Set(ended.map(({ detail }) => detail))).toEqual(new Set(['device_removed']));
      const left = ended.filter(({ state }) => getName(state) === 'unconfirmed').map(({ id }) => id);
      expect(left.length).toBeLessThan(ids.length);
      expect(ended.filter(({ state }) => getName(state) === 'transport_unreachable')).toHaveLength(
        ids.length - left.length,
      );
      expect((await arrived(fixture, gateway, connectionId)).toSorted()).toEqual(left.toSorted());
      await gateway.cut();
    });

    it('never receives the query of an execution that ended meanwhile', async () => {
      const {
        connectionId,
        executionId,
        gateway: first,
        tries,
      } = await startQueryScenario(fixture, db.database, { policy: MANY });
      first.received(executionId);
      await fixture.until(executionId, 'delivered');
      await first.cut();
      await fixture.executions.evidenceService.applyEvidence('org-1', connectionId, executionId, 'test', {
        kind: 'ack',
      });
      await executeAll(await targets(connectionId, 24, LONG), { text: 'x'.repeat(60_000) });
      // This leaves it behind all of these commands.
      await db.database.db.knex('executions').where('id', tries[0]).update({ queue_order: 1_000_000 });
      const gateway = await TestGateway.attach(fixture, { connectionId });
      gateway.pause();
      await untilLineBlocked(fixture, [tries[0]]);
      await fixture.executions.evidenceService.applyEvidence('org-1', connectionId, executionId, 'test', {
        kind: 'negative',
        code: 'E7',
        message: '',
      });
      expect(await fixture.until(tries[0], 'transport_unreachable')).toMatchObject({
        detail: 'parent_ended',
        attempts: 1,
      });
      expect(await listEvents(tries[0])).toEqual(['submitted', 'dispatch', 'known_undelivered', 'cancelled']);
      expect(await arrived(fixture, gateway, connectionId)).not.toContain(tries[0]);
      await gateway.cut();
    });

    it('requeues what was never sent when it breaks, and marks only the rest as unknown', async () => {
      const { connectionId, gateway, ids } = await blockConnection();
      await gateway.cut();
      const first = ids[0] ?? '';
      await untilEvent(fixture.executions, first, 'link_lost');
      const now = await Promise.all(ids.map(async (id) => await fixture.get(id)));
      const back = now.filter(({ state }) => state === ExecutionState.EXECUTION_STATE_ENQUEUED);
      const tried = back.filter(({ attempts }) => attempts === 1);
      expect(tried.length).toBeGreaterThan(0);
      for (const { id } of tried) expect(await listEvents(id)).toEqual(['submitted', 'dispatch', 'known_undelivered']);
      const again = await TestGateway.attach(fixture, { connectionId, gatewayId: 'gw-2' });
      fixture.clock.advance(1000);
      await again.command(back.length);
      for (const { executionId, attempt } of again.commands)
        expect(attempt).toBe(tried.some(({ id }) => id === executionId) ? 2 : 1);
      expect(again.commands.map(({ executionId }) => executionId).toSorted()).toEqual(
        back.map(({ id }) => id).toSorted(),
      );
      await again.cut();
    });
  });

  describe('that breaks', () => {
    it('marks everything in transit as unknown at once, and resends none of it', async () => {
      const connectionId = await fixture.connection({ policy: MANY });
      const gateway = await TestGateway.attach(fixture, { connectionId });
      const ids = await executeAll(await targets(connectionId, 130));
      await gateway.command(ids.length);
      const [delivered = '', ...inTransit] = ids;
      gateway.received(delivered);
      await fixture.until(delivered, 'delivered');
      await gateway.cut();
      for (const id of inTransit) await untilEvent(fixture.executions, id, 'link_lost');
      for (const id of inTransit)
        expect(await fixture.get(id)).toMatchObject({
          state: ExecutionState.EXECUTION_STATE_IN_TRANSIT,
          detail: 'delivery_unconfirmed',
          attempts: 1,
        });
      expect(await listEvents(inTransit.at(-1) ?? '')).toEqual(['submitted', 'dispatch', 'link_lost']);
      expect(await listEvents(delivered)).not.toContain('link_lost');
      const other = await TestGateway.attach(fixture, { connectionId, gatewayId: 'gw-2' });
      fixture.clock.advance(MINUTE);
      await fixture.executions.deadlines.sweep();
      expect(other.commands).toEqual([]);
      expect(await fixture.get(inTransit[0] ?? '')).toMatchObject({
        state: ExecutionState.EXECUTION_STATE_UNCONFIRMED,
        detail: 'delivery_unconfirmed',
      });
      await other.cut();
    });

    it('accepts the report of a returning gateway at once, whichever is stored first', async () => {
      const connectionId = await fixture.connection();
      const target = await fixture.target({ connectionId });
      let gateway = await TestGateway.attach(fixture, { connectionId });
      for (let round = 0; round < 10; round++) {
        const { executionId } = await fixture.execute(target);
        await gateway.untilCommand(executionId);
        gateway.abandon();
        gateway = await TestGateway.attach(fixture, {
          connectionId,
          known: [
            {
              executionId,
              status:
                round % 2 === 0
                  ? CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED
                  : CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED,
            },
          ],
        });
        if (round % 2 === 0) await gateway.result(executionId, CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED);
        expect(await fixture.get(executionId)).toMatchObject({
          state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
          detail: '',
          attempts: 1,
        });
      }
      await gateway.cut();
    });
  });
});
