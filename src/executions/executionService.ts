import { isDeepStrictEqual } from 'node:util';
import { CommandRepository, type Encoder } from '../commands';
import { ConnectionRepository } from '../connections';
import { type Database, type Db, UnitOfWork } from '../database';
import { DeviceRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { DomainError, notFound } from '../kernel/errors';
import { type Cursors, pageSize } from '../kernel/pages';
import type { DeviceReach, Reach } from '../kernel/reach';
import { SensorTemplateRepository } from '../sensorTemplates';
import { type Execution, type ExecutionLogEntry, isFinal, type ListedExecution, type RejectionReason, type ShownExecution } from './execution';
import { ExecutionEventRepository } from './store/executionEventRepository';
import { ExecutionReachRepository } from './store/executionReachRepository';
import { ExecutionRepository } from './store/executionRepository';
import { ExecutionViewRepository, type UpdatedPosition } from './store/executionViewRepository';
import { FactRepository } from './submit/factRepository';
import type { Ledger } from './ledger/ledger';
import { dedupeKeyOf, encodeSubmission, prepareExecution, rejected, restamped, runsEncoder, type Submission, type SubmitRequest } from './submit/submission';
import { type FactRepositories, readFacts, revisionsOf, type SubmitFacts } from './submit/submitFacts';
import { queueLimit } from './submit/submitTimes';

/** What became of a request to execute. */
export interface ExecuteOutcome {
  readonly execution: Execution;
  /** It was there before the request. */
  readonly duplicate: boolean;
}

/** One page of executions; `nextCursor` is undefined on the last. */
export interface ExecutionPage {
  readonly executions: readonly ListedExecution[];
  readonly nextCursor: string | undefined;
}

interface Repositories extends FactRepositories {
  readonly executions: ExecutionRepository;
  readonly views: ExecutionViewRepository;
  readonly events: ExecutionEventRepository;
  readonly reached: ExecutionReachRepository;
  readonly devices: DeviceRepository;
  readonly facts: FactRepository;
}

const TRIES = 3;
/** So many executions of a device may wait for its answer or its effect: every uplink is held against each of them. */
const MOST_VERIFYING = 200;
const TRIGGER_REMEMBERED_MS = 7 * 24 * 3_600_000;

/** Admits executions and shows them. */
export class ExecutionService {
  private readonly work: UnitOfWork<Repositories>;

  constructor(private readonly options: { readonly database: Database; readonly ledger: Ledger; readonly encoder: Encoder; readonly clock: Clock; readonly cursors: Cursors }) {
    this.work = new UnitOfWork(options.database, (db) => ({
      executions: new ExecutionRepository(db),
      views: new ExecutionViewRepository(db),
      events: new ExecutionEventRepository(db),
      reached: new ExecutionReachRepository(db),
      devices: new DeviceRepository(db),
      facts: new FactRepository(db),
      commands: new CommandRepository(db),
      connections: new ConnectionRepository(db),
      templates: new SensorTemplateRepository(db),
    }));
  }

  /**
   * Puts a command into its device's queue. What is not admitted is kept as request_rejected, and is no error. Throws `device_not_found`,
   * `command_not_found`, `trigger_id_reused`, `changed_meanwhile` if device or command do not stand still, and what encodeContent throws. `signal` of
   * the call: what waits for an encoder is given up when it aborts, with its reason. `reach` of a limited key: the device has to lie inside.
   */
  async execute(organizationId: string, request: SubmitRequest, signal?: AbortSignal, reach?: DeviceReach): Promise<ExecuteOutcome> {
    const { repos } = this.work;
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      // Inside now is inside when it is submitted: a device that is bound anew has other revisions.
      const device = await repos.devices.get(organizationId, request.deviceId, reach);
      const facts = await readFacts(repos, organizationId, device, request.commandId);
      // Outside the transaction: patterns, templates and encoders of a user may take their time, and all writers would wait for them.
      const draft = prepareExecution(facts, request, this.options.clock.now());
      // An encoder costs more than to look first whether the request is answered already, or there is no place for it.
      const looksFirst = draft.violations.length === 0 && runsEncoder(draft);
      const earlier = looksFirst ? await answered(repos, draft, async () => {}) : undefined;
      if (earlier) return { execution: earlier, duplicate: true };
      const isFull = looksFirst && (await isQueueFull(repos, facts, draft.execution));
      const outcome = await this.submit(organizationId, facts, isFull ? draft : await encodeSubmission(this.options.encoder, draft, signal), isFull);
      if (outcome) return outcome;
    }
    throw new DomainError('changed_meanwhile', 'changed_meanwhile', 'the device, its command or its connection kept changing while the request was checked; execute again');
  }

  /** `isFull`: there was no place for it, so it was not encoded. Undefined: what the submission rests on has changed meanwhile. */
  private async submit(organizationId: string, facts: SubmitFacts, made: Submission, isFull: boolean): Promise<ExecuteOutcome | undefined> {
    return await this.work.transaction(async (repos, db) => {
      // Locked: two requests for one device cannot both take the last place, nor the device go away meanwhile.
      await repos.devices.hold(organizationId, facts.device.id);
      const revisions = await repos.facts.findRevisions(organizationId, facts.device.id, facts.command.id, facts.query?.id);
      if (!isDeepStrictEqual(revisions, revisionsOf(facts))) return undefined;
      const submission = restamped(made, this.options.clock.now());
      const { execution, violations } = submission;
      const earlier = await answered(repos, submission, async (id) => await repos.executions.forgetTrigger(organizationId, id));
      if (earlier) return { execution: earlier, duplicate: true };
      const reason = isFull ? 'device_queue_full' : await reasonAgainst(repos, facts, submission);
      const submitted = reason ? rejected(execution, reason, violations) : execution;
      await this.create(db, submitted, reason);
      return { execution: submitted, duplicate: false };
    });
  }

  /** Takes back what has not left the server; what was taken back before stays as it is. `reach` of a limited key: it has to lie inside. Throws `execution_not_found`, `not_enqueued`. */
  async cancel(organizationId: string, id: string, reach?: Reach): Promise<ShownExecution> {
    for (let taken = false; !taken; ) {
      // False: somebody else changed it meanwhile, so it is looked at again.
      taken = await this.work.transaction(async (repos, db) => {
        const execution = await repos.executions.get(organizationId, id);
        if (reach) await requireInside(repos, execution, reach);
        if (wasCancelled(execution)) return true;
        const change = this.options.ledger.plan(execution, { kind: 'cancelled' }, { source: 'api' });
        if (!change) throw notEnqueued(execution);
        return (await this.options.ledger.store(db, organizationId, [change])).length > 0;
      });
    }
    return await this.work.repos.views.get(organizationId, id);
  }

  /** With its event log. Throws `execution_not_found`. */
  async get(organizationId: string, id: string): Promise<{ execution: ShownExecution; events: readonly ExecutionLogEntry[] }> {
    const { views, events } = this.work.repos;
    const execution = await views.get(organizationId, id);
    return { execution, events: await events.ofExecution(organizationId, id) };
  }

  /** Of one device, most recently updated first; of a limited key only those whose command it reaches. Throws `device_not_found`, and `validation_failed` for a cursor that this list did not give out. */
  async list(organizationId: string, deviceId: string, query: { readonly limit?: number | undefined; readonly before: string }, reach?: Reach): Promise<ExecutionPage> {
    const name = [organizationId, 'executions', deviceId];
    const after = this.options.cursors.decode<UpdatedPosition>(name, query.before, 'before');
    const { views, reached, devices } = this.work.repos;
    await devices.get(organizationId, deviceId);
    const list = { organizationId, deviceId, size: pageSize(query.limit), after };
    const page = reach?.commands ? await reached.list(list, reach.commands) : await views.list(list);
    return { executions: page.items, nextCursor: page.next && this.options.cursors.encode(name, page.next) };
  }

  /** The first of these executions that is not there, or lies outside the reach of a limited key; undefined: none. */
  async executionsOutside(organizationId: string, reach: Reach, ids: readonly string[]): Promise<string | undefined> {
    for (const id of ids) if (!(await this.work.repos.reached.isInside(organizationId, reach, id))) return id;
    return undefined;
  }

  private async create(db: Db, execution: Execution, reason: RejectionReason | undefined): Promise<void> {
    const data = { trigger_id: execution.triggerId, ...(reason && { rejection_reason: reason }) };
    await this.options.ledger.create(db, execution, reason ? undefined : dedupeKeyOf(execution), { source: 'api', data });
  }
}

