import { status, type ServiceError } from '@grpc/grpc-js';
import { type Execution, ExecutionEvidence, ExecutionState, GetExecutionRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { answer, type Clients } from './clients';
import type { Acknowledged, Submitters } from './submitters';
import type { World } from './world';

/** What is there of what was acknowledged. */
export interface Audit {
  /** Acknowledged and not there, done and not there, or never final. */
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** States that say something else than what happened, and other contradictions. */
  readonly wrong: readonly string[];
  readonly converged: number;
  readonly unconfirmed: number;
}

const IMPLICIT: ReadonlySet<ExecutionEvidence | undefined> = new Set([ExecutionEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK, ExecutionEvidence.EXECUTION_EVIDENCE_QUERY]);
const AT_ONCE = 16;
const S = ExecutionState;
const FINAL: ReadonlySet<ExecutionState> = new Set([
  S.EXECUTION_STATE_CONVERGED,
  S.EXECUTION_STATE_ACCEPTED_NO_L4,
  S.EXECUTION_STATE_UNCONFIRMED,
  S.EXECUTION_STATE_PROTOCOL_REJECTED,
  S.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
  S.EXECUTION_STATE_TRANSPORT_REJECTED,
  S.EXECUTION_STATE_REQUEST_REJECTED,
]);
/** What claims that a device did it. */
const DONE: ReadonlySet<ExecutionState> = new Set([S.EXECUTION_STATE_CONVERGED, S.EXECUTION_STATE_ACCEPTED_NO_L4]);

/** Reads executions; undefined for those that are not there. By execution id. */
export async function readAll({ commands, metadata }: Clients, wanted: Iterable<{ readonly executionId: string }>): Promise<Map<string, Execution | undefined>> {
  const open = [...wanted].values();
  const found = new Map<string, Execution | undefined>();
  const read = async (): Promise<void> => {
    for (const { executionId } of open) {
      try {
        const request = GetExecutionRequest.fromPartial({ executionId });
        found.set(executionId, await answer<Execution>((answered) => commands.getExecution(request, metadata, answered)));
      } catch (error) {
        if ((error as ServiceError).code !== status.NOT_FOUND) throw error;
        found.set(executionId, undefined);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, read)); // they share one iterator
  return found;
}

const ON_ITS_WAY: ReadonlySet<ExecutionState> = new Set([S.EXECUTION_STATE_ENQUEUED, S.EXECUTION_STATE_IN_TRANSIT, S.EXECUTION_STATE_DELIVERED]);

/** Whether its gateway or its device has something left to do. */
export function isOpen(execution: Execution | undefined): boolean {
  return execution !== undefined && ON_ITS_WAY.has(execution.state);
}

/** Whether nothing will happen to it any more. */
export function isFinal(execution: Execution | undefined): boolean {
  return execution !== undefined && FINAL.has(execution.state);
}

/** What is known of a site. */
interface Known {
  /** Nothing may have kept a command from its device. */
  readonly mustBeDone: boolean;
  /** What took a command never lost it, so an uplink after that shows that the device has it. */
  readonly believesUplinks: boolean;
}

/** What the callers were told. */
export type Submitted = Pick<Submitters, 'acknowledged' | 'contradictions' | 'toCancel' | 'cancelled'>;

/** Compares what the server says, what the callers were told, and what the devices did. */
export function audit(executions: ReadonlyMap<string, Execution | undefined>, submitters: Submitted, world: World, known: Known): Audit {
  const { acknowledged, contradictions } = submitters;
  const lost: string[] = [];
  const wrong = [...contradictions, ...world.outOfOrder.map((text) => `out of order: ${text}`)];
  for (const told of acknowledged.values()) {
    const execution = executions.get(told.executionId);
    const times = world.executions.get(told.executionId) ?? 0;
    if (!execution) lost.push(`${told.trigger} (${told.executionId}) was acknowledged and is not there`);
    else if (!isFinal(execution)) lost.push(`${told.trigger} (${told.executionId}) stays ${nameOf(execution)}`);
    else wrong.push(...contradictionsOf(execution, told, times, known, submitters).map((text) => `${told.trigger} (${told.executionId}) is ${nameOf(execution)} ${execution.detail}, ${text}`));
  }
  const all = new Set([...acknowledged.values()].map(({ executionId }) => executionId));
  for (const executionId of world.executions.keys()) if (!all.has(executionId)) lost.push(`${executionId} was carried out, and nobody was ever told of it`);
  for (const executionId of world.queries.keys()) if (!isFinal(executions.get(executionId))) lost.push(`the query ${executionId} was carried out, and is not there or never final`);
  const count = (state: ExecutionState): number => [...executions.values()].filter((execution) => execution?.state === state).length;
  return { lost, doubled: world.doubled(), wrong, converged: count(S.EXECUTION_STATE_CONVERGED), unconfirmed: count(S.EXECUTION_STATE_UNCONFIRMED) };
}

function contradictionsOf(execution: Execution, told: Acknowledged, times: number, { mustBeDone, believesUplinks }: Known, { toCancel, cancelled }: Submitted): string[] {
  const { state, triggerId, params } = execution;
  const claimsDone = DONE.has(state);
  const claimsNotDone = !claimsDone && state !== S.EXECUTION_STATE_UNCONFIRMED;
  const isAdmitted = state !== S.EXECUTION_STATE_REQUEST_REJECTED;
  const checks: readonly (readonly [wrong: boolean, text: string])[] = [
    [triggerId !== told.trigger || params?.['n'] !== told.n, `and belongs to ${triggerId}`],
    [told.accepted !== isAdmitted, 'and was answered otherwise'],
    [claimsToKnow(execution, believesUplinks) && times === 0, 'and no device did it'],
    [claimsNotDone && times > 0, 'and a device did it'],
    [cancelled.has(told.executionId) && execution.detail !== 'cancelled', 'and was answered as cancelled'],
    [execution.detail === 'cancelled' && !toCancel.has(told.executionId), 'and nobody took it back'],
    [mustBeDone && !claimsDone && execution.detail !== 'cancelled', 'though nothing kept it from its device and back'],
  ];
  return checks.flatMap(([wrong, text]) => (wrong ? [text] : []));
}

/** Whether a state says that a device did it, on more than a next uplink where that proves nothing. */
function claimsToKnow({ state, evidence }: Execution, believesUplinks: boolean): boolean {
  return DONE.has(state) && (believesUplinks || !IMPLICIT.has(evidence));
}

function nameOf({ state }: Execution): string {
  return ExecutionState[state].replace('EXECUTION_STATE_', '').toLowerCase();
}
