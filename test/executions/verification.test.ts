import { type CommandDefinition, type Execution, ExecutionEvidence, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, ResultOutcome, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { steadyClock } from '../../src/kernel/clock';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { type ExecutionRoom, nameOf, startExecutionRoom, type Target, type TargetOptions } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER } = CommandResultCode;
const { UPLINK_OUTCOME_STORED: STORED, UPLINK_OUTCOME_DUPLICATE: DUPLICATE } = UplinkOutcome;
/** What the gateway's own clock shows at the delivery: years away from the server's. */
const PEER = 1_700_000_000_000;
const NEXT_UPLINK: Partial<CommandDefinition> = { verificationStrategy: 2 };
const PATIENT: Partial<CommandDefinition> = { ...NEXT_UPLINK, convergenceTimeout: 600 };

interface Sent {
  readonly connectionId: string;
  readonly target: Target;
  readonly executionId: string;
  readonly gateway: TestGateway;
}

const lastOf = ({ events }: Execution) => events.at(-1);

describe.each(engines())('what sensors show, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => ({ db, room } = made), () => room);

  /** An execution that left for its gateway, of a command that expects its sensor to show 21. */
  async function sent(command: Partial<CommandDefinition> = NEXT_UPLINK, options: TargetOptions = {}): Promise<Sent> {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, expects: true, command, ...options });
    const gateway = await TestGateway.attach(room, { connectionId });
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    room.clock.advance(1);
    return { connectionId, target, executionId, gateway };
  }

  const stateOf = async (executionId: string): Promise<string> => nameOf((await room.get(executionId)).state);

  it('converge when the sensor shows the value after the answer; the samples are kept', async () => {
    const { target, executionId, gateway } = await sent();
    await gateway.result(executionId, ACCEPTED);
    expect(await stateOf(executionId)).toBe('accepted');
    room.clock.advance(1000);
    expect(await gateway.uplink(target.clientDeviceId, { level: '21.000001' }, { time: PEER + 5000 })).toBe(STORED);
    const done = await room.get(executionId);
    expect(nameOf(done.state)).toBe('converged');
    expect(done).toMatchObject({ evidence: ExecutionEvidence.EXECUTION_EVIDENCE_SENSOR, detail: '', deadlineAt: undefined });
    const receivedAt = new Date(room.clock.now()).toISOString();
    expect(lastOf(done)).toMatchObject({ event: 'sensors_matched', layer: 4, source: 'uplink', data: { samples: [{ sensor_id: target.sensorId, value: 21.000001, time: new Date(PEER + 5000).toISOString(), received_at: receivedAt }] } });
    await gateway.cut();
  });

  it('converge before the answer by an uplink right behind the receipt; the answer is late', async () => {
    const { target, executionId, gateway } = await sent();
    gateway.received(executionId, PEER);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await stateOf(executionId)).toBe('converged');
    expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_LATE);
    await gateway.cut();
  });

  it.each([
    ['an acknowledgement', ACCEPTED, 'accepted_no_l4'],
    ['no answer', NO_ANSWER, 'unconfirmed'],
  ])('judge an uplink that came while the answer is awaited at that: %s', async (_name, result, state) => {
    const { target, executionId, gateway } = await sent();
    gateway.received(executionId, PEER);
    await gateway.uplink(target.clientDeviceId, { level: 20 }, { time: PEER + 1 });
    expect(await room.get(executionId)).toMatchObject({ detail: 'l4_mismatch', state: ExecutionState.EXECUTION_STATE_DELIVERED });
    await gateway.result(executionId, result);
    expect(await stateOf(executionId)).toBe(state);
    expect((await room.get(executionId)).detail).toBe('l4_mismatch');
    await gateway.cut();
  });

  it.each([
    ['shows another value', { level: 20 }, 20],
    ['does not hold the sensor at all', { other: 21 }, undefined],
    ['holds what is no number', { level: 'open' }, undefined],
  ])('end by the first uplink after the answer if it %s', async (_name, json, shown) => {
    const { target, executionId, gateway } = await sent();
    await gateway.result(executionId, ACCEPTED);
    await gateway.uplink(target.clientDeviceId, json, { time: PEER + 1 });
    const done = await room.get(executionId);
    expect(nameOf(done.state)).toBe('accepted_no_l4');
    expect(done.detail).toBe('l4_mismatch');
    expect(lastOf(done)).toMatchObject({ event: 'uplink', data: { values: shown === undefined ? {} : { [target.sensorId]: shown } } });
    await gateway.cut();
  });

  it('wait for the value as long as convergenceTimeout says, and no longer', async () => {
    const patient = { ...NEXT_UPLINK, convergenceTimeout: 600 };
    const [late, never] = [await sent(patient), await sent(patient)];
    for (const { target, executionId, gateway } of [late, never]) {
      await gateway.result(executionId, ACCEPTED);
      await gateway.uplink(target.clientDeviceId, { level: 20 }, { time: PEER + 1 });
      expect(await stateOf(executionId)).toBe('accepted');
    }
    room.clock.advance(599_999);
    await room.executions.sweep();
    await late.gateway.uplink(late.target.clientDeviceId, { level: 21 }, { time: PEER + 2 });
    room.clock.advance(1);
    await room.executions.sweep();
    expect([await stateOf(late.executionId), await stateOf(never.executionId)]).toEqual(['converged', 'accepted_no_l4']);
    expect((await room.get(never.executionId)).detail).toBe('l4_timeout');
    for (const { gateway } of [late, never]) await gateway.cut();
  });

  it('do not count a sample that was buffered before the delivery, by the clock of the gateway', async () => {
    const { target, executionId, gateway } = await sent();
    gateway.received(executionId, PEER);
    await gateway.result(executionId, ACCEPTED);
    for (const time of [PEER - 3_600_000, PEER]) await gateway.uplink(target.clientDeviceId, { level: 21 }, { time });
    expect(await stateOf(executionId)).toBe('accepted');
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('count by the receipt alone where the gateway tells no time at all', async () => {
    const { target, executionId, gateway } = await sent();
    gateway.received(executionId);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('do not count a sample with a time of its own before the gateway told one of the delivery; that of the answer is late, but does', async () => {
    const { target, executionId, gateway } = await sent(PATIENT);
    gateway.received(executionId);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    await room.until(executionId, 'delivered');
    await gateway.result(executionId, ACCEPTED, '', '', PEER + 5);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 5 });
    expect(await stateOf(executionId)).toBe('accepted');
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 6 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('do not compare the clocks of two gateways', async () => {
    const { connectionId, target, executionId, gateway } = await sent(PATIENT);
    gateway.received(executionId, PEER);
    await gateway.result(executionId, ACCEPTED, '', '', PEER);
    await gateway.cut();
    const other = await TestGateway.attach(room, { connectionId, gatewayId: 'gw-2' });
    await other.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1_800_000 });
    expect(await stateOf(executionId)).toBe('accepted');
    await other.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('converged');
    await other.cut();
  });

  it('do not count a sample that came before the receipt in the same millisecond, nor later on', async () => {
    const { target, executionId, gateway } = await sent(PATIENT);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    gateway.received(executionId);
    await room.until(executionId, 'delivered');
    await gateway.uplink(target.clientDeviceId, { other: 1 });
    expect(await stateOf(executionId)).toBe('delivered');
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('do not count a sample that came before the Hello that told of the delivery', async () => {
    const { connectionId, target, executionId, gateway } = await sent(PATIENT);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    await gateway.cut();
    const again = await TestGateway.attach(room, { connectionId, known: [{ executionId }] });
    await again.uplink(target.clientDeviceId, { other: 1 });
    expect(await stateOf(executionId)).toBe('delivered');
    await again.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('converged');
    await again.cut();
  });

  it('count a sample after the delivery though the clock of the gateway was put back since the last one', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, expects: true, command: PATIENT });
    const gateway = await TestGateway.attach(room, { connectionId });
    await gateway.uplink(target.clientDeviceId, { level: 20 }, { time: room.clock.now() });
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    gateway.received(executionId, 1000);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: 1000 });
    await room.until(executionId, 'delivered');
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: 2000 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('take what another device in the field showed for no change of this one', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, expects: true, command: PATIENT });
    const gateway = await TestGateway.attach(room, { connectionId });
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    const clientDeviceId = `${target.clientDeviceId}-new`;
    await room.devices.update('org-1', target.deviceId, { name: undefined, physicalDevice: { connectionId: undefined, configuration: undefined, clientDeviceId }, dataSendingInterval: undefined }, undefined);
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    room.clock.advance(1);
    await gateway.uplink(clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('in_transit');
    await gateway.cut();
  });

  it('count in transit only for a change, and only without a time of its own', async () => {
    const { target, executionId, gateway } = await sent({ ...NEXT_UPLINK, convergenceTimeout: 600 });
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('in_transit');
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER });
    expect(await stateOf(executionId)).toBe('in_transit');
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await stateOf(executionId)).toBe('converged');
    expect((await room.get(executionId)).deliveredAt).toBeUndefined();
    await gateway.cut();
  });

  it('judge a repeated uplink once: the copy of one that came before the delivery proves nothing', async () => {
    const { target, executionId, gateway } = await sent();
    const uplinkId = `once-${executionId}`;
    expect(await gateway.uplink(target.clientDeviceId, { level: 21 }, { uplinkId })).toBe(STORED);
    await gateway.result(executionId, ACCEPTED);
    expect(await gateway.uplink(target.clientDeviceId, { level: 21 }, { uplinkId })).toBe(DUPLICATE);
    expect(await stateOf(executionId)).toBe('accepted');
    await gateway.cut();
  });

  it.each([
    ['boolean', 'on', true],
    ['integer', '7', '7'],
    ['string', '"open"', 'open'],
    ['json', '{"a": 1, "b": [2]}', { b: [2], a: 1 }],
  ] as const)('compare a sensor of type %s', async (valueType, expects, shown) => {
    const { target, executionId, gateway } = await sent(NEXT_UPLINK, { expects, valueType });
    await gateway.result(executionId, ACCEPTED);
    await gateway.uplink(target.clientDeviceId, { level: shown }, { time: PEER + 1 });
    expect(await stateOf(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('are settled by the next uplink where neither the device answers nor a state is expected', async () => {
    const { target, executionId, gateway } = await sent(NEXT_UPLINK, { expects: false });
    await db.database.db.knex('executions').where('id', executionId).update({ connector_kind: 'mqtt' });
    await gateway.uplink(target.clientDeviceId, { any: 1 });
    gateway.received(executionId, PEER);
    await gateway.uplink(target.clientDeviceId, { any: 1 }, { time: PEER - 1 });
    expect(await stateOf(executionId)).toBe('delivered');
    await gateway.uplink(target.clientDeviceId, { any: 1 }, { time: PEER + 1 });
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, evidence: ExecutionEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK });
    await gateway.cut();
  });

  it('give up an older execution once a newer one that wants another value is delivered', async () => {
    const level = { type: 2, enum: [] };
    const command = { ...NEXT_UPLINK, convergenceTimeout: 600, paramsSchema: { level, more: { ...level, default: 0 } } as never };
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, expects: '{{params.level}}', command });
    const gateway = await TestGateway.attach(room, { connectionId });
    const run = async (params: object, count: number): Promise<string> => {
      const { executionId } = await room.execute(target, { params });
      await gateway.command(count);
      return executionId;
    };
    const first = await run({ level: 21 }, 1);
    await gateway.result(first, ACCEPTED);
    const same = await run({ level: 21, more: 1 }, 2);
    await gateway.result(same, ACCEPTED);
    expect([await stateOf(first), await stateOf(same)]).toEqual(['accepted', 'accepted']);
    const other = await run({ level: 22 }, 3);
    gateway.received(other);
    await room.until(other, 'delivered');
    for (const id of [first, same]) {
      const given = await room.get(id);
      expect([nameOf(given.state), given.detail, lastOf(given)?.event, lastOf(given)?.data]).toEqual(['accepted_no_l4', 'superseded', 'superseded', { by_execution_id: other }]);
    }
    await gateway.uplink(target.clientDeviceId, { level: 22 });
    expect(await stateOf(other)).toBe('converged');
    await gateway.cut();
  });

  it('end with their device', async () => {
    const { target, executionId, gateway } = await sent();
    await gateway.result(executionId, ACCEPTED);
    await room.devices.delete('org-1', target.deviceId, undefined);
    expect(await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 })).toBe(STORED);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, detail: 'target_removed' });
    await gateway.cut();
  });

  it('survive a restart between the answer and the uplink', async () => {
    const { connectionId, target, executionId, gateway } = await sent();
    await gateway.result(executionId, ACCEPTED);
    await gateway.cut();
    const { clock } = room;
    await room.stop();
    room = await startExecutionRoom(db.database, clock);
    const again = await TestGateway.attach(room, { connectionId });
    await again.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await stateOf(executionId)).toBe('converged');
    await again.cut();
  });

  it.each([
    ['forward', 3_600_000, 'accepted_no_l4'],
    ['back', -3_600_000, 'converged'],
  ])('claim nothing more when the clock jumps an hour %s', async (_name, jump, state) => {
    const clock = new JumpingClock();
    await room.stop();
    room = await startExecutionRoom(db.database, clock);
    const { target, executionId, gateway } = await sent();
    await gateway.result(executionId, ACCEPTED);
    clock.jump = jump;
    clock.advance(1000);
    await room.executions.sweep();
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await stateOf(executionId)).toBe(state);
    await gateway.cut();
  });

  it('take an answer and an uplink at once, whoever is first', async () => {
    const { connectionId, target, executionId, gateway } = await sent({ ...NEXT_UPLINK, convergenceTimeout: 600 });
    gateway.received(executionId, PEER);
    await room.until(executionId, 'delivered');
    const answers = [1, 2, 3].map(async () => await room.executions.evidence('org-1', connectionId, executionId, 'test', { kind: 'ack' }));
    await Promise.all([...answers, ...[1, 2, 3].map(async (at) => await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + at }))]);
    expect(await stateOf(executionId)).toBe('converged');
    expect((await room.get(executionId)).events.filter(({ event }) => event === 'sensors_matched')).toHaveLength(1);
    await gateway.cut();
  });
});

/** The machine's clock behind a steady one, which a person puts forward or back. */
class JumpingClock extends TestClock {
  jump = 0;
  private readonly steady = steadyClock({ now: () => super.now() + this.jump, monotonic: () => super.monotonic() });

  override now(): number {
    return this.steady.now();
  }
}
