import { type Change, planChange, planSubmission } from './changePlan';
import { type Execution, type ExecutionState, isFinal, rankOf } from '../execution';
import type { ExecutionEvent, TakenBack } from '../machine/executionEvent';
import type { ExecutionRepository } from '../store/executionRepository';
import { queryTryOf } from './queryTry';
import { showsExpected } from '../evidence/sensorComparison';

const TRIES = 5;
const SERVER = { source: 'server' };
/** The device has it, or shows that it had it. */
const REACHED: readonly ExecutionState[] = ['delivered', 'accepted', 'converged', 'accepted_no_l4'];
/** The server's own ways to end a query: the parent need not hear of them. */
const TAKEN_BACK = new Set<string>(['parent_ended', 'asked_again', 'already_answered'] satisfies TakenBack[]);

/** What a change of one execution means for others, and how to find it out. */
type Rule = (executions: ExecutionRepository, change: Change, now: number) => Promise<Change[]>;

/**
 * Stores what follows from changes for other executions, and what follows from that, until nothing does. Returns these changes; they are
 * not in the log yet. Only inside the transaction of the changes.
 */
export async function consequencesOf(executions: ExecutionRepository, changes: readonly Change[], now: number): Promise<Change[]> {
  const followed: Change[] = [];
  for (let open = changes; open.length > 0; ) {
    const next: Change[] = [];
    for (const change of open) for (const rule of RULES) next.push(...(await rule(executions, change, now)));
    followed.push(...next);
    open = next;
  }
  return followed;
}

const RULES: readonly Rule[] = [supersede, tellParent, takeQueriesBack, dropPutBack, sendQuery];

/** T33, T34: what is older and waits for another value on one of the sensors will not see it any more. */
async function supersede(executions: ExecutionRepository, { after, entries }: Change, now: number): Promise<Change[]> {
  const reached = after.expected.length > 0 && entries.some(({ from, to }) => from !== undefined && rankOf(from) < rankOf('delivered') && REACHED.includes(to));
  if (!reached) return [];
  const contradicted = async (): Promise<Execution[]> => (await executions.verifyingBefore(after.organizationId, after.deviceId, after.id)).filter((older) => contradicts(after, older));
  return await settle(executions, contradicted, { kind: 'superseded', byExecutionId: after.id }, now);
}

/** T27, T28, T39, T40: what became of a query, for the execution that asked it. */
async function tellParent(executions: ExecutionRepository, change: Change, now: number): Promise<Change[]> {
  const { organizationId, parentExecutionId, id: queryExecutionId, state, detail } = change.after;
  if (parentExecutionId === undefined || !justEnded(change) || TAKEN_BACK.has(detail)) return [];
  const event: ExecutionEvent = state === 'accepted_no_l4' ? { kind: 'query_answered', queryExecutionId } : { kind: 'query_failed', queryExecutionId, state, detail };
  return await settle(executions, async () => [...(await executions.findAll(organizationId, [parentExecutionId])).values()], event, now);
}

/** A query that has not left is for nothing once its parent has ended or was answered. */
async function takeQueriesBack(executions: ExecutionRepository, change: Change, now: number): Promise<Change[]> {
  if (change.after.queriesSent === 0) return [];
  if (justEnded(change)) return await takeBack(executions, change.after, 'parent_ended', now);
  const isAnswered = change.entries.some(({ event }) => event === 'query_answered');
  return isAnswered ? await takeBack(executions, change.after, 'already_answered', now) : [];
}

/** A query that came back into the queue is sent again only if it is still wanted. */
async function dropPutBack(executions: ExecutionRepository, { before, after }: Change, now: number): Promise<Change[]> {
  if (after.parentExecutionId === undefined || after.state !== 'enqueued' || before.state === 'enqueued') return [];
  const reason = await whyUnwanted(executions, after, after.parentExecutionId);
  if (!reason) return [];
  return await settle(executions, async () => [...(await executions.findAll(after.organizationId, [after.id])).values()], { kind: 'cancelled', reason }, now);
}

/** Undefined: it is wanted. The parent is locked, so that it cannot end at the same time without seeing this query in the queue. */
async function whyUnwanted(executions: ExecutionRepository, query: Execution, parentId: string): Promise<TakenBack | undefined> {
  const parent = await executions.lock(query.organizationId, parentId);
  if (!parent || isFinal(parent.state)) return 'parent_ended';
  const tries = await executions.queriesOf(query.organizationId, parentId);
  if (tries.some(({ state }) => state === 'accepted_no_l4')) return 'already_answered';
  return tries.at(-1)?.id === query.id ? undefined : 'asked_again';
}

/** The next try of the query; an earlier one that has not left yet makes room for it, so that no device is asked twice at once. */
async function sendQuery(executions: ExecutionRepository, { after, effects }: Change, now: number): Promise<Change[]> {
  if (!effects.includes('send_query') || isFinal(after.state)) return [];
  const query = queryTryOf(after, now);
  if (!query) return []; // it ends by its window
  const cancelled = after.queriesSent > 1 ? await takeBack(executions, after, 'asked_again', now) : [];
  await executions.insertQuery(query);
  return [...cancelled, planSubmission(query, { ...SERVER, data: { trigger_id: query.triggerId, parent_execution_id: after.id } }).change];
}

/** Ends the queries of an execution that wait in the queue; those on their way are taken back, once this is on disk, if they have not left the server. */
async function takeBack(executions: ExecutionRepository, { organizationId, id }: Execution, reason: TakenBack, now: number): Promise<Change[]> {
  const inState = async (state: ExecutionState): Promise<Execution[]> => (await executions.queriesOf(organizationId, id)).filter((query) => query.state === state);
  const cancelled = await settle(executions, async () => await inState('enqueued'), { kind: 'cancelled', reason }, now);
  const leaving = await inState('in_transit');
  return [...cancelled, ...leaving.map((query): Change => ({ before: query, after: query, entries: [], effects: ['take_back'] }))];
}

/** Stores what an event does to executions; one that somebody else changed meanwhile is read again, in the same transaction. */
async function settle(executions: ExecutionRepository, read: () => Promise<readonly Execution[]>, event: ExecutionEvent, now: number): Promise<Change[]> {
  const settled: Change[] = [];
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const done = new Set(settled.map(({ after }) => after.id));
    const wanted = (await read()).filter(({ id }) => !done.has(id)).flatMap((execution) => planChange(execution, [event], SERVER, now) ?? []);
    const stored = wanted.length === 0 ? [] : await executions.replace(wanted[0]?.after.organizationId ?? '', wanted);
    settled.push(...stored);
    if (stored.length === wanted.length) return settled;
  }
  throw new Error(`executions kept changing while ${event.kind} was stored`);
}

/** Whether two executions want different values of a sensor. */
function contradicts(newer: Execution, older: Execution): boolean {
  return older.expected.some((expected) => newer.expected.some((other) => other.sensorId === expected.sensorId && !showsExpected(expected, other.value)));
}

function justEnded({ before, after }: Change): boolean {
  return isFinal(after.state) && !isFinal(before.state);
}
