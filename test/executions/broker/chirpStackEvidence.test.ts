import { newId } from '../../../src/kernel/ids';
import { sqliteOnly, type TestDatabase } from '../../support/engines';
import { type ExecutionFixture, type Target, type TargetOptions, untilEvent, untilFinal } from '../executionFixture';
import type { ChirpStackField } from './chirpStackField';
import { chirpStackSiteForEach } from './chirpStackSite';
import type { JumpClock } from './jumpClock';

const DAY = 24 * 3_600_000;
const COMMAND = { directPayload: '{"on": true}', fPort: 10 };

/** Tests what the events of ChirpStack prove and what they do not prove. */
describe.each(sqliteOnly())('evidence of ChirpStack, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let clock: JumpClock;
  let field: ChirpStackField;
  let connectionId: string;

  chirpStackSiteForEach(
    createDatabase,
    (site) => ({ db, fixture, clock, field, connectionId } = site),
    () => fixture,
  );

  /** Creates a device with a command. `hasCodec` belongs to its device profile in ChirpStack. */
  async function createValve(options: TargetOptions, hasCodec: boolean): Promise<Target> {
    const clientDeviceId = newId().replaceAll('-', '').slice(-16);
    field.server.addDevice(clientDeviceId, 'CLASS_A', hasCodec);
    const command = { ...COMMAND, ...options.command };
    return await fixture.target({ connectionId, clientDeviceId, levelPath: field.levelPath, ...options, command });
  }

  const getStored = async (executionId: string) =>
    (await fixture.executions.service.get('org-1', executionId)).execution;

  async function publishAndWait({ clientDeviceId }: Target, object: Readonly<Record<string, unknown>>): Promise<void> {
    const countStoredUplinks = async (): Promise<number> =>
      (await db.database.db.knex('connector_keys').where({ client_device_id: clientDeviceId, name: 'fCnt' })).length;
    await field.publishUplink(clientDeviceId, object);
    while ((await countStoredUplinks()) === 0) await new Promise(setImmediate);
    clock.advance(1000);
  }

  /** A command that a gateway sent in the receive window of an uplink of its device. */
  async function deliverCommand(target: Target): Promise<string> {
    const { executionId } = await fixture.execute(target);
    const command = await field.command(target.clientDeviceId, 1);
    await fixture.until(executionId, 'in_transit');
    clock.advance(1000);
    await field.deliver(command);
    await fixture.until(executionId, 'delivered');
    clock.advance(1000);
    return executionId;
  }

  async function waitForEnd(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(fixture.executions, executionId);
    const { state, detail } = await getStored(executionId);
    return [state, detail];
  }

  it('rejects JSON for a device without a codec in ChirpStack', async () => {
    const target = await createValve({}, false);
    await publishAndWait(target, {});
    const answer = await fixture.execute(target);
    expect(answer).toMatchObject({ accepted: false, violations: [{ field: 'command.mode' }] });
    expect(field.commands).toEqual([]);
  });

  it('rejects JSON for a device with a device profile of this server', async () => {
    const target = await createValve({}, true);
    await publishAndWait(target, {});
    await db.database.db
      .knex('physical_devices')
      .where({ client_device_id: target.clientDeviceId })
      .update({ configuration: JSON.stringify({ profileId: 'vendor/valve/1.0/EU868' }) });
    const answer = await fixture.execute(target);
    expect(answer).toMatchObject({ accepted: false, violations: [{ field: 'command.mode' }] });
    expect(field.commands).toEqual([]);
  });

  it('does not treat the acknowledgement of a possibly empty frame as acceptance', async () => {
    const confirmed = { command: { confirmed: true } };
    const [known, unknown] = [await createValve(confirmed, true), await createValve(confirmed, false)];
    for (const target of [known, unknown]) {
      const executionId = await deliverCommand(target);
      await field.answer({ ...target, executionId, payload: {} }, true, { level: 1 });
      const expected = target === known ? ['accepted_no_l4', ''] : ['unconfirmed', 'content_unproven'];
      expect(await waitForEnd(executionId)).toEqual(expected);
    }
  });

  it('does not treat the next uplink as an answer when the frame may have been empty', async () => {
    const target = await createValve({ command: { verificationStrategy: 2 } }, false);
    const executionId = await deliverCommand(target);
    await field.publishUplink(target.clientDeviceId, {});
    clock.advance(DAY);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'ack_timeout']);
  });

  it.each<[string, string, object]>([
    ['an empty payload', 'rssi', { data: Buffer.alloc(0) }],
    ['an empty object', 'rssi', { object: {} }],
    ['an object without values', 'rssi', { object: { a: null, b: [] } }],
  ])('does not count an uplink with %s, although a sensor shows the reception', async (_name, levelPath, frame) => {
    const command = { verificationStrategy: 2, expectedSensorStates: [] };
    const target = await createValve({ expects: true, levelPath, command }, true);
    await publishAndWait(target, { level: 1 });
    const executionId = await deliverCommand(target);
    await field.server.uplink(target.clientDeviceId, frame);
    clock.advance(DAY);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'ack_timeout']);
  });

  it.each([
    ['nothing decodes them', 'object.level', ['unconfirmed', 'ack_timeout']],
    ['a sensor takes them as they are', 'data', ['accepted_no_l4', '']],
  ])('counts bytes only if they are read: %s', async (_name, levelPath, expected) => {
    const command = { ...COMMAND, verificationStrategy: 2, expectedSensorStates: [] };
    const target = await createValve({ expects: '"01"', valueType: 'string', levelPath, command }, true);
    await publishAndWait(target, { level: 1 });
    const executionId = await deliverCommand(target);
    // The command counts as sent, whatever the network server decodes.
    const { policy } = await getStored(executionId);
    await db.database.db
      .knex('executions')
      .where('id', executionId)
      .update({ policy: JSON.stringify({ ...policy, isEncodedByNetwork: false }) });
    await field.server.uplink(target.clientDeviceId, { data: Buffer.from('0aff', 'hex') });
    clock.advance(expected[1] === '' ? 0 : DAY);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(expected);
  });

  it('lets the sensors prove what an acknowledgement does not prove', async () => {
    const target = await createValve({ expects: true, command: { verificationStrategy: 2, confirmed: true } }, true);
    const executionId = await deliverCommand(target);
    await db.database.db
      .knex('physical_devices')
      .where({ client_device_id: target.clientDeviceId })
      .update({ network_decodes: null });
    await field.answer({ ...target, executionId, payload: {} }, true, { level: 21 });
    expect(await waitForEnd(executionId)).toEqual(['converged', '']);
  });

  it('counts samples of a new session, regardless of their frame counter', async () => {
    const target = await createValve(
      { expects: true, command: { verificationStrategy: 2, convergenceTimeout: 600 } },
      true,
    );
    for (let n = 0; n < 5; n++) await publishAndWait(target, { level: 20 });
    const executionId = await deliverCommand(target);
    expect(await getStored(executionId)).toMatchObject({ deliveredFCnt: 6, deliveredDevAddr: '00189440' });
    await field.server.join(target.clientDeviceId);
    await field.publishUplink(target.clientDeviceId, { level: 21 });
    expect(await waitForEnd(executionId)).toEqual(['converged', '']);
  });

  it('sends the next command when the previous item, whose txack was lost, has expired', async () => {
    const target = await createValve({}, true);
    const { executionId } = await fixture.execute(target);
    await field.command(target.clientDeviceId, 1);
    await fixture.until(executionId, 'in_transit');
    const waiting = await fixture.execute({ ...target, commandId: await fixture.addCommand(target.deviceId, COMMAND) });
    await field.publishUplink(target.clientDeviceId, { level: 1 });
    await field.server.txAck(target.clientDeviceId, 'lost');
    const { tDelivery = 0, enqueuedAt } = await getStored(executionId);
    clock.advance(tDelivery - enqueuedAt - 1);
    await fixture.executions.deadlines.sweep();
    expect(await getStored(waiting.executionId)).toMatchObject({ state: 'enqueued' });
    clock.advance(1);
    await fixture.executions.deadlines.sweep();
    expect(await getStored(executionId)).toMatchObject({ state: 'in_transit', holdsSlot: false });
    await untilEvent(fixture.executions, executionId, 'timer');
    const late = await fixture.execute({ ...target, commandId: await fixture.addCommand(target.deviceId, COMMAND) });
    expect(await fixture.until(late.executionId, 'in_transit')).toMatchObject({ id: late.executionId });
    clock.advance(DAY);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
  });
});
