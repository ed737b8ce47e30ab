import { newId } from '../../../src/kernel/ids';
import { engines, type TestDatabase } from '../../support/engines';
import type { ClassName } from '../../support/chirpStack/events';
import { type ExecutionRoom, prepare, startExecutionRoom, type Target, type TargetOptions, untilEvent, untilFinal } from '../executionRoom';
import { ChirpStackField, chirpStackConfiguration } from './chirpStackField';
import { JumpClock } from './jumpClock';
import { SiteBroker } from './siteBroker';

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const COMMAND = { directPayload: '{"on": true}', fPort: 10 };
const VERIFIED = { expects: true, command: { verificationStrategy: 2 } };

describe.each(engines())('executions over ChirpStack, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  let clock: JumpClock;
  let broker: SiteBroker;
  let field: ChirpStackField;
  let connectionId: string;

  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
  });
  beforeEach(async () => {
    clock = new JumpClock();
    room = await startExecutionRoom(db.database, clock);
    broker = await SiteBroker.start();
    field = await ChirpStackField.start(broker.url, clock);
    connectionId = await room.connection({ connectorId: 'chirpstack', configuration: chirpStackConfiguration(broker.url) });
    await room.untilConnected(connectionId);
  });
  afterEach(async () => {
    await field.server.drop();
    await room.stop();
    await broker.stop();
  });
  afterAll(async () => await db.drop());

  async function valve(options: TargetOptions = {}, className: ClassName = 'CLASS_A'): Promise<Target> {
    const clientDeviceId = newId().replaceAll('-', '').slice(-16);
    field.server.addDevice(clientDeviceId, className);
    return await room.target({ connectionId, clientDeviceId, levelPath: field.levelPath, ...options, command: { ...COMMAND, ...options.command } });
  }

  const stored = async (executionId: string) => (await room.executions.service.get('org-1', executionId)).execution;
  const events = async (executionId: string): Promise<string[]> => (await room.executions.service.get('org-1', executionId)).events.map(({ event }) => event);

  /** A command in the device's queue at the network server. */
  async function queued(target: Target, count = 1): Promise<string> {
    const { executionId } = await room.execute(target);
    await field.command(target.clientDeviceId, count);
    await room.until(executionId, 'in_transit');
    clock.advance(1000);
    return executionId;
  }

  /** Sent by a gateway. */
  async function delivered(target: Target): Promise<string> {
    const executionId = await queued(target);
    await field.deliver(await field.command(target.clientDeviceId, 1));
    await room.until(executionId, 'delivered');
    clock.advance(1000);
    return executionId;
  }

  async function ended(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(room.executions, executionId);
    const { state, detail } = await stored(executionId);
    return [state, detail];
  }

  async function pass(milliseconds: number): Promise<void> {
    clock.advance(milliseconds);
    await room.executions.sweep();
  }

  it('keeps the frame that opened the receive window', async () => {
    const executionId = await delivered(await valve(VERIFIED));
    expect(await stored(executionId)).toMatchObject({ deliveredFCnt: 1, peerDeliveredBy: 'chirpstack' });
  });

  it('takes events in any order and however often they come', async () => {
    const { server } = field;
    const target = await valve({ expects: true, command: { verificationStrategy: 2, confirmed: true, convergenceTimeout: 600 } });
    const { clientDeviceId } = target;
    const executionId = await queued(target);
    server.hold();
    await field.deliver(await field.command(clientDeviceId, 1));
    clock.advance(1000);
    await server.uplink(clientDeviceId, { acknowledges: true, object: { level: 20 } });
    await server.release((held) => held.toReversed());
    await server.repeat(4);
    await room.until(executionId, 'accepted');
    clock.advance(1000);
    await field.show(clientDeviceId, { level: 21 });
    expect(await ended(executionId)).toEqual(['converged', '']);
    expect((await events(executionId)).filter((event) => ['ack', 'sensors_matched'].includes(event))).toEqual(['ack', 'sensors_matched']);
  });

  it('applies the acknowledgement of a frame before what the frame shows', async () => {
    const target = await valve({ expects: true, command: { verificationStrategy: 2, confirmed: true } });
    const executionId = await delivered(target);
    await field.server.uplink(target.clientDeviceId, { acknowledges: true, object: { level: 21 } });
    expect(await ended(executionId)).toEqual(['converged', '']);
    expect(await events(executionId)).toEqual(['submitted', 'dispatch', 'transport_ok', 'ack', 'sensors_matched']);
  });

  it('waits for the deadline when a join flushed the queue, and goes on', async () => {
    const target = await valve();
    const executionId = await queued(target);
    await field.server.join(target.clientDeviceId);
    await field.show(target.clientDeviceId, { level: 1 });
    await pass(DAY);
    expect(await ended(executionId)).toEqual(['unconfirmed', 'delivery_unknown']);
    await room.execute(target);
    expect((await field.command(target.clientDeviceId, 2)).executionId).not.toBe(executionId);
  });

  describe('when a txack is lost', () => {
    let target: Target;
    let executionId: string;
    const next = async (): Promise<string> => (await room.execute({ ...target, commandId: await room.addCommand(target.deviceId, COMMAND) })).executionId;

    beforeEach(async () => {
      target = await valve(VERIFIED);
      await field.show(target.clientDeviceId, { level: 20 });
      executionId = await queued(target);
      await field.show(target.clientDeviceId, { level: 20 });
      await field.server.txAck(target.clientDeviceId, 'lost');
      clock.advance(1000);
      await field.show(target.clientDeviceId, { level: 21 });
      expect(await ended(executionId)).toEqual(['converged', '']);
    });

    it('lets the effect prove the delivery, and the next command wait for the word of the network server', async () => {
      const waiting = await next();
      expect(await stored(waiting)).toMatchObject({ state: 'enqueued' });
      await field.server.txAck(target.clientDeviceId);
      expect(await room.until(waiting, 'in_transit')).toMatchObject({ id: waiting });
      expect((await events(executionId)).at(-1)).toBe('transport_ok');
      expect(await stored(executionId)).toMatchObject({ state: 'converged', holdsSlot: false });
    });

    it('lets the next command go at its expiry, when nothing comes any more', async () => {
      await pass(DAY);
      const waiting = await next();
      expect(await room.until(waiting, 'in_transit')).toMatchObject({ id: waiting });
    });
  });

  it('does not take the frame that opens the receive window for an effect', async () => {
    const target = await valve(VERIFIED);
    await field.show(target.clientDeviceId, { level: 20 });
    const executionId = await queued(target);
    await field.show(target.clientDeviceId, { level: 21 });
    await field.server.txAck(target.clientDeviceId);
    await room.until(executionId, 'delivered');
    clock.advance(1000);
    await field.show(target.clientDeviceId, { level: 20 });
    expect(await ended(executionId)).toEqual(['unconfirmed', 'l4_mismatch']);
  });

  it('keeps what a gateway could not send just now, and shows it if nothing better comes', async () => {
    const target = await valve();
    const executionId = await queued(target);
    await field.show(target.clientDeviceId, { level: 1 });
    await field.server.txAck(target.clientDeviceId, 'error');
    await untilEvent(room.executions, executionId, 'network_retry');
    expect(await stored(executionId)).toMatchObject({ state: 'in_transit', detail: 'downlink_gateway', detailMessage: 'TOO_LATE' });
    await pass(DAY);
    expect(await ended(executionId)).toEqual(['unconfirmed', 'downlink_gateway']);
  });

  describe('when the network server says that a command expired', () => {
    let target: Target;
    let executionId: string;
    const expire = async (): Promise<void> => {
      clock.advance(DAY);
      await field.show(target.clientDeviceId, { level: 1 });
    };

    beforeEach(async () => {
      target = await valve();
      clock.advance(MINUTE); // events of all that may have happened before have come
      executionId = await queued(target);
    });

    it('takes it for unsent, if the device was not heard in its time', async () => {
      await expire();
      expect(await ended(executionId)).toEqual(['transport_unreachable', 'expired']);
      expect(field.server.transmitted).toEqual([]);
    });

    it('claims nothing, if a gateway may have sent it', async () => {
      await field.show(target.clientDeviceId, { level: 1 });
      await field.server.txAck(target.clientDeviceId, 'lost');
      await expire();
      await untilEvent(room.executions, executionId, 'network_retry');
      expect(await stored(executionId)).toMatchObject({ state: 'in_transit', detail: 'expired', deliveredAt: undefined });
      await pass(DAY);
      expect(await ended(executionId)).toEqual(['unconfirmed', 'expired']);
      expect(field.server.transmitted).toEqual([executionId]);
    });
  });

  it('ends what does not fit into a frame', async () => {
    const target = await valve({ command: { directPayload: JSON.stringify({ text: 'x'.repeat(60) }) } });
    const executionId = await queued(target);
    await field.show(target.clientDeviceId, { level: 1 });
    expect(await ended(executionId)).toEqual(['transport_rejected', 'downlink_payload_size']);
  });

  it('does not take the status of a device for its next uplink', async () => {
    const target = await valve({ command: { verificationStrategy: 2 } });
    const executionId = await delivered(target);
    await field.server.status(target.clientDeviceId);
    await shown(target, 'margin');
    expect(await stored(executionId)).toMatchObject({ state: 'delivered' });
    clock.advance(1000);
    await field.show(target.clientDeviceId, { level: 1 });
    expect(await ended(executionId)).toEqual(['accepted_no_l4', '']);
    expect(await events(executionId)).toEqual(['submitted', 'dispatch', 'transport_ok', 'uplink']);
  });

  it('waits as long as before for a network server that comes back, and hears then what it did', async () => {
    const target = await valve();
    const executionId = await queued(target);
    const { tDelivery } = await stored(executionId);
    await broker.goAway();
    await untilEvent(room.executions, executionId, 'link_lost');
    expect(await stored(executionId)).toMatchObject({ state: 'in_transit', tDelivery });
    await field.server.drop();
    await broker.comeBack();
    await room.untilConnected(connectionId);
    await field.server.start();
    await field.deliver(await field.command(target.clientDeviceId, 1));
    expect(await ended(executionId)).toEqual(['unconfirmed', '']);
    expect(await events(executionId)).toContain('transport_ok');
    expect(field.server.transmitted).toEqual([executionId]);
  });

  it('hears after its own restart what the network server did meanwhile', async () => {
    const target = await valve();
    const executionId = await queued(target);
    await room.stop();
    await field.deliver(await field.command(target.clientDeviceId, 1));
    room = await startExecutionRoom(db.database, clock);
    await room.reopen(connectionId);
    expect(await ended(executionId)).toEqual(['unconfirmed', '']);
    expect(await events(executionId)).toContain('transport_ok');
    expect(field.server.transmitted).toEqual([executionId]);
  });

  it('follows the class that the last uplink told', async () => {
    const target = await valve({}, 'CLASS_C');
    await field.show(target.clientDeviceId, { level: 1 });
    await shown(target, 'object.level');
    const { executionId } = await room.execute(target);
    const { enqueuedAt, tDelivery, times } = await stored(executionId);
    expect([times.classA, (tDelivery ?? 0) - enqueuedAt]).toEqual([false, 120_000]);
  });

  it('lets a query follow its own `confirmed`', async () => {
    const target = await valve();
    const queryCommandId = await room.addCommand(target.deviceId, { ...COMMAND, confirmed: true });
    const executionId = await delivered({ ...target, commandId: await room.addCommand(target.deviceId, { ...COMMAND, verificationStrategy: 3, queryCommandId }) });
    const asked = await field.command(target.clientDeviceId, 2);
    expect(await stored(executionId)).toMatchObject({ kind: 'chirpstack' });
    expect(await stored(asked.executionId)).toMatchObject({ kind: 'chirpstack_confirmed', parentExecutionId: executionId });
  });

  it('says at once what LoRaWAN does not carry, of the query too', async () => {
    const target = await valve({ command: { fPort: undefined } });
    const refused = await room.get((await room.execute(target)).executionId);
    expect(refused.violations.map(({ field: name }) => name)).toEqual(['command.fPort']);
    const commandId = await room.addCommand(target.deviceId, { ...COMMAND, verificationStrategy: 3, queryCommandId: target.commandId });
    const asking = await room.get((await room.execute({ ...target, commandId })).executionId);
    expect(asking.violations.map(({ field: name }) => name)).toEqual(['command.queryCommandId']);
    const named = await room.addCommand(target.deviceId, { ...COMMAND, mqttTopic: 'plant/{clientDeviceId}' });
    expect((await room.get((await room.execute({ ...target, commandId: named })).executionId)).violations.map(({ field: name }) => name)).toEqual(['command.mqttTopic']);
  });

  it('claims nothing more when the clock of the machine is put an hour forward or back', async () => {
    const [forward, back] = [await valve(VERIFIED), await valve(VERIFIED)];
    const [early, late] = [await delivered(forward), await queued(back)];
    clock.jump(-HOUR);
    await field.deliver(await field.command(back.clientDeviceId, 1));
    await room.until(late, 'delivered');
    clock.advance(1000);
    await field.show(back.clientDeviceId, { level: 21 });
    expect(await ended(late)).toEqual(['converged', '']);
    clock.jump(HOUR + DAY);
    await room.executions.sweep();
    expect(await ended(early)).toEqual(['unconfirmed', 'l4_timeout']);
    expect(field.server.transmitted).toEqual([early, late]);
  });

  /** Resolves when an uplink of the device that holds this path is stored. */
  async function shown({ clientDeviceId }: Target, name: string): Promise<void> {
    while ((await db.database.db.knex('connector_keys').where({ client_device_id: clientDeviceId, name })).length === 0) await new Promise(setImmediate);
  }
});
