import type { EvidenceOutcome, Attachment, KnownExecution } from '../../connections';
import { DomainError } from '../../kernel/errors';
import { EXECUTION_BATCH_SIZE } from '../store/openStatements';

/** Where evidence comes from: the connection and its peer. */
export interface EvidenceSource extends Pick<Attachment, 'organizationId' | 'connectionId'> {
  readonly source: string;
}

/** Evidence for one execution. */
export type EvidenceReport = KnownExecution;

/**
 * Applies evidence for different executions together. Resolves with their outcomes, in the same order, after the
 * commit.
 */
type ApplyEvidence = (source: EvidenceSource, all: readonly EvidenceReport[]) => Promise<EvidenceOutcome[]>;

interface WaitingReport {
  readonly report: EvidenceReport;
  readonly resolve: (outcome: EvidenceOutcome) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Collects the evidence that arrives from one source in one turn of the event loop and applies it in one transaction.
 * Separate transactions would cost five times as much.
 */
export class EvidenceBatcher {
  private readonly waitingBySource = new Map<string, WaitingReport[]>();

  constructor(private readonly apply: ApplyEvidence) {}

  /** Adds a report of a source. Resolves with its outcome after the commit. */
  async add(source: EvidenceSource, report: EvidenceReport): Promise<EvidenceOutcome> {
    return await new Promise((resolve, reject) => {
      const key = JSON.stringify([source.organizationId, source.connectionId, source.source]);
      const waiting = this.waitingBySource.get(key) ?? [];
      waiting.push({ report, resolve, reject });
      if (waiting.length > 1) return; // the first report has scheduled the work
      this.waitingBySource.set(key, waiting);
      setImmediate(() => {
        this.waitingBySource.delete(key);
        void this.applyWaiting(source, waiting);
      });
    });
  }

  /** Applies the reports of one source in chunks, one after another. */
  private async applyWaiting(source: EvidenceSource, waiting: readonly WaitingReport[]): Promise<void> {
    for (const chunk of splitIntoChunks(waiting, ({ report }) => report.executionId))
      await this.applyChunk(source, chunk);
  }

  /** Applies a chunk and resolves its callers. If an execution fails, each report is applied alone. */
  private async applyChunk(source: EvidenceSource, chunk: readonly WaitingReport[]): Promise<void> {
    try {
      const outcomes = await this.apply(
        source,
        chunk.map(({ report }) => report),
      );
      for (const [index, { resolve }] of chunk.entries()) resolve(outcomes[index] ?? 'unknown');
    } catch (error) {
      // A DomainError affects all of them. Any other error may be caused by one execution, which must not affect the
      // others.
      const mustApplySingly = !(error instanceof DomainError) && chunk.length > 1;
      for (const item of chunk) {
        if (mustApplySingly) await this.applyChunk(source, [item]);
        else item.reject(error);
      }
    }
  }
}

/**
 * Splits items into chunks in order, such that no chunk contains an execution twice: later evidence depends on earlier
 * evidence.
 */
export function splitIntoChunks<Item>(items: readonly Item[], getExecutionId: (item: Item) => string): Item[][] {
  const chunks: Map<string, Item>[] = [];
  for (const item of items) {
    const executionId = getExecutionId(item);
    const last = chunks.at(-1);
    const fitsIntoLast = last !== undefined && last.size < EXECUTION_BATCH_SIZE && !last.has(executionId);
    if (fitsIntoLast) last.set(executionId, item);
    else chunks.push(new Map([[executionId, item]]));
  }
  return chunks.map((chunk) => [...chunk.values()]);
}
