import { type Execution, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { type ExecutionFindings, compareExecutions } from '../crash/executionFindings';
import type { Acknowledged } from '../crash/submitters';
import { World } from '../crash/world';
import type { WorldLine } from './worldFile';

/** What may happen in a row of the proof. */
export interface Allowed {
  /** Nothing prevented the delivery of commands and of their results. */
  readonly mustSucceed: boolean;
  /** Deadlines may expire. */
  readonly deadlines: boolean;
  /** The gateway may be unable to store. */
  readonly refusals: boolean;
}

/** An execution as a list shows it. */
export interface Listed {
  readonly id: string;
  readonly triggerId: string;
  readonly deviceId: string;
}

/** Everything that is known after the run. */
export interface ProofRecord {
  readonly acknowledged: ReadonlyMap<string, Acknowledged>;
  /** Calls that failed although they should not. */
  readonly failed: readonly string[];
  readonly executions: ReadonlyMap<string, Execution | undefined>;
  /** All executions of the commands that were called. */
  readonly listed: readonly Listed[];
  readonly world: readonly WorldLine[];
  /** All readings of the meters. */
  readonly readings: readonly number[];
  /** The latest start of the delivery of an execution, in milliseconds of the machine's uptime. */
  readonly computeDeadline: (execution: Execution) => number;
  /** When the execution became final, on the same clock. */
  readonly getEnd: (execution: Execution) => number;
}

/** The maximum delay of a command between server and device on a busy machine. */
const MAX_TRANSFER_MS = 800;
/** The tolerance for differences between the clocks. */
const CLOCK_TOLERANCE_MS = 60;

const S = ExecutionState;
const NOT_SENT: ReadonlySet<ExecutionState> = new Set([
  S.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
  S.EXECUTION_STATE_TRANSPORT_REJECTED,
  S.EXECUTION_STATE_PROTOCOL_REJECTED,
]);

type Delivered = Extract<WorldLine, { kind: 'delivered' }>;

/** Compares the responses to the callers, the executions on the server, and the actions of the devices. */
export function judge(record: ProofRecord, allowed: Allowed): ExecutionFindings {
  const { executions, world } = record;
  const submitted = {
    acknowledged: resolveTriggerIds(record),
    contradictions: [...record.failed],
    toCancel: new Set<string>(),
    cancelled: new Set<string>(),
  };
  const found = compareExecutions(executions, submitted, replayDeliveries(world), {
    mustSucceed: allowed.mustSucceed,
    uplinksProveDelivery: true,
  });
  const { lost, doubled } = judgeUplinks(record);
  const faults = world.flatMap((line) => (line.kind === 'fault' ? [line.text] : []));
  return {
    ...found,
    lost: [...found.lost, ...lost],
    doubled: [...found.doubled, ...doubled, ...findUnknownExecutions(record)],
    wrong: [...found.wrong, ...faults, ...findUnfoundedStates(record, allowed), ...findLateDeliveries(record)],
  };
}

/** Adds the trigger ids that the client created, which only the executions contain. */
function resolveTriggerIds({ acknowledged, executions }: ProofRecord): Map<string, Acknowledged> {
  const all = [...acknowledged.values()].map((one) =>
    one.trigger === one.executionId
      ? { ...one, trigger: executions.get(one.executionId)?.triggerId ?? one.trigger }
      : one,
  );
  return new Map(all.map((one) => [one.trigger, one]));
}

function filterDeliveries(world: readonly WorldLine[]): Delivered[] {
  return world.filter((line) => line.kind === 'delivered');
}

function replayDeliveries(lines: readonly WorldLine[]): World {
  const world = new World();
  for (const line of filterDeliveries(lines)) world.carryOut(line);
  return world;
}

/** Finds executions that no caller knows, which means that a call was made twice. */
function findUnknownExecutions({ acknowledged, failed, listed }: ProofRecord): string[] {
  const reportedIds = new Set([...acknowledged.values()].map(({ executionId }) => executionId));
  const unknown = listed.filter(({ id }) => !reportedIds.has(id));
  return unknown.length <= failed.length
    ? []
    : unknown.map(({ id, triggerId }) => `${id} (${triggerId}) is an execution that no caller knows`);
}

function judgeUplinks({ world, readings }: ProofRecord): { lost: string[]; doubled: string[] } {
  const counts = new Map<number, number>();
  for (const value of readings) counts.set(value, (counts.get(value) ?? 0) + 1);
  const sent = world.filter((line) => line.kind === 'sent');
  return {
    lost: sent.flatMap(({ clientDeviceId, value }) =>
      counts.has(value)
        ? []
        : [`the uplink ${value} of ${clientDeviceId} was accepted by the gateway but is not stored`],
    ),
    doubled: [...counts].flatMap(([value, times]) =>
      times > 1 ? [`the uplink ${value} is stored ${times} times`] : [],
    ),
  };
}

/** Finds executions whose state has no reason. */
function findUnfoundedStates(record: ProofRecord, allowed: Allowed): string[] {
  const { executions, world } = record;
  const startedIds = new Set(world.flatMap((line) => (line.kind === 'starting' ? [line.executionId] : [])));
  const delivered = new Set(filterDeliveries(world).map(({ executionId }) => executionId));
  return [...executions.values()].flatMap((execution) => {
    if (!execution) return [];
    const { id, state, detail } = execution;
    const isNotSent = NOT_SENT.has(state);
    const earlyMs = record.computeDeadline(execution) - record.getEnd(execution);
    const checks: readonly (readonly [wrong: boolean, text: string])[] = [
      [delivered.has(id) && !startedIds.has(id), 'but was delivered before its start was stored'],
      [
        state === S.EXECUTION_STATE_UNCONFIRMED && !startedIds.has(id) && !allowed.deadlines,
        'but its delivery never started',
      ],
      [isNotSent && delivered.has(id), 'but was delivered'],
      [isNotSent && !allowed.deadlines && !allowed.refusals, 'but nothing prevented its delivery'],
      [
        isNotSent && allowed.deadlines && earlyMs > CLOCK_TOLERANCE_MS,
        `but its deadline was ${Math.round(earlyMs)} ms later`,
      ],
    ];
    return checks.flatMap(([wrong, text]) =>
      wrong
        ? [`${id} is ${ExecutionState[state].replace('EXECUTION_STATE_', '').toLowerCase()} ${detail}, ${text}`]
        : [],
    );
  });
}

/** Finds deliveries after their deadline. */
function findLateDeliveries({ executions, world, computeDeadline }: ProofRecord): string[] {
  return filterDeliveries(world).flatMap(({ executionId, at }) => {
    const execution = executions.get(executionId);
    const ms = execution ? at - computeDeadline(execution) : 0;
    return ms > MAX_TRANSFER_MS ? [`${executionId} was delivered ${Math.round(ms)} ms after its deadline`] : [];
  });
}
