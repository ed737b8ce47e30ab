import { isDeepStrictEqual } from 'node:util';
import { CommandRepository, type Encoder } from '../commands';
import { ConnectionRepository } from '../connections';
import { type Database, type Db, UnitOfWork } from '../database';
import { DeviceRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { DomainError, notFound } from '../kernel/errors';
import { type Cursors, getPageSize } from '../kernel/pages';
import type { DeviceScope, ResourceScope } from '../kernel/resourceScope';
import { SensorTemplateRepository } from '../sensorTemplates';
import {
  type Execution,
  type ExecutionLogEntry,
  isFinal,
  type ListedExecution,
  type RejectionReason,
  type ShownExecution,
} from './execution';
import { ExecutionEventRepository } from './store/executionEventRepository';
import { ExecutionScopeRepository } from './store/executionScopeRepository';
import { type DuplicateCandidate, ExecutionRepository } from './store/executionRepository';
import { ExecutionTriggerRepository } from './store/executionTriggerRepository';
import { ExecutionViewRepository, type UpdatedPosition } from './store/executionViewRepository';
import { InputRevisionRepository } from './submit/inputRevisionRepository';
import type { ExecutionStore } from './changes/executionStore';
import {
  getDedupeKey,
  findExecutionIdByTrigger,
  findDuplicate,
  storeTrigger,
  clearContradictedDedupeKeys,
} from './submit/duplicates';
import {
  encodeSubmission,
  prepareExecution,
  toRejected,
  restartDeadlines,
  needsEncoder,
  type Submission,
  type SubmissionDraft,
  type SubmitRequest,
} from './submit/submission';
import {
  type InputRepositories,
  loadExecutionInputs,
  getRevisions,
  type ExecutionInputs,
} from './submit/executionInputs';
import { getQueueLimit } from './submit/executionPolicy';

/** The outcome of an execution request. */
export interface ExecuteOutcome {
  readonly execution: Execution;
  /** Whether the execution existed before the request. */
  readonly duplicate: boolean;
}

/** One page of executions. `nextCursor` is undefined on the last page. */
export interface ExecutionPage {
  readonly executions: readonly ListedExecution[];
  readonly nextCursor: string | undefined;
}

interface Repositories extends InputRepositories {
  readonly executions: ExecutionRepository;
  readonly triggers: ExecutionTriggerRepository;
  readonly executionViews: ExecutionViewRepository;
  readonly events: ExecutionEventRepository;
  readonly scopedExecutions: ExecutionScopeRepository;
  readonly devices: DeviceRepository;
  readonly revisions: InputRevisionRepository;
}

const MAX_ATTEMPTS = 3;
/**
 * The maximum number of executions per device that wait for a response or an effect. Every uplink is compared with each
 * of them.
 */
const MAX_VERIFYING_EXECUTIONS = 200;

/** The result of the check before the encoder runs: reasons not to run it. */
interface Precheck {
  /** The execution of an earlier request with the same trigger id. */
  readonly earlierExecutionId?: string | undefined;
  /** An identical execution is in flight. */
  readonly isDuplicate: boolean;
  /** The device has too many open executions. */
  readonly isQueueFull: boolean;
}
const NOT_CHECKED: Precheck = { isDuplicate: false, isQueueFull: false };

/** Submits, cancels and reads executions. */
export class ExecutionService {
  private readonly work: UnitOfWork<Repositories>;

  constructor(
    private readonly options: {
      readonly database: Database;
      readonly executionStore: ExecutionStore;
      readonly encoder: Encoder;
      readonly clock: Clock;
      readonly cursors: Cursors;
    },
  ) {
    this.work = new UnitOfWork(options.database, (db) => ({
      executions: new ExecutionRepository(db),
      triggers: new ExecutionTriggerRepository(db),
      executionViews: new ExecutionViewRepository(db),
      events: new ExecutionEventRepository(db),
      scopedExecutions: new ExecutionScopeRepository(db),
      devices: new DeviceRepository(db),
      revisions: new InputRevisionRepository(db),
      commands: new CommandRepository(db),
      connections: new ConnectionRepository(db),
      templates: new SensorTemplateRepository(db),
    }));
  }

  /**
   * Enqueues a command for its device. A request that is not accepted is stored as request_rejected and is not an
   * error. Throws `device_not_found`, `command_not_found`, `trigger_id_reused`, `version_conflict` if device or command
   * keep changing, and the errors of encodeContent. If `signal` aborts, the wait for an encoder is cancelled with the
   * reason of the signal. `keyScope`: the devices that a restricted key may access; a device outside it counts as
   * missing.
   */
  async execute(
    organizationId: string,
    request: SubmitRequest,
    signal?: AbortSignal,
    keyScope?: DeviceScope,
  ): Promise<ExecuteOutcome> {
    const { repos } = this.work;
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      // A device that the key may access now is accessible at submission too: a new binding would change its revisions.
      const device = await repos.devices.get(organizationId, request.deviceId, keyScope);
      const inputs = await loadExecutionInputs(repos, organizationId, device, request.commandId);
      // Outside the transaction: patterns, templates and encoders of a user may be slow, and all writers would wait.
      const draft = prepareExecution(inputs, request, this.options.clock.now());
      const precheck = await precheckSubmission(repos, inputs, draft);
      if (precheck.earlierExecutionId)
        return { execution: await repos.executions.get(organizationId, precheck.earlierExecutionId), duplicate: true };
      const needsNoEncoder = precheck.isDuplicate || precheck.isQueueFull;
      const submission = needsNoEncoder ? draft : await encodeSubmission(this.options.encoder, draft, signal);
      const outcome = await this.submit(organizationId, inputs, submission, precheck);
      if (outcome) return outcome;
    }
    throw new DomainError(
      'version_conflict',
      'version_conflict',
      'the device, its command or its connection kept changing while the request was checked; execute again',
    );
  }

  /**
   * Stores the submission in one transaction, unless it repeats an earlier request or an execution in flight. Returns
   * undefined if the inputs of the submission or the precheck changed concurrently; then the caller starts again.
   */
  private async submit(
    organizationId: string,
    inputs: ExecutionInputs,
    prepared: Submission,
    precheck: Precheck,
  ): Promise<ExecuteOutcome | undefined> {
    return await this.work.transaction(async (repos, db) => {
      // Locked, so that two requests for one device cannot both get the last place, and the device cannot be deleted
      // concurrently.
      await repos.devices.lockRow(organizationId, inputs.device.id);
      const revisions = await repos.revisions.findRevisions(
        organizationId,
        inputs.device.id,
        inputs.command.id,
        inputs.queryCommand?.id,
      );
      if (!isDeepStrictEqual(revisions, getRevisions(inputs))) return undefined;
      const submission = restartDeadlines(prepared, this.options.clock.now());
      const earlierExecutionId = await findExecutionIdByTrigger(repos.triggers, submission);
      if (earlierExecutionId)
        return { execution: await repos.executions.get(organizationId, earlierExecutionId), duplicate: true };
      // Executions of the device that are not final and that no later request contradicts.
      const candidates = await repos.executions.listDuplicateCandidates(organizationId, inputs.device.id);
      const duplicate = findDuplicate(candidates, submission);
      if (precheck.isDuplicate && !duplicate) return undefined; // the request was not encoded, so it cannot be stored
      await storeTrigger(repos.triggers, submission, duplicate?.id ?? submission.execution.id);
      if (duplicate) return { execution: await repos.executions.get(organizationId, duplicate.id), duplicate: true };
      const reason = precheck.isQueueFull ? 'device_queue_full' : await getRejectionReason(repos, inputs, submission);
      return { execution: await this.create(db, submission, candidates, reason), duplicate: false };
    });
  }

  /**
   * Cancels an execution that has not left the server; one that is already cancelled stays unchanged. `keyScope`: what
   * a restricted key may access; an execution outside it counts as missing. Throws `execution_not_found`,
   * `not_cancellable`.
   */
  async cancel(organizationId: string, id: string, keyScope?: ResourceScope): Promise<ShownExecution> {
    for (let isDone = false; !isDone;) {
      // False if another transaction changed the execution concurrently; then it is read again.
      isDone = await this.work.transaction(async (repos, db) => {
        const execution = await repos.executions.get(organizationId, id);
        if (keyScope) await lockAndAssertInScope(repos, execution, keyScope);
        if (wasCancelled(execution)) return true;
        const change = this.options.executionStore.plan(execution, { kind: 'cancelled' }, { source: 'api' });
        if (!change) throw notCancellable(execution);
        return (await this.options.executionStore.save(db, organizationId, [change])).length > 0;
      });
    }
    return await this.work.repos.executionViews.get(organizationId, id);
  }

  /** Returns an execution with its event log. Throws `execution_not_found`. */
  async get(
    organizationId: string,
    id: string,
  ): Promise<{ execution: ShownExecution; events: readonly ExecutionLogEntry[] }> {
    const { executionViews, events } = this.work.repos;
    const execution = await executionViews.get(organizationId, id);
    return { execution, events: await events.listOfExecution(organizationId, id) };
  }

  /**
   * Lists the executions of one device, most recently updated first; for a restricted key only those whose
   * commands it may access. Throws `device_not_found`, and `validation_failed` for a cursor of another list.
   */
  async list(
    organizationId: string,
    deviceId: string,
    query: { readonly limit?: number | undefined; readonly before: string },
    keyScope?: ResourceScope,
  ): Promise<ExecutionPage> {
    const listKey = [organizationId, 'executions', deviceId];
    // The API calls the token `before`: the page contains executions that were updated before its position.
    const after = this.options.cursors.decode<UpdatedPosition>(listKey, query.before, 'before');
    const { executionViews, scopedExecutions, devices } = this.work.repos;
    await devices.get(organizationId, deviceId);
    const listQuery = { organizationId, deviceId, size: getPageSize(query.limit), after };
    const page = keyScope?.commands
      ? await scopedExecutions.list(listQuery, keyScope.commands)
      : await executionViews.list(listQuery);
    return { executions: page.items, nextCursor: page.next && this.options.cursors.encode(listKey, page.next) };
  }

  /**
   * Returns the first of these ids whose execution does not exist or is not accessible to a restricted key; undefined
   * if all are accessible.
   */
  async findInaccessibleId(
    organizationId: string,
    keyScope: ResourceScope,
    ids: readonly string[],
  ): Promise<string | undefined> {
    for (const id of ids) {
      if (!(await this.work.repos.scopedExecutions.isInScope(organizationId, keyScope, id))) return id;
    }
    return undefined;
  }

  /** Stores a request that is not a duplicate. `reason`: why the request is rejected; undefined if it is accepted. */
  private async create(
    db: Db,
    submission: Submission,
    candidates: readonly DuplicateCandidate[],
    reason: RejectionReason | undefined,
  ): Promise<Execution> {
    const { execution, violations } = submission;
    const submitted = reason ? toRejected(execution, reason, violations) : execution;
    const data = { trigger_id: execution.triggerId, ...(reason && { rejection_reason: reason }) };
    // Executions come first and the counter of events second, which is the lock order of all transactions.
    if (!reason) await clearContradictedDedupeKeys(new ExecutionRepository(db), candidates, submitted);
    await this.options.executionStore.create(db, submitted, reason ? undefined : getDedupeKey(execution), {
      source: 'api',
      data,
    });
    return submitted;
  }
}

