import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, KnownStatus } from '../../src/gen/gateway/v1/gateway_service';
import { engines, type TestDatabase } from '../support/engines';
import { startAsking } from './asking';
import { type ExecutionRoom, nameOf, type Target, untilEvent } from './executionRoom';
import { roomForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const MANY = { maxInFlight: 1000 };
const MINUTE = 60_000;

/** Resolves when a command has been waiting to leave while a hundred calls were answered. */
async function untilStuck(room: ExecutionRoom, ids: readonly string[]): Promise<void> {
  for (let waited = 0; waited < 100; ) {
    const states = await Promise.all(ids.map(async (id) => (await room.get(id)).state));
    const sent = new Set(room.log.of('executions.sent').map((line) => line['execution_id']));
    const waits = ids.some((id, at) => states[at] === ExecutionState.EXECUTION_STATE_IN_TRANSIT && !sent.has(id));
    waited = waits ? waited + ids.length : 0;
  }
}

/** The ids of what reached the gateway once it reads again; in the order of sending, so the last one is a sign that all is there. */
async function arrived(room: ExecutionRoom, gateway: TestGateway, connectionId: string): Promise<string[]> {
  gateway.resume();
  const { executionId } = await room.execute(await room.target({ connectionId }));
  await gateway.untilCommand(executionId);
  return gateway.commands.map((command) => command.executionId).filter((id) => id !== executionId);
}

describe.each(engines())('the link to a gateway on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForAll(createDatabase, (made) => ({ db, room } = made));

  const targets = async (connectionId: string, count: number, command = {}): Promise<Target[]> =>
    await Promise.all(Array.from({ length: count }, async () => await room.target({ connectionId, command })));
  const executeAll = async (all: readonly Target[], params?: Record<string, unknown>): Promise<string[]> =>
    await Promise.all(all.map(async (target) => (await room.execute(target, { params })).executionId));
  const eventsOf = async (executionId: string): Promise<string[]> => (await room.get(executionId)).events.map(({ event }) => event);

  describe('that takes nothing more', () => {
    const LONG = { paramsSchema: { text: { type: 1, enum: [] } }, directPayload: '{"text": "{{params.text}}"}' };

    /** Commands to a gateway that does not read: more than the network takes. */
    async function stuck(): Promise<{ connectionId: string; gateway: TestGateway; all: Target[]; ids: string[] }> {
      const connectionId = await room.connection({ policy: MANY });
      const gateway = await TestGateway.attach(room, { connectionId });
      gateway.pause();
      const all = await targets(connectionId, 24, LONG);
      const ids = await executeAll(all, { text: 'x'.repeat(60_000) });
      await untilStuck(room, ids);
      return { connectionId, gateway, all, ids };
    }

    it('ends what never left as transport_unreachable, and only that', async () => {
      const { connectionId, gateway, ids } = await stuck();
      room.clock.advance(MINUTE);
      await room.executions.sweep();
      const ended = await Promise.all(ids.map(async (id) => await room.get(id)));
      const unsent = ended.filter(({ state }) => nameOf(state) === 'transport_unreachable');
      const tried = unsent.filter(({ attempts }) => attempts === 1);
      expect(tried.length).toBeGreaterThan(0);
      expect(await eventsOf(tried[0]?.id ?? '')).toEqual(['submitted', 'dispatch', 'known_undelivered', 'timer']);
      const left = ended.filter(({ state }) => nameOf(state) === 'unconfirmed').map(({ id }) => id);
      expect(left.length + unsent.length).toBe(ids.length);
      expect((await arrived(room, gateway, connectionId)).toSorted()).toEqual(left.toSorted());
      await gateway.cut();
    });

    it('ends what never left as transport_unreachable also when its device is deleted', async () => {
      const { connectionId, gateway, all, ids } = await stuck();
      for (const { deviceId } of all) await room.devices.delete('org-1', deviceId, undefined);
      const ended = await Promise.all(ids.map(async (id) => await room.get(id)));
      expect(new Set(ended.map(({ detail }) => detail))).toEqual(new Set(['target_removed']));
      const left = ended.filter(({ state }) => nameOf(state) === 'unconfirmed').map(({ id }) => id);
      expect(left.length).toBeLessThan(ids.length);
      expect(ended.filter(({ state }) => nameOf(state) === 'transport_unreachable')).toHaveLength(ids.length - left.length);
      expect((await arrived(room, gateway, connectionId)).toSorted()).toEqual(left.toSorted());
      await gateway.cut();
    });

    it('is never sent the query of an execution that ended meanwhile', async () => {
      const { connectionId, executionId, gateway: first, tries } = await startAsking(room, db.database, { policy: MANY });
      first.received(executionId);
      await room.until(executionId, 'delivered');
      await first.cut();
      await room.executions.evidence('org-1', connectionId, executionId, 'test', { kind: 'ack' });
      await executeAll(await targets(connectionId, 24, LONG), { text: 'x'.repeat(60_000) });
      await db.database.db.knex('executions').where('id', tries[0]).update({ queue_order: 1_000_000 }); // so that it leaves behind all these
      const gateway = await TestGateway.attach(room, { connectionId });
      gateway.pause();
      await untilStuck(room, [tries[0]]);
      await room.executions.evidence('org-1', connectionId, executionId, 'test', { kind: 'negative', code: 'E7', message: '' });
      expect(await room.until(tries[0], 'transport_unreachable')).toMatchObject({ detail: 'parent_ended', attempts: 1 });
      expect(await eventsOf(tries[0])).toEqual(['submitted', 'dispatch', 'known_undelivered', 'cancelled']);
      expect(await arrived(room, gateway, connectionId)).not.toContain(tries[0]);
      await gateway.cut();
    });

    it('puts back what never left when it breaks, and calls only the rest unknown', async () => {
      const { connectionId, gateway, ids } = await stuck();
      await gateway.cut();
      const first = ids[0] ?? '';
      await untilEvent(room.executions, first, 'link_lost');
      const now = await Promise.all(ids.map(async (id) => await room.get(id)));
      const back = now.filter(({ state }) => state === ExecutionState.EXECUTION_STATE_ENQUEUED);
      const tried = back.filter(({ attempts }) => attempts === 1);
      expect(tried.length).toBeGreaterThan(0);
      for (const { id } of tried) expect(await eventsOf(id)).toEqual(['submitted', 'dispatch', 'known_undelivered']);
      const again = await TestGateway.attach(room, { connectionId, gatewayId: 'gw-2' });
      room.clock.advance(1000);
      await again.command(back.length);
      for (const { executionId, attempt } of again.commands) expect(attempt).toBe(tried.some(({ id }) => id === executionId) ? 2 : 1);
      expect(again.commands.map(({ executionId }) => executionId).toSorted()).toEqual(back.map(({ id }) => id).toSorted());
      await again.cut();
    });
  });

  describe('that breaks', () => {
    it('leaves all that was in transit unknown at once, and sends none of it again', async () => {
      const connectionId = await room.connection({ policy: MANY });
      const gateway = await TestGateway.attach(room, { connectionId });
      const ids = await executeAll(await targets(connectionId, 130));
      await gateway.command(ids.length);
      const [delivered = '', ...inTransit] = ids;
      gateway.received(delivered);
      await room.until(delivered, 'delivered');
      await gateway.cut();
      for (const id of inTransit) await untilEvent(room.executions, id, 'link_lost');
      for (const id of inTransit) expect(await room.get(id)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_IN_TRANSIT, detail: 'delivery_unknown', attempts: 1 });
      expect(await eventsOf(inTransit.at(-1) ?? '')).toEqual(['submitted', 'dispatch', 'link_lost']);
      expect(await eventsOf(delivered)).not.toContain('link_lost');
      const other = await TestGateway.attach(room, { connectionId, gatewayId: 'gw-2' });
      room.clock.advance(MINUTE);
      await room.executions.sweep();
      expect(other.commands).toEqual([]);
      expect(await room.get(inTransit[0] ?? '')).toMatchObject({ state: ExecutionState.EXECUTION_STATE_UNCONFIRMED, detail: 'delivery_unknown' });
      await other.cut();
    });

    it('takes the word of the gateway that comes back at once, whichever is stored first', async () => {
      const connectionId = await room.connection();
      const target = await room.target({ connectionId });
      let gateway = await TestGateway.attach(room, { connectionId });
      for (let round = 0; round < 10; round++) {
        const { executionId } = await room.execute(target);
        await gateway.untilCommand(executionId);
        gateway.abandon();
        gateway = await TestGateway.attach(room, { connectionId, known: [{ executionId, status: round % 2 === 0 ? KnownStatus.KNOWN_STATUS_RECEIVED : KnownStatus.KNOWN_STATUS_ACCEPTED }] });
        if (round % 2 === 0) await gateway.result(executionId, CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED);
        expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: '', attempts: 1 });
      }
      await gateway.cut();
    });
  });
});
