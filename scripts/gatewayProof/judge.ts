import { type Execution, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { type Audit, audit } from '../crash/audit';
import type { Acknowledged } from '../crash/submitters';
import { World } from '../crash/world';
import type { WorldLine } from './worldFile';

/** What a row of the proof allows. */
export interface Allowed {
  /** Nothing kept a command from its device, nor its result from the server. */
  readonly mustBeDone: boolean;
  /** Deadlines came. */
  readonly deadlines: boolean;
  /** The gateway could not store. */
  readonly refusals: boolean;
}

/** An execution as a list shows it. */
export interface Listed {
  readonly id: string;
  readonly triggerId: string;
  readonly deviceId: string;
}

/** Everything that is known in the end. */
export interface Facts {
  readonly acknowledged: ReadonlyMap<string, Acknowledged>;
  /** Calls without an answer. */
  readonly failed: readonly string[];
  readonly executions: ReadonlyMap<string, Execution | undefined>;
  /** Every execution of the commands that were called. */
  readonly listed: readonly Listed[];
  readonly world: readonly WorldLine[];
  /** Every reading of the meters. */
  readonly readings: readonly number[];
  /** Until when the delivery of an execution may begin, in milliseconds of the machine's uptime. */
  readonly deadlineOf: (execution: Execution) => number;
  /** When it became final, on the same clock. */
  readonly endOf: (execution: Execution) => number;
}

/** What a command may take from the server to the gateway, and a delivery to its first line, on a machine that is busy with all this. */
const WAY_MS = 800;
/** Steps of the clocks. */
const STEP_MS = 60;

const S = ExecutionState;
const NOT_SENT: ReadonlySet<ExecutionState> = new Set([S.EXECUTION_STATE_TRANSPORT_UNREACHABLE, S.EXECUTION_STATE_TRANSPORT_REJECTED, S.EXECUTION_STATE_PROTOCOL_REJECTED]);

type Delivered = Extract<WorldLine, { kind: 'delivered' }>;

/** Compares what callers were told, what the server says, and what the devices saw. */
export function judge(facts: Facts, allowed: Allowed): Audit {
  const { executions, world } = facts;
  const told = { acknowledged: named(facts), contradictions: [...facts.failed], toCancel: new Set<string>(), cancelled: new Set<string>() };
  const found = audit(executions, told, carriedOut(world), { mustBeDone: allowed.mustBeDone, believesUplinks: true });
  const { lost, doubled } = judgeUplinks(facts);
  const faults = world.flatMap((line) => (line.kind === 'fault' ? [line.text] : []));
  return {
    ...found,
    lost: [...found.lost, ...lost],
    doubled: [...found.doubled, ...doubled, ...twice(facts)],
    wrong: [...found.wrong, ...faults, ...claims(facts, allowed), ...late(facts)],
  };
}

/** The trigger that the client made stands only in the execution. */
function named({ acknowledged, executions }: Facts): Map<string, Acknowledged> {
  const all = [...acknowledged.values()].map((one) => (one.trigger === one.executionId ? { ...one, trigger: executions.get(one.executionId)?.triggerId ?? one.trigger } : one));
  return new Map(all.map((one) => [one.trigger, one]));
}

function deliveries(world: readonly WorldLine[]): Delivered[] {
  return world.filter((line) => line.kind === 'delivered');
}

function carriedOut(lines: readonly WorldLine[]): World {
  const world = new World();
  for (const line of deliveries(lines)) world.carryOut(line);
  return world;
}

/** Executions that nobody was told of: a call that was made twice. */
function twice({ acknowledged, failed, listed }: Facts): string[] {
  const told = new Set([...acknowledged.values()].map(({ executionId }) => executionId));
  const unknown = listed.filter(({ id }) => !told.has(id));
  return unknown.length <= failed.length ? [] : unknown.map(({ id, triggerId }) => `${id} (${triggerId}) is an execution that no caller was told of`);
}

function judgeUplinks({ world, readings }: Facts): { lost: string[]; doubled: string[] } {
  const counts = new Map<number, number>();
  for (const value of readings) counts.set(value, (counts.get(value) ?? 0) + 1);
  const sent = world.filter((line) => line.kind === 'sent');
  return {
    lost: sent.flatMap(({ clientDeviceId, value }) => (counts.has(value) ? [] : [`the uplink ${value} of ${clientDeviceId} was kept and is not there`])),
    doubled: [...counts].flatMap(([value, times]) => (times > 1 ? [`the uplink ${value} is there ${times} times`] : [])),
  };
}

/** States that nothing gave a reason for. */
function claims(facts: Facts, allowed: Allowed): string[] {
  const { executions, world } = facts;
  const begun = new Set(world.flatMap((line) => (line.kind === 'starting' ? [line.executionId] : [])));
  const delivered = new Set(deliveries(world).map(({ executionId }) => executionId));
  return [...executions.values()].flatMap((execution) => {
    if (!execution) return [];
    const { id, state, detail } = execution;
    const isNotSent = NOT_SENT.has(state);
    const early = facts.deadlineOf(execution) - facts.endOf(execution);
    const checks: readonly (readonly [wrong: boolean, text: string])[] = [
      [delivered.has(id) && !begun.has(id), 'and was delivered before that was kept'],
      [state === S.EXECUTION_STATE_UNCONFIRMED && !begun.has(id) && !allowed.deadlines, 'and its delivery never began'],
      [isNotSent && delivered.has(id), 'and was delivered'],
      [isNotSent && !allowed.deadlines && !allowed.refusals, 'and nothing kept it from its device'],
      [isNotSent && allowed.deadlines && early > STEP_MS, `and its deadline was ${Math.round(early)} ms later`],
    ];
    return checks.flatMap(([wrong, text]) => (wrong ? [`${id} is ${ExecutionState[state].replace('EXECUTION_STATE_', '').toLowerCase()} ${detail}, ${text}`] : []));
  });
}

/** What was delivered after its deadline. */
function late({ executions, world, deadlineOf }: Facts): string[] {
  return deliveries(world).flatMap(({ executionId, at }) => {
    const execution = executions.get(executionId);
    const ms = execution ? at - deadlineOf(execution) : 0;
    return ms > WAY_MS ? [`${executionId} was delivered ${Math.round(ms)} ms after its deadline`] : [];
  });
}
