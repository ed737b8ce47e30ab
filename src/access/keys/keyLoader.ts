import { setImmediate } from 'node:timers/promises';
import type { AccessRepositories } from '../accessRepositories';
import type { UnitOfWork } from '../../database';
import { MAX_BATCH_SIZE, type AuthenticatedKey } from './knownKeyRepository';

/** The purpose of a read: a waiting call, or a check of open streams. */
export type ReadPurpose = 'call' | 'recheck';

/** A read of one key that has not run yet, shared by all who wait for it. */
type PendingRead = PromiseWithResolvers<AuthenticatedKey | undefined>;

/** The places of a batch that calls leave to waiting rechecks, so that many calls never block them permanently. */
const MIN_RECHECKS_PER_BATCH = 8;

/**
 * Reads keys in batches; calls have priority over rechecks of streams. Requests for the same key share a read, and keys
 * that are requested during a read are read together in the next one. Many unknown keys therefore cost a few sequential
 * queries instead of one query each.
 */
export class KeyLoader {
  private readonly readsForCalls = new Map<string, PendingRead>();
  private readonly readsForRechecks = new Map<string, PendingRead>();
  private isRunning = false;

  constructor(private readonly uow: UnitOfWork<AccessRepositories>) {}

  /**
   * Returns the current key of a hash; undefined if no key has this hash. Joins a waiting read of the same key; a call
   * makes a waiting recheck urgent.
   */
  read(hash: string, purpose: ReadPurpose): Promise<AuthenticatedKey | undefined> {
    const pending = this.readsForCalls.get(hash) ?? this.readsForRechecks.get(hash) ?? Promise.withResolvers();
    if (purpose === 'recheck') {
      if (!this.readsForCalls.has(hash)) this.readsForRechecks.set(hash, pending);
    } else {
      this.readsForRechecks.delete(hash);
      this.readsForCalls.set(hash, pending);
    }
    if (!this.isRunning) void this.readWaiting();
    return pending.promise;
  }

  /** Reads batches until no reads wait. */
  private async readWaiting(): Promise<void> {
    this.isRunning = true;
    await Promise.resolve(); // lets requests of the same tick join the batch
    while (this.hasPending) {
      await this.readBatch(this.takeBatch());
      if (this.hasPending) await setImmediate(); // SQLite reads on this thread, so other work must get its turn
    }
    this.isRunning = false;
  }

  private get hasPending(): boolean {
    return this.readsForCalls.size > 0 || this.readsForRechecks.size > 0;
  }

  /**
   * Takes the next batch from the queue. Later requests for the same keys start a new read, because they may need later
   * data.
   */
  private takeBatch(): (readonly [string, PendingRead])[] {
    const batch: (readonly [string, PendingRead])[] = [];
    const reservedPlaces = this.readsForRechecks.size > 0 ? MIN_RECHECKS_PER_BATCH : 0;
    moveToBatch(batch, this.readsForCalls, MAX_BATCH_SIZE - reservedPlaces);
    moveToBatch(batch, this.readsForRechecks, MAX_BATCH_SIZE);
    return batch;
  }

  /** Reads the keys of a batch in one query and settles the waiting reads. */
  private async readBatch(batch: readonly (readonly [string, PendingRead])[]): Promise<void> {
    try {
      const found = await this.uow.repos.knownKeys.findByHashes(batch.map(([hash]) => hash));
      for (const [hash, { resolve }] of batch) resolve(found.get(hash));
    } catch (error) {
      for (const [, { reject }] of batch) reject(error);
    }
  }
}

/** Moves waiting reads to the batch, oldest first, until the batch has `max` entries. */
function moveToBatch(batch: (readonly [string, PendingRead])[], waiting: Map<string, PendingRead>, max: number): void {
  for (const [hash, pendingRead] of waiting) {
    if (batch.length === max) return;
    batch.push([hash, pendingRead]);
    waiting.delete(hash);
  }
}
