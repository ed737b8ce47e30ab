import { Execution, ExecutionEvidence, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Acknowledged } from '../../scripts/crash/submitters';
import { type Allowed, type Facts, judge } from '../../scripts/gatewayProof/judge';
import type { WorldLine } from '../../scripts/gatewayProof/worldFile';

const S = ExecutionState;
const DEADLINE = 10_000;
const PATIENT: Allowed = { mustBeDone: true, deadlines: false, refusals: false };
const KILLED: Allowed = { ...PATIENT, mustBeDone: false };
const HASTY: Allowed = { ...KILLED, deadlines: true };

const actuator = { deviceId: 'd', commandId: 'c', clientDeviceId: 'valve-0', sensorId: 's' };
const told = (n: number, trigger = `t${n}`): Acknowledged => ({ trigger, n, actuator, executionId: `e${n}`, accepted: true });
const execution = (n: number, state = S.EXECUTION_STATE_ACCEPTED_NO_L4, detail = ''): Execution => Execution.fromPartial({ id: `e${n}`, triggerId: `t${n}`, params: { n }, state, detail, evidence: ExecutionEvidence.EXECUTION_EVIDENCE_NATIVE_ACK });
const starting = (n: number): WorldLine => ({ kind: 'starting', executionId: `e${n}` });
const delivered = (n: number, at = 0): WorldLine => ({ kind: 'delivered', executionId: `e${n}`, clientDeviceId: 'valve-0', payload: { n, trigger: `t${n}` }, at });
const sent = (value: number): WorldLine => ({ kind: 'sent', clientDeviceId: 'meter-0', value });

/** Two commands that were done and two uplinks that are there. */
function facts(change: Partial<Omit<Facts, 'executions' | 'acknowledged' | 'listed'>> & { readonly executions?: readonly Execution[]; readonly acknowledged?: readonly Acknowledged[]; readonly listed?: readonly string[] } = {}): Facts {
  const executions = change.executions ?? [execution(1), execution(2)];
  const acknowledged = change.acknowledged ?? [told(1), told(2)];
  return {
    failed: [],
    world: [starting(1), delivered(1), starting(2), delivered(2), sent(7), sent(8)],
    readings: [7, 8],
    deadlineOf: () => DEADLINE,
    endOf: () => DEADLINE,
    ...change,
    acknowledged: new Map(acknowledged.map((one) => [one.trigger, one])),
    executions: new Map([...acknowledged.map(({ executionId }) => [executionId, undefined] as const), ...executions.map((one) => [one.id, one] as const)]),
    listed: (change.listed ?? executions.map(({ id }) => id)).map((id) => ({ id, triggerId: '', deviceId: 'd' })),
  };
}

function faults(change: Parameters<typeof facts>[0], allowed = PATIENT): { readonly lost: readonly string[]; readonly doubled: readonly string[]; readonly wrong: readonly string[] } {
  const { lost, doubled, wrong } = judge(facts(change), allowed);
  return { lost, doubled, wrong };
}

const clean = { lost: [], doubled: [], wrong: [] };

test('nothing is wrong where nothing went wrong', () => {
  expect(faults({})).toEqual(clean);
});

test('a trigger id that the client made is taken from the execution', () => {
  expect(faults({ acknowledged: [told(1, 'e1'), told(2)] })).toEqual(clean);
});

describe('it finds', () => {
  test('an acknowledged execution that is not there', () => {
    expect(faults({ executions: [execution(1)], world: [starting(1), delivered(1)], readings: [] }).lost).toEqual([expect.stringContaining('e2) was acknowledged and is not there')]);
  });

  test('an execution that never ends', () => {
    expect(faults({ executions: [execution(1), execution(2, S.EXECUTION_STATE_DELIVERED)] }).lost).toEqual([expect.stringContaining('stays delivered')]);
  });

  test('a delivery that comes twice', () => {
    expect(faults({ world: [starting(1), delivered(1), delivered(1), starting(2), delivered(2), sent(7), sent(8)] }).doubled).toContain('e1 was carried out 2 times');
  });

  test('a call that became two executions', () => {
    expect(faults({ listed: ['e1', 'e2', 'e3'] }).doubled).toEqual([expect.stringContaining('e3')]);
  });

  test('an uplink that was kept and is not there, and one that is there twice', () => {
    const found = faults({ readings: [8, 8] });
    expect(found.lost).toEqual(['the uplink 7 of meter-0 was kept and is not there']);
    expect(found.doubled).toEqual(['the uplink 8 is there 2 times']);
  });

  test('a state that claims more than was', () => {
    expect(faults({ world: [starting(1), delivered(1), sent(7), sent(8)] }).wrong).toEqual([expect.stringContaining('and no device did it')]);
  });

  test.each([S.EXECUTION_STATE_TRANSPORT_UNREACHABLE, S.EXECUTION_STATE_TRANSPORT_REJECTED])('a state (%s) that denies what was', (state) => {
    expect(faults({ executions: [execution(1), execution(2, state)] }, { ...KILLED, refusals: true }).wrong).toContainEqual(expect.stringContaining('and was delivered'));
  });

  test('a command that stayed undone though nothing kept it', () => {
    const world = [starting(1), delivered(1), starting(2), sent(7), sent(8)];
    expect(faults({ executions: [execution(1), execution(2, S.EXECUTION_STATE_UNCONFIRMED)], world }).wrong).toEqual([expect.stringContaining('though nothing kept it')]);
    expect(faults({ executions: [execution(1), execution(2, S.EXECUTION_STATE_UNCONFIRMED)], world }, KILLED)).toEqual(clean);
  });

  test('an unconfirmed command whose delivery never began', () => {
    const world = [starting(1), delivered(1), sent(7), sent(8)];
    expect(faults({ executions: [execution(1), execution(2, S.EXECUTION_STATE_UNCONFIRMED)], world }, KILLED).wrong).toEqual([expect.stringContaining('its delivery never began')]);
  });

  test('a delivery that was not kept as started before', () => {
    expect(faults({ world: [delivered(1), starting(2), delivered(2), sent(7), sent(8)] }).wrong).toEqual([expect.stringContaining('was delivered before that was kept')]);
  });

  test('a delivery after the deadline', () => {
    expect(faults({ world: [starting(1), delivered(1, DEADLINE + 2000), starting(2), delivered(2), sent(7), sent(8)] }, HASTY).wrong).toEqual(['e1 was delivered 2000 ms after its deadline']);
  });

  test('an end before the deadline that says that nobody came in time', () => {
    const change = { executions: [execution(1), execution(2, S.EXECUTION_STATE_TRANSPORT_UNREACHABLE, 'expired')], world: [starting(1), delivered(1), sent(7), sent(8)] };
    expect(faults(change, HASTY)).toEqual(clean);
    expect(faults({ ...change, endOf: () => DEADLINE - 500 }, HASTY).wrong).toEqual([expect.stringContaining('its deadline was 500 ms later')]);
  });

  test('devices that are told in another order', () => {
    expect(faults({ world: [starting(2), delivered(2), starting(1), delivered(1), sent(7), sent(8)] }).wrong).toEqual([expect.stringContaining('out of order')]);
  });

  test('a call without an answer, and what the gateway itself found', () => {
    const world: WorldLine[] = [...facts().world, { kind: 'fault', text: 'an uplink was rejected' }];
    expect(faults({ failed: ['no answer'], world }).wrong).toEqual(['no answer', 'an uplink was rejected']);
  });
});
