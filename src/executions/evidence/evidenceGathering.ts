import type { EvidenceOutcome, Attachment } from '../../connections';
import { DomainError } from '../../kernel/errors';
import { PORTION } from '../store/openStatements';

/** Where evidence came from. */
export interface EvidencePlace extends Pick<Attachment, 'organizationId' | 'connectionId'> {
  readonly source: string;
}

/** What is said of one execution. */
export type FoundEvidence = Attachment['known'][number];

/** Settles evidence for different executions together; resolves with their outcomes, in their order, when it is on disk. */
export type Settle = (place: EvidencePlace, all: readonly FoundEvidence[]) => Promise<EvidenceOutcome[]>;

interface Waiting {
  readonly found: FoundEvidence;
  readonly resolve: (outcome: EvidenceOutcome) => void;
  readonly reject: (error: unknown) => void;
}

/** Gathers the evidence that comes from one place in one turn of the event loop, so that it shares a transaction: each alone would cost five times as much. */
export class EvidenceGathering {
  private readonly open = new Map<string, Waiting[]>();

  constructor(private readonly settle: Settle) {}

  /** Resolves when it is on disk. */
  async add(place: EvidencePlace, found: FoundEvidence): Promise<EvidenceOutcome> {
    return await new Promise((resolve, reject) => {
      const key = JSON.stringify([place.organizationId, place.connectionId, place.source]);
      const waiting = this.open.get(key) ?? [];
      if (waiting.push({ found, resolve, reject }) > 1) return;
      this.open.set(key, waiting);
      setImmediate(() => {
        this.open.delete(key);
        void this.store(place, waiting);
      });
    });
  }

  private async store(place: EvidencePlace, waiting: readonly Waiting[]): Promise<void> {
    for (const chunk of chunksOf(waiting, ({ found }) => found.executionId)) await this.storeChunk(place, chunk);
  }

  private async storeChunk(place: EvidencePlace, chunk: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.settle(place, chunk.map(({ found }) => found));
      for (const [at, { resolve }] of chunk.entries()) resolve(outcomes[at] ?? 'unknown');
    } catch (error) {
      const isOfOne = !(error instanceof DomainError) && chunk.length > 1; // the others shall not suffer for it
      for (const one of chunk) {
        if (isOfOne) await this.storeChunk(place, [one]);
        else one.reject(error);
      }
    }
  }
}

/** Portions of them in their order, none with the same execution twice: what is said later builds on what was said before. */
export function chunksOf<Item>(items: readonly Item[], executionIdOf: (item: Item) => string): Item[][] {
  const chunks: Map<string, Item>[] = [];
  for (const item of items) {
    const last = chunks.at(-1);
    if (last && last.size < PORTION && !last.has(executionIdOf(item))) last.set(executionIdOf(item), item);
    else chunks.push(new Map([[executionIdOf(item), item]]));
  }
  return chunks.map((chunk) => [...chunk.values()]);
}
