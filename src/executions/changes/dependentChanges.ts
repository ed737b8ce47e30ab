import { type Change, computeChange, planSubmission } from './changePlan';
import { type Execution, type ExecutionState, isFinal, computeRank } from '../execution';
import type { ExecutionEvent, QueryCancelReason } from '../machine/executionEvent';
import type { ExecutionRepository } from '../store/executionRepository';
import { createQueryTry } from './verificationQuery';
import { expectsOtherValue } from '../evidence/sensorComparison';

const MAX_ATTEMPTS = 5;
/** The origin of all events that the server itself causes. */
const SERVER_ORIGIN = { source: 'server' };
/** The device has the command, or shows that it had it. */
const STATES_AFTER_DELIVERY: readonly ExecutionState[] = ['delivered', 'accepted', 'converged', 'accepted_no_l4'];
/** Reasons why the server itself cancels a query. The parent is not notified of them. */
const QUERY_CANCEL_REASONS = new Set<string>([
  'parent_ended',
  'asked_again',
  'already_answered',
] satisfies QueryCancelReason[]);

/** Finds the changes of other executions that follow from a change. */
type Rule = (executions: ExecutionRepository, change: Change, now: number) => Promise<Change[]>;

/**
 * Stores the changes of other executions that follow from these changes, repeatedly until none follows. Returns them;
 * they are not logged yet. Call only inside the transaction of the changes.
 */
export async function applyDependentChanges(
  executions: ExecutionRepository,
  changes: readonly Change[],
  now: number,
): Promise<Change[]> {
  const dependentChanges: Change[] = [];
  for (let pending = changes; pending.length > 0;) {
    const next: Change[] = [];
    for (const change of pending) {
      for (const rule of RULES) next.push(...(await rule(executions, change, now)));
    }
    dependentChanges.push(...next);
    pending = next;
  }
  return dependentChanges;
}

/** Applied to each change in this order. */
const RULES: readonly Rule[] = [supersedeOlder, notifyParent, cancelUnneededQueries, cancelStaleQueries, sendQuery];

/**
 * T33, T34 (rows of the transition table): once a command is delivered, older executions of its device that wait for
 * another value of one of its sensors will not see it any more. They finish as superseded.
 */
async function supersedeOlder(
  executions: ExecutionRepository,
  { after, entries }: Change,
  now: number,
): Promise<Change[]> {
  if (after.expected.length === 0) return [];
  const wasJustDelivered = entries.some(({ from, to }) => {
    const wasUndelivered = from !== undefined && computeRank(from) < computeRank('delivered');
    return wasUndelivered && STATES_AFTER_DELIVERY.includes(to);
  });
  if (!wasJustDelivered) return [];
  const listContradicted = async (): Promise<Execution[]> =>
    (await executions.listVerifyingBefore(after.organizationId, after.deviceId, after.id)).filter((older) =>
      expectsOtherValue(after.expected, older.expected),
    );
  return await applyToExecutions(executions, listContradicted, { kind: 'superseded', byExecutionId: after.id }, now);
}

/** T27, T28, T39, T40: reports the outcome of a query to the execution that sent it. */
async function notifyParent(executions: ExecutionRepository, change: Change, now: number): Promise<Change[]> {
  const { organizationId, parentExecutionId, id: queryExecutionId, state, detail } = change.after;
  if (parentExecutionId === undefined || !becameFinal(change) || QUERY_CANCEL_REASONS.has(detail)) return [];
  const event: ExecutionEvent =
    state === 'accepted_no_l4'
      ? { kind: 'query_answered', queryExecutionId }
      : { kind: 'query_failed', queryExecutionId, state, detail };
  return await applyToExecutions(
    executions,
    async () => [...(await executions.findAll(organizationId, [parentExecutionId])).values()],
    event,
    now,
  );
}

/** Cancels queries that have not left the server once their parent is final or has its response. */
async function cancelUnneededQueries(executions: ExecutionRepository, change: Change, now: number): Promise<Change[]> {
  if (change.after.queriesSent === 0) return [];
  if (becameFinal(change)) return await cancelUnsentQueries(executions, change.after, 'parent_ended', now);
  const isAnswered = change.entries.some(({ event }) => event === 'query_answered');
  return isAnswered ? await cancelUnsentQueries(executions, change.after, 'already_answered', now) : [];
}

