import type { Attachment, Evidence, EvidenceOutcome } from '../../connections';
import type { Database, Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { splitIntoChunks, EvidenceBatcher, type EvidenceSource, type EvidenceReport } from './evidenceBatcher';
import { type Execution, isFinal } from '../execution';
import { type ExecutionEvent, reportsDelivery } from '../machine/executionEvent';
import { UplinkRepository } from '../../devices';
import { ExecutionRepository } from '../store/executionRepository';
import type { Change, EventOrigin, ExecutionStore } from '../changes/executionStore';

const IN_TRANSIT_PAGE_SIZE = 100;
const MAX_ATTEMPTS = 5;
/** The maximum number of unknown executions held by a gateway that are named in the log. */
const MAX_LOGGED_IDS = 10;

interface EvidenceOptions {
  readonly database: Database;
  readonly executionStore: ExecutionStore;
  readonly log: Logger;
  /** Called when the peer still has a command whose execution is already final. */
  readonly onFinalCommandHeld: (connectionId: string, executionId: string) => void;
}

/**
 * Changes executions according to evidence: the reports of the peer (gateway or broker) of their connection about their
 * commands.
 */
export class EvidenceService {
  private readonly batcher = new EvidenceBatcher(async (source, reports) => await this.applyBatch(source, reports));

  constructor(private readonly options: EvidenceOptions) {}

  /** Applies evidence; resolves after the commit. Evidence that arrives too late is also stored. */
  async applyEvidence(
    organizationId: string,
    connectionId: string,
    executionId: string,
    source: string,
    evidence: Evidence,
  ): Promise<EvidenceOutcome> {
    return await this.batcher.add({ organizationId, connectionId, source }, { executionId, evidence });
  }

  /**
   * Applies evidence for the one command that is on its way to a device, whose execution occupies the slot of the
   * device: ConnectorEvents.deviceEvidence.
   */
  async applyDeviceEvidence(
    organizationId: string,
    connectionId: string,
    clientDeviceId: string,
    source: string,
    evidence: Evidence,
  ): Promise<EvidenceOutcome> {
    const executions = new ExecutionRepository(this.options.database.db);
    const executionId = await executions.findSlotOccupant(organizationId, connectionId, clientDeviceId);
    return executionId === undefined
      ? 'unknown'
      : await this.applyEvidence(organizationId, connectionId, executionId, source, evidence);
  }

  /** Applies what the peer reports about commands in transit when it attaches: ConnectorEvents.attached. */
  async attached(attachment: Attachment): Promise<ReadonlyMap<EvidenceReport, EvidenceOutcome>> {
    const outcomes = await this.applyReports(attachment);
    await this.handleMissing(attachment);
    return outcomes;
  }

  /** Applies what the peer reports about the commands that it has. Logs reports about unknown executions. */
  private async applyReports(attachment: Attachment): Promise<Map<EvidenceReport, EvidenceOutcome>> {
    const { log, onFinalCommandHeld } = this.options;
    const { source } = attachment;
    const outcomeByReport = new Map<EvidenceReport, EvidenceOutcome>();
    for (const chunk of splitIntoChunks(attachment.known, ({ executionId }) => executionId)) {
      await this.processTogetherOrSingly(
        chunk,
        async (reports) => {
          const outcomes = await this.applyBatch(attachment, reports);
          for (const [index, report] of reports.entries()) {
            const outcome = outcomes[index] ?? 'unknown';
            outcomeByReport.set(report, outcome);
            const { executionId, evidence } = report;
            const holdsFinalCommand = outcome === 'late' && evidence.kind === 'transport_ok';
            if (holdsFinalCommand) onFinalCommandHeld(attachment.connectionId, executionId);
          }
        },
        ({ executionId }) => executionId,
      );
    }
    const unknownReports = attachment.known.filter((report) => outcomeByReport.get(report) === 'unknown');
    const unknownIds = unknownReports.map(({ executionId }) => executionId);
    if (unknownIds.length > 0)
      log.warn(
        {
          connection_id: attachment.connectionId,
          source,
          count: unknownIds.length,
          execution_ids: unknownIds.slice(0, MAX_LOGGED_IDS),
        },
        'executions.unknown_to_server',
      );
    return outcomeByReport;
  }

  /**
   * Handles executions in transit that the peer did not report, page by page: they were provably not received, or their
   * state is unknown.
   */
  private async handleMissing(attachment: Attachment): Promise<void> {
    const { database, executionStore } = this.options;
    const { organizationId, connectionId } = attachment;
    const reportedIds = new Set([
      ...attachment.known.map(({ executionId }) => executionId),
      ...(attachment.alsoHeld ?? []),
    ]);
    for (
      let page = await this.listInTransit(attachment, '');
      page.length > 0;
      page = await this.listInTransit(attachment, page.at(-1)?.id ?? '')
    ) {
      const missing = page.filter(({ id }) => !reportedIds.has(id));
      const changes = missing.flatMap(
        (execution) =>
          executionStore.plan(execution, getReattachEvent(execution, attachment), { source: attachment.source }) ?? [],
      );
      await this.processTogetherOrSingly(
        changes,
        async (batch) => {
          await database.transaction(async (db) => await executionStore.save(db, organizationId, batch));
        },
        ({ after }) => after.id,
      );
      this.options.log.info(
        { connection_id: connectionId, in_transit: page.length, unknown_to_gateway: missing.length },
        'executions.reconciled',
      );
    }
  }

  /**
   * Processes all items together or, if that fails, one by one: one execution must not prevent a gateway from
   * attaching. An item that fails alone is logged and left to its timers.
   */
  private async processTogetherOrSingly<Item>(
    items: readonly Item[],
    work: (items: readonly Item[]) => Promise<void>,
    getExecutionId: (item: Item) => string,
  ): Promise<void> {
    if (items.length === 0) return;
    try {
      await work(items);
    } catch (error) {
      if (error instanceof DomainError) throw error; // the database is unavailable for all of them
      if (items.length > 1) {
        for (const item of items) await this.processTogetherOrSingly([item], work, getExecutionId);
        return;
      }
      const [failed] = items;
      this.options.log.warn({ execution_id: failed && getExecutionId(failed), error }, 'executions.reconcile_failed');
    }
  }

  /** Reads the next executions in transit of the connection, after the id `after`. */
  private async listInTransit({ organizationId, connectionId }: Attachment, after: string): Promise<Execution[]> {
    return await new ExecutionRepository(this.options.database.db).listInTransit(
      organizationId,
      connectionId,
      after,
      IN_TRANSIT_PAGE_SIZE,
    );
  }

  /**
   * Applies evidence for different executions together; resolves with their outcomes after the commit. Executions that
   * changed concurrently are read again.
   */
  private async applyBatch(source: EvidenceSource, reports: readonly EvidenceReport[]): Promise<EvidenceOutcome[]> {
    const outcomes = new Map<string, EvidenceOutcome>();
    for (let attempt = 1, remaining = reports; remaining.length > 0; attempt++) {
      if (attempt > MAX_ATTEMPTS)
        throw new Error(
          `executions kept changing while evidence for them was stored: ${remaining.map(({ executionId }) => executionId).join(', ')}`,
        );
      const newOutcomes = await this.applyBatchOnce(source, remaining).catch((error: unknown) =>
        this.retryAfterSlotConflict(error, attempt),
      );
      for (const [executionId, outcome] of newOutcomes) outcomes.set(executionId, outcome);
      remaining = remaining.filter(({ executionId }) => !outcomes.has(executionId));
    }
    return reports.map(({ executionId }) => outcomes.get(executionId) ?? 'unknown');
  }

  /**
   * Returns no outcomes, so that all reports are tried again, if another transaction occupied the slot of a device
   * between the read and the write (on PostgreSQL only). Throws all other errors, and the error of the last attempt.
   */
  private retryAfterSlotConflict(error: unknown, attempt: number): Map<string, EvidenceOutcome> {
    if (attempt === MAX_ATTEMPTS || !this.options.database.dialect.isUniqueViolation(error)) throw error;
    return new Map();
  }

  /**
   * Applies evidence once, in one transaction that stores all changes in one batch, because it blocks the
   * organization's other writers. Returns the outcomes by execution id, without executions that changed concurrently.
   */
  private async applyBatchOnce(
    source: EvidenceSource,
    reports: readonly EvidenceReport[],
  ): Promise<Map<string, EvidenceOutcome>> {
    const { database, executionStore } = this.options;
    return await database.transaction(async (db) => {
      const repository = new ExecutionRepository(db);
      const executions = await repository.findAll(
        source.organizationId,
        reports.map(({ executionId }) => executionId),
      );
      const outcomes = new Map<string, EvidenceOutcome>();
      const plannedChanges: Change[] = [];
      for (const { executionId, evidence } of reports) {
        const execution = executions.get(executionId);
        const knownExecution = execution && isFromDevice(execution, source, evidence) ? execution : undefined;
        outcomes.set(executionId, getOutcome(knownExecution));
        const change =
          knownExecution &&
          this.planChange(knownExecution, source.source, await rejectAckOfEmptyFrame(db, knownExecution, evidence));
        if (change) plannedChanges.push(change);
      }
      const changes = await leaveTakenSlots(repository, plannedChanges);
      const stored = new Set(await executionStore.save(db, source.organizationId, changes));
      for (const change of changes) if (!stored.has(change)) outcomes.delete(change.after.id); // tried again
      return outcomes;
    });
  }

  /**
   * Plans the change by evidence, or the log entry for evidence that came after the final state. Undefined if the
   * evidence only repeats what is known, such as the acknowledgement of the transport after that of the device.
   */
  private planChange(execution: Execution, source: string, evidence: Evidence): Change | undefined {
    const { executionStore } = this.options;
    const { event, origin } = toExecutionEvent(evidence, source);
    return (
      executionStore.plan(execution, event, origin) ??
      (isFinal(execution.state) ? executionStore.planLate(execution, event, origin) : undefined)
    );
  }
}

/**
 * Returns the same changes, except that a change does not take the slot of its device (which one execution at a time
 * may occupy) if another execution has it. This happens when a late report removes an execution from the queue (T15 of
 * the state machine): nothing more is sent for it, so it does not need the slot.
 */
async function leaveTakenSlots(executions: ExecutionRepository, changes: readonly Change[]): Promise<Change[]> {
  const takenDeviceIds = new Set<string>();
  const adjusted: Change[] = [];
  for (const change of changes) {
    const { before, after } = change;
    const { organizationId, physicalDeviceId = '' } = after;
    const takesSlot = after.holdsSlot && !before.holdsSlot;
    const isTaken =
      takesSlot &&
      (takenDeviceIds.has(physicalDeviceId) || (await executions.isSlotOccupied(organizationId, physicalDeviceId)));
    if (takesSlot) takenDeviceIds.add(physicalDeviceId);
    adjusted.push(isTaken ? { ...change, after: { ...after, holdsSlot: false } } : change);
  }
  return adjusted;
}

/**
 * Converts an acknowledgement to `no_answer` if the acknowledged frame may have been empty. That is possible if
 * ChirpStack had to encode the payload: without a codec for the device, it sends an empty frame without notice. It has
 * a codec if it decodes the uplinks of the device.
 */
async function rejectAckOfEmptyFrame(
  db: Db,
  { organizationId, physicalDeviceId, policy }: Execution,
  evidence: Evidence,
): Promise<Evidence> {
  if (evidence.kind !== 'ack' || policy.isEncodedByNetwork !== true) return evidence;
  const isDecodedByNetwork = async (): Promise<boolean> =>
    physicalDeviceId !== undefined && (await new UplinkRepository(db).networkDecodes(organizationId, physicalDeviceId));
  if (evidence.networkDecodes ?? (await isDecodedByNetwork())) return evidence;
  const message =
    'the device acknowledged a frame that may have been empty: ChirpStack did not decode the last payload of this device, so it may have no codec for it';
  return { ...evidence, kind: 'no_answer', code: 'content_unproven', message };
}

/** Whether evidence comes from the connection and the device of an execution. */
function isFromDevice(execution: Execution, { connectionId }: EvidenceSource, { clientDeviceId }: Evidence): boolean {
  return (
    execution.connectionId === connectionId &&
    (clientDeviceId === undefined || execution.clientDeviceId === clientDeviceId)
  );
}

function getOutcome(execution: Execution | undefined): EvidenceOutcome {
  if (!execution) return 'unknown';
  return isFinal(execution.state) ? 'late' : 'applied';
}

/** Converts evidence to an event of the state machine, and to the data that is logged with it. */
function toExecutionEvent(evidence: Evidence, source: string): { event: ExecutionEvent; origin: EventOrigin } {
  const {
    time,
    clock,
    receivedAt,
    fCnt,
    devAddr,
    clientDeviceId: _clientDeviceId,
    networkDecodes: _networkDecodes,
    ...fields
  } = evidence;
  const event: ExecutionEvent = reportsDelivery(fields)
    ? { ...fields, peerTime: time, peerClock: clock, reportReceivedAt: receivedAt, fCnt, devAddr }
    : fields;
  return {
    event,
    origin: { source, ...(time !== undefined && { data: { reported_at: new Date(time).toISOString() } }) },
  };
}

/**
 * Returns the event for an execution in transit that the peer does not report when it attaches. Only a gateway reports
 * the commands that it has. If the same gateway still has its memory, the command was not delivered; else that is
 * unknown.
 */
function getReattachEvent(execution: Execution, attachment: Attachment): ExecutionEvent {
  if (execution.kind !== 'gateway') return { kind: 'link_lost' };
  const hasSameMemory = attachment.durable || execution.sentBoot === attachment.bootId;
  return execution.sentTo === attachment.peerId && hasSameMemory
    ? { kind: 'known_undelivered' }
    : { kind: 'link_lost' };
}
