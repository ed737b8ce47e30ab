import { newId } from '../../../src/kernel/ids';
import { sqliteOnly, type TestDatabase } from '../../support/engines';
import type { ClassName } from '../../support/chirpStack/events';
import {
  type ExecutionFixture,
  startExecutionFixture,
  type Target,
  type TargetOptions,
  untilEvent,
  untilFinal,
} from '../executionFixture';
import type { ChirpStackField } from './chirpStackField';
import { chirpStackSiteForEach } from './chirpStackSite';
import type { JumpClock } from './jumpClock';
import type { SiteBroker } from './siteBroker';

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const COMMAND = { directPayload: '{"on": true}', fPort: 10 };
const VERIFIED = { expects: true, command: { verificationStrategy: 2 } };

describe.each(sqliteOnly())('executions over ChirpStack, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let clock: JumpClock;
  let broker: SiteBroker;
  let field: ChirpStackField;
  let connectionId: string;

  chirpStackSiteForEach(
    createDatabase,
    (site) => ({ db, fixture, clock, broker, field, connectionId } = site),
    () => fixture,
  );

  async function createValve(options: TargetOptions = {}, className: ClassName = 'CLASS_A'): Promise<Target> {
    const clientDeviceId = newId().replaceAll('-', '').slice(-16);
    field.server.addDevice(clientDeviceId, className);
    return await fixture.target({
      connectionId,
      clientDeviceId,
      levelPath: field.levelPath,
      ...options,
      command: { ...COMMAND, ...options.command },
    });
  }

  const getStored = async (executionId: string) =>
    (await fixture.executions.service.get('org-1', executionId)).execution;
  const events = async (executionId: string): Promise<string[]> =>
    (await fixture.executions.service.get('org-1', executionId)).events.map(({ event }) => event);

  /** A command in the device's queue at the network server. */
  async function queueCommand(target: Target, count = 1): Promise<string> {
    const { executionId } = await fixture.execute(target);
    await field.command(target.clientDeviceId, count);
    await fixture.until(executionId, 'in_transit');
    clock.advance(1000);
    return executionId;
  }

  /** A command that a gateway has sent. */
  async function deliverCommand(target: Target): Promise<string> {
    const executionId = await queueCommand(target);
    await field.deliver(await field.command(target.clientDeviceId, 1));
    await fixture.until(executionId, 'delivered');
    clock.advance(1000);
    return executionId;
  }

  async function waitForEnd(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(fixture.executions, executionId);
    const { state, detail } = await getStored(executionId);
    return [state, detail];
  }

  async function advanceAndSweep(milliseconds: number): Promise<void> {
    clock.advance(milliseconds);
    await fixture.executions.deadlines.sweep();
  }

  /** Delivers a command, and queues another one that expects another value. Resolves to the first one. */
  async function queueOpposite(className: ClassName): Promise<{ target: Target; executionId: string }> {
    const target = await createValve({ ...VERIFIED, expects: '20' }, className);
    const { clientDeviceId } = target;
    await field.publishUplink(clientDeviceId, { level: 1 });
    await untilUplinkStored(target, 'object.level'); // the server then knows the class
    const executionId = await queueCommand(target);
    if (className === 'CLASS_A') await field.publishUplink(clientDeviceId, { level: 1 });
    else await field.server.schedule(clientDeviceId);
    await field.server.txAck(clientDeviceId);
    await fixture.until(executionId, 'delivered');
    clock.advance(1000);
    const expectedSensorStates = [{ sensorId: target.sensorId, valueTemplate: '30' }];
    const opposite = { ...COMMAND, verificationStrategy: 2, expectedSensorStates };
    await queueCommand({ ...target, commandId: await fixture.addCommand(target.deviceId, opposite) }, 2);
    return { target, executionId };
  }

  it('supersedes the older command if the uplink came after a newer one was sent to a class C device', async () => {
    const { target, executionId } = await queueOpposite('CLASS_C');
    await field.publishUplink(target.clientDeviceId, { level: 30 });
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'superseded']);
  });

  it('lets an uplink decide that opens the receive window of a newer command of a class A device', async () => {
    const { target, executionId } = await queueOpposite('CLASS_A');
    await field.publishUplink(target.clientDeviceId, { level: 10 });
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'verification_mismatch']);
  });

  it('stores the frame that opened the receive window', async () => {
    const executionId = await deliverCommand(await createValve(VERIFIED));
    expect(await getStored(executionId)).toMatchObject({ deliveredFCnt: 1, peerDeliveredBy: 'chirpstack' });
  });

  it('accepts events in any order and ignores repeated ones', async () => {
    const { server } = field;
    const target = await createValve({
      expects: true,
      command: { verificationStrategy: 2, confirmed: true, convergenceTimeout: 600 },
    });
    const { clientDeviceId } = target;
    const executionId = await queueCommand(target);
    server.hold();
    await field.deliver(await field.command(clientDeviceId, 1));
    clock.advance(1000);
    await server.uplink(clientDeviceId, { acknowledges: true, object: { level: 20 } });
    await server.release((held) => held.toReversed());
    await server.repeat(4);
    await fixture.until(executionId, 'accepted');
    clock.advance(1000);
    await field.publishUplink(clientDeviceId, { level: 21 });
    expect(await waitForEnd(executionId)).toEqual(['converged', '']);
    expect((await events(executionId)).filter((event) => ['ack', 'sensors_matched'].includes(event))).toEqual([
      'ack',
      'sensors_matched',
    ]);
  });

  it('applies the acknowledgement of a frame before the readings of the frame', async () => {
    const target = await createValve({ expects: true, command: { verificationStrategy: 2, confirmed: true } });
    const executionId = await deliverCommand(target);
    await field.server.uplink(target.clientDeviceId, { acknowledges: true, object: { level: 21 } });
    expect(await waitForEnd(executionId)).toEqual(['converged', '']);
    expect(await events(executionId)).toEqual(['submitted', 'dispatch', 'transport_ok', 'ack', 'sensors_matched']);
  });

  it('waits for the deadline when a join flushed the queue, and then continues', async () => {
    const target = await createValve();
    const executionId = await queueCommand(target);
    await field.server.join(target.clientDeviceId);
    await field.publishUplink(target.clientDeviceId, { level: 1 });
    await advanceAndSweep(DAY);
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
    await fixture.execute(target);
    expect((await field.command(target.clientDeviceId, 2)).executionId).not.toBe(executionId);
  });

  describe('an execution whose txack was lost', () => {
    let target: Target;
    let executionId: string;
    const next = async (): Promise<string> =>
      (await fixture.execute({ ...target, commandId: await fixture.addCommand(target.deviceId, COMMAND) })).executionId;

    beforeEach(async () => {
      target = await createValve(VERIFIED);
      await field.publishUplink(target.clientDeviceId, { level: 20 });
      executionId = await queueCommand(target);
      await field.publishUplink(target.clientDeviceId, { level: 20 });
      await field.server.txAck(target.clientDeviceId, 'lost');
      clock.advance(1000);
      await field.publishUplink(target.clientDeviceId, { level: 21 });
      expect(await waitForEnd(executionId)).toEqual(['converged', '']);
    });

    it('is proved delivered by its effect, and the next command waits for the event of the network server', async () => {
      const waiting = await next();
      expect(await getStored(waiting)).toMatchObject({ state: 'enqueued' });
      await field.server.txAck(target.clientDeviceId);
      expect(await fixture.until(waiting, 'in_transit')).toMatchObject({ id: waiting });
      expect((await events(executionId)).at(-1)).toBe('transport_ok');
      expect(await getStored(executionId)).toMatchObject({ state: 'converged', holdsSlot: false });
    });

    it('releases the next command when it expires without further events', async () => {
      await advanceAndSweep(DAY);
      const waiting = await next();
      expect(await fixture.until(waiting, 'in_transit')).toMatchObject({ id: waiting });
    });
  });

  it('does not treat the frame that opens the receive window as an effect', async () => {
    const target = await createValve(VERIFIED);
    await field.publishUplink(target.clientDeviceId, { level: 20 });
    const executionId = await queueCommand(target);
    await field.publishUplink(target.clientDeviceId, { level: 21 });
    await field.server.txAck(target.clientDeviceId);
    await fixture.until(executionId, 'delivered');
    clock.advance(1000);
    await field.publishUplink(target.clientDeviceId, { level: 20 });
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'verification_mismatch']);
  });

  it('stores a temporary failure of a gateway, and reports it if nothing better arrives', async () => {
    const target = await createValve();
    const executionId = await queueCommand(target);
    await field.publishUplink(target.clientDeviceId, { level: 1 });
    await field.server.txAck(target.clientDeviceId, 'error');
    await untilEvent(fixture.executions, executionId, 'network_retry');
    expect(await getStored(executionId)).toMatchObject({
      state: 'in_transit',
      detail: 'downlink_gateway',
      detailMessage: 'TOO_LATE',
    });
    await advanceAndSweep(DAY);
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'downlink_gateway']);
  });

  describe('an execution whose command expired at the network server', () => {
    let target: Target;
    let executionId: string;
    const expire = async (): Promise<void> => {
      clock.advance(DAY);
      await field.publishUplink(target.clientDeviceId, { level: 1 });
    };

    beforeEach(async () => {
      target = await createValve();
      clock.advance(MINUTE); // All events that may have happened before have arrived.
      executionId = await queueCommand(target);
    });

    it('counts as unsent if the device sent nothing in its time', async () => {
      await expire();
      expect(await waitForEnd(executionId)).toEqual(['transport_unreachable', 'expired']);
      expect(field.server.transmitted).toEqual([]);
    });

    it('makes no claim if a gateway may have sent the command', async () => {
      await field.publishUplink(target.clientDeviceId, { level: 1 });
      await field.server.txAck(target.clientDeviceId, 'lost');
      await expire();
      await untilEvent(fixture.executions, executionId, 'network_retry');
      expect(await getStored(executionId)).toMatchObject({
        state: 'in_transit',
        detail: 'expired',
        deliveredAt: undefined,
      });
      await advanceAndSweep(DAY);
      expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'expired']);
      expect(field.server.transmitted).toEqual([executionId]);
    });

    it('still reports why the gateway did not send it', async () => {
      await field.publishUplink(target.clientDeviceId, { level: 1 });
      await field.server.txAck(target.clientDeviceId, 'error');
      await expire();
      while ((await getStored(executionId)).detail !== 'expired') await new Promise(setImmediate);
      await advanceAndSweep(DAY);
      expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'expired']);
      expect((await getStored(executionId)).detailMessage).toBe(
        'Device queue-item discarded because it has expired (before: downlink_gateway: TOO_LATE)',
      );
    });
  });

  it('fails a command that does not fit into a frame', async () => {
    const target = await createValve({ command: { directPayload: JSON.stringify({ text: 'x'.repeat(60) }) } });
    const executionId = await queueCommand(target);
    await field.publishUplink(target.clientDeviceId, { level: 1 });
    expect(await waitForEnd(executionId)).toEqual(['transport_rejected', 'downlink_payload_size']);
  });

  it('does not treat the status of a device as its next uplink', async () => {
    const target = await createValve({ command: { verificationStrategy: 2 } });
    const executionId = await deliverCommand(target);
    await field.server.status(target.clientDeviceId);
    await untilUplinkStored(target, 'margin');
    expect(await getStored(executionId)).toMatchObject({ state: 'delivered' });
    clock.advance(1000);
    await field.publishUplink(target.clientDeviceId, { level: 1 });
    expect(await waitForEnd(executionId)).toEqual(['accepted_no_l4', '']);
    expect(await events(executionId)).toEqual(['submitted', 'dispatch', 'transport_ok', 'uplink']);
  });

  it('waits for a network server that reconnects without a longer deadline, and then receives its events', async () => {
    const target = await createValve();
    const executionId = await queueCommand(target);
    const { tDelivery } = await getStored(executionId);
    await broker.stopListening();
    await untilEvent(fixture.executions, executionId, 'link_lost');
    expect(await getStored(executionId)).toMatchObject({ state: 'in_transit', tDelivery });
    await field.server.drop();
    await broker.startListening();
    await fixture.untilConnected(connectionId);
    await field.server.start();
    await field.deliver(await field.command(target.clientDeviceId, 1));
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', '']);
    expect(await events(executionId)).toContain('transport_ok');
    expect(field.server.transmitted).toEqual([executionId]);
  });

  it('receives, after its own restart, the events of the network server from the meantime', async () => {
    const target = await createValve();
    const executionId = await queueCommand(target);
    await fixture.stop();
    await field.deliver(await field.command(target.clientDeviceId, 1));
    fixture = await startExecutionFixture(db.database, clock);
    await fixture.reopen(connectionId);
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', '']);
    expect(await events(executionId)).toContain('transport_ok');
    expect(field.server.transmitted).toEqual([executionId]);
  });

  it('follows the class that the last uplink reported', async () => {
    const target = await createValve({}, 'CLASS_C');
    await field.publishUplink(target.clientDeviceId, { level: 1 });
    await untilUplinkStored(target, 'object.level');
    const { executionId } = await fixture.execute(target);
    const { enqueuedAt, tDelivery, policy } = await getStored(executionId);
    expect([policy.classA, (tDelivery ?? 0) - enqueuedAt]).toEqual([false, 120_000]);
  });

  it('lets a query use its own `confirmed`', async () => {
    const target = await createValve();
    const queryCommandId = await fixture.addCommand(target.deviceId, { ...COMMAND, confirmed: true });
    const executionId = await deliverCommand({
      ...target,
      commandId: await fixture.addCommand(target.deviceId, { ...COMMAND, verificationStrategy: 3, queryCommandId }),
    });
    const queryItem = await field.command(target.clientDeviceId, 2);
    expect(await getStored(executionId)).toMatchObject({ kind: 'chirpstack' });
    expect(await getStored(queryItem.executionId)).toMatchObject({
      kind: 'chirpstack_confirmed',
      parentExecutionId: executionId,
    });
  });

  it('rejects what LoRaWAN cannot carry immediately, including for the query', async () => {
    const target = await createValve({ command: { fPort: undefined } });
    const rejected = await fixture.get((await fixture.execute(target)).executionId);
    expect(rejected.violations.map(({ field: name }) => name)).toEqual(['command.fPort']);
    const commandId = await fixture.addCommand(target.deviceId, {
      ...COMMAND,
      verificationStrategy: 3,
      queryCommandId: target.commandId,
    });
    const querying = await fixture.get((await fixture.execute({ ...target, commandId })).executionId);
    expect(querying.violations.map(({ field: name }) => name)).toEqual(['command.queryCommandId']);
    const named = await fixture.addCommand(target.deviceId, { ...COMMAND, mqttTopic: 'plant/{clientDeviceId}' });
    expect(
      (await fixture.get((await fixture.execute({ ...target, commandId: named })).executionId)).violations.map(
        ({ field: name }) => name,
      ),
    ).toEqual(['command.mqttTopic']);
  });

  it('makes no further claim when the system clock moves an hour forward or back', async () => {
    const [forward, back] = [await createValve(VERIFIED), await createValve(VERIFIED)];
    const [early, late] = [await deliverCommand(forward), await queueCommand(back)];
    clock.jump(-HOUR);
    await field.deliver(await field.command(back.clientDeviceId, 1));
    await fixture.until(late, 'delivered');
    clock.advance(1000);
    await field.publishUplink(back.clientDeviceId, { level: 21 });
    expect(await waitForEnd(late)).toEqual(['converged', '']);
    clock.jump(HOUR + DAY);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(early)).toEqual(['unconfirmed', 'verification_timeout']);
    expect(field.server.transmitted).toEqual([early, late]);
  });

  /** Resolves when an uplink of the device that contains this path is stored. */
  async function untilUplinkStored({ clientDeviceId }: Target, name: string): Promise<void> {
    while ((await db.database.db.knex('connector_keys').where({ client_device_id: clientDeviceId, name })).length === 0)
      await new Promise(setImmediate);
  }
});