/** Cancels a query that is put back into the queue, unless it is still needed and may be sent again. */
async function cancelStaleQueries(
  executions: ExecutionRepository,
  { before, after }: Change,
  now: number,
): Promise<Change[]> {
  if (after.parentExecutionId === undefined || after.state !== 'enqueued' || before.state === 'enqueued') return [];
  const reason = await findCancelReason(executions, after, after.parentExecutionId);
  if (!reason) return [];
  return await applyToExecutions(
    executions,
    async () => [...(await executions.findAll(after.organizationId, [after.id])).values()],
    { kind: 'cancelled', reason },
    now,
  );
}

/**
 * Returns why a query is no longer needed; undefined if it is still needed. The parent is locked, so that it cannot
 * finish concurrently without seeing this query in the queue.
 */
async function findCancelReason(
  executions: ExecutionRepository,
  query: Execution,
  parentId: string,
): Promise<QueryCancelReason | undefined> {
  const parent = await executions.lock(query.organizationId, parentId);
  if (!parent || isFinal(parent.state)) return 'parent_ended';
  const tries = await executions.listQueries(query.organizationId, parentId);
  if (tries.some(({ state }) => state === 'accepted_no_l4')) return 'already_answered';
  return tries.at(-1)?.id === query.id ? undefined : 'asked_again';
}

/**
 * Creates the next try of the query. An earlier one that has not left the server is cancelled, so that a device is not
 * queried twice.
 */
async function sendQuery(executions: ExecutionRepository, { after, effects }: Change, now: number): Promise<Change[]> {
  if (!effects.includes('send_query') || isFinal(after.state)) return [];
  const query = createQueryTry(after, now);
  if (!query) return []; // there is no further try: the execution finishes at its deadline for the effect
  const cancelled = after.queriesSent > 1 ? await cancelUnsentQueries(executions, after, 'asked_again', now) : [];
  await executions.insertQuery(query);
  return [
    ...cancelled,
    planSubmission(query, { ...SERVER_ORIGIN, data: { trigger_id: query.triggerId, parent_execution_id: after.id } })
      .change,
  ];
}

/**
 * Cancels the enqueued queries of an execution. Those in transit are cancelled after the commit if they have not left
 * the server.
 */
async function cancelUnsentQueries(
  executions: ExecutionRepository,
  { organizationId, id }: Execution,
  reason: QueryCancelReason,
  now: number,
): Promise<Change[]> {
  const listQueriesInState = async (state: ExecutionState): Promise<Execution[]> =>
    (await executions.listQueries(organizationId, id)).filter((query) => query.state === state);
  const cancelled = await applyToExecutions(
    executions,
    async () => await listQueriesInState('enqueued'),
    { kind: 'cancelled', reason },
    now,
  );
  const leaving = await listQueriesInState('in_transit');
  return [
    ...cancelled,
    ...leaving.map((query): Change => ({ before: query, after: query, entries: [], effects: ['cancel_unsent'] })),
  ];
}

/**
 * Applies an event to the executions that `read` returns, and stores the changes. An execution that another transaction
 * changed concurrently is read again in the same transaction. Returns the stored changes.
 */
async function applyToExecutions(
  executions: ExecutionRepository,
  read: () => Promise<readonly Execution[]>,
  event: ExecutionEvent,
  now: number,
): Promise<Change[]> {
  const storedChanges: Change[] = [];
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const storedIds = new Set(storedChanges.map(({ after }) => after.id));
    const planned = (await read())
      .filter(({ id }) => !storedIds.has(id))
      .flatMap((execution) => computeChange(execution, [event], SERVER_ORIGIN, now) ?? []);
    const [first] = planned; // all of them belong to one organization
    const stored = first ? await executions.replace(first.after.organizationId, planned) : [];
    storedChanges.push(...stored);
    if (stored.length === planned.length) return storedChanges;
  }
  throw new Error(`executions kept changing while ${event.kind} was stored`);
}

/** Whether the execution became final by this change. */
function becameFinal({ before, after }: Change): boolean {
  return isFinal(after.state) && !isFinal(before.state);
}
