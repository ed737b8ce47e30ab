import type { Attachment, Evidence, EvidenceOutcome } from '../../connections';
import type { Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { chunksOf, EvidenceGathering, type EvidencePlace, type FoundEvidence } from './evidenceGathering';
import { type Execution, isFinal } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ExecutionRepository } from '../store/executionRepository';
import type { Change, EventOrigin, Ledger } from '../ledger/ledger';

const CHUNK = 100;
const TRIES = 5;
/** Of executions that a gateway holds and nobody knows, so many are named in the log. */
const NAMED = 10;

interface EvidenceOptions {
  readonly database: Database;
  readonly ledger: Ledger;
  readonly log: Logger;
  /** The other side holds a command that has ended here. */
  readonly onHeldInVain: (connectionId: string, executionId: string) => void;
}

/** Settles executions by what the other side of their connection reports. */
export class EvidenceService {
  private readonly gathering = new EvidenceGathering(async (place, all) => await this.settle(place, all));

  constructor(private readonly options: EvidenceOptions) {}

  /** Applies evidence; resolves when it is on disk. Also evidence that comes too late is kept. */
  async evidence(organizationId: string, connectionId: string, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    return await this.gathering.add({ organizationId, connectionId, source }, { executionId, evidence });
  }

  /** Settles what was on its way when the other side was last seen. */
  async attached(attachment: Attachment): Promise<void> {
    await this.applyKnown(attachment);
    await this.applyUnknown(attachment);
  }

  private async applyKnown(attachment: Attachment): Promise<void> {
    const { log, onHeldInVain } = this.options;
    const { source } = attachment;
    const unknown: string[] = [];
    for (const chunk of chunksOf(attachment.known, ({ executionId }) => executionId)) {
      await this.apart(chunk, async (some) => {
        const outcomes = await this.settle(attachment, some);
        for (const [at, { executionId, evidence }] of some.entries()) {
          if (outcomes[at] === 'unknown') unknown.push(executionId);
          if (outcomes[at] === 'late' && evidence.kind === 'transport_ok') onHeldInVain(attachment.connectionId, executionId);
        }
      }, ({ executionId }) => executionId);
    }
    if (unknown.length > 0) log.warn({ connection_id: attachment.connectionId, source, count: unknown.length, execution_ids: unknown.slice(0, NAMED) }, 'executions.known_unknown');
  }

  /** What is in transit and not held by the other side: proven not received, or nobody knows. */
  private async applyUnknown(attachment: Attachment): Promise<void> {
    const { database, ledger } = this.options;
    const { organizationId, connectionId } = attachment;
    const known = new Set(attachment.known.map(({ executionId }) => executionId));
    for (let page = await this.inTransit(attachment, ''); page.length > 0; page = await this.inTransit(attachment, page.at(-1)?.id ?? '')) {
      const missing = page.filter(({ id }) => !known.has(id));
      const changes = missing.flatMap((execution) => ledger.plan(execution, fateOf(execution, attachment), { source: attachment.source }) ?? []);
      await this.apart(changes, async (some) => {
        await database.transaction(async (db) => await ledger.store(db, organizationId, some));
      }, ({ after }) => after.id);
      this.options.log.info({ connection_id: connectionId, in_transit: page.length, unknown_to_gateway: missing.length }, 'executions.reconciled');
    }
  }

  /** Works on all at once or, if that fails, on each alone: one execution must not keep a gateway out. What fails alone is logged and left to its timers. */
  private async apart<Item>(items: readonly Item[], work: (items: readonly Item[]) => Promise<void>, executionIdOf: (item: Item) => string): Promise<void> {
    if (items.length === 0) return;
    try {
      await work(items);
    } catch (error) {
      if (error instanceof DomainError) throw error; // the database is not there for any of them
      const [first] = items;
      if (items.length > 1) for (const item of items) await this.apart([item], work, executionIdOf);
      else this.options.log.warn({ execution_id: first && executionIdOf(first), error }, 'executions.reconcile_failed');
    }
  }

  private async inTransit({ organizationId, connectionId }: Attachment, after: string): Promise<Execution[]> {
    return await new ExecutionRepository(this.options.database.db).inTransit(organizationId, connectionId, after, CHUNK);
  }

