import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';
import type { GatewaySession } from './gatewaySession';

const RETRY_INTERVAL_MS = 1000;

/** The options of UplinkBackpressure. */
interface UplinkBackpressureOptions {
  readonly log: Logger;
  /** The gateway fields of every log line. */
  readonly fields: object;
}

/**
 * Handles uplinks that cannot be stored because the disk is full or read-only: they are not acknowledged, so the
 * gateway keeps them, and the stream continues for results of commands. The first uplink is retried until it is stored.
 * If others arrived after it, the stream then ends once, so that the gateway attaches again and repeats them.
 */
export class UplinkBackpressure {
  /** Why uplinks are not stored now (`storage_full` or `storage_read_only`); undefined while they are stored. */
  private pauseReason: string | undefined;
  private skippedCount = 0;

  constructor(
    private readonly session: GatewaySession,
    private readonly options: UplinkBackpressureOptions,
  ) {}

  /**
   * Stores an uplink. If the disk is full or read-only, retries this uplink in the background, in the queue `queueKey`,
   * and skips all others until it is stored. Rejects with any other error.
   */
  async store(queueKey: string, storeUplink: () => Promise<void>): Promise<void> {
    if (this.pauseReason !== undefined) {
      this.skippedCount += 1;
      return;
    }
    const diskError = await tryStore(storeUplink);
    if (diskError === undefined) return;
    // Checked again, because an uplink of another device may have failed in the meantime.
    if (this.pauseReason !== undefined) {
      this.skippedCount += 1;
      return;
    }
    this.pauseReason = diskError.reason;
    this.options.log.warn({ ...this.options.fields, reason: diskError.reason }, 'gateway.uplinks_paused');
    void this.retry(queueKey, storeUplink, diskError.reason);
  }

  /**
   * Retries the uplink every second until it is stored. Then ends the session if other uplinks were skipped, so that
   * the gateway sends them again.
   */
  private async retry(queueKey: string, storeUplink: () => Promise<void>, reason: string): Promise<void> {
    let isDone = false;
    while (!isDone) {
      await sleep(RETRY_INTERVAL_MS, undefined, { ref: false });
      if (this.session.isEnded) return; // the gateway sends the uplink again
      isDone = await this.tryInQueue(queueKey, storeUplink);
    }
    this.options.log.info({ ...this.options.fields, sent_again: this.skippedCount }, 'gateway.uplinks_resumed');
    this.pauseReason = undefined;
    if (this.skippedCount > 0) this.session.end(uplinksSkipped(reason));
  }

  /**
   * Tries to store the uplink, in order with the other jobs of its queue. Returns false if it must be retried, because
   * the disk is still full or read-only.
   */
  private async tryInQueue(queueKey: string, storeUplink: () => Promise<void>): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      void this.session.queue.add(queueKey, async () => {
        try {
          resolve((await tryStore(storeUplink)) === undefined);
        } catch (err) {
          this.options.log.error({ ...this.options.fields, err }, 'gateway.message_failed');
          if (err instanceof DomainError) this.session.end(err);
          resolve(true); // this uplink is not acknowledged, and other uplinks may succeed
        }
      });
    });
  }
}

/**
 * Tries to store the uplink. Returns the error if the disk is full or read-only; undefined if the uplink is stored.
 * Rejects with any other error.
 */
async function tryStore(storeUplink: () => Promise<void>): Promise<DomainError | undefined> {
  try {
    await storeUplink();
    return undefined;
  } catch (error) {
    if (error instanceof DomainError && ['storage_full', 'storage_read_only'].includes(error.reason)) return error;
    throw error;
  }
}

/** Creates the error that ends the session so that the gateway repeats the skipped uplinks. */
function uplinksSkipped(reason: string): DomainError {
  return new DomainError(
    'unavailable',
    reason,
    'the disk of the server was full or read-only, and accepts uplinks again: attach again and repeat the unacknowledged uplinks',
  );
}
