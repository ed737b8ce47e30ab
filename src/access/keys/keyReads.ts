import { setImmediate } from 'node:timers/promises';
import type { AccessRepositories } from '../accessRepositories';
import type { UnitOfWork } from '../../database';
import { MOST_AT_ONCE, type KnownKey } from './knownKeyRepository';

/** For whom a key is read: a call that waits, or streams that go on meanwhile. */
export type ReadPurpose = 'call' | 'recheck';

type Asked = PromiseWithResolvers<KnownKey | undefined>;

/** How many places of each read are kept for rechecks while some wait, so that calls never hold them up for good. */
const FOR_RECHECKS = 8;

/**
 * Reads keys, those of calls before those of streams. Those who wait for the same key share a read, and keys that are asked for while others are read are read together: a flood
 * of keys that nobody knows costs some queries, one after the other, and not one each.
 */
export class KeyReads {
  private readonly calls = new Map<string, Asked>();
  private readonly rechecks = new Map<string, Asked>();
  private isRunning = false;

  constructor(private readonly uow: UnitOfWork<AccessRepositories>) {}

  /** The key of a hash as it is now or later; undefined if there is none. */
  read(hash: string, purpose: ReadPurpose): Promise<KnownKey | undefined> {
    const asked = this.calls.get(hash) ?? this.rechecks.get(hash) ?? Promise.withResolvers();
    if (purpose === 'recheck') {
      if (!this.calls.has(hash)) this.rechecks.set(hash, asked);
    } else {
      this.rechecks.delete(hash);
      this.calls.set(hash, asked);
    }
    if (!this.isRunning) void this.run();
    return asked.promise;
  }

  private async run(): Promise<void> {
    this.isRunning = true;
    await Promise.resolve(); // those who ask in the same breath
    while (this.isAsked) {
      await this.readSome(this.take());
      if (this.isAsked) await setImmediate(); // SQLite reads on this thread
    }
    this.isRunning = false;
  }

  private get isAsked(): boolean {
    return this.calls.size > 0 || this.rechecks.size > 0;
  }

  /** The next of those that wait; whoever asks for them from now on may want what is written from now on. */
  private take(): (readonly [string, Asked])[] {
    const batch: (readonly [string, Asked])[] = [];
    fill(batch, this.calls, this.rechecks.size > 0 ? MOST_AT_ONCE - FOR_RECHECKS : MOST_AT_ONCE);
    fill(batch, this.rechecks, MOST_AT_ONCE);
    return batch;
  }

  private async readSome(batch: readonly (readonly [string, Asked])[]): Promise<void> {
    try {
      const found = await this.uow.repos.knownKeys.findByHashes(batch.map(([hash]) => hash));
      for (const [hash, { resolve }] of batch) resolve(found.get(hash));
    } catch (error) {
      for (const [, { reject }] of batch) reject(error);
    }
  }
}

function fill(batch: (readonly [string, Asked])[], waiting: Map<string, Asked>, most: number): void {
  for (const asked of waiting) {
    if (batch.length === most) return;
    batch.push(asked);
    waiting.delete(asked[0]);
  }
}