/**
 * Locks the device until the end of the transaction, so that it is not rebound meanwhile. Throws `execution_not_found`
 * if the key may not access the device or the command: the device may have been rebound since an earlier check.
 */
async function lockAndAssertInScope(
  { devices, scopedExecutions }: Repositories,
  { organizationId, id, deviceId }: Execution,
  keyScope: ResourceScope,
): Promise<void> {
  await devices.lockRow(organizationId, deviceId);
  if (!(await scopedExecutions.isInScope(organizationId, keyScope, id))) throw notFound('execution', id);
}

/**
 * Checks for an earlier response, a duplicate and a full queue before an encoder runs, because running it costs more
 * than these checks. Nothing is checked if no encoder would run.
 */
async function precheckSubmission(
  repos: Repositories,
  inputs: ExecutionInputs,
  draft: SubmissionDraft,
): Promise<Precheck> {
  if (draft.violations.length > 0 || !needsEncoder(draft)) return NOT_CHECKED;
  const earlierExecutionId = await findExecutionIdByTrigger(repos.triggers, draft);
  const { organizationId, deviceId } = draft.execution;
  const candidates = await repos.executions.listDuplicateCandidates(organizationId, deviceId);
  const isDuplicate = findDuplicate(candidates, draft) !== undefined;
  return {
    earlierExecutionId,
    isDuplicate,
    isQueueFull: await hasTooManyOpenExecutions(repos, inputs, draft.execution),
  };
}

