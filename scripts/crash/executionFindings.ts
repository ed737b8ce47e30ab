import { status, type ServiceError } from '@grpc/grpc-js';
import {
  type Execution,
  ExecutionEvidence,
  ExecutionState,
  GetExecutionRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { callUnary, type Clients } from './clients';
import type { Acknowledged, Submitters } from './submitters';
import type { World } from './world';

/** The result of a comparison of executions with the responses and the actions of the devices. */
export interface ExecutionFindings {
  /** Executions that were acknowledged or carried out but do not exist, or that never became final. */
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** Execution states that contradict what happened, and other contradictions. */
  readonly wrong: readonly string[];
  readonly converged: number;
  readonly unconfirmed: number;
}

const IMPLICIT: ReadonlySet<ExecutionEvidence | undefined> = new Set([
  ExecutionEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK,
  ExecutionEvidence.EXECUTION_EVIDENCE_QUERY,
]);
const MAX_CONCURRENT = 16;
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
/** The states that claim that a device carried out the command. */
const SUCCESS: ReadonlySet<ExecutionState> = new Set([S.EXECUTION_STATE_CONVERGED, S.EXECUTION_STATE_ACCEPTED_NO_L4]);

/** Reads executions, by execution id; undefined for those that do not exist. */
export async function readExecutions(
  { commands, metadata }: Clients,
  wanted: Iterable<{ readonly executionId: string }>,
): Promise<Map<string, Execution | undefined>> {
  const open = [...wanted].values();
  const found = new Map<string, Execution | undefined>();
  const read = async (): Promise<void> => {
    for (const { executionId } of open) {
      try {
        const request = GetExecutionRequest.fromPartial({ executionId });
        found.set(
          executionId,
          await callUnary<Execution>((callback) => commands.getExecution(request, metadata, callback)),
        );
      } catch (error) {
        if ((error as ServiceError).code !== status.NOT_FOUND) throw error;
        found.set(executionId, undefined);
      }
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, read)); // they share one iterator
  return found;
}

const ACTIVE: ReadonlySet<ExecutionState> = new Set([
  S.EXECUTION_STATE_ENQUEUED,
  S.EXECUTION_STATE_IN_TRANSIT,
  S.EXECUTION_STATE_DELIVERED,
]);

/** Whether the gateway or the device still has to act on the execution. */
export function isOpen(execution: Execution | undefined): boolean {
  return execution !== undefined && ACTIVE.has(execution.state);
}

/** Whether the execution is in a final state. */
export function isFinal(execution: Execution | undefined): boolean {
  return execution !== undefined && FINAL.has(execution.state);
}

/** What holds at a site. */
interface SiteRecord {
  /** Nothing prevented commands from reaching their devices. */
  readonly mustSucceed: boolean;
  /** Whoever received a command never lost it, so that a later uplink proves that the device has it. */
  readonly uplinksProveDelivery: boolean;
}

/** The responses that the callers received. */
export type Submitted = Pick<Submitters, 'acknowledged' | 'contradictions' | 'toCancel' | 'cancelled'>;

/** Compares the executions on the server, the responses to the callers, and the actions of the devices. */
export function compareExecutions(
  executions: ReadonlyMap<string, Execution | undefined>,
  submitters: Submitted,
  world: World,
  record: SiteRecord,
): ExecutionFindings {
  const { acknowledged, contradictions } = submitters;
  const lost: string[] = [];
  const wrong = [...contradictions, ...world.outOfOrder.map((text) => `out of order: ${text}`)];
  for (const request of acknowledged.values()) {
    const execution = executions.get(request.executionId);
    const times = world.executions.get(request.executionId) ?? 0;
    if (!execution) lost.push(`${request.trigger} (${request.executionId}) was acknowledged but does not exist`);
    else if (!isFinal(execution))
      lost.push(`${request.trigger} (${request.executionId}) remains ${getName(execution)}`);
    else
      wrong.push(
        ...listContradictions(execution, request, times, record, submitters).map(
          (text) => `${request.trigger} (${request.executionId}) is ${getName(execution)} ${execution.detail}, ${text}`,
        ),
      );
  }
  const all = new Set([...acknowledged.values()].map(({ executionId }) => executionId));
  for (const executionId of world.executions.keys())
    if (!all.has(executionId)) lost.push(`${executionId} was carried out but never acknowledged`);
  for (const executionId of world.queries.keys())
    if (!isFinal(executions.get(executionId)))
      lost.push(`the query ${executionId} was carried out but does not exist or is not final`);
  const count = (state: ExecutionState): number =>
    [...executions.values()].filter((execution) => execution?.state === state).length;
  return {
    lost,
    doubled: world.listDuplicates(),
    wrong,
    converged: count(S.EXECUTION_STATE_CONVERGED),
    unconfirmed: count(S.EXECUTION_STATE_UNCONFIRMED),
  };
}

function listContradictions(
  execution: Execution,
  request: Acknowledged,
  times: number,
  { mustSucceed, uplinksProveDelivery }: SiteRecord,
  { toCancel, cancelled }: Submitted,
): string[] {
  const { state, triggerId, params } = execution;
  const claimsSuccess = SUCCESS.has(state);
  const claimsFailure = !claimsSuccess && state !== S.EXECUTION_STATE_UNCONFIRMED;
  const isAdmitted = state !== S.EXECUTION_STATE_REQUEST_REJECTED;
  const checks: readonly (readonly [wrong: boolean, text: string])[] = [
    [triggerId !== request.trigger || params?.['n'] !== request.n, `but belongs to ${triggerId}`],
    [request.accepted !== isAdmitted, 'but the response said otherwise'],
    [claimsProof(execution, uplinksProveDelivery) && times === 0, 'but no device carried it out'],
    [claimsFailure && times > 0, 'but a device carried it out'],
    [
      cancelled.has(request.executionId) && execution.detail !== 'cancelled',
      'but the response said that it is cancelled',
    ],
    [execution.detail === 'cancelled' && !toCancel.has(request.executionId), 'but nobody cancelled it'],
    [
      mustSucceed && !claimsSuccess && execution.detail !== 'cancelled',
      'although nothing prevented its delivery and its result',
    ],
  ];
  return checks.flatMap(([wrong, text]) => (wrong ? [text] : []));
}

/**
 * Whether a state claims success with valid evidence; an implicit uplink counts only where uplinks prove the delivery.
 */
function claimsProof({ state, evidence }: Execution, uplinksProveDelivery: boolean): boolean {
  return SUCCESS.has(state) && (uplinksProveDelivery || !IMPLICIT.has(evidence));
}

function getName({ state }: Execution): string {
  return ExecutionState[state].replace('EXECUTION_STATE_', '').toLowerCase();
}