  /** Settles evidence for different executions, together; resolves with their outcomes when it is on disk. What was changed meanwhile is read again. */
  private async settle(at: EvidencePlace, all: readonly FoundEvidence[]): Promise<EvidenceOutcome[]> {
    const outcomes = new Map<string, EvidenceOutcome>();
    for (let attempt = 1, open = all; open.length > 0; attempt++) {
      if (attempt > TRIES) throw new Error(`executions kept changing while evidence for them was stored: ${open.map(({ executionId }) => executionId).join(', ')}`);
      for (const [executionId, outcome] of await this.settleOnce(at, open).catch((error: unknown) => this.slotTaken(error, attempt))) outcomes.set(executionId, outcome);
      open = open.filter(({ executionId }) => !outcomes.has(executionId));
    }
    return all.map(({ executionId }) => outcomes.get(executionId) ?? 'unknown');
  }

  /** On PostgreSQL another transaction may take a slot between the look and the write: then it is looked at again. */
  private slotTaken(error: unknown, attempt: number): Map<string, EvidenceOutcome> {
    if (attempt === TRIES || !this.options.database.dialect.isUniqueViolation(error)) throw error;
    return new Map();
  }

  /** One transaction that stores all changes at once, because the organization's other writers wait from then on. Without what was changed meanwhile. */
  private async settleOnce(at: EvidencePlace, all: readonly FoundEvidence[]): Promise<Map<string, EvidenceOutcome>> {
    const { database, ledger } = this.options;
    return await database.transaction(async (db) => {
      const repository = new ExecutionRepository(db);
      const executions = await repository.findAll(at.organizationId, all.map(({ executionId }) => executionId));
      const outcomes = new Map<string, EvidenceOutcome>();
      const planned: Change[] = [];
      for (const { executionId, evidence } of all) {
        const execution = executions.get(executionId);
        const here = execution && isAbout(execution, at, evidence) ? execution : undefined;
        outcomes.set(executionId, outcomeFor(here));
        const change = here && this.planned(here, at.source, evidence);
        if (change) planned.push(change);
      }
      const changes = await withFreeSlots(repository, planned);
      const stored = new Set(await ledger.store(db, at.organizationId, changes));
      for (const change of changes) if (!stored.has(change)) outcomes.delete(change.after.id);
      return outcomes;
    });
  }

  /** Undefined: nothing changes, because it says what is known already, like the acknowledgement of the transport after that of the device. */
  private planned(execution: Execution, source: string, evidence: Evidence): Change | undefined {
    const { ledger } = this.options;
    const { event, origin } = happened(evidence, source);
    return ledger.plan(execution, event, origin) ?? (isFinal(execution.state) ? ledger.planLate(execution, event, origin) : undefined);
  }
}

/** What T15 takes out of the queue holds the slot only where that is free: nothing is sent for it any more, so it can do without. */
async function withFreeSlots(executions: ExecutionRepository, changes: readonly Change[]): Promise<Change[]> {
  const taken = new Set<string>();
  const fitting: Change[] = [];
  for (const change of changes) {
    const { before, after } = change;
    const { organizationId, physicalDeviceId = '' } = after;
    const takes = after.holdsSlot && !before.holdsSlot;
    const collides = takes && (taken.has(physicalDeviceId) || (await executions.isSlotTaken(organizationId, physicalDeviceId)));
    if (takes) taken.add(physicalDeviceId);
    fitting.push(collides ? { ...change, after: { ...after, holdsSlot: false } } : change);
  }
  return fitting;
}

function isAbout(execution: Execution, { connectionId }: EvidencePlace, { clientDeviceId }: Evidence): boolean {
  return execution.connectionId === connectionId && (clientDeviceId === undefined || execution.clientDeviceId === clientDeviceId);
}

function outcomeFor(execution: Execution | undefined): EvidenceOutcome {
  if (!execution) return 'unknown';
  return isFinal(execution.state) ? 'late' : 'applied';
}

function happened(evidence: Evidence, source: string): { event: ExecutionEvent; origin: EventOrigin } {
  const { time, clock, receivedAt, fCnt, clientDeviceId: _clientDeviceId, ...facts } = evidence;
  const tells = facts.kind === 'transport_ok' || facts.kind === 'ack' || facts.kind === 'no_answer';
  const event: ExecutionEvent = tells ? { ...facts, peerTime: time, peerClock: clock, toldAt: receivedAt, fCnt } : facts;
  return { event, origin: { source, ...(time !== undefined && { data: { reported_at: new Date(time).toISOString() } }) } };
}

/** Only a gateway says what it holds; what a broker has is not told. */
function fateOf(execution: Execution, attachment: Attachment): ExecutionEvent {
  if (execution.kind !== 'gateway') return { kind: 'link_lost' };
  const sameStore = attachment.durable || execution.sentBoot === attachment.bootId;
  return execution.sentTo === attachment.peerId && sameStore ? { kind: 'known_undelivered' } : { kind: 'link_lost' };
}