/** Returns why the request is not accepted; undefined if it is. */
async function getRejectionReason(
  repos: Repositories,
  inputs: ExecutionInputs,
  { execution, violations }: Submission,
): Promise<RejectionReason | undefined> {
  if (violations.length > 0) return 'validation_failed';
  return (await hasTooManyOpenExecutions(repos, inputs, execution)) ? 'device_queue_full' : undefined;
}

/**
 * Whether the device has as many executions as allowed: undelivered ones (enqueued or in transit, limited by the policy
 * of the connection) or verifying ones (delivered or accepted, which wait for a response or an effect).
 */
async function hasTooManyOpenExecutions(
  { executions }: Repositories,
  { device, connection }: ExecutionInputs,
  { kind }: Execution,
): Promise<boolean> {
  const { undelivered, verifying } = await executions.countOpen(device.organizationId, device.id);
  return undelivered >= getQueueLimit(kind, connection?.policy ?? {}) || verifying >= MAX_VERIFYING_EXECUTIONS;
}

/** Whether a caller cancelled the execution. */
function wasCancelled({ state, detail }: Execution): boolean {
  return state === 'transport_unreachable' && detail === 'cancelled';
}

/** Creates the error for an execution that has left the server or is final. */
function notCancellable({ id, state }: Execution): DomainError {
  const why = isFinal(state) ? 'it is final' : 'it may have reached the device';
  return new DomainError(
    'conflict',
    'not_cancellable',
    `the execution is ${state}: ${why}; only enqueued executions can be cancelled`,
    { metadata: { execution_id: id, state } },
  );
}