/** Its device stays where it is until the end of the transaction. Throws `execution_not_found` where that, or its command, is outside: it may have moved since the gate looked. */
async function requireInside({ devices, reached }: Repositories, { organizationId, id, deviceId }: Execution, reach: Reach): Promise<void> {
  await devices.hold(organizationId, deviceId);
  if (!(await reached.isInside(organizationId, reach, id))) throw notFound('execution', id);
}

/** Told of the execution whose trigger id counts no longer. */
type OnExpired = (executionId: string) => Promise<void>;

/** The earlier execution that answers a request: by the caller's trigger id, else one in flight that does the same. Throws `trigger_id_reused`. */
async function answered({ executions }: Repositories, { execution, violations }: Submission, onExpired: OnExpired): Promise<Execution | undefined> {
  const { organizationId, deviceId } = execution;
  return (await byTrigger(executions, execution, onExpired)) ?? (violations.length === 0 ? await executions.findDuplicate(organizationId, deviceId, dedupeKeyOf(execution)) : undefined);
}

/** The execution that the caller's trigger id made, if it still counts. Throws `trigger_id_reused`. */
async function byTrigger(executions: ExecutionRepository, wanted: Execution, onExpired: OnExpired): Promise<Execution | undefined> {
  const { organizationId, deviceId, commandId, triggerKey } = wanted;
  if (triggerKey === undefined || commandId === undefined) return undefined;
  const earlier = await executions.findByTrigger(organizationId, deviceId, commandId, triggerKey);
  if (!earlier) return undefined;
  if (earlier.enqueuedAt + TRIGGER_REMEMBERED_MS <= wanted.enqueuedAt) {
    await onExpired(earlier.id);
    return undefined;
  }
  if (earlier.triggerHash !== wanted.triggerHash) throw triggerIdReused(triggerKey, earlier.id);
  return earlier;
}

