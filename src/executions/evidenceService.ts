import type { Attachment, Evidence, EvidenceOutcome } from '../connections';
import type { Database, Db } from '../database';
import type { Logger } from '../kernel/logger';
import { type Execution, isFinal } from './execution';
import type { ExecutionEvent } from './executionEvent';
import { ExecutionRepository } from './executionRepository';
import type { EventOrigin, Ledger } from './ledger';

const CHUNK = 100;
const TRIES = 5;

interface EvidenceOptions {
  readonly database: Database;
  readonly ledger: Ledger;
  readonly log: Logger;
  /** The other side holds a command that has ended here. */
  readonly onHeldInVain: (connectionId: string, executionId: string) => void;
}

/** Settles executions by what the other side of their connection reports. */
export class EvidenceService {
  constructor(private readonly options: EvidenceOptions) {}

  /** Applies evidence; resolves when it is on disk. Also evidence that comes too late is kept. */
  async evidence(organizationId: string, connectionId: string, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    return await this.options.database.transaction(async (db) => await this.settle(db, { organizationId, connectionId }, executionId, source, evidence));
  }

  /** Settles what was on its way when the other side was last seen. */
  async attached(attachment: Attachment): Promise<void> {
    await this.applyKnown(attachment);
    await this.applyUnknown(attachment);
  }

  private async applyKnown(attachment: Attachment): Promise<void> {
    const { database, log, onHeldInVain } = this.options;
    const source = `gateway:${attachment.peerId}`;
    for (let start = 0; start < attachment.known.length; start += CHUNK) {
      const chunk = attachment.known.slice(start, start + CHUNK);
      const outcomes = await database.transaction(async (db) => {
        const settled: EvidenceOutcome[] = [];
        for (const { executionId, evidence } of chunk) settled.push(await this.settle(db, attachment, executionId, source, evidence));
        return settled;
      });
      for (const [at, { executionId, evidence }] of chunk.entries()) {
        if (outcomes[at] === 'unknown') log.warn({ execution_id: executionId, connection_id: attachment.connectionId, source, evidence: evidence.kind }, 'executions.known_unknown');
        if (outcomes[at] === 'late' && evidence.kind === 'transport_ok') onHeldInVain(attachment.connectionId, executionId);
      }
    }
  }

  /** What is in transit and not held by the other side: proven not received, or nobody knows. */
  private async applyUnknown(attachment: Attachment): Promise<void> {
    const { database, ledger } = this.options;
    const { organizationId, connectionId } = attachment;
    const known = new Set(attachment.known.map(({ executionId }) => executionId));
    for (let page = await this.inTransit(attachment, ''); page.length > 0; page = await this.inTransit(attachment, page.at(-1)?.id ?? '')) {
      const missing = page.filter(({ id }) => !known.has(id));
      const changes = missing.flatMap((execution) => ledger.plan(execution, fateOf(execution, attachment), { source: `gateway:${attachment.peerId}` }) ?? []);
      if (changes.length > 0) await database.transaction(async (db) => await ledger.store(db, organizationId, changes));
      this.options.log.info({ connection_id: connectionId, in_transit: page.length, unknown_to_gateway: missing.length }, 'executions.reconciled');
    }
  }

  private async inTransit({ organizationId, connectionId }: Attachment, after: string): Promise<Execution[]> {
    return await new ExecutionRepository(this.options.database.db).inTransit(organizationId, connectionId, after, CHUNK);
  }

  private async settle(db: Db, at: { organizationId: string; connectionId: string }, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    const { ledger } = this.options;
    const { event, origin } = happened(evidence, source);
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      const execution = await new ExecutionRepository(db).find(at.organizationId, executionId);
      if (!execution || execution.connectionId !== at.connectionId) return 'unknown';
      const change = ledger.plan(execution, event, origin) ?? (isFinal(execution.state) ? ledger.planLate(execution, event, origin) : undefined);
      // What changes nothing says what is known already: the acknowledgement of the transport after that of the device.
      const stored = change ? (await ledger.store(db, at.organizationId, [change])).length > 0 : true;
      if (stored) return isFinal(execution.state) ? 'late' : 'applied';
    }
    throw new Error(`execution ${executionId} kept changing while evidence for it was stored`);
  }
}

function happened(evidence: Evidence, source: string): { event: ExecutionEvent; origin: EventOrigin } {
  const { time, ...event } = evidence;
  return { event, origin: { source, ...(time !== undefined && { data: { reported_at: new Date(time).toISOString() } }) } };
}

function fateOf(execution: Execution, attachment: Attachment): ExecutionEvent {
  const sameStore = attachment.durable || execution.sentBoot === attachment.bootId;
  return execution.sentTo === attachment.peerId && sameStore ? { kind: 'known_undelivered' } : { kind: 'link_lost' };
}
