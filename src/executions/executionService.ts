import { type Command, CommandRepository, type Encoder } from '../commands';
import { type Connection, ConnectionRepository, effectivePolicy } from '../connections';
import { type Database, type Db, UnitOfWork } from '../database';
import { type Device, DeviceRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { DomainError, type Violation } from '../kernel/errors';
import { type Cursors, pageSize } from '../kernel/pages';
import { SensorTemplateRepository } from '../sensorTemplates';
import { type Execution, type ExecutionLogEntry, isFinal, type ListedExecution, type RejectionReason, type ShownExecution } from './execution';
import { ExecutionEventRepository } from './executionEventRepository';
import { ExecutionRepository } from './executionRepository';
import { ExecutionViewRepository, type UpdatedPosition } from './executionViewRepository';
import type { Ledger } from './ledger';
import { type Submission, type SubmitFacts, type SubmitRequest, dedupeKeyOf, prepareExecution, rejected } from './submission';

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

interface Repositories {
  readonly executions: ExecutionRepository;
  readonly views: ExecutionViewRepository;
  readonly events: ExecutionEventRepository;
  readonly devices: DeviceRepository;
  readonly commands: CommandRepository;
  readonly connections: ConnectionRepository;
  readonly templates: SensorTemplateRepository;
}

const TRIES = 3;
const TRIGGER_REMEMBERED_MS = 7 * 24 * 3_600_000;

/** Admits executions and shows them. */
export class ExecutionService {
  private readonly work: UnitOfWork<Repositories>;

  constructor(private readonly options: { readonly database: Database; readonly ledger: Ledger; readonly encoder: Encoder; readonly clock: Clock; readonly cursors: Cursors }) {
    this.work = new UnitOfWork(options.database, (db) => ({
      executions: new ExecutionRepository(db),
      views: new ExecutionViewRepository(db),
      events: new ExecutionEventRepository(db),
      devices: new DeviceRepository(db),
      commands: new CommandRepository(db),
      connections: new ConnectionRepository(db),
      templates: new SensorTemplateRepository(db),
    }));
  }

  /**
   * Puts a command into its device's queue. What is not admitted is kept as request_rejected, and is no error.
   * Throws `device_not_found`, `command_not_found`, `trigger_id_reused`, and `changed_meanwhile` if device or command do not stand still.
   */
  async execute(organizationId: string, request: SubmitRequest): Promise<ExecuteOutcome> {
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      const device = await this.work.repos.devices.get(organizationId, request.deviceId);
      const facts = await factsOf(this.work.repos, organizationId, device, request.commandId);
      // Outside the transaction: patterns and templates of a user may take their time, and all writers would wait for them.
      const submission = prepareExecution(facts, request, this.options.clock.now());
      const outcome = await this.submit(organizationId, facts, submission);
      if (outcome) return outcome;
    }
    throw new DomainError('changed_meanwhile', 'changed_meanwhile', 'the device, its command or its connection kept changing while the request was checked; execute again');
  }

  /** Undefined: what the submission rests on has changed meanwhile. */
  private async submit(organizationId: string, facts: SubmitFacts, { execution, violations }: Submission): Promise<ExecuteOutcome | undefined> {
    return await this.work.transaction(async (repos, db) => {
      // Locked: two requests for one device cannot both take the last place, nor the device go away meanwhile.
      const device = await repos.devices.lock(organizationId, facts.device.id);
      if (revisionsOf(await factsOf(repos, organizationId, device, facts.command.id)) !== revisionsOf(facts)) return undefined;
      const earlier = (await this.byTrigger(repos, execution)) ?? (violations.length === 0 ? await repos.executions.findDuplicate(organizationId, device.id, dedupeKeyOf(execution)) : undefined);
      if (earlier) return { execution: earlier, duplicate: true };
      const reason = await reasonAgainst(repos, facts, violations);
      const submitted = reason ? rejected(execution, reason, violations) : execution;
      await this.create(db, submitted, reason);
      return { execution: submitted, duplicate: false };
    });
  }

  /** Takes back what has not left the server; what was taken back before stays as it is. Throws `execution_not_found`, `not_enqueued`. */
  async cancel(organizationId: string, id: string): Promise<ShownExecution> {
    for (let taken = false; !taken; ) {
      // False: somebody else changed it meanwhile, so it is looked at again.
      taken = await this.work.transaction(async ({ executions }, db) => {
        const execution = await executions.get(organizationId, id);
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

  /** Of one device, most recently updated first. Throws `device_not_found`, and `validation_failed` for a cursor that this list did not give out. */
  async list(organizationId: string, deviceId: string, query: { readonly limit?: number | undefined; readonly before: string }): Promise<ExecutionPage> {
    const name = [organizationId, 'executions', deviceId];
    const after = this.options.cursors.decode<UpdatedPosition>(name, query.before, 'before');
    const { views, devices } = this.work.repos;
    await devices.get(organizationId, deviceId);
    const page = await views.list(organizationId, deviceId, pageSize(query.limit), after);
    return { executions: page.items, nextCursor: page.next && this.options.cursors.encode(name, page.next) };
  }

  /** The execution that the caller's trigger id made, if it still counts. Throws `trigger_id_reused`. */
  private async byTrigger({ executions }: Repositories, wanted: Execution): Promise<Execution | undefined> {
    const { organizationId, deviceId, commandId, triggerKey } = wanted;
    if (triggerKey === undefined || commandId === undefined) return undefined;
    const earlier = await executions.findByTrigger(organizationId, deviceId, commandId, triggerKey);
    if (!earlier) return undefined;
    if (earlier.enqueuedAt + TRIGGER_REMEMBERED_MS <= wanted.enqueuedAt) {
      await executions.forgetTrigger(organizationId, earlier.id);
      return undefined;
    }
    if (earlier.triggerHash !== wanted.triggerHash) throw triggerIdReused(triggerKey, earlier.id);
    return earlier;
  }

  private async create(db: Db, execution: Execution, reason: RejectionReason | undefined): Promise<void> {
    const data = { trigger_id: execution.triggerId, ...(reason && { rejection_reason: reason }) };
    await this.options.ledger.create(db, execution, reason ? undefined : dedupeKeyOf(execution), { source: 'api', data });
  }
}

/** All that a request is about. Throws `command_not_found`. */
async function factsOf(repos: Repositories, organizationId: string, device: Device, commandId: string): Promise<SubmitFacts> {
  const command: Command = await repos.commands.get(organizationId, device.id, commandId);
  const connection: Connection | undefined = device.physicalDevice && (await repos.connections.find(organizationId, device.physicalDevice.connectionId));
  const wanted = new Set(command.expectedSensorStates.map((state) => state.sensorId));
  const templateIds = device.sensors.filter((sensor) => wanted.has(sensor.id)).map((sensor) => sensor.sensorTemplateId);
  const templates = templateIds.length > 0 ? await repos.templates.findTemplates(organizationId, templateIds) : [];
  return { device, command, connection, templates };
}

/** What tells whether facts are still the same; a template that is in use keeps its value type. */
function revisionsOf({ device, command, connection }: SubmitFacts): string {
  return JSON.stringify([device.revision, device.physicalDevice?.id, command.revision, connection?.id, connection?.revision]);
}

async function reasonAgainst({ executions }: Repositories, { device, connection }: SubmitFacts, violations: readonly Violation[]): Promise<RejectionReason | undefined> {
  if (violations.length > 0) return 'validation_failed';
  const { queueLimit } = effectivePolicy(connection?.policy ?? {});
  return (await executions.countUndelivered(device.organizationId, device.id)) >= queueLimit ? 'device_queue_full' : undefined;
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
