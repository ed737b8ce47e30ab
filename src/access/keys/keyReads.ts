import { setImmediate } from 'node:timers/promises';
import type { AccessRepositories } from '../accessRepositories';
import type { UnitOfWork } from '../../database';
import { MOST_AT_ONCE, type KnownKey } from './knownKeyRepository';

/**
 * Reads keys. Those who wait for the same key share a read, and keys that are asked for while others are read are read together: a flood
 * of keys that nobody knows costs some queries, one after the other, and not one each.
 */
export class KeyReads {
  private readonly waiting = new Map<string, PromiseWithResolvers<KnownKey | undefined>>();
  private isRunning = false;

  constructor(private readonly uow: UnitOfWork<AccessRepositories>) {}

  /** The key of a hash as it is now or later; undefined if there is none. */
  read(hash: string): Promise<KnownKey | undefined> {
    let asked = this.waiting.get(hash);
    if (!asked) {
      asked = Promise.withResolvers();
      this.waiting.set(hash, asked);
    }
    if (!this.isRunning) void this.run();
    return asked.promise;
  }

  private async run(): Promise<void> {
    this.isRunning = true;
    await Promise.resolve(); // those who ask in the same breath
    while (this.waiting.size > 0) {
      await this.readSome(this.take());
      if (this.waiting.size > 0) await setImmediate(); // SQLite reads on this thread
    }
    this.isRunning = false;
  }

  /** The next of those that wait; whoever asks for them from now on may want what is written from now on. */
  private take(): (readonly [string, PromiseWithResolvers<KnownKey | undefined>])[] {
    const batch: (readonly [string, PromiseWithResolvers<KnownKey | undefined>])[] = [];
    for (const asked of this.waiting) {
      if (batch.length === MOST_AT_ONCE) break;
      batch.push(asked);
      this.waiting.delete(asked[0]);
    }
    return batch;
  }

  private async readSome(batch: readonly (readonly [string, PromiseWithResolvers<KnownKey | undefined>])[]): Promise<void> {
    try {
      const found = await this.uow.repos.knownKeys.findByHashes(batch.map(([hash]) => hash));
      for (const [hash, { resolve }] of batch) resolve(found.get(hash));
    } catch (error) {
      for (const [, { reject }] of batch) reject(error);
    }
  }
}