async function reasonAgainst(repos: Repositories, facts: SubmitFacts, { execution, violations }: Submission): Promise<RejectionReason | undefined> {
  if (violations.length > 0) return 'validation_failed';
  return (await isQueueFull(repos, facts, execution)) ? 'device_queue_full' : undefined;
}

async function isQueueFull({ executions }: Repositories, { device, connection }: SubmitFacts, { kind }: Execution): Promise<boolean> {
  const { undelivered, verifying } = await executions.countOpen(device.organizationId, device.id);
  return undelivered >= queueLimit(kind, connection?.policy ?? {}) || verifying >= MOST_VERIFYING;
}

function wasCancelled({ state, detail }: Execution): boolean {
  return state === 'transport_unreachable' && detail === 'cancelled';
}

function notEnqueued({ id, state }: Execution): DomainError {
  const why = isFinal(state) ? 'it has ended' : 'it may have reached the device';
  return new DomainError('conflict', 'not_enqueued', `the execution is ${state}: ${why}; only one that is still enqueued can be cancelled`, { metadata: { execution_id: id, state } });
}

function triggerIdReused(triggerId: string, executionId: string): DomainError {
  return new DomainError('already_exists', 'trigger_id_reused', `the triggerId ${JSON.stringify(triggerId)} was used for this command with other params within 7 days; give another triggerId, or the same params`, {
    metadata: { trigger_id: triggerId, execution_id: executionId },
  });
}
