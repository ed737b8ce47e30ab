import { DomainError } from '../../kernel/errors';
import type { Execution } from '../execution';
import { expectsOtherValue } from '../evidence/sensorComparison';
import type { DuplicateCandidate, ExecutionRepository } from '../store/executionRepository';
import type { ExecutionTrigger, ExecutionTriggerRepository } from '../store/executionTriggerRepository';
import type { Submission } from './submission';

/** How long a trigger id of a caller is stored. */
const TRIGGER_TTL_MS = 7 * 24 * 3_600_000;

/** Returns a key that is equal for executions of the same command revision with the same params. */
export function getDedupeKey({ commandId, commandRevision, paramsHash }: Execution): string {
  return `${commandId}:${commandRevision}:${paramsHash}`;
}

/**
 * Returns the id of the execution of an earlier request with the same trigger id; undefined if there is none, or if it
 * is more than 7 days old. Throws `trigger_id_reused` if the earlier request had other params.
 */
export async function findExecutionIdByTrigger(
  triggers: ExecutionTriggerRepository,
  submission: Submission,
): Promise<string | undefined> {
  const location = getTriggerLocation(submission);
  const earlier = location && (await triggers.find(location));
  if (!earlier || earlier.expiresAt <= submission.execution.enqueuedAt) return undefined;
  if (earlier.paramsHash !== submission.trigger?.paramsHash)
    throw triggerIdReused(location.triggerKey, earlier.executionId);
  return earlier.executionId;
}

/** Stores the response to a request with a trigger id. Call only inside the transaction that creates the response. */
export async function storeTrigger(
  triggers: ExecutionTriggerRepository,
  submission: Submission,
  executionId: string,
): Promise<void> {
  const location = getTriggerLocation(submission);
  if (!location) return;
  const { paramsHash = '' } = submission.trigger ?? {};
  const expiresAt = submission.execution.enqueuedAt + TRIGGER_TTL_MS;
  await triggers.save(location, { executionId, paramsHash, expiresAt });
}

/**
 * Finds the execution in flight that does the same as the request; undefined if there is none or the request is
 * invalid.
 */
export function findDuplicate(
  candidates: readonly DuplicateCandidate[],
  { execution, violations }: Submission,
): DuplicateCandidate | undefined {
  if (violations.length > 0) return undefined;
  const dedupeKey = getDedupeKey(execution);
  return candidates.find((candidate) => candidate.dedupeKey === dedupeKey);
}

/**
 * Clears the dedupe keys of the executions that `newer` contradicts, so that no later request is a duplicate of them:
 * after the requests on, off, on, the device must be on, so the third request does not repeat the first. Call only
 * inside the transaction that stores `newer`.
 */
export async function clearContradictedDedupeKeys(
  executions: ExecutionRepository,
  candidates: readonly DuplicateCandidate[],
  newer: Execution,
): Promise<void> {
  for (const candidate of candidates) {
    if (mayUndo(newer, candidate)) await executions.clearDedupeKey(newer.organizationId, candidate.id);
  }
}

/**
 * Whether a later request, which is no duplicate, may undo an earlier one of its device: it runs the same command (with
 * other params, since it is no duplicate), expects another value, or one of the two declares no expected states.
 */
function mayUndo(newer: Execution, older: DuplicateCandidate): boolean {
  if (older.commandId === newer.commandId) return true;
  const isEffectKnown = older.expected.length > 0 && newer.expected.length > 0;
  return !isEffectKnown || expectsOtherValue(newer.expected, older.expected);
}

/** Returns where the trigger id of the caller is stored; undefined if the caller sent none. */
function getTriggerLocation({ execution, trigger }: Submission): ExecutionTrigger | undefined {
  const { organizationId, deviceId, commandId } = execution;
  return trigger && commandId !== undefined
    ? { organizationId, deviceId, commandId, triggerKey: trigger.key }
    : undefined;
}

/** Creates the error for a trigger id that was sent with other params before. */
function triggerIdReused(triggerId: string, executionId: string): DomainError {
  const message =
    `the triggerId ${JSON.stringify(triggerId)} was used for this command with other params within 7 days; ` +
    'send another triggerId, or the same params';
  return new DomainError('already_exists', 'trigger_id_reused', message, {
    metadata: { trigger_id: triggerId, execution_id: executionId },
  });
}
