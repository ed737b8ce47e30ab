import {
  type CommandDefinition,
  type Execution,
  ExecutionEvidence,
  ExecutionState,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, ResultOutcome, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { createSteadyClock } from '../../src/kernel/clock';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import {
  type ExecutionFixture,
  getName,
  startExecutionFixture,
  type Target,
  type TargetOptions,
} from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER } = CommandResultCode;
const { UPLINK_OUTCOME_STORED: STORED, UPLINK_OUTCOME_DUPLICATE: DUPLICATE } = UplinkOutcome;
/** The time of the gateway's own clock at the delivery, years away from that of the server. */
const PEER = 1_700_000_000_000;
const NEXT_UPLINK: Partial<CommandDefinition> = { verificationStrategy: 2 };
const PATIENT: Partial<CommandDefinition> = { ...NEXT_UPLINK, convergenceTimeout: 600 };

interface Sent {
  readonly connectionId: string;
  readonly target: Target;
  readonly executionId: string;
  readonly gateway: TestGateway;
}

const getLast = ({ events }: Execution) => events.at(-1);

describe.each(sqliteOnly())('sensor readings, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
  );

  /** Creates an execution that was sent to its gateway, of a command that expects its sensor to have the value 21. */
  async function executeAndSend(
    command: Partial<CommandDefinition> = NEXT_UPLINK,
    options: TargetOptions = {},
  ): Promise<Sent> {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, expects: true, command, ...options });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    fixture.clock.advance(1);
    return { connectionId, target, executionId, gateway };
  }

  const getState = async (executionId: string): Promise<string> => getName((await fixture.get(executionId)).state);

  it('converge an execution when the sensor has the value after the answer, and the samples are stored', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    await gateway.result(executionId, ACCEPTED);
    expect(await getState(executionId)).toBe('accepted');
    fixture.clock.advance(1000);
    expect(await gateway.uplink(target.clientDeviceId, { level: '21.000001' }, { time: PEER + 5000 })).toBe(STORED);
    const done = await fixture.get(executionId);
    expect(getName(done.state)).toBe('converged');
    expect(done).toMatchObject({
      evidence: ExecutionEvidence.EXECUTION_EVIDENCE_SENSOR,
      detail: '',
      deadlineAt: undefined,
    });
    const receivedAt = new Date(fixture.clock.now()).toISOString();
    expect(getLast(done)).toMatchObject({
      event: 'sensors_matched',
      layer: 4,
      source: 'uplink',
      data: {
        samples: [
          {
            sensor_id: target.sensorId,
            value: 21.000001,
            time: new Date(PEER + 5000).toISOString(),
            received_at: receivedAt,
          },
        ],
      },
    });
    await gateway.cut();
  });

  it('converge an execution before the answer with an uplink right after the receipt, and the answer is late', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    gateway.received(executionId, PEER);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await getState(executionId)).toBe('converged');
    expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_LATE);
    await gateway.cut();
  });

  it.each([
    ['an acknowledgement', ACCEPTED, 'accepted_no_l4'],
    ['no answer', NO_ANSWER, 'unconfirmed'],
  ])('of an uplink during the wait for the answer are judged at that: %s', async (_name, result, state) => {
    const { target, executionId, gateway } = await executeAndSend();
    gateway.received(executionId, PEER);
    await gateway.uplink(target.clientDeviceId, { level: 20 }, { time: PEER + 1 });
    expect(await fixture.get(executionId)).toMatchObject({
      detail: 'verification_mismatch',
      state: ExecutionState.EXECUTION_STATE_DELIVERED,
    });
    await gateway.result(executionId, result);
    expect(await getState(executionId)).toBe(state);
    expect((await fixture.get(executionId)).detail).toBe('verification_mismatch');
    await gateway.cut();
  });

  it.each([
    ['shows another value', { level: 20 }, 20],
    ['does not contain the sensor', { other: 21 }, undefined],
    ['contains a value that is not a number', { level: 'open' }, undefined],
  ])('of the first uplink after the answer end an execution if it %s', async (_name, json, shown) => {
    const { target, executionId, gateway } = await executeAndSend();
    await gateway.result(executionId, ACCEPTED);
    await gateway.uplink(target.clientDeviceId, json, { time: PEER + 1 });
    const done = await fixture.get(executionId);
    expect(getName(done.state)).toBe('accepted_no_l4');
    expect(done.detail).toBe('verification_mismatch');
    expect(getLast(done)).toMatchObject({
      event: 'uplink',
      data: { values: shown === undefined ? {} : { [target.sensorId]: shown } },
    });
    await gateway.cut();
  });

  it('are awaited for convergenceTimeout and no longer', async () => {
    const withWindow = { ...NEXT_UPLINK, convergenceTimeout: 600 };
    const [late, never] = [await executeAndSend(withWindow), await executeAndSend(withWindow)];
    for (const { target, executionId, gateway } of [late, never]) {
      await gateway.result(executionId, ACCEPTED);
      await gateway.uplink(target.clientDeviceId, { level: 20 }, { time: PEER + 1 });
      expect(await getState(executionId)).toBe('accepted');
    }
    fixture.clock.advance(599_999);
    await fixture.executions.deadlines.sweep();
    await late.gateway.uplink(late.target.clientDeviceId, { level: 21 }, { time: PEER + 2 });
    fixture.clock.advance(1);
    await fixture.executions.deadlines.sweep();
    expect([await getState(late.executionId), await getState(never.executionId)]).toEqual([
      'converged',
      'accepted_no_l4',
    ]);
    expect((await fixture.get(never.executionId)).detail).toBe('verification_timeout');
    for (const { gateway } of [late, never]) await gateway.cut();
  });

  it('that follow a newer command supersede the older one, also with a time of the gateway', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    await gateway.result(executionId, ACCEPTED);
    const expectedSensorStates = [{ sensorId: target.sensorId, valueTemplate: '30' }];
    const opposite = await fixture.addCommand(target.deviceId, { ...NEXT_UPLINK, expectedSensorStates });
    const newer = await fixture.execute({ ...target, commandId: opposite });
    await gateway.command(2);
    await gateway.uplink(target.clientDeviceId, { level: 30 }, { time: PEER + 5000 });
    const done = await fixture.get(executionId);
    expect([getName(done.state), done.detail]).toEqual(['accepted_no_l4', 'superseded']);
    expect(getLast(done)?.data).toMatchObject({ by_execution_id: newer.executionId });
    await gateway.cut();
  });

  it('do not count when they were buffered before the delivery, by the clock of the gateway', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    gateway.received(executionId, PEER);
    await gateway.result(executionId, ACCEPTED);
    for (const time of [PEER - 3_600_000, PEER]) await gateway.uplink(target.clientDeviceId, { level: 21 }, { time });
    expect(await getState(executionId)).toBe('accepted');
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('count after the receipt alone when the gateway reports no time at all', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    gateway.received(executionId);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('do not count with a time before that of the delivery is known; that of the answer is late, but counts', async () => {
    const { target, executionId, gateway } = await executeAndSend(PATIENT);
    gateway.received(executionId);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    await fixture.until(executionId, 'delivered');
    await gateway.result(executionId, ACCEPTED, '', '', PEER + 5);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 5 });
    expect(await getState(executionId)).toBe('accepted');
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 6 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('of two gateways are not compared by their clocks', async () => {
    const { connectionId, target, executionId, gateway } = await executeAndSend(PATIENT);
    gateway.received(executionId, PEER);
    await gateway.result(executionId, ACCEPTED, '', '', PEER);
    await gateway.cut();
    const other = await TestGateway.attach(fixture, { connectionId, gatewayId: 'gw-2' });
    await other.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1_800_000 });
    expect(await getState(executionId)).toBe('accepted');
    await other.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('converged');
    await other.cut();
  });

  it('do not count when they came before the receipt in the same millisecond, nor later on', async () => {
    const { target, executionId, gateway } = await executeAndSend(PATIENT);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    gateway.received(executionId);
    await fixture.until(executionId, 'delivered');
    await gateway.uplink(target.clientDeviceId, { other: 1 });
    expect(await getState(executionId)).toBe('delivered');
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('do not count when they came before the Hello that reported the delivery', async () => {
    const { connectionId, target, executionId, gateway } = await executeAndSend(PATIENT);
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    await gateway.cut();
    const again = await TestGateway.attach(fixture, { connectionId, known: [{ executionId }] });
    await again.uplink(target.clientDeviceId, { other: 1 });
    expect(await getState(executionId)).toBe('delivered');
    await again.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('converged');
    await again.cut();
  });

  it('count after the delivery although the clock of the gateway was set back since the last one', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, expects: true, command: PATIENT });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    await gateway.uplink(target.clientDeviceId, { level: 20 }, { time: fixture.clock.now() });
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    gateway.received(executionId, 1000);
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: 1000 });
    await fixture.until(executionId, 'delivered');
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: 2000 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it('of another device in the field are not a change of this one', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, expects: true, command: PATIENT });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    const clientDeviceId = `${target.clientDeviceId}-new`;
    await fixture.devices.update(
      'org-1',
      target.deviceId,
      {
        name: undefined,
        physicalDevice: { connectionId: undefined, configuration: undefined, clientDeviceId },
        dataSendingInterval: undefined,
      },
      undefined,
    );
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    fixture.clock.advance(1);
    await gateway.uplink(clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('in_transit');
    await gateway.cut();
  });

  it('count in transit only for a change, and only without a time of their own', async () => {
    const { target, executionId, gateway } = await executeAndSend({ ...NEXT_UPLINK, convergenceTimeout: 600 });
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('in_transit');
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER });
    expect(await getState(executionId)).toBe('in_transit');
    await gateway.uplink(target.clientDeviceId, { level: 20 });
    await gateway.uplink(target.clientDeviceId, { level: 21 });
    expect(await getState(executionId)).toBe('converged');
    expect((await fixture.get(executionId)).deliveredAt).toBeUndefined();
    await gateway.cut();
  });

  it('of a repeated uplink are judged once: the copy of one before the delivery proves nothing', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    const uplinkId = `once-${executionId}`;
    expect(await gateway.uplink(target.clientDeviceId, { level: 21 }, { uplinkId })).toBe(STORED);
    await gateway.result(executionId, ACCEPTED);
    expect(await gateway.uplink(target.clientDeviceId, { level: 21 }, { uplinkId })).toBe(DUPLICATE);
    expect(await getState(executionId)).toBe('accepted');
    await gateway.cut();
  });

  it.each([
    ['boolean', 'on', true],
    ['integer', '7', '7'],
    ['string', '"open"', 'open'],
    ['json', '{"a": 1, "b": [2]}', { b: [2], a: 1 }],
  ] as const)('are compared for a sensor of type %s', async (valueType, expects, shown) => {
    const { target, executionId, gateway } = await executeAndSend(NEXT_UPLINK, { expects, valueType });
    await gateway.result(executionId, ACCEPTED);
    await gateway.uplink(target.clientDeviceId, { level: shown }, { time: PEER + 1 });
    expect(await getState(executionId)).toBe('converged');
    await gateway.cut();
  });

  it.each([
    ['no corrected result', undefined, 'unconfirmed', 'answer_not_understood'],
    ['a corrected result', ACCEPTED, 'accepted_no_l4', ''],
  ])('are not needed to see that a result was not understood: %s', async (_name, corrected, state, detail) => {
    const { executionId, gateway } = await executeAndSend({}, { expects: false });
    gateway.received(executionId, PEER);
    expect(await gateway.result(executionId, 99 as never)).toBe(ResultOutcome.RESULT_OUTCOME_REJECTED);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_DELIVERED,
      detail: 'answer_not_understood',
      detailMessage: expect.stringMatching(/rejected the result of the gateway: .*commandResult\.result/) as string,
    });
    if (corrected) await gateway.result(executionId, corrected);
    fixture.clock.advance(3_600_000);
    await fixture.executions.deadlines.sweep();
    expect(await getState(executionId)).toBe(state);
    expect((await fixture.get(executionId)).detail).toBe(detail);
    await gateway.cut();
  });

  it('of the next uplink settle an execution that expects neither an answer nor a state', async () => {
    const { target, executionId, gateway } = await executeAndSend(NEXT_UPLINK, { expects: false });
    await db.database.db.knex('executions').where('id', executionId).update({ connector_kind: 'mqtt' });
    await gateway.uplink(target.clientDeviceId, { any: 1 });
    gateway.received(executionId, PEER);
    await gateway.uplink(target.clientDeviceId, { any: 1 }, { time: PEER - 1 });
    expect(await getState(executionId)).toBe('delivered');
    await gateway.uplink(target.clientDeviceId, { any: 1 }, { time: PEER + 1 });
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      evidence: ExecutionEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK,
    });
    await gateway.cut();
  });

  it('supersede an older execution once a newer one that expects another value is delivered', async () => {
    const level = { type: 2, enum: [] };
    const command = {
      ...NEXT_UPLINK,
      convergenceTimeout: 600,
      paramsSchema: { level, more: { ...level, default: 0 } } as never,
    };
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, expects: '{{params.level}}', command });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const run = async (params: object, count: number): Promise<string> => {
      const { executionId } = await fixture.execute(target, { params });
      await gateway.command(count);
      return executionId;
    };
    const first = await run({ level: 21 }, 1);
    await gateway.result(first, ACCEPTED);
    const same = await run({ level: 21, more: 1 }, 2);
    await gateway.result(same, ACCEPTED);
    expect([await getState(first), await getState(same)]).toEqual(['accepted', 'accepted']);
    const other = await run({ level: 22 }, 3);
    gateway.received(other);
    await fixture.until(other, 'delivered');
    for (const id of [first, same]) {
      const given = await fixture.get(id);
      expect([getName(given.state), given.detail, getLast(given)?.event, getLast(given)?.data]).toEqual([
        'accepted_no_l4',
        'superseded',
        'superseded',
        { by_execution_id: other },
      ]);
    }
    await gateway.uplink(target.clientDeviceId, { level: 22 });
    expect(await getState(other)).toBe('converged');
    await gateway.cut();
  });

  it('are no longer awaited when their device is deleted', async () => {
    const { target, executionId, gateway } = await executeAndSend();
    await gateway.result(executionId, ACCEPTED);
    await fixture.devices.delete('org-1', target.deviceId, undefined);
    expect(await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 })).toBe(STORED);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      detail: 'device_removed',
    });
    await gateway.cut();
  });

  it('are still awaited after a restart between the answer and the uplink', async () => {
    const { connectionId, target, executionId, gateway } = await executeAndSend();
    await gateway.result(executionId, ACCEPTED);
    await gateway.cut();
    const { clock } = fixture;
    await fixture.stop();
    fixture = await startExecutionFixture(db.database, clock);
    const again = await TestGateway.attach(fixture, { connectionId });
    await again.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await getState(executionId)).toBe('converged');
    await again.cut();
  });

  it.each([
    ['forward', 3_600_000, 'accepted_no_l4'],
    ['back', -3_600_000, 'converged'],
  ])('prove nothing more when the clock jumps an hour %s', async (_name, jump, state) => {
    const clock = new JumpingClock();
    await fixture.stop();
    fixture = await startExecutionFixture(db.database, clock);
    const { target, executionId, gateway } = await executeAndSend();
    await gateway.result(executionId, ACCEPTED);
    clock.jump = jump;
    clock.advance(1000);
    await fixture.executions.deadlines.sweep();
    await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + 1 });
    expect(await getState(executionId)).toBe(state);
    await gateway.cut();
  });

  it('are accepted together with an answer, in either order', async () => {
    const { connectionId, target, executionId, gateway } = await executeAndSend({
      ...NEXT_UPLINK,
      convergenceTimeout: 600,
    });
    gateway.received(executionId, PEER);
    await fixture.until(executionId, 'delivered');
    const answers = [1, 2, 3].map(
      async () =>
        await fixture.executions.evidenceService.applyEvidence('org-1', connectionId, executionId, 'test', {
          kind: 'ack',
        }),
    );
    await Promise.all([
      ...answers,
      ...[1, 2, 3].map(async (at) => await gateway.uplink(target.clientDeviceId, { level: 21 }, { time: PEER + at })),
    ]);
    expect(await getState(executionId)).toBe('converged');
    expect((await fixture.get(executionId)).events.filter(({ event }) => event === 'sensors_matched')).toHaveLength(1);
    await gateway.cut();
  });
});

/** The system clock next to a steady one, which a test sets forward or back. */
class JumpingClock extends TestClock {
  jump = 0;
  private readonly steady = createSteadyClock({
    now: () => super.now() + this.jump,
    monotonic: () => super.monotonic(),
  });

  override now(): number {
    return this.steady.now();
  }
}
