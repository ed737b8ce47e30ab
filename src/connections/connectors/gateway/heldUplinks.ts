import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';
import type { GatewaySession } from './gatewaySession';

const EVERY_MS = 1000;

/** What holding uplinks back needs. */
export interface HeldUplinksOptions {
  readonly log: Logger;
  /** What every line of the log says of the gateway. */
  readonly fields: object;
}

/**
 * Uplinks that the disk of the server does not take: they are not acknowledged, so the gateway keeps them, and the stream goes on for results of
 * commands. The first one is tried again until it is stored; where others came after it, the stream then ends once, so that the gateway attaches
 * again and sends them again.
 */
export class HeldUplinks {
  private reason: string | undefined;
  private others = 0;

  constructor(
    private readonly session: GatewaySession,
    private readonly options: HeldUplinksOptions,
  ) {}

  /** Stores an uplink of this lane, or holds it back. Rejects with any error that is not the disk's. */
  async store(lane: string, store: () => Promise<void>): Promise<void> {
    if (this.reason !== undefined) return void (this.others += 1);
    const refused = await findRefusal(store);
    if (refused === undefined) return;
    if (this.reason !== undefined) return void (this.others += 1); // another device's was quicker
    this.reason = refused.reason;
    this.options.log.warn({ ...this.options.fields, reason: refused.reason }, 'gateway.uplinks_held');
    void this.tryAgain(lane, store, refused.reason);
  }

  private async tryAgain(lane: string, store: () => Promise<void>, reason: string): Promise<void> {
    for (let isDone = false; !isDone; ) {
      await sleep(EVERY_MS, undefined, { ref: false });
      if (this.session.isEnded) return; // the gateway sends it again
      isDone = await this.inLane(lane, store);
    }
    this.options.log.info({ ...this.options.fields, sent_again: this.others }, 'gateway.uplinks_taken_again');
    this.reason = undefined;
    if (this.others > 0) this.session.end(sendAgain(reason));
  }

  /** Answers whether it need not be tried again: it is stored, or failed for another reason than the disk. */
  private async inLane(lane: string, store: () => Promise<void>): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      void this.session.work.add(lane, async () => {
        try {
          resolve((await findRefusal(store)) === undefined);
        } catch (err) {
          this.options.log.error({ ...this.options.fields, err }, 'gateway.message_failed');
          if (err instanceof DomainError) this.session.end(err);
          resolve(true); // it is not acknowledged, and others may go better
        }
      });
    });
  }
}

/** Why the disk did not take it; undefined: it is stored. Rejects with any other error. */
async function findRefusal(store: () => Promise<void>): Promise<DomainError | undefined> {
  try {
    await store();
    return undefined;
  } catch (error) {
    if (error instanceof DomainError && ['storage_full', 'storage_read_only'].includes(error.reason)) return error;
    throw error;
  }
}

function sendAgain(reason: string): DomainError {
  return new DomainError('unavailable', reason, 'the disk of the server did not take uplinks, and does again; attach again and send what was not acknowledged');
}
